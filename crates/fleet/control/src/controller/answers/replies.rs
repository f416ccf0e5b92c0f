//! Replies to questions: documents with a text for people, and refusals.

use admin::api::ApiReply;
use serde_json::{Value, json};
use stdx::calendar::utc;

use crate::register::RegisterError;
use crate::words::in_full;

/// A document with its text for people.
pub(crate) fn document(text: String, mut json: Value) -> ApiReply {
    json["text"] = json!(text);
    ApiReply::new(200, json.to_string())
}

/// A moment in UTC, as in `2026-11-21T16:38:38Z`. None of the clock of a host that did not know the time: it reads 0, or less.
pub(crate) fn moment_words(unix_s: i64) -> Option<String> {
    u64::try_from(unix_s).ok().filter(|unix_s| *unix_s > 0).map(utc)
}

pub(crate) fn refusal(status: u16, error: &str) -> ApiReply {
    let (error, hint) = match error.split_once("\n  hint: ") {
        Some((error, hint)) => (error, Some(hint)),
        None => (error, None),
    };
    ApiReply::new(status, json!({"error": error, "hint": hint}).to_string())
}

pub(crate) fn register_away(error: &RegisterError) -> ApiReply {
    let (error, hint) = (in_full(error), "what is in force stays in force; changes need the register");
    ApiReply::new(503, json!({"error": error, "hint": hint}).to_string())
}
