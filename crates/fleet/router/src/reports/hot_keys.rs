//! Lists of the keys with most requests: as text, as JSON, and for metrics.
//!
//! Keys are bytes that clients choose: what ends a word or a line, or gives orders to a terminal, is encoded as in a URI;
//! quotes are escaped by the notation that quotes.

use std::fmt::Write;

use ::hot_keys::HotKeys;
use protocol::uri;
use stdx::clock::Now;

use crate::config::{Json, JsonValue, Location};
use crate::shared::RouterShared;

/// Keys of a list.
pub(crate) const LISTED_MAX: usize = 32;

/// The answer where lists of keys are not made.
pub(super) const HIDDEN: &str = "hot keys are hidden (--hide-hot-keys)";

/// The keys; `None` if they are hidden.
pub(crate) fn hottest(shared: &RouterShared, now: Now) -> Option<HotKeys> {
    shared.settings.shows_hot_keys.then(|| HotKeys::read_most(&shared.hot_tables(), now, LISTED_MAX))
}

/// A key without spaces and control bytes.
pub(crate) fn readable(key: &[u8]) -> String {
    let mut text = Vec::new();
    uri::encode_unreadable(&mut text, key);
    String::from_utf8_lossy(&text).into_owned()
}

/// Lines of `stats hot`, without the `END`.
pub(super) fn listing(shared: &RouterShared, now: Now, out: &mut String) {
    let Some(hot) = hottest(shared, now) else {
        let _ = write!(out, "STAT hidden {HIDDEN}\r\n");
        return;
    };
    let _ = write!(out, "STAT window_ms {}\r\n", (hot.window_s * 1000.0) as u64);
    let _ = write!(out, "STAT requests {}\r\n", hot.accesses);
    for (place, hot) in hot.requests.iter().enumerate() {
        let place = place + 1;
        let shares = [("percent", hot.share), ("percent_min", hot.share_min), ("percent_max", hot.share_max)];
        for (name, share) in shares {
            let _ = write!(out, "STAT {place}:{name} {:.2}\r\n", share * 100.0);
        }
        if shared.has_hot_value(&hot.key, now) {
            let _ = write!(out, "STAT {place}:hot_cache 1\r\n");
        }
        let _ = write!(out, "STAT {place}:key {}\r\n", readable(&hot.key));
    }
}

/// The same as an object; `None` if it is hidden.
pub(super) fn json(shared: &RouterShared, now: Now) -> Option<String> {
    let hot = hottest(shared, now)?;
    let keys = hot.requests.iter().map(|hot| {
        object([
            ("key", JsonValue::String(readable(&hot.key))),
            ("share", JsonValue::Double(hot.share)),
            ("share_min", JsonValue::Double(hot.share_min)),
            ("share_max", JsonValue::Double(hot.share_max)),
            ("hot_cache", JsonValue::Bool(shared.has_hot_value(&hot.key, now))),
        ])
    });
    let keys = JsonValue::Array(keys.collect());
    let requests = JsonValue::Int(i64::try_from(hot.accesses).unwrap_or(i64::MAX));
    let report =
        object([("window_s", JsonValue::Double(hot.window_s)), ("requests", requests), ("keys", keys)]);
    Some(report.to_pretty_json())
}

fn object<const N: usize>(entries: [(&str, JsonValue); N]) -> Json {
    let entries =
        entries.map(|(name, value)| (name.to_owned(), Json::new(Location::default(), value))).into_iter();
    Json::new(Location::default(), JsonValue::Object(entries.collect()))
}
