//! Requests to an API server of Kubernetes, and to servers by it: bounded in time and length, each made once.

use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http_client::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HttpClient, HttpFault, HttpPlace, Method};
use serde_json::Value;
use tls::{TlsFileError, Trust};
use tokio::runtime::Runtime;
use tokio::time::timeout;

use crate::api_place::ApiPlace;

/// Longest answer in bytes: etcd takes objects of 1.5 MB, and in JSON they are longer.
const ANSWER_LEN_MAX: usize = 8 << 20;

/// Bytes of a token.
const TOKEN_LEN_MAX: u64 = 64 << 10;

/// Time for one request: an API server ends those that it cannot serve within a minute, and one that does not answer in this time is
/// asked again.
const WITHIN: Duration = Duration::from_secs(20);

/// Time to connect.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// A change of a part of an object: fields that are `null` are removed, and elements of lists are found by their names.
const STRATEGIC_MERGE: &str = "application/strategic-merge-patch+json";

/// An API server, and how it is asked. Calls block.
pub struct ApiServer {
    runtime: Runtime,
    client: HttpClient,
    below: String,
    token: Option<PathBuf>,
    /// For the pages of servers.
    tls: Arc<rustls::ClientConfig>,
    shown: String,
}

/// Why there is no answer, or not the one that was asked for.
#[derive(Debug, thiserror::Error)]
pub enum ApiFault {
    /// A certificate or an authority cannot be used.
    #[error("read the authorities of the API server")]
    Authorities(#[source] TlsFileError),
    /// The token cannot be read.
    #[error("read the token {path}", path = path.display())]
    Token {
        /// Its file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The client cannot be made.
    #[error("prepare to ask the API server")]
    Prepare(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// It does not answer, or only that it cannot now: later it may.
    #[error("ask the API server at {place}: {why}")]
    Away {
        /// Where.
        place: String,
        /// Why.
        why: String,
    },
    /// It refuses.
    #[error("{what}: the API server refuses: {why} (status {status})")]
    Refused {
        /// What was asked for.
        what: String,
        /// HTTP's status.
        status: u16,
        /// Its sentence.
        why: String,
    },
    /// An object is not what the API says it is.
    #[error("understand an object of Kubernetes: {0}")]
    Object(String),
    /// The answer is not what the API promises.
    #[error("understand the API server at {place}: {why}")]
    Answer {
        /// Where.
        place: String,
        /// What is wrong with it.
        why: String,
    },
}

/// An answer of the API server.
pub(crate) enum KubeAnswer {
    /// The object.
    Object(Value),
    /// There is none.
    Missing,
    /// It has changed since it was read.
    Conflict,
}

impl ApiServer {
    /// An API server, with the authorities that sign its certificate (the system's without a file), and a file with a token.
    ///
    /// # Errors
    /// If a file cannot be used, or the system has no descriptors left.
    pub fn new(
        place: &ApiPlace,
        authorities: Option<PathBuf>,
        token: Option<PathBuf>,
    ) -> Result<ApiServer, ApiFault> {
        let trust = match place.is_encrypted() {
            true => Trust::Authorities(authorities.as_deref().unwrap_or_else(|| tls::system_authorities())),
            // Nobody is asked for a certificate.
            false => Trust::Anyone,
        };
        let tls = Arc::new(tls::client(trust).map_err(ApiFault::Authorities)?.with_no_client_auth());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| ApiFault::Prepare(Box::new(error)))?;
        let client = HttpClient::new(place.place.clone(), Arc::clone(&tls), CONNECT_WITHIN);
        let client = client.map_err(|error| ApiFault::Prepare(Box::new(error)))?;
        Ok(ApiServer { runtime, client, below: place.below.clone(), token, tls, shown: place.to_string() })
    }

    /// Reads an object.
    pub(crate) fn get(&self, path: &str) -> Result<KubeAnswer, ApiFault> {
        self.ask(Method::GET, path, Vec::new())
    }

    /// Changes a part of an object.
    pub(crate) fn patch(&self, path: &str, patch: &Value) -> Result<KubeAnswer, ApiFault> {
        self.ask(Method::PATCH, path, patch.to_string().into_bytes())
    }

    /// A page of a server in a pod, by the API server: for those who do not reach pods.
    pub(crate) fn page_by_proxy(&self, pod_path: &str, port: u16, page: &str) -> Result<Vec<u8>, String> {
        let path = format!("{pod_path}:{port}/proxy{page}");
        let token = self.bearer().map_err(|fault| fault.to_string())?;
        let headers: Vec<(HeaderName, &str)> = token.iter().map(|token| (AUTHORIZATION, &**token)).collect();
        let answer =
            self.exchange(&self.client, Method::GET, &format!("{}{path}", self.below), &headers, Vec::new());
        of_page(answer)
    }

    /// A page of a server, asked directly.
    pub(crate) fn page(&self, host: &str, port: u16, page: &str) -> Result<Vec<u8>, String> {
        let place = HttpPlace::Network { is_tls: false, host: host.to_owned(), port };
        let client =
            HttpClient::new(place, Arc::clone(&self.tls), CONNECT_WITHIN).map_err(|fault| causes(&fault))?;
        of_page(self.exchange(&client, Method::GET, page, &[], Vec::new()))
    }

    fn ask(&self, method: Method, path: &str, body: Vec<u8>) -> Result<KubeAnswer, ApiFault> {
        let what = format!("{} {path}", method.as_str());
        let bearer = self.bearer()?;
        let mut headers: Vec<(HeaderName, &str)> =
            bearer.iter().map(|bearer| (AUTHORIZATION, &**bearer)).collect();
        if method == Method::PATCH {
            headers.push((CONTENT_TYPE, STRATEGIC_MERGE));
        }
        let away = |why| ApiFault::Away { place: self.shown.clone(), why };
        let answer = self.exchange(&self.client, method, &format!("{}{path}", self.below), &headers, body);
        let (status, body) = match answer {
            Ok(answer) => answer,
            Err(Unanswered::TooLong) => {
                let why = format!("expected at most {ANSWER_LEN_MAX} bytes, found more");
                return Err(ApiFault::Answer { place: self.shown.clone(), why });
            }
            Err(Unanswered::Failed(why)) => return Err(away(why)),
        };
        match status {
            200..300 => match serde_json::from_slice(&body) {
                Ok(object @ Value::Object(_)) => Ok(KubeAnswer::Object(object)),
                _ => {
                    let why = format!("expected an object for {what}, found something else");
                    Err(ApiFault::Answer { place: self.shown.clone(), why })
                }
            },
            404 => Ok(KubeAnswer::Missing),
            409 => Ok(KubeAnswer::Conflict),
            // Too many requests, or a fault on its side: it may be over soon.
            429 | 500.. => Err(away(format!("{} (status {status})", sentence(&body)))),
            _ => Err(ApiFault::Refused { what, status, why: sentence(&body) }),
        }
    }

    /// The token is read for each request: that of a pod is replaced while the pod runs.
    fn bearer(&self) -> Result<Option<String>, ApiFault> {
        let Some(path) = &self.token else { return Ok(None) };
        let failed = |source| ApiFault::Token { path: path.clone(), source };
        let mut text = String::new();
        let file = os::file::open(path).map_err(failed)?;
        file.take(TOKEN_LEN_MAX).read_to_string(&mut text).map_err(failed)?;
        let token = text.trim();
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(failed(io::Error::new(io::ErrorKind::InvalidData, "expected a token, one word")));
        }
        Ok(Some(format!("Bearer {token}")))
    }

    fn exchange(
        &self,
        client: &HttpClient,
        method: Method,
        path: &str,
        headers: &[(HeaderName, &str)],
        body: Vec<u8>,
    ) -> Result<(u16, Vec<u8>), Unanswered> {
        let failed = |fault: HttpFault| Unanswered::Failed(causes(&fault));
        let exchange = async {
            let mut answer = client.send_with(method, path, headers, body).await.map_err(failed)?;
            let body = answer.whole(ANSWER_LEN_MAX).await.map_err(failed)?.ok_or(Unanswered::TooLong)?;
            Ok((answer.status.as_u16(), body))
        };
        let in_time = self.runtime.block_on(async { timeout(WITHIN, exchange).await });
        in_time
            .unwrap_or_else(|_| Err(Unanswered::Failed(format!("no answer within {} s", WITHIN.as_secs()))))
    }
}

enum Unanswered {
    Failed(String),
    TooLong,
}

fn of_page(answer: Result<(u16, Vec<u8>), Unanswered>) -> Result<Vec<u8>, String> {
    match answer {
        Ok((200, page)) => Ok(page),
        Ok((status, body)) => Err(format!("its page has status {status}: {}", sentence(&body))),
        Err(Unanswered::TooLong) => Err(format!("its page has more than {ANSWER_LEN_MAX} bytes")),
        Err(Unanswered::Failed(why)) => Err(why),
    }
}

/// Why the API server refuses: the message of its `Status`, or the beginning of whatever it said.
fn sentence(body: &[u8]) -> String {
    let said: Value = serde_json::from_slice(body).unwrap_or_default();
    let text = match said["message"].as_str() {
        Some(message) => message.to_owned(),
        None => String::from_utf8_lossy(body).into_owned(),
    };
    let text: String = text.trim().chars().take(SENTENCE_LEN_MAX).collect();
    // One line, whoever wrote it: a second one could be taken for ours.
    if text.is_empty() { "without a reason".to_owned() } else { stdx::escape::line(&text).into_owned() }
}

/// Characters of a reason: those of an invalid object name each field.
const SENTENCE_LEN_MAX: usize = 1000;

/// A fault and its causes in one line.
fn causes(fault: &HttpFault) -> String {
    let mut text = fault.to_string();
    let mut cause = std::error::Error::source(fault);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
