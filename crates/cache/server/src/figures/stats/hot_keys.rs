//! `stats evenkeel hot`: the hottest keys by requests, by bytes and by misses.

use super::list::{StatList, stat};
use crate::watch::ReadableKey;
use ::hot_keys::HotKeys;

/// At most 250 lines, with the longest keys 60 KB.
pub(super) fn hot_keys(hot: &HotKeys, out: &mut StatList<'_>) {
    stat(out, "window_ms", (hot.window_s * 1000.0) as u64);
    stat(out, "accesses", hot.accesses);
    for (by, keys) in hot.rankings() {
        for (place, hot) in keys.iter().enumerate() {
            let mut line = |name: &str, value: f64| {
                stat(out, format_args!("{by}:{}:{name}", place + 1), format_args!("{:.2}", value * 100.0));
            };
            line("percent", hot.share);
            line("percent_min", hot.share_min);
            line("percent_max", hot.share_max);
            stat(out, format_args!("{by}:{}:key", place + 1), ReadableKey(&hot.key));
        }
    }
}
