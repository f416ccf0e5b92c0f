//! A server's answer to `stats`, as memcached and Evenkeel give it: the counters that travel with a turn.

use std::collections::BTreeMap;

use fleet::figures::MemberTally;

/// Commands that are counted by their outcome. A `gat` counts as a get and as a touch.
const OUTCOMES: [&str; 7] =
    ["delete_hits", "delete_misses", "incr_hits", "incr_misses", "decr_hits", "decr_misses", "cmd_touch"];

/// What an answer says; what it does not have is unknown. `at_ms` is when it was read, by the agent's clock.
pub(super) fn tally_in(answer: &[u8], at_ms: u64) -> MemberTally {
    let text = String::from_utf8_lossy(answer);
    let stats: BTreeMap<&str, &str> =
        text.lines().filter_map(|line| line.trim_end().strip_prefix("STAT ")?.split_once(' ')).collect();
    let count = |name: &str| stats.get(name)?.parse::<u64>().ok();
    let seconds = |name: &str| stats.get(name)?.parse::<f64>().ok().filter(|s| s.is_finite() && *s >= 0.0);
    // Some versions do not count all of the others.
    let others = OUTCOMES.into_iter().filter_map(count).fold(0, u64::saturating_add);
    let requests = count("cmd_get").zip(count("cmd_set"));
    let cpu_s = seconds("rusage_user").zip(seconds("rusage_system"));
    MemberTally {
        at_ms,
        pid: count("pid"),
        uptime_s: count("uptime"),
        requests: requests.map(|(gets, sets)| gets.saturating_add(sets).saturating_add(others)),
        hits: count("get_hits"),
        misses: count("get_misses"),
        received_bytes: count("bytes_read"),
        sent_bytes: count("bytes_written"),
        evictions: count("evictions"),
        memory_used_bytes: count("bytes"),
        memory_limit_bytes: count("limit_maxbytes"),
        connections: count("curr_connections"),
        items: count("curr_items"),
        cpu_ms: cpu_s.map(|(user, system)| ((user + system) * 1000.0) as u64),
        page: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of memcached 1.6.18, shortened.
    const MEMCACHED: &[u8] = b"STAT pid 4711\r\nSTAT uptime 3600\r\nSTAT time 1800000000\r\nSTAT version 1.6.18\r\n\
        STAT rusage_user 1.250000\r\nSTAT rusage_system 0.750000\r\nSTAT curr_connections 3\r\nSTAT cmd_get 100\r\n\
        STAT cmd_set 50\r\nSTAT cmd_flush 1\r\nSTAT cmd_touch 2\r\nSTAT get_hits 90\r\nSTAT get_misses 10\r\n\
        STAT delete_misses 3\r\nSTAT delete_hits 4\r\nSTAT incr_misses 0\r\nSTAT incr_hits 5\r\nSTAT bytes_read 10000\r\n\
        STAT bytes_written 20000\r\nSTAT limit_maxbytes 67108864\r\nSTAT bytes 5000\r\nSTAT curr_items 40\r\n\
        STAT evictions 0\r\nEND\r\n";

    #[test]
    fn counters_are_those_of_memcached() {
        let tally = tally_in(MEMCACHED, 5000);
        let expected = MemberTally {
            at_ms: 5000,
            pid: Some(4711),
            uptime_s: Some(3600),
            requests: Some(164),
            hits: Some(90),
            misses: Some(10),
            received_bytes: Some(10_000),
            sent_bytes: Some(20_000),
            evictions: Some(0),
            memory_used_bytes: Some(5000),
            memory_limit_bytes: Some(67_108_864),
            connections: Some(3),
            items: Some(40),
            cpu_ms: Some(2000),
            page: None,
        };
        assert_eq!(tally, expected);
    }

    #[test]
    fn what_is_no_number_is_unknown() {
        let lies = b"STAT pid x\r\nSTAT cmd_get -1\r\nSTAT cmd_set 5\r\nSTAT rusage_user nan\r\nSTAT rusage_system 1e999\r\n\
            STAT curr_items 99999999999999999999999\r\nSTAT get_hits\r\nSTAT\r\n\xff\xfe\r\nEND\r\n";
        assert_eq!(tally_in(lies, 1), MemberTally { at_ms: 1, ..MemberTally::default() });
        assert_eq!(tally_in(b"ERROR\r\n", 1), MemberTally { at_ms: 1, ..MemberTally::default() });
    }
}
