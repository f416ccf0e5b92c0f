//! Statistics as JSON.

use crate::config::{Json, JsonValue, Location};

/// An object of statistics: those that are numbers as numbers.
pub(super) fn object(statistics: impl IntoIterator<Item = (String, String)>) -> Json {
    let entries = statistics.into_iter().map(|(name, text)| {
        let value = match (text.parse(), text.parse::<f64>()) {
            (Ok(number), _) => JsonValue::Int(number),
            (_, Ok(number)) if number.is_finite() => JsonValue::Double(number),
            _ => JsonValue::String(text),
        };
        (name, Json::new(Location::default(), value))
    });
    Json::new(Location::default(), JsonValue::Object(entries.collect()))
}

/// An object of texts.
pub(super) fn texts(entries: impl IntoIterator<Item = (String, String)>) -> Json {
    let entries = entries
        .into_iter()
        .map(|(name, text)| (name, Json::new(Location::default(), JsonValue::String(text))));
    Json::new(Location::default(), JsonValue::Object(entries.collect()))
}
