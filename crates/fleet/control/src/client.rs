//! Client of a controller's HTTP interface: one request at a time, bounded in time and length.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use reqwest::{Method, Response};
use rustls::ClientConfig;
use serde_json::Value;
use tokio::runtime::Runtime;

/// Longest answer in bytes: the texts of all views of a large fleet, a few times.
const ANSWER_LEN_MAX: usize = 32 * 1024 * 1024;
/// Time to connect: a controller that is there needs milliseconds, and there are others.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);

/// Where a controller is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlPlace {
    /// A socket file of this host.
    Unix(PathBuf),
    /// `HOST:PORT`, over TLS.
    Tls(String),
}

impl FromStr for ControlPlace {
    type Err = String;

    fn from_str(text: &str) -> Result<ControlPlace, String> {
        if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            return Ok(ControlPlace::Unix(path.into()));
        }
        let authority = text.strip_prefix("https://").unwrap_or(text).trim_end_matches('/');
        let port = authority.rsplit_once(':').and_then(|(host, port)| (!host.is_empty()).then_some(port));
        match port.and_then(|port| port.parse().ok()) {
            Some(1..=u16::MAX) if !authority.contains(['/', '@', '?', '#']) => {
                Ok(ControlPlace::Tls(authority.to_owned()))
            }
            _ => Err(format!("expected unix:PATH or HOST:PORT, found {text:?}")),
        }
    }
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ControlFault {
    /// The client cannot be made.
    #[error("prepare to ask controllers")]
    Prepare(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Nobody answers, or not in time.
    #[error("ask the controller at {place}")]
    Ask {
        /// Where.
        place: String,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The answer is no document of a controller.
    #[error(
        "understand the controller at {place}: expected JSON of at most {ANSWER_LEN_MAX} bytes, found {found}"
    )]
    Answer {
        /// Where.
        place: String,
        /// What.
        found: String,
    },
}

/// A document, and HTTP's status.
#[derive(Clone, Debug, PartialEq)]
pub struct ControlAnswer {
    /// HTTP's status.
    pub status: u16,
    /// The document.
    pub json: Value,
    /// When to ask again, of a controller that is busy.
    pub retry_after: Option<Duration>,
}

impl ControlAnswer {
    /// Whether it was done.
    pub fn is_ok(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The sentence of an answer that says no.
    pub fn error(&self) -> String {
        let sentence = self.json.get("error").and_then(Value::as_str).map(str::to_owned);
        sentence.unwrap_or_else(|| format!("HTTP status {}", self.status))
    }
}

/// Asks one controller. Calls block.
pub struct ControlClient {
    runtime: Runtime,
    client: reqwest::Client,
    base: String,
    place: String,
}

impl ControlClient {
    /// For a controller; over a network with these TLS settings.
    ///
    /// # Errors
    /// If the system has no descriptors left.
    pub fn new(place: &ControlPlace, tls: Arc<ClientConfig>) -> Result<ControlClient, ControlFault> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| ControlFault::Prepare(Box::new(error)))?;
        let builder = reqwest::Client::builder()
            .tls_backend_preconfigured(Arc::unwrap_or_clone(tls))
            .connect_timeout(CONNECT_WITHIN)
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never());
        let (builder, base, place) = match place {
            ControlPlace::Unix(path) => {
                let shown = format!("unix:{}", path.display());
                (builder.unix_socket(path.clone()), "http://controller".to_owned(), shown)
            }
            ControlPlace::Tls(authority) => (builder, format!("https://{authority}"), authority.clone()),
        };
        let client = builder.build().map_err(|error| ControlFault::Prepare(Box::new(error)))?;
        Ok(ControlClient { runtime, client, base, place })
    }

    /// Reads a document.
    ///
    /// # Errors
    /// If there is no answer within this time.
    pub fn get(&self, path: &str, within: Duration) -> Result<ControlAnswer, ControlFault> {
        self.ask(Method::GET, path, None, within)
    }

    /// Asks for something to be done.
    ///
    /// # Errors
    /// If there is no answer within this time: then it may have been done.
    pub fn post(&self, path: &str, body: &Value, within: Duration) -> Result<ControlAnswer, ControlFault> {
        self.ask(Method::POST, path, Some(body.to_string()), within)
    }

    fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<String>,
        within: Duration,
    ) -> Result<ControlAnswer, ControlFault> {
        let failed = |source: reqwest::Error| ControlFault::Ask {
            place: self.place.clone(),
            // It names the URL, which this error does, too.
            source: Box::new(source.without_url()),
        };
        let mut request = self.client.request(method, format!("{}{path}", self.base)).timeout(within);
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body);
        }
        self.runtime.block_on(async {
            let mut response = request.send().await.map_err(failed)?;
            let (status, retry_after) = (response.status().as_u16(), retry_after(&response));
            let mut text = Vec::new();
            while let Some(piece) = response.chunk().await.map_err(failed)? {
                if text.len() + piece.len() > ANSWER_LEN_MAX {
                    return Err(self.not_understood("more"));
                }
                text.extend_from_slice(&piece);
            }
            let json = serde_json::from_slice(&text);
            let json = json.map_err(|error| self.not_understood(&format!("status {status} and {error}")))?;
            Ok(ControlAnswer { status, json, retry_after })
        })
    }

    fn not_understood(&self, found: &str) -> ControlFault {
        ControlFault::Answer { place: self.place.clone(), found: found.to_owned() }
    }
}

fn retry_after(response: &Response) -> Option<Duration> {
    let text = response.headers().get("retry-after")?.to_str().ok()?;
    text.parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<ControlPlace>) {
        assert_eq!(text.parse().ok(), expected, "{text}");
    }

    #[test]
    fn a_controller_is_at_a_socket_file_or_behind_tls() {
        let tls = |authority: &str| Some(ControlPlace::Tls(authority.to_owned()));
        check("unix:/run/c.sock", Some(ControlPlace::Unix("/run/c.sock".into())));
        check("c1.example:7500", tls("c1.example:7500"));
        check("https://c1.example:7500/", tls("c1.example:7500"));
        check("https://[::1]:7500", tls("[::1]:7500"));
        for text in ["", "unix:", "c1", "c1:", ":7500", "c1:0", "c1:70000", "http://c1:1", "a@c1:1", "c1:1/x"]
        {
            check(text, None);
        }
    }
}
