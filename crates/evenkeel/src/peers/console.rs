//! The console of a controller: the site of its pages, and its documents from the controller's API.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Arc, Mutex};

use admin::api::{Api, ApiMethod, ApiPeer, ApiRequest, ApiTls};
use admin::{AdminListener, Limits};
use console::{
    ConsoleDocuments, ConsoleGate, ConsoleReaders, ConsoleSite, Document, DocumentAnswer, made_apart,
};
use control::identity::FleetName;
use control::{ConsoleLinks, ControlService, NoConsoleLink, may_read};
use lab::history::History;
use lab::report::series_json::HistoryReport;
use serde_json::json;
use tls::{ListenerTls, PeerCheck};

use crate::failure::Failure;

/// Documents that the pages read. None of them changes anything.
const PATHS: [&str; 7] =
    ["/v1/summary", "/v1/figures", "/v1/why", "/v1/history", "/v1/changes", "/v1/shadows", "/v1/tune/check"];

/// The address of the console, `HOST:PORT` on a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConsoleAddress {
    host: String,
    port: u16,
}

impl FromStr for ConsoleAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<ConsoleAddress, String> {
        let wrong = || format!("expected HOST:PORT, such as 127.0.0.1:7580, found {text:?}");
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let port = port.parse().map_err(|_| wrong())?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if host.is_empty() || host.contains(['/', '@']) {
            return Err(wrong());
        }
        Ok(ConsoleAddress { host: host.to_owned(), port })
    }
}

impl From<SocketAddr> for ConsoleAddress {
    fn from(address: SocketAddr) -> ConsoleAddress {
        ConsoleAddress { host: address.ip().to_string(), port: address.port() }
    }
}

impl ConsoleAddress {
    /// Whether browsers of this host alone can reach it: they need no token, and it has no TLS.
    pub(crate) fn is_own(&self) -> bool {
        self.host == "localhost" || self.host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }

    /// The host in an address that is shown: one that stands for all addresses has the name of this machine.
    fn shown_host(&self) -> String {
        match self.host.parse::<IpAddr>() {
            Ok(address) if address.is_unspecified() => {
                rustix::system::uname().nodename().to_string_lossy().into_owned()
            }
            Ok(IpAddr::V6(address)) => format!("[{address}]"),
            _ => self.host.clone(),
        }
    }
}

/// A console that browsers can connect to, and wait until it is served.
pub(crate) struct Console {
    listener: AdminListener,
    /// Over a network: its TLS, and who may read.
    guarded: Option<(ApiTls, Arc<ConsoleGate>)>,
    url: String,
    /// The file of a lab's history.
    lab: Option<PathBuf>,
}

impl Console {
    /// Binds an address of this host alone.
    pub(crate) fn own(address: &ConsoleAddress) -> Result<Console, Failure> {
        let listener = AdminListener::bind(Some(&address.host), address.port).map_err(Failure::other)?;
        let url =
            listener.addresses().first().map_or_else(String::new, |address| format!("http://{address}/"));
        Ok(Console { listener, guarded: None, url, lab: None })
    }

    /// Binds an address of a network. Browsers may read that show a token, or a certificate that may read all documents.
    pub(crate) fn guarded(
        address: &ConsoleAddress,
        tls: &ListenerTls,
        fleet: &FleetName,
    ) -> Result<Console, Failure> {
        let listener = AdminListener::bind(Some(&address.host), address.port).map_err(Failure::other)?;
        let port = listener.addresses().first().map_or(address.port, SocketAddr::port);
        let url = format!("https://{}:{port}/", address.shown_host());
        let acceptor = tls.acceptor(PeerCheck::IfShown).map_err(Failure::other)?;
        let fleet = fleet.clone();
        let trusts = move |certificate: &[u8]| may_read(certificate, &fleet, &PATHS);
        let gate = Arc::new(ConsoleGate::new(port, Arc::new(trusts)));
        Ok(Console { listener, guarded: Some((Arc::new(move || acceptor.settings()), gate)), url, lab: None })
    }

    /// With the history of a lab in this file.
    pub(crate) fn with_lab(mut self, file: Option<&PathBuf>) -> Console {
        self.lab = file.cloned();
        self
    }

    /// Where it is, for people.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Makes addresses with tokens.
    pub(crate) fn links(&self) -> ConsoleLinks {
        let (gate, url) = (self.guarded.as_ref().map(|(_, gate)| Arc::clone(gate)), self.url.clone());
        Box::new(move || match &gate {
            None => Err(NoConsoleLink::IsOpen(url.clone())),
            Some(gate) => match gate.issue() {
                Ok(token) => Ok(format!("{url}#t={token}")),
                Err(error) => Err(NoConsoleLink::NoSecret(error.to_string())),
            },
        })
    }

    /// Serves on a thread of its own.
    pub(crate) fn serve(self, service: Arc<ControlService>) -> Result<(), Failure> {
        let (tls, readers) = match self.guarded {
            None => (None, ConsoleReaders::ThisHost(None)),
            Some((tls, gate)) => (Some(tls), ConsoleReaders::Admitted(gate)),
        };
        let lab = Arc::new(LabFile { file: self.lab, reading: Mutex::default() });
        let site = Arc::new(ConsoleSite::new(ControlDocuments { service, lab }, readers));
        let listener = self.listener;
        let serve = move || {
            if let Err(error) = listener.serve_site(site, tls, Limits::default()) {
                Failure::other(error)
                    .hint("the controller goes on without its console")
                    .report(Some("control"));
            }
        };
        let spawned = std::thread::Builder::new().name("console".to_owned()).spawn(serve);
        spawned.map(drop).map_err(|error| Failure::system("start a thread for the console", error))
    }
}

struct ControlDocuments {
    service: Arc<ControlService>,
    lab: Arc<LabFile>,
}

/// The file of a lab's history, if there is one, and whether it is being read.
struct LabFile {
    file: Option<PathBuf>,
    reading: Mutex<()>,
}

/// Where the history of a lab is, beside the controller's own documents.
const LAB: &str = "/v1/lab";

impl ConsoleDocuments for ControlDocuments {
    fn document(&self, path: &str, query: Option<&str>) -> Option<DocumentAnswer> {
        if path == LAB {
            // Each query would be a document of its own.
            return query.is_none().then(|| lab_document(Arc::clone(&self.lab)));
        }
        let path = *PATHS.iter().find(|known| **known == path)?;
        let (method, query, peer) = (ApiMethod::Get, query.map(str::to_owned), ApiPeer::Local);
        let request = ApiRequest { method, path: path.to_owned(), query, body: Vec::new(), peer };
        let answer = Arc::clone(&self.service).answer(request);
        Some(Box::pin(async move {
            let reply = answer.await;
            Document { status: reply.status, json: reply.json }
        }))
    }
}

/// The history of a lab. It is read anew each time, since runs are added by another program, and by one thread at a time: a browser that goes
/// away does not end the one that reads for it.
fn lab_document(lab: Arc<LabFile>) -> DocumentAnswer {
    made_apart(move || {
        let Some(file) = &lab.file else {
            let why = "this controller has no history of a lab: `control serve --lab-history FILE` shows one";
            let json = json!({"none": why, "suspicions": [], "experiments": []});
            return Document { status: 200, json: json.to_string() };
        };
        let Ok(_reading) = lab.reading.try_lock() else {
            return Document { status: 503, json: json!({"error": "the history is being read"}).to_string() };
        };
        match History::open_to_read(file).and_then(|mut history| history.series()) {
            Ok(series) => Document { status: 200, json: json!(HistoryReport::of(&series)).to_string() },
            Err(error) => {
                let why = format!("{:#}", anyhow::Error::from(error));
                Document { status: 404, json: json!({"error": why}).to_string() }
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_of_this_host_alone_or_of_a_network() {
        let address = |text: &str| text.parse::<ConsoleAddress>().expect(text);
        for own in ["127.0.0.1:7580", "localhost:0", "[::1]:7580", "127.8.0.1:1"] {
            assert!(address(own).is_own(), "{own}");
        }
        for open in ["0.0.0.0:7580", "10.0.0.1:7580", "[::]:7580", "c1.example:7580", "localhost.example:1"] {
            assert!(!address(open).is_own(), "{open}");
        }
        for wrong in
            ["", "7580", "127.0.0.1", "127.0.0.1:", "127.0.0.1:70000", ":7580", "a@b:1", "http://a:1"]
        {
            let error = wrong.parse::<ConsoleAddress>().expect_err(wrong);
            assert!(error.starts_with("expected HOST:PORT"), "{error}");
        }
        assert_eq!(address("[fd00::1]:7580").shown_host(), "[fd00::1]");
        assert_eq!(address("c1.example:7580").shown_host(), "c1.example");
        assert!(!address("0.0.0.0:7580").shown_host().contains("0.0.0.0"));
    }
}
