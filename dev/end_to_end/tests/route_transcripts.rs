//! The transcripts through a router with one server: what differs is listed, with the router's words and the reason.

use end_to_end::judge::judge;
use end_to_end::subject::{ServerUnderTest, SocketDriver};
use transcript::Transcript;

/// A transcript that does not hold through a router.
struct RouteDifference {
    name: &'static str,
    /// Lines of the file.
    lines: &'static str,
    /// What holds instead: the router's words.
    instead: &'static str,
    /// Whether the rest of the file holds, too. Otherwise it is about the same, and is not compared.
    rest_holds: bool,
    why: &'static str,
}

/// From these lines on a transcript does not hold; what is before them does.
const fn from(
    name: &'static str,
    lines: &'static str,
    instead: &'static str,
    why: &'static str,
) -> RouteDifference {
    RouteDifference { name, lines, instead, rest_holds: false, why }
}

/// Only these lines of a transcript do not hold, wherever they stand in it.
const fn only(
    name: &'static str,
    lines: &'static str,
    instead: &'static str,
    why: &'static str,
) -> RouteDifference {
    RouteDifference { name, lines, instead, rest_holds: true, why }
}

const ONE_SERVER: &str = "a command that concerns one server";
const LOGIN: &str = "clients do not log in to a router, and it does not log in to servers";
const DISABLED: &str = "< SERVER_ERROR Command disabled";
const STATISTICS: &str = "the router answers `stats` with mcrouter's statistics, its own";
const NO_GROUP: &str = "< CLIENT_ERROR bad stats command";
const BAD_BODY: &str = "where the next request begins cannot be known, and what follows may be a value";
const LONG_LINE: &str = "servers close their connection for a line of this length, so the client's is closed";
const SHUTDOWN: &str = "`shutdown` ends a router, as in mcrouter";

const DIFFERENCES: &[RouteDifference] = &[
    from("admin_odd", "< SAME src and dst class are identical", DISABLED, ONE_SERVER),
    from("auth", "> version", "> version\n< VERSION <word>", LOGIN),
    from("bad_data_chunk", "< ERROR", "<closed", BAD_BODY),
    from("binary", "< \\x81\\x40\\x00\\x00", "<closed", "the router does not speak the binary protocol"),
    from("cache_memlimit", "< OK", DISABLED, ONE_SERVER),
    from(
        "discovery",
        "< CONFIG cluster 0 87",
        "< ERROR",
        "a router has a list of its own, of routers (`--cluster-file`)",
    ),
    from(
        "discovery_off_binary",
        "< \\x81\\x60\\x00\\x00\\x00\\x00\\x00\\x81\\x00\\x00\\x00\\x0f\\x00\\x00\\x00\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00Unknown command\\",
        "<closed",
        "the router does not speak the binary protocol",
    ),
    from("dump", "< OK", DISABLED, ONE_SERVER),
    from("dump_disabled", "< ERROR metadump not allowed", DISABLED, ONE_SERVER),
    from("extstore", "<+ STAT ext_item_size 512", NO_GROUP, STATISTICS),
    from("hot_keys", "< STAT window_ms <number>", NO_GROUP, STATISTICS),
    from("hot_keys_disabled", "< CLIENT_ERROR stats evenkeel hot not allowed", NO_GROUP, STATISTICS),
    from("line_too_long", "6< ERROR", "6< CLIENT_ERROR malformed request\n6<closed", LONG_LINE),
    only(
        "meta_set",
        "< CLIENT_ERROR bad data chunk\n< CLIENT_ERROR bad command line format",
        "< CLIENT_ERROR bad data chunk\n<closed",
        BAD_BODY,
    ),
    only(
        "noreply",
        "> stats noreply\n< ERROR",
        "> stats noreply\n< CLIENT_ERROR bad stats command",
        STATISTICS,
    ),
    from("shutdown_disabled", "< SERVER_ERROR: shutdown not enabled", "<closed", SHUTDOWN),
    from("shutdown_enabled", "< CLIENT_ERROR invalid shutdown mode", "<closed", SHUTDOWN),
    from(
        "stats",
        "<+ STAT pid <number>",
        "<+ STAT num_servers 1\n<+ STAT cmd_get_count 3\n< END",
        STATISTICS,
    ),
    from("stats_cachedump", "< END", NO_GROUP, STATISTICS),
    from("stats_connections", "<+ STAT <number>:addr <word>", NO_GROUP, STATISTICS),
    from("stats_counts", "<+ STAT get_expired 4", "<+ STAT cmd_set_count 4\n< END", STATISTICS),
    from("stats_detail", "< CLIENT_ERROR usage: stats detail on|off|dump", NO_GROUP, STATISTICS),
    from(
        "stats_evenkeel",
        "<+ STAT evenkeel_overwritten_in_place 1",
        "<+ STAT cmd_set_count 2\n< END",
        STATISTICS,
    ),
    from("stats_evenkeel_times", "<+ STAT wait:count <number>", NO_GROUP, STATISTICS),
    from("stats_names", "<+ STAT pid <*>", "<+ STAT num_suspect_servers 0\n< END", STATISTICS),
    from("stats_sections", "<+ STAT maxbytes 104857600", NO_GROUP, STATISTICS),
    from("stats_sizes", "< END", NO_GROUP, STATISTICS),
    from("tuning", "< OK", DISABLED, ONE_SERVER),
    from("tuning_off", "< ERROR", DISABLED, ONE_SERVER),
    from("watch", "1< ERROR", "1< SERVER_ERROR Command disabled", ONE_SERVER),
    from("watch_connections", "1< OK", "1< SERVER_ERROR Command disabled", ONE_SERVER),
    from("watch_disabled", "< CLIENT_ERROR watch commands not allowed", DISABLED, ONE_SERVER),
];

impl RouteDifference {
    /// The transcript with what the router answers.
    fn as_routed(&self) -> Transcript {
        let text = std::fs::read_to_string(transcript::directory().join(format!("{}.txt", self.name)));
        let text = text.expect("a transcript");
        let lines = format!("\n{}", self.lines);
        let parts: Vec<&str> = text.split(&lines).collect();
        assert!(parts.len() > 1, "{}: no such lines", self.name);
        let kept = if self.rest_holds { &parts[..] } else { &[parts[0], ""] };
        let routed = kept.join(&format!("\n{}", self.instead));
        assert!(!text.starts_with(&routed), "{}: no difference", self.name);
        Transcript::parse(self.name, &routed).expect("a transcript")
    }
}

#[track_caller]
fn check(subject: ServerUnderTest) {
    let subject = subject.behind_a_router();
    let find = |t: &Transcript| DIFFERENCES.iter().find(|difference| difference.name == t.name);
    let all = transcript::all();
    assert_eq!(
        all.iter().filter(|t| find(t).is_some()).count(),
        DIFFERENCES.len(),
        "each is about a transcript"
    );
    let routed: Vec<Transcript> =
        all.into_iter().map(|t| find(&t).map_or(t, RouteDifference::as_routed)).collect();
    let verdict = judge(&subject, &routed);
    assert!(verdict.failures.is_empty(), "{} differs:\n{verdict}", subject.name);
    for RouteDifference { name, lines, instead, why, .. } in DIFFERENCES {
        println!("{name}: {lines:?} is {instead:?}: {why}");
    }
    println!("{}: {verdict}", subject.name);
}

#[test]
fn transcripts_hold_through_a_router_to_evenkeel() {
    check(ServerUnderTest::evenkeel(SocketDriver::Epoll));
}

#[test]
fn transcripts_hold_through_a_router_to_memcached() {
    check(ServerUnderTest::memcached().expect("a memcached"));
}

/// Replies that end as the transcript's do: the router's are others.
#[test]
fn the_routers_statistics_are_not_those_of_a_server() {
    let is_listed = |t: &Transcript| {
        DIFFERENCES.iter().any(|difference| difference.name == t.name && difference.instead.contains("<+"))
    };
    let listed: Vec<Transcript> = transcript::all().into_iter().filter(is_listed).collect();
    let verdict = judge(&ServerUnderTest::evenkeel(SocketDriver::Epoll).behind_a_router(), &listed);
    assert_eq!((verdict.held, verdict.failures.len()), (0, listed.len()), "{verdict}");
}
