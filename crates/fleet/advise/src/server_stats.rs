//! A workload as a running server has it: its statistics in memcached's words, read twice.

use std::collections::BTreeMap;

use fleet::advise::{CacheWorkload, InputFigure};

/// Names and values of `STAT` lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerStats(BTreeMap<String, String>);

/// What a server cannot know.
#[derive(Clone, Debug, PartialEq)]
pub struct AroundServer {
    /// Where it was asked.
    pub name: String,
    /// Servers like it in its cluster.
    pub servers: u32,
    /// The busiest minute as a multiple of what was measured.
    pub peak: f64,
    /// The latency that is wanted.
    pub p99_ms: f64,
    /// Zones.
    pub zones: u32,
    /// Whether the other zones carry everything when one is lost.
    pub survives_zone: bool,
    /// The share of each limit that may be used.
    pub headroom: f64,
}

/// Why statistics are no workload.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ServerStatsError {
    /// A line that is no statistic.
    #[error("expected lines `STAT NAME VALUE` and `END`, found `{0}`")]
    Line(String),
    /// A statistic that is not there.
    #[error("the server has no statistic `{0}`: is it a memcached?")]
    Missing(&'static str),
    /// A statistic that is no number.
    #[error("the statistic `{0}` is `{1}`: expected a number")]
    NoNumber(&'static str, String),
    /// Another process than before.
    #[error("the server was started again, or its statistics were reset, while it was measured")]
    StartedAgain,
    /// Nothing to advise about.
    #[error("the server has had no requests in {0:.0} s: measure it under load, for longer (--seconds)")]
    Idle(f64),
    /// No item.
    #[error("the server has no items, so their size is not known: measure it when it is filled")]
    Empty,
}

/// What memcached counts as an item beside key and value: 48 bytes of header, 3 of ends, and 8 of CAS unless that is switched off.
pub(crate) const ITEM_OVERHEAD: f64 = 59.0;
/// What Evenkeel counts besides: 19 bytes of header, and up to 3 that fill it up to the next multiple of 4.
pub(crate) const ITEM_OVERHEAD_OURS: f64 = 20.5;
/// Bytes of a key, which no statistic has.
pub(crate) const KEY_BYTES: (f64, f64, f64) = (40.0, 15.0, 100.0);
/// Rates of a few seconds are those of a minute within this share.
pub(crate) const RATE_RANGE: f64 = 0.1;

impl ServerStats {
    /// Reads an answer to `stats`, `stats slabs` or `stats settings`.
    ///
    /// # Errors
    /// If a line is no statistic.
    pub fn parse(answer: &str) -> Result<ServerStats, ServerStatsError> {
        let lines = answer.lines().filter(|line| !line.is_empty() && *line != "END");
        let pair = |line: &str| {
            let rest = line.strip_prefix("STAT ");
            let rest = rest.ok_or_else(|| ServerStatsError::Line(line.chars().take(80).collect()))?;
            // A setting may be empty.
            let (name, value) = rest.split_once(' ').unwrap_or((rest, ""));
            Ok((name.to_owned(), value.trim().to_owned()))
        };
        lines.map(pair).collect::<Result<_, _>>().map(ServerStats)
    }

    fn number(&self, name: &'static str) -> Result<f64, ServerStatsError> {
        let text = self.0.get(name).ok_or(ServerStatsError::Missing(name))?;
        let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
        number.ok_or_else(|| ServerStatsError::NoNumber(name, text.clone()))
    }

    /// Of statistics that older versions do not have; `None` is not 0.
    pub(crate) fn optional(&self, name: &'static str) -> Result<Option<f64>, ServerStatsError> {
        self.0.contains_key(name).then(|| self.number(name)).transpose()
    }

    /// Whether both are of one process, and this one is the later.
    pub(crate) fn is_later_than(&self, before: &ServerStats) -> Result<bool, ServerStatsError> {
        Ok(self.number("uptime")? >= before.number("uptime")? && self.0.get("pid") == before.0.get("pid"))
    }

    /// The 99th percentile of the sizes of items by the classes of `stats slabs`, in bytes of chunks.
    fn p99_chunk(&self) -> Option<f64> {
        let mut classes: Vec<(f64, f64)> = self
            .0
            .iter()
            .filter_map(|(name, value)| {
                let class = name.strip_suffix(":chunk_size")?;
                let used = self.0.get(&format!("{class}:used_chunks"))?;
                Some((value.parse().ok()?, used.parse().ok()?))
            })
            .collect();
        classes.sort_by(|one, other| one.0.total_cmp(&other.0));
        let all: f64 = classes.iter().map(|(_, used)| used).sum();
        let mut seen = 0.0;
        classes
            .into_iter()
            .find(|(_, used)| {
                seen += used;
                all > 0.0 && seen >= 0.99 * all
            })
            .map(|(size, _)| size)
    }
}

/// The workload between two readings of a server's `stats`, with its `stats slabs` and `stats settings` of the second.
///
/// # Errors
/// If a statistic is missing, the server was started again, or nothing happened.
pub fn measured_workload(
    [before, after]: [&ServerStats; 2],
    seconds: f64,
    [slabs, settings]: [&ServerStats; 2],
    around: &AroundServer,
) -> Result<CacheWorkload, ServerStatsError> {
    let source = format!("stats of {}, {seconds:.1} s", around.name);
    let all = around.peak * f64::from(around.servers);
    let grown = |name| {
        let (before, after) = (before.number(name)?, after.number(name)?);
        if after < before { Err(ServerStatsError::StartedAgain) } else { Ok(after - before) }
    };
    if !after.is_later_than(before)? {
        return Err(ServerStatsError::StartedAgain);
    }
    let rate = |count: f64| {
        let value = count / seconds * all;
        let (low, high) = (value * (1.0 - RATE_RANGE), value * (1.0 + RATE_RANGE));
        InputFigure::measured(value, low, high, source.clone())
    };
    let (gets, hits, misses) = (grown("cmd_get")?, grown("get_hits")?, grown("get_misses")?);
    // A server that does not count one of these has had none of it.
    let if_counted = |name| if after.optional(name)?.is_some() { grown(name) } else { Ok(0.0) };
    let mut sets = grown("cmd_set")?;
    // They find an item and write it, as a set does.
    for name in ["incr_hits", "incr_misses", "decr_hits", "decr_misses"] {
        sets += if_counted(name)?;
    }
    let touches = if_counted("cmd_touch")?;
    let deletes = grown("delete_hits")? + grown("delete_misses")? + touches;
    if gets + sets + deletes <= 0.0 {
        return Err(ServerStatsError::Idle(seconds));
    }
    let (items, bytes) = (after.number("curr_items")?, after.number("bytes")?);
    if items <= 0.0 {
        return Err(ServerStatsError::Empty);
    }
    let overhead = if after.0.contains_key("evenkeel_version") { ITEM_OVERHEAD_OURS } else { ITEM_OVERHEAD };
    let item_bytes = (bytes / items - overhead).max(1.0);
    let (key, key_low, key_high) = KEY_BYTES;
    let key = key.min((item_bytes / 2.0).max(1.0));
    let value = (item_bytes - key).max(0.0);
    let count = items * f64::from(around.servers);
    let exact = |value: f64| InputFigure::measured(value, value, value, source.clone());
    let is_encrypted = settings.0.get("ssl_enabled").is_some_and(|is| is == "yes");
    Ok(CacheWorkload {
        name: match around.servers {
            1 => format!("as {}", around.name),
            servers => format!("as {servers} servers like {}", around.name),
        },
        get: rate(gets),
        set: rate(sets),
        delete: rate(deletes),
        multiget: exact(0.0),
        multiget_keys: exact(1.0),
        pipeline: InputFigure::assumed(1.0, 1.0, 4.0, "no statistic has it; each request alone costs most"),
        hit_ratio: match hits + misses > 0.0 {
            true => exact(hits / (hits + misses)),
            false => InputFigure::assumed(0.95, 0.8, 1.0, "there were no gets"),
        },
        key_bytes: InputFigure::assumed(key, key_low.min(key), key_high.max(key), "no statistic has it"),
        value_bytes: InputFigure::measured(value, value * 0.95, value * 1.05, source.clone()),
        value_p99_bytes: slabs.p99_chunk().map(|chunk| (chunk - overhead - key).max(value)),
        items: exact(count),
        hot_items: None,
        hot_hits: None,
        miss_curve: Vec::new(),
        p99_ms: InputFigure::chosen(around.p99_ms),
        tls_share: exact(if is_encrypted { 1.0 } else { 0.0 }),
        udp_share: exact(0.0),
        connections: exact(after.number("curr_connections")?),
        zones: around.zones,
        spare_share: InputFigure::chosen(if around.survives_zone {
            1.0 / f64::from(around.zones)
        } else {
            0.0
        }),
        headroom: InputFigure::chosen(around.headroom),
        spike: InputFigure::assumed(1.0, 1.0, 2.0, "the busiest second is that of the minute's mean"),
        backend_usd_per_million: None,
        is_real_time: false,
        unspread_queues: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(gets: u32, sets: u32, uptime: u32) -> ServerStats {
        let text = format!(
            "STAT pid 7\r\nSTAT uptime {uptime}\r\nSTAT version 1.6.45\r\nSTAT curr_connections 41\r\nSTAT cmd_get {gets}\r\n\
             STAT cmd_set {sets}\r\nSTAT cmd_touch 0\r\nSTAT get_hits {}\r\nSTAT get_misses {}\r\nSTAT delete_hits 0\r\n\
             STAT delete_misses 0\r\nSTAT curr_items 1000\r\nSTAT bytes 199000\r\nEND\r\n",
            gets / 10 * 9,
            gets / 10
        );
        ServerStats::parse(&text).expect("statistics")
    }

    fn around() -> AroundServer {
        AroundServer {
            name: "c1:11211".to_owned(),
            servers: 10,
            peak: 2.0,
            p99_ms: 1.0,
            zones: 3,
            survives_zone: true,
            headroom: 0.75,
        }
    }

    fn none() -> ServerStats {
        ServerStats::default()
    }

    #[test]
    fn rates_sizes_and_counts_are_those_between_two_readings() {
        let slabs = "STAT 1:chunk_size 96\nSTAT 1:used_chunks 10\nSTAT 5:chunk_size 240\nSTAT 5:used_chunks 980\n\
                     STAT 9:chunk_size 600\nSTAT 9:used_chunks 10\nSTAT active_slabs 3\nEND\n";
        let slabs = ServerStats::parse(slabs).expect("statistics");
        let settings = ServerStats::parse("STAT ssl_enabled yes\nSTAT inter NULL\nEND").expect("statistics");
        let (before, after) = (stats(1_000, 100, 50), stats(11_000, 600, 60));
        let found =
            measured_workload([&before, &after], 10.0, [&slabs, &settings], &around()).expect("a workload");
        // 1,000 a second, of each of ten servers, twice that at the peak.
        assert_eq!((found.get.value, found.set.value, found.delete.value), (20_000.0, 1_000.0, 0.0));
        assert_eq!(found.hit_ratio.value, 0.9);
        // 199 bytes with 59 of header.
        assert_eq!((found.items.value, found.key_bytes.value + found.value_bytes.value), (10_000.0, 140.0));
        assert_eq!(found.value_p99_bytes, Some(240.0 - 59.0 - 40.0));
        assert_eq!((found.connections.value, found.tls_share.value), (41.0, 1.0));
        assert_eq!(found.check(), Ok(()));
        assert_eq!(found.get.basis, fleet::advise::FigureBasis::Measured);
    }

    #[test]
    fn an_item_of_ours_has_a_shorter_header() {
        let (before, mut after) = (stats(1_000, 100, 50), stats(11_000, 600, 60));
        after.0.insert("evenkeel_version".to_owned(), "0.1.0".to_owned());
        let found =
            measured_workload([&before, &after], 10.0, [&none(), &none()], &around()).expect("a workload");
        assert_eq!(found.key_bytes.value + found.value_bytes.value, 199.0 - 20.5);
        assert_eq!(found.value_p99_bytes, None);
    }

    #[test]
    fn what_is_no_measurement_is_named() {
        let check = |before: &ServerStats, after: &ServerStats, expected: &str| {
            let error =
                measured_workload([before, after], 10.0, [&none(), &none()], &around()).expect_err(expected);
            assert!(error.to_string().contains(expected), "{error}");
        };
        let usual = stats(1_000, 100, 50);
        check(&usual, &stats(10, 0, 2), "was started again");
        check(&usual, &stats(10, 0, 60), "was started again");
        check(&usual, &usual, "has had no requests in 10 s");
        check(&none(), &none(), "no statistic `uptime`");
        let wrong = |answer: &str| ServerStats::parse(answer).expect_err(answer).to_string();
        assert_eq!(wrong("ERROR\r\n"), "expected lines `STAT NAME VALUE` and `END`, found `ERROR`");
        let mut empty = stats(2_000, 100, 60);
        empty.0.insert("curr_items".to_owned(), "0".to_owned());
        check(&usual, &empty, "has no items");
        let mut broken = stats(2_000, 100, 60);
        broken.0.insert("cmd_set".to_owned(), "many".to_owned());
        check(&usual, &broken, "the statistic `cmd_set` is `many`: expected a number");
    }
}
