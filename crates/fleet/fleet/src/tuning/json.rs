//! Fields of the tuner's JSON: read one by one, so that an error says what was expected where.

use serde_json::Value;

/// A list.
pub(super) fn list<'v>(value: &'v Value, name: &str) -> Result<&'v [Value], String> {
    match &value[name] {
        Value::Array(list) => Ok(list),
        other => Err(format!("expected a list {name:?}, found {}", kind(other))),
    }
}

/// A text.
pub(super) fn text<'v>(value: &'v Value, name: &str) -> Result<&'v str, String> {
    value[name].as_str().ok_or_else(|| format!("expected a text {name:?}, found {}", kind(&value[name])))
}

/// A text of this length at most, cut between characters, and in one line: it is shown on terminals.
pub(super) fn short(text: &str, len_max: usize) -> String {
    let text = text.replace(char::is_control, " ");
    match text.len() {
        0.. if text.len() <= len_max => text,
        _ => format!("{}…", &text[..text.floor_char_boundary(len_max.saturating_sub('…'.len_utf8()))]),
    }
}

/// What a value is, for an error. It is not quoted: it may be large.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
