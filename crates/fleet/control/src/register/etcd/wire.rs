//! The words of etcd's JSON gateway: requests and answers as its proto3 mapping has them.
//!
//! Keys and values are base64, 64-bit integers are strings, and what is zero, false or empty is absent. So an answer
//! without a header is refused: `{}` would otherwise be a register without keys.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};

use crate::register::contents::{RegisterEntry, RegisterEvent};
use crate::register::error::RegisterError;
use crate::register::keys::RegisterKey;
use crate::register::numbers::{LeaseId, Revision};

/// Bytes as the gateway writes them.
pub(super) fn code(bytes: impl AsRef<[u8]>) -> String {
    STANDARD.encode(bytes)
}

/// A request as JSON.
pub(super) fn body(request: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(request).expect("requests have text keys")
}

/// An answer from JSON.
///
/// # Errors
/// If it is another one.
pub(super) fn parse<T: DeserializeOwned>(what: &str, bytes: &[u8]) -> Result<T, RegisterError> {
    serde_json::from_slice(bytes).map_err(|error| {
        let shown: String = String::from_utf8_lossy(bytes).chars().take(SHOWN_MAX).collect();
        RegisterError::Answer(format!("etcd's answer to {what} is {shown:?}: {error}"))
    })
}

/// Characters of an answer in a message.
const SHOWN_MAX: usize = 200;

/// `/v3/kv/range`.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct RangeRequest {
    pub key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range_end: Option<String>,
    #[serde(skip_serializing_if = "is_zero")]
    pub limit: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub revision: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub min_mod_revision: u64,
    #[serde(skip_serializing_if = "is_false")]
    pub keys_only: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub count_only: bool,
}

/// `/v3/kv/txn`.
#[derive(Debug, Serialize)]
pub(super) struct TxnRequest {
    pub compare: Vec<Compare>,
    pub success: Vec<RequestOp>,
    pub failure: Vec<RequestOp>,
}

#[derive(Debug, Serialize)]
pub(super) struct Compare {
    pub key: String,
    pub target: &'static str,
    pub result: &'static str,
    pub mod_revision: String,
}

#[derive(Debug, Serialize)]
pub(super) enum RequestOp {
    #[serde(rename = "request_range")]
    Range(RangeRequest),
    #[serde(rename = "request_put")]
    Put(PutRequest),
    #[serde(rename = "request_delete_range")]
    Delete(DeleteRequest),
}

#[derive(Debug, Serialize)]
pub(super) struct PutRequest {
    pub key: String,
    pub value: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct DeleteRequest {
    pub key: String,
}

/// `/v3/watch`.
#[derive(Debug, Serialize)]
pub(super) struct WatchRequest {
    pub create_request: WatchCreate,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct WatchCreate {
    pub key: String,
    pub range_end: String,
    pub start_revision: String,
    pub progress_notify: bool,
    pub fragment: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct Header {
    #[serde(deserialize_with = "revision")]
    pub revision: Revision,
}

/// That of a message in a stream: a cancelled watch comes without a revision.
#[derive(Debug, Deserialize)]
pub(super) struct StreamHeader {
    #[serde(default, deserialize_with = "revision")]
    pub revision: Revision,
}

#[derive(Debug, Deserialize)]
pub(super) struct RangeResponse {
    pub header: Header,
    #[serde(default)]
    pub kvs: Vec<KeyValue>,
    #[serde(default)]
    pub more: bool,
    #[serde(default, deserialize_with = "number")]
    pub count: i64,
}

#[derive(Debug, Deserialize)]
pub(super) struct KeyValue {
    #[serde(deserialize_with = "bytes")]
    pub key: Vec<u8>,
    #[serde(default, deserialize_with = "bytes")]
    pub value: Vec<u8>,
    #[serde(default, deserialize_with = "number")]
    pub mod_revision: i64,
    #[serde(default, deserialize_with = "number")]
    pub create_revision: i64,
    #[serde(default, deserialize_with = "number")]
    pub lease: i64,
}

#[derive(Debug, Deserialize)]
pub(super) struct TxnResponse {
    pub header: Header,
    #[serde(default)]
    pub succeeded: bool,
    #[serde(default)]
    pub responses: Vec<ResponseOp>,
}

/// Of the answers in a transaction only those to ranges are read.
#[derive(Debug, Deserialize)]
pub(super) struct ResponseOp {
    pub response_range: Option<RangePart>,
}

#[derive(Debug, Deserialize)]
pub(super) struct RangePart {
    #[serde(default)]
    pub kvs: Vec<KeyValue>,
}

#[derive(Debug, Deserialize)]
pub(super) struct HeaderOnly {
    pub header: Header,
}

#[derive(Debug, Deserialize)]
pub(super) struct GrantResponse {
    #[serde(rename = "ID", deserialize_with = "number")]
    pub id: i64,
    #[serde(rename = "TTL", deserialize_with = "number")]
    pub ttl: i64,
}

/// A message of a stream.
#[derive(Debug, Deserialize)]
pub(super) struct Streamed<T> {
    pub result: T,
}

#[derive(Debug, Deserialize)]
pub(super) struct KeepAliveResult {
    #[serde(rename = "ID", deserialize_with = "number")]
    pub id: i64,
    /// Absent: the lease is lost.
    #[serde(rename = "TTL", default, deserialize_with = "number")]
    pub ttl: i64,
}

#[derive(Debug, Deserialize)]
pub(super) struct WatchResult {
    pub header: StreamHeader,
    #[serde(default)]
    pub created: bool,
    #[serde(default)]
    pub canceled: bool,
    #[serde(default, deserialize_with = "number")]
    pub compact_revision: i64,
    #[serde(default)]
    pub cancel_reason: String,
    #[serde(default)]
    pub fragment: bool,
    #[serde(default)]
    pub events: Vec<WatchEvent>,
}

#[derive(Debug, Deserialize)]
pub(super) struct WatchEvent {
    /// Absent: a put.
    #[serde(rename = "type", default)]
    pub kind: String,
    pub kv: KeyValue,
}

#[derive(Debug, Deserialize)]
pub(super) struct TokenResponse {
    pub token: String,
}

impl KeyValue {
    /// The key, if it is one of ours.
    pub(super) fn register_key(&self) -> Result<RegisterKey, RegisterError> {
        Ok(String::from_utf8_lossy(&self.key).parse::<RegisterKey>()?)
    }

    /// When it was written last.
    pub(super) fn revision(&self) -> Result<Revision, RegisterError> {
        let positive = u64::try_from(self.mod_revision).ok().filter(|revision| *revision > 0);
        positive.map(Revision).ok_or_else(|| {
            let key = String::from_utf8_lossy(&self.key);
            RegisterError::Answer(format!("etcd's key {key} has the revision {}", self.mod_revision))
        })
    }

    /// As the register's callers see it.
    pub(super) fn entry(self) -> Result<RegisterEntry, RegisterError> {
        let (key, revision) = (self.register_key()?, self.revision()?);
        let lease = (self.lease != 0).then_some(LeaseId(self.lease));
        Ok(RegisterEntry { key, value: self.value.into(), revision, lease })
    }
}

impl WatchEvent {
    /// Whether the key has gone.
    pub(super) fn is_delete(&self) -> Result<bool, RegisterError> {
        match &*self.kind {
            "" | "PUT" => Ok(false),
            "DELETE" => Ok(true),
            other => Err(RegisterError::Answer(format!("etcd tells of an event {other:?}"))),
        }
    }

    /// As the register's callers see it.
    pub(super) fn event(self) -> Result<RegisterEvent, RegisterError> {
        let is_delete = self.is_delete()?;
        let (key, revision) = (self.kv.register_key()?, self.kv.revision()?);
        Ok(RegisterEvent { key, revision, value: (!is_delete).then(|| self.kv.value.into()) })
    }
}

/// What etcd says when it does not do something: at the top of an answer, or inside a stream under HTTP 200.
#[derive(Debug, PartialEq)]
pub(super) struct Complaint {
    /// gRPC's status; none if there is no number in it.
    pub status: Option<i64>,
    pub message: String,
}

/// The complaint in an answer, if it is one. The names differ between versions, and between answers and streams.
pub(super) fn complaint(answer: &[u8]) -> Option<Complaint> {
    #[derive(Deserialize)]
    struct Outer {
        error: Option<serde_json::Value>,
        code: Option<i64>,
        message: Option<String>,
    }
    let outer: Outer = serde_json::from_slice(answer).ok()?;
    match outer.error {
        Some(serde_json::Value::Object(inner)) => {
            let number = |name: &str| inner.get(name).and_then(serde_json::Value::as_i64);
            let message = inner.get("message").and_then(serde_json::Value::as_str).unwrap_or_default();
            Some(Complaint { status: number("grpc_code").or(number("code")), message: message.to_owned() })
        }
        // etcd's answer to a grant has an empty `error` field in some versions.
        Some(serde_json::Value::String(text)) if !text.is_empty() => {
            Some(Complaint { status: outer.code, message: outer.message.unwrap_or(text) })
        }
        _ if outer.code.is_some() => {
            Some(Complaint { status: outer.code, message: outer.message.unwrap_or_default() })
        }
        _ => None,
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn is_false(flag: &bool) -> bool {
    !*flag
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Number {
    Text(String),
    Plain(i64),
}

fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    match Number::deserialize(deserializer)? {
        Number::Plain(number) => Ok(number),
        Number::Text(text) => text.parse().map_err(|_| D::Error::custom(format!("{text:?} is no number"))),
    }
}

fn revision<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Revision, D::Error> {
    let number = number(deserializer)?;
    let positive = u64::try_from(number).ok().filter(|number| *number > 0);
    positive.map(Revision).ok_or_else(|| D::Error::custom(format!("{number} is no revision")))
}

fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    STANDARD.decode(String::deserialize(deserializer)?).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> Result<RangeResponse, RegisterError> {
        parse("a range", text.as_bytes())
    }

    #[test]
    fn integers_are_text_or_numbers_and_zero_fields_are_absent() {
        let answer = range(
            r#"{"header":{"cluster_id":"14841639068965178418","revision":"7"},"kvs":[{"key":"L2E=","mod_revision":"5"}],"count":1}"#,
        );
        let answer = answer.expect("an answer");
        assert_eq!((answer.header.revision, answer.more, answer.count), (Revision(7), false, 1));
        let entry = answer.kvs.into_iter().next().expect("a key").entry().expect("one of ours");
        assert_eq!((entry.key.as_str(), &*entry.value, entry.lease), ("/a", &b""[..], None));
    }

    #[test]
    fn an_answer_without_a_revision_is_not_an_empty_register() {
        for text in ["{}", r#"{"header":{}}"#, r#"{"header":{"revision":"0"}}"#, "[]", "", "null"] {
            assert!(range(text).is_err(), "{text}");
        }
        for text in [
            r#"{"header":{"revision":"-1"}}"#,
            r#"{"header":{"revision":"7"},"kvs":[{"key":"%"}]}"#,
            r#"{"header":{"revision":"99999999999999999999"}}"#,
        ] {
            assert!(range(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_key_without_a_revision_or_of_somebody_else_is_an_error() {
        let first = |kv: &str| {
            let text = format!(r#"{{"header":{{"revision":"7"}},"kvs":[{kv}]}}"#);
            range(&text).expect("an answer").kvs.remove(0).entry()
        };
        assert!(matches!(first(r#"{"key":"L2E="}"#), Err(RegisterError::Answer(_))));
        assert!(matches!(first(r#"{"key":"/wD/","mod_revision":"5"}"#), Err(RegisterError::Key(_))));
    }

    #[track_caller]
    fn check_complaint(answer: &str, expected: Option<(Option<i64>, &str)>) {
        let found = complaint(answer.as_bytes());
        let found = found.as_ref().map(|complaint| (complaint.status, &*complaint.message));
        assert_eq!(found, expected);
    }

    #[test]
    fn complaints_are_found_in_answers_and_in_streams() {
        check_complaint(
            r#"{"error":"no","message":"etcdserver: no","code":14}"#,
            Some((Some(14), "etcdserver: no")),
        );
        check_complaint(r#"{"code":5,"message":"lost","details":[]}"#, Some((Some(5), "lost")));
        check_complaint(
            r#"{"error":{"grpc_code":11,"http_code":400,"message":"far"}}"#,
            Some((Some(11), "far")),
        );
        check_complaint(r#"{"error":{"code":16,"message":"token"}}"#, Some((Some(16), "token")));
        check_complaint(r#"{"error":"plain"}"#, Some((None, "plain")));
        check_complaint(r#"{"header":{"revision":"1"},"ID":"1","TTL":"10","error":""}"#, None);
        check_complaint(r#"{"result":{}}"#, None);
        check_complaint("<html>", None);
    }
}
