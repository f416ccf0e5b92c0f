//! The console of a controller: the site of its pages, and its documents from the controller's API.

use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use admin::api::{Api, ApiMethod, ApiPeer, ApiRequest};
use admin::{AdminListener, Limits};
use console::{ConsoleDocuments, ConsoleSite, Document, DocumentAnswer};
use control::ControlService;

use crate::failure::Failure;

/// Documents that the pages read. None of them changes anything.
const PATHS: [&str; 7] =
    ["/v1/summary", "/v1/figures", "/v1/why", "/v1/history", "/v1/changes", "/v1/shadows", "/v1/tune/check"];

/// The address of the console, `HOST:PORT` on a command line. Whoever reaches it can read, so it is one of this host alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConsoleAddress {
    host: String,
    port: u16,
}

impl FromStr for ConsoleAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<ConsoleAddress, String> {
        let wrong = || format!("expected HOST:PORT, found {text:?}");
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let port = port.parse().map_err(|_| wrong())?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let is_own = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        match is_own {
            true => Ok(ConsoleAddress { host: host.to_owned(), port }),
            false => Err(format!(
                "expected an address of this host alone, such as 127.0.0.1:7580, found {text:?}; from elsewhere, a tunnel reaches it \
                 (ssh -L 7580:127.0.0.1:7580)"
            )),
        }
    }
}

/// Binds the address.
pub(crate) fn bind(address: &ConsoleAddress) -> Result<AdminListener, Failure> {
    AdminListener::bind(Some(&address.host), address.port).map_err(Failure::other)
}

/// Serves the console on a thread of its own.
pub(crate) fn serve(listener: AdminListener, service: Arc<ControlService>) -> Result<(), Failure> {
    let site = Arc::new(ConsoleSite::new(ControlDocuments(service), None));
    let serve = move || {
        if let Err(error) = listener.serve_site(site, Limits::default()) {
            Failure::other(error).hint("the controller goes on without its console").report(Some("control"));
        }
    };
    let spawned = std::thread::Builder::new().name("console".to_owned()).spawn(serve);
    spawned.map(drop).map_err(|error| Failure::system("start a thread for the console", error))
}

/// Where it is, for people.
pub(crate) fn shown(listener: &AdminListener) -> String {
    listener.addresses().first().map_or_else(String::new, |address| format!("http://{address}/"))
}

struct ControlDocuments(Arc<ControlService>);

impl ConsoleDocuments for ControlDocuments {
    fn document(&self, path: &str, query: Option<&str>) -> Option<DocumentAnswer> {
        let path = *PATHS.iter().find(|known| **known == path)?;
        let (method, query, peer) = (ApiMethod::Get, query.map(str::to_owned), ApiPeer::Local);
        let request = ApiRequest { method, path: path.to_owned(), query, body: Vec::new(), peer };
        let answer = Arc::clone(&self.0).answer(request);
        Some(Box::pin(async move {
            let reply = answer.await;
            Document { status: reply.status, json: reply.json }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_console_is_of_this_host_alone() {
        for own in ["127.0.0.1:7580", "localhost:0", "[::1]:7580", "127.8.0.1:1"] {
            assert!(own.parse::<ConsoleAddress>().is_ok(), "{own}");
        }
        for wrong in ["", "7580", "127.0.0.1", "127.0.0.1:", "127.0.0.1:70000"] {
            let error = wrong.parse::<ConsoleAddress>().expect_err(wrong);
            assert!(error.starts_with("expected HOST:PORT"), "{error}");
        }
        for open in ["0.0.0.0:7580", "*:7580", "10.0.0.1:7580", "[::]:7580", "c1.example:7580"] {
            let error = open.parse::<ConsoleAddress>().expect_err(open);
            assert!(error.starts_with("expected an address of this host alone"), "{error}");
        }
    }
}
