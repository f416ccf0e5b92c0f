//! Objectives of changes: queries that a Prometheus is asked every 15 s while a change goes on.
//!
//! An objective is met if the answer has at least one sample. No answer in time, an error and an empty answer are all missed: what is
//! not known is not good.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fleet::waves::ChangeNumber;
use http_client::{HttpClient, HttpPlace};
use hyper::Method;
use hyper::header::CONTENT_TYPE;
use os::clock::{Stopwatch, pause};
use rustls::ClientConfig;
use serde_json::Value;
use tokio::time::timeout;

/// Interval of questions: that of most scrapes.
const ASK_EVERY: Duration = Duration::from_secs(15);
/// Time for an answer, shorter than the interval.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
const CONNECT_WITHIN: Duration = Duration::from_secs(2);
/// Interval of looks whether there is something to ask.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Longest answer in bytes: one sample is enough.
const ANSWER_LEN_MAX: usize = 4 * 1024 * 1024;

/// Where a Prometheus is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrometheusPlace {
    host: String,
    port: u16,
    path: String,
}

impl FromStr for PrometheusPlace {
    type Err = String;

    fn from_str(text: &str) -> Result<PrometheusPlace, String> {
        let expected = || format!("expected http://HOST:PORT or http://HOST:PORT/PATH, found {text:?}");
        let rest = text.strip_prefix("http://").ok_or_else(expected)?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (host, port) = authority.rsplit_once(':').ok_or_else(expected)?;
        let port = port.parse().ok().filter(|port| *port > 0).ok_or_else(expected)?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() || authority.contains('@') || path.contains(['?', '#']) {
            return Err(expected());
        }
        let path = path.trim_end_matches('/');
        let path = if path.is_empty() { String::new() } else { format!("/{path}") };
        Ok(PrometheusPlace { host, port, path })
    }
}

/// What is to be asked, by the number of the change.
#[derive(Default)]
pub struct ObjectiveBoard(Mutex<BTreeMap<ChangeNumber, String>>);

impl ObjectiveBoard {
    /// Replaces what is to be asked.
    pub(crate) fn set(&self, wanted: BTreeMap<ChangeNumber, String>) {
        *self.lock() = wanted;
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ChangeNumber, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What has come of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectiveAnswer {
    /// Whose objective it was.
    pub(crate) change: ChangeNumber,
    /// Why it is missed, if it is.
    pub(crate) outcome: Result<(), String>,
}

/// Takes what has come of a question. False if nobody wants to know any more.
pub(crate) type TakeObjective = Arc<dyn Fn(Option<ObjectiveAnswer>) -> bool + Send + Sync>;

/// Starts a thread that asks what is on the board. It ends when nobody wants to know.
///
/// # Errors
/// If the system has no thread left.
pub fn start_objectives(
    place: PrometheusPlace,
    tls: Arc<ClientConfig>,
    board: Arc<ObjectiveBoard>,
    take: TakeObjective,
) -> std::io::Result<()> {
    let thread = std::thread::Builder::new().name("objectives".to_owned());
    thread.spawn(move || run(&place, &tls, &board, &take))?;
    Ok(())
}

fn run(place: &PrometheusPlace, tls: &Arc<ClientConfig>, board: &ObjectiveBoard, take: &TakeObjective) {
    let mut asked: BTreeMap<ChangeNumber, Stopwatch> = BTreeMap::new();
    while take(None) {
        let wanted = board.lock().clone();
        asked.retain(|change, _| wanted.contains_key(change));
        for (change, query) in wanted {
            if asked.get(&change).is_some_and(|last| last.passed() < ASK_EVERY) {
                continue;
            }
            asked.insert(change, Stopwatch::start());
            let outcome = ask(place, tls, &query);
            take(Some(ObjectiveAnswer { change, outcome }));
        }
        pause(LOOK_EVERY);
    }
}

/// Nothing if the objective is met; otherwise why it is missed.
fn ask(place: &PrometheusPlace, tls: &Arc<ClientConfig>, query: &str) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let at = HttpPlace::Network { is_tls: false, host: place.host.clone(), port: place.port };
    let client = HttpClient::new(at, Arc::clone(tls), CONNECT_WITHIN).map_err(|error| error.to_string())?;
    let path = format!("{}/api/v1/query", place.path);
    let body =
        format!("query={}", percent_encoding::utf8_percent_encode(query, percent_encoding::NON_ALPHANUMERIC));
    let exchange = async {
        let header = Some((CONTENT_TYPE, "application/x-www-form-urlencoded"));
        let answer = client.send(Method::POST, &path, header, body.into_bytes()).await;
        let mut answer = answer.map_err(|fault| crate::words::in_full(&fault))?;
        let status = answer.status.as_u16();
        let whole = answer.whole(ANSWER_LEN_MAX).await.map_err(|fault| crate::words::in_full(&fault))?;
        let whole =
            whole.ok_or_else(|| format!("Prometheus answers with more than {ANSWER_LEN_MAX} bytes"))?;
        judge(status, &whole)
    };
    let answer = runtime.block_on(async { timeout(ANSWER_WITHIN, exchange).await });
    answer.unwrap_or_else(|_| Err(format!("Prometheus does not answer within {} s", ANSWER_WITHIN.as_secs())))
}

/// What an answer says.
fn judge(status: u16, answer: &[u8]) -> Result<(), String> {
    let json: Value = serde_json::from_slice(answer)
        .map_err(|_| format!("Prometheus answers with status {status} and no JSON"))?;
    if json["status"] != "success" {
        let why: String = json["error"].as_str().unwrap_or("no reason").chars().take(200).collect();
        return Err(format!("Prometheus says no: {}", stdx::escape::line(&why)));
    }
    match (json["data"]["resultType"].as_str(), json["data"]["result"].as_array()) {
        (Some("vector"), Some(samples)) if samples.is_empty() => Err("the query has no sample".to_owned()),
        (Some("vector"), Some(_)) => Ok(()),
        (kind, _) => {
            let found: String = kind.unwrap_or("nothing").chars().take(40).collect();
            Err(format!("expected a vector, Prometheus answers with {}", stdx::escape::line(&found)))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(answer: &Value, expected: Result<(), &str>) {
        let found = judge(200, answer.to_string().as_bytes());
        assert_eq!(found, expected.map_err(str::to_owned), "{answer}");
    }

    #[test]
    fn a_sample_is_good_and_anything_else_is_not() {
        let vector = |samples: Value| json!({"status": "success", "data": {"resultType": "vector", "result": samples}});
        check(&vector(json!([{"metric": {}, "value": [1, "0"]}])), Ok(()));
        check(&vector(json!([])), Err("the query has no sample"));
        let scalar = json!({"status": "success", "data": {"resultType": "scalar", "result": [1, "1"]}});
        check(&scalar, Err("expected a vector, Prometheus answers with scalar"));
        check(&json!({"status": "error", "error": "parse"}), Err("Prometheus says no: parse"));
        check(&json!({}), Err("Prometheus says no: no reason"));
        assert!(judge(502, b"<html>").expect_err("no").contains("status 502 and no JSON"));
    }

    #[test]
    fn a_prometheus_is_at_an_address_with_a_path() {
        let place =
            |host: &str, port, path: &str| Ok(PrometheusPlace { host: host.into(), port, path: path.into() });
        assert_eq!("http://p:9090".parse(), place("p", 9090, ""));
        assert_eq!("http://[::1]:9090/a/b/".parse(), place("::1", 9090, "/a/b"));
        for text in [
            "p:9090",
            "https://p:9090",
            "http://p",
            "http://:1",
            "http://p:0",
            "http://a@p:1",
            "http://p:1/?x",
        ] {
            assert!(text.parse::<PrometheusPlace>().is_err(), "{text}");
        }
    }

    #[test]
    fn nobody_at_the_other_end_is_missed() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        drop(listener);
        let place: PrometheusPlace = format!("http://{address}").parse().expect("a place");
        let (tls, _) = tls::ClientTls::load(tls::ClientSettings::default()).expect("settings");
        let tls = tls.current();
        assert!(ask(&place, &tls, "x < 1").is_err());
    }
}
