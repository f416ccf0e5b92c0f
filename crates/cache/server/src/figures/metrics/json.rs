//! The same figures in JSON, for `evenkeel top` and for programs.

use net::Address;
use serde_json::{Map, Value, json};
use stdx::clock::Now;
use stdx::log_linear;

use super::statistics::Statistics;
use crate::figures::histogram::TimeHistogram;
use crate::figures::service_times::{CommandClass, ServiceTimes};
use crate::shared::{EVENKEEL_VERSION, Figures, Shared};
use crate::watch::ReadableKey;
use ::hot_keys::{HotKey, HotKeys};

/// An object; names under `stats` are memcached's.
pub(super) fn report(
    shared: &Shared,
    statistics: &Statistics,
    figures: &Figures,
    now: Now,
) -> Map<String, Value> {
    let threads: Map<String, Value> = os::cpu_time::of_own_threads()
        .into_iter()
        .map(|(name, times)| (name, json!({ "run_ns": times.run_ns, "wait_ns": times.wait_ns })))
        .collect();
    let store = &figures.store;
    let report = json!({
        "version": EVENKEEL_VERSION,
        "uptime_us": shared.uptime(now).us,
        "unix_ms": shared.unix_ms(now),
        "stats": object(statistics.counts()),
        "settings": object(statistics.settings()),
        "memory": {
            "limit_bytes": store.limit_bytes,
            "charged_bytes": store.charged_bytes,
            "index_bytes": store.index_bytes,
            "large_bytes": store.large_bytes,
            "ghost_bytes": store.ghost_bytes,
            "sample_bytes": store.sample_bytes,
            "dead_bytes": store.segments.dead_bytes,
        },
        // `null`: the memory of this server ends with it, so it can have none of an earlier one.
        "restored_items": shared.restored_items,
        "ghost_hits": store.counts.ghost_hits,
        "service": service_times(shared),
        "wait": times(&shared.waits()),
        "listeners": listeners(shared),
        "hot": shared.options.dumping.then(|| hot_keys(&HotKeys::read(&shared.hot_tables, now))),
        "threads": threads,
    });
    let Value::Object(report) = report else { unreachable!("it was just written as an object") };
    report
}

/// Connections by the address at which they were accepted: now, and in all. Datagrams have none.
fn listeners(shared: &Shared) -> Vec<Value> {
    let streams = shared.listeners.iter().enumerate();
    let streams = streams.filter(|(_, (_, address))| !matches!(address, Address::Udp(_)));
    let listener = |(number, (_, address)): (usize, &(_, Address))| {
        let (present, all) = shared.network.of_listener(number);
        json!({ "address": address.to_string(), "connections": present, "accepted": all })
    };
    streams.map(listener).collect()
}

fn service_times(shared: &Shared) -> Map<String, Value> {
    let class = |class: CommandClass| {
        (class.name().to_owned(), times(&ServiceTimes::histogram(&shared.service_times, class)))
    };
    CommandClass::ALL.into_iter().map(class).collect()
}

/// Every bucket that counts something, as its end in microseconds and its count.
fn times(histogram: &TimeHistogram) -> Value {
    let filled = histogram.buckets.iter().enumerate().filter(|(_, count)| **count > 0);
    let buckets: Vec<[u64; 2]> = filled.map(|(bucket, count)| [log_linear::end(bucket), *count]).collect();
    json!({ "count": histogram.count(), "sum_us": histogram.sum_us, "buckets": buckets })
}

/// Keys are shown as in `stats`, because JSON holds no bytes.
fn hot_keys(hot: &HotKeys) -> Value {
    let key = |hot: &HotKey| {
        let key = ReadableKey(&hot.key).to_string();
        json!({ "key": key, "share": hot.share, "share_min": hot.share_min, "share_max": hot.share_max })
    };
    let mut report = json!({ "window_s": hot.window_s, "accesses": hot.accesses });
    for (by, keys) in hot.rankings() {
        report[by] = keys.iter().map(key).collect();
    }
    report
}

fn object<'s>(pairs: impl Iterator<Item = (&'s str, &'s str)>) -> Map<String, Value> {
    pairs.map(|(name, value)| (name.to_owned(), number_or_text(value))).collect()
}

fn number_or_text(value: &str) -> Value {
    match (value.parse::<u64>(), value.parse::<f64>()) {
        (Ok(number), _) => number.into(),
        (_, Ok(number)) if number.is_finite() => number.into(),
        _ => value.into(),
    }
}
