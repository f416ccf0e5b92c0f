//! Client of a controller's HTTP interface: one request at a time, bounded in time and length.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use hyper::Method;
use hyper::header::CONTENT_TYPE;
use rustls::ClientConfig;
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio::time::timeout;

use http_client::{HttpAnswer, HttpClient, HttpFault, HttpPlace};

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

impl fmt::Display for ControlPlace {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        match self {
            ControlPlace::Unix(path) => write!(formatter, "unix:{}", path.display()),
            ControlPlace::Tls(authority) => formatter.write_str(authority),
        }
    }
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
    client: HttpClient,
    place: String,
}

impl ControlClient {
    /// For a controller; over a network with these TLS settings.
    ///
    /// # Errors
    /// If the system has no descriptors left, or no host has this name.
    pub fn new(place: &ControlPlace, tls: Arc<ClientConfig>) -> Result<ControlClient, ControlFault> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| ControlFault::Prepare(Box::new(error)))?;
        let at = match place {
            ControlPlace::Unix(path) => HttpPlace::Unix(path.clone()),
            ControlPlace::Tls(authority) => {
                let (host, port) = authority.rsplit_once(':').unwrap_or((authority, ""));
                let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
                let port = port.parse().map_err(|error| ControlFault::Prepare(Box::new(error)))?;
                HttpPlace::Network { is_tls: true, host, port }
            }
        };
        let client = HttpClient::new(at, tls, CONNECT_WITHIN);
        let client = client.map_err(|error| ControlFault::Prepare(Box::new(error)))?;
        Ok(ControlClient { runtime, client, place: place.to_string() })
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
        let exchange = self.exchange(method, path, body);
        let answer = self.runtime.block_on(async { timeout(within, exchange).await });
        answer.unwrap_or_else(|_| Err(self.failed(format!("no whole answer within {within:?}").into())))
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Option<String>,
    ) -> Result<ControlAnswer, ControlFault> {
        let failed = |fault: HttpFault| self.failed(Box::new(fault));
        let header = body.as_ref().map(|_| (CONTENT_TYPE, "application/json"));
        let body = body.unwrap_or_default().into_bytes();
        let mut answer = self.client.send(method, path, header, body).await.map_err(failed)?;
        let (status, retry_after) = (answer.status.as_u16(), retry_after(&answer));
        let whole = answer.whole(ANSWER_LEN_MAX).await.map_err(failed)?;
        let text = whole.ok_or_else(|| self.not_understood("more"))?;
        let json = serde_json::from_slice(&text);
        let json = json.map_err(|error| self.not_understood(&format!("status {status} and {error}")))?;
        Ok(ControlAnswer { status, json, retry_after })
    }

    fn failed(&self, source: Box<dyn std::error::Error + Send + Sync>) -> ControlFault {
        ControlFault::Ask { place: self.place.clone(), source }
    }

    fn not_understood(&self, found: &str) -> ControlFault {
        ControlFault::Answer { place: self.place.clone(), found: found.to_owned() }
    }
}

fn retry_after(answer: &HttpAnswer) -> Option<Duration> {
    let text = answer.headers.get("retry-after")?.to_str().ok()?;
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
