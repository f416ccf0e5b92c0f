//! Questions to a router over its memcached port: the digest it has loaded, and its counts of requests.
//!
//! Bounded in time and length: a router on probation may answer nonsense, slowly, or without end.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::str::FromStr;
use std::time::Duration;

use fleet::TextDigest;
use fleet::probation::{LostServer, RouterCounts};
use router::md5_hex;

use crate::wire::{PeerPlace, converse};

/// Bytes of one answer: `stats count` of a router has some 10 KB.
const ANSWER_LEN_MAX: usize = 256 * 1024;
/// Bytes of the answer about all servers: some 250 for each, so 16,000 servers.
const SERVERS_LEN_MAX: usize = 4 * 1024 * 1024;

/// Outcomes of a request that a server has answered, by mcrouter's names.
const ANSWERED: [&str; 8] =
    ["deleted", "touched", "found", "notfound", "notstored", "ok", "stored", "exists"];
/// Protocols in the names of a router's connections.
const PROTOCOLS: [&str; 3] = [":ascii:", ":caret:", ":umbrella:"];
/// Failures that do not come from a server that is not reached, or does not answer.
const NOT_OF_SERVERS: [&str; 4] = ["busy", "client_error", "local_error", "deadline_exceeded_error"];

/// Why a router gave no answer that can be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RouterClientError {
    /// No connection, or it broke or timed out.
    #[error("ask the router at {address}: {source}")]
    Io {
        /// The router.
        address: String,
        /// Why not.
        source: io::Error,
    },
    /// The answer is something else.
    #[error("ask the router at {address}: it answers {found:?} instead of {accepted}")]
    Nonsense {
        /// The router.
        address: String,
        /// The beginning of the answer.
        found: String,
        /// What would have been right.
        accepted: &'static str,
    },
}

/// The servers of a router.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RouterServers {
    /// Its own names of them: one server has several if it is asked in several ways.
    pub names: BTreeSet<String>,
    /// How many outcomes of requests it has counted, by the servers' addresses.
    pub asked: BTreeMap<String, u64>,
}

/// A client for one router.
#[derive(Clone, Debug)]
pub(crate) struct RouterClient {
    place: PeerPlace,
    /// For the whole conversation.
    limit: Duration,
}

impl RouterClient {
    /// A client that waits at most `limit` for an answer.
    pub(crate) fn new(place: PeerPlace, limit: Duration) -> RouterClient {
        RouterClient { place, limit }
    }

    /// The digest of the configuration that the router has loaded.
    pub(crate) fn loaded(&self) -> Result<TextDigest, RouterClientError> {
        let answer = self.ask(b"get __mcrouter__.config_md5_digest\r\n")?;
        digest_in(&answer).ok_or_else(|| self.nonsense(&answer, "a value with an MD5"))
    }

    /// Requests that the router has answered since it started, and those that failed.
    pub(crate) fn counts(&self) -> Result<RouterCounts, RouterClientError> {
        let answer = self.ask(b"stats count\r\n")?;
        counts_in(&answer)
            .ok_or_else(|| self.nonsense(&answer, "request_replied_count and request_error_count"))
    }

    /// Servers that the router does not ask any more, by their addresses.
    pub(crate) fn suspects(&self) -> Result<Vec<String>, RouterClientError> {
        let answer = self.ask(b"stats suspect_servers\r\n")?;
        suspects_in(&answer).ok_or_else(|| self.nonsense(&answer, "lines of servers with their status"))
    }

    /// The same servers by the names of its connections, and whether they have ever answered.
    pub(crate) fn lost(&self) -> Result<Vec<LostServer>, RouterClientError> {
        let answer = self.ask_at_length(b"stats servers\r\n", SERVERS_LEN_MAX)?;
        lost_in(&answer).ok_or_else(|| self.nonsense(&answer, "lines of servers with their figures"))
    }

    /// All servers that it has, and how many outcomes of requests to each it has counted.
    pub(crate) fn servers(&self) -> Result<RouterServers, RouterClientError> {
        let answer = self.ask_at_length(b"stats servers\r\n", SERVERS_LEN_MAX)?;
        let servers = names_in(&answer).zip(asked_in(&answer));
        let servers = servers.map(|(names, asked)| RouterServers { names, asked });
        servers.ok_or_else(|| self.nonsense(&answer, "lines of servers with their figures"))
    }

    fn ask(&self, question: &[u8]) -> Result<Vec<u8>, RouterClientError> {
        self.ask_at_length(question, ANSWER_LEN_MAX)
    }

    fn ask_at_length(&self, question: &[u8], len_max: usize) -> Result<Vec<u8>, RouterClientError> {
        converse(&self.place, question, self.limit, len_max, is_whole)
            .map_err(|source| RouterClientError::Io { address: self.place.address.clone(), source })
    }

    fn nonsense(&self, answer: &[u8], accepted: &'static str) -> RouterClientError {
        let found = String::from_utf8_lossy(&answer[..answer.len().min(80)]).into_owned();
        RouterClientError::Nonsense { address: self.place.address.clone(), found, accepted }
    }
}

/// The digest that routers report of a text.
pub(crate) fn digest_of(text: &[u8]) -> TextDigest {
    md5_hex(text).parse().expect("an MD5 is a digest")
}

fn is_whole(answer: &[u8]) -> bool {
    let errors = [&b"ERROR"[..], b"SERVER_ERROR", b"CLIENT_ERROR"];
    let is_error = errors.iter().any(|error| answer.starts_with(error)) && answer.ends_with(b"\r\n");
    is_error || answer == b"END\r\n" || answer.ends_with(b"\r\nEND\r\n")
}

fn whole_lines(answer: &[u8]) -> Option<Vec<&str>> {
    let text = std::str::from_utf8(answer).ok()?.strip_suffix("END\r\n")?;
    Some(text.split_terminator("\r\n").collect())
}

fn digest_in(answer: &[u8]) -> Option<TextDigest> {
    match whole_lines(answer)?.as_slice() {
        [head, digest] if head.starts_with("VALUE __mcrouter__.config_md5_digest ") => {
            TextDigest::from_str(digest).ok()
        }
        _ => None,
    }
}

fn counts_in(answer: &[u8]) -> Option<RouterCounts> {
    let lines = whole_lines(answer)?;
    let count = |name: &str| {
        let words = lines.iter().map(|line| line.split(' ').collect::<Vec<_>>());
        words.into_iter().find_map(|words| match words.as_slice() {
            ["STAT", found, value] if *found == name => value.parse().ok(),
            _ => None,
        })
    };
    let (requests, errors) = (count("request_replied_count")?, count("request_error_count")?);
    // Not every version of mcrouter has all of them.
    let some = |name: &str| count(&format!("result_{name}_count")).unwrap_or(0);
    let others: u64 = NOT_OF_SERVERS.into_iter().map(some).sum();
    Some(RouterCounts { requests, errors, of_servers: some("error").saturating_sub(others) })
}

fn suspects_in(answer: &[u8]) -> Option<Vec<String>> {
    let suspect = |line: &str| {
        let (name, facts) = line.strip_prefix("STAT ")?.split_once(' ')?;
        Some((name.to_owned(), facts.split(' ').any(|fact| fact == "status:tko")))
    };
    let all: Option<Vec<(String, bool)>> = whole_lines(answer)?.into_iter().map(suspect).collect();
    // One that has failed and is asked again is none.
    Some(all?.into_iter().filter(|(_, is_tko)| *is_tko).map(|(name, _)| name).collect())
}

fn names_in(answer: &[u8]) -> Option<BTreeSet<String>> {
    let name = |line: &str| Some(line.strip_prefix("STAT ")?.split_once(' ')?.0.to_owned());
    whole_lines(answer)?.into_iter().map(name).collect()
}

fn asked_in(answer: &[u8]) -> Option<BTreeMap<String, u64>> {
    let mut asked = BTreeMap::new();
    for line in whole_lines(answer)? {
        let (name, figures) = line.strip_prefix("STAT ")?.split_once(' ')?;
        // `HOST:PORT:ascii:plain:notcompressed-1000`; a server has a line for each time limit.
        let Some(end) = PROTOCOLS.iter().find_map(|protocol| name.find(protocol)) else { continue };
        // What comes after the states is a count for each outcome.
        let outcomes = figures.rsplit_once(';').map_or("", |(_, outcomes)| outcomes);
        let counts = outcomes.split(' ').filter_map(|figure| figure.split_once(':')?.1.parse::<u64>().ok());
        *asked.entry(name[..end].to_owned()).or_default() += counts.sum::<u64>();
    }
    Some(asked)
}

fn lost_in(answer: &[u8]) -> Option<Vec<LostServer>> {
    let server = |line: &str| {
        let (name, figures) = line.strip_prefix("STAT ")?.split_once(' ')?;
        let is_lost = figures.contains(" hard_tko; ") || figures.contains(" soft_tko; ");
        let outcome = |figure: &str| {
            let name = figure.split_once(':').map_or("", |(name, _)| name);
            ANSWERED.contains(&name.strip_prefix("mc_res_").unwrap_or(name))
        };
        let has_answered = figures.split(' ').any(outcome);
        Some((is_lost, LostServer { name: name.to_owned(), has_answered }))
    };
    let all: Option<Vec<(bool, LostServer)>> = whole_lines(answer)?.into_iter().map(server).collect();
    Some(all?.into_iter().filter(|(is_lost, _)| *is_lost).map(|(_, server)| server).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    /// A router that answers every question with these bytes, `times` times.
    fn router(answer: &'static [u8], times: usize) -> RouterClient {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address").to_string();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let _ = stream.read(&mut [0; 100]);
            // The client may leave in the middle.
            let _ = (0..times).try_for_each(|_| stream.write_all(answer));
        });
        RouterClient::new(PeerPlace { address, tls: None }, Duration::from_secs(60))
    }

    #[test]
    fn a_router_says_what_it_has_loaded() {
        let answer =
            b"VALUE __mcrouter__.config_md5_digest 0 32\r\n0123456789abcdef0123456789abcdef\r\nEND\r\n";
        let loaded = router(answer, 1).loaded().expect("a digest");
        assert_eq!(loaded.to_string(), "0123456789abcdef0123456789abcdef");
    }

    #[test]
    fn a_router_says_its_counts() {
        let answer = b"STAT request_error_count 7\r\nSTAT request_replied_count 900\r\nEND\r\n";
        let counts = router(answer, 1).counts().expect("counts");
        assert_eq!(counts, RouterCounts { requests: 900, errors: 7, of_servers: 0 });
        let answer = b"STAT request_error_count 90\r\nSTAT request_replied_count 900\r\n\
            STAT result_error_count 90\r\nSTAT result_error_all_count 180\r\nSTAT result_busy_count 1\r\n\
            STAT result_tko_count 60\r\nSTAT result_local_error_count 20\r\nEND\r\n";
        let counts = router(answer, 1).counts().expect("counts");
        assert_eq!(counts, RouterCounts { requests: 900, errors: 90, of_servers: 69 });
    }

    #[test]
    fn a_router_says_which_servers_it_has_lost_and_whether_they_ever_answered() {
        let answer =
            b"STAT a:1:ascii:plain:notcompressed-1000 avg_latency_us:9.1 pending_reqs:0 inflight_reqs:0 \
            hard_tko;  down:1; found:3 connect_error:1 tko:1\r\n\
            STAT b:1:ascii:ssl:notcompressed-1000 avg_latency_us:0.000 pending_reqs:0 inflight_reqs:0 \
            soft_tko;  up:1; timeout:3\r\n\
            STAT c:1:ascii:plain:notcompressed-1000 avg_latency_us:9.1 pending_reqs:0 inflight_reqs:0 up:1; \
            stored:3 timeout:1\r\nEND\r\n";
        let lost = router(answer, 1).lost().expect("a list");
        let found: Vec<(&str, bool)> =
            lost.iter().map(|server| (&*server.name, server.has_answered)).collect();
        let names = ["a:1:ascii:plain:notcompressed-1000", "b:1:ascii:ssl:notcompressed-1000"];
        assert_eq!(found, [(names[0], true), (names[1], false)]);
        assert_eq!(router(b"END\r\n", 1).lost().expect("a list"), []);
        assert!(router(b"STAT x\r\nEND\r\n", 1).lost().is_err());
    }

    #[test]
    fn a_router_says_how_often_it_has_asked_each_server() {
        let answer =
            b"STAT a:1:ascii:plain:notcompressed-1000 avg_latency_us:9.1 pending_reqs:0 inflight_reqs:0 \
            hard_tko;  down:1; found:3 connect_error:1 tko:1\r\n\
            STAT a:1:ascii:plain:notcompressed-50 avg_latency_us:0 pending_reqs:0 inflight_reqs:0 up:1; found:2\r\n\
            STAT [::1]:2:ascii:ssl:notcompressed-1000 avg_latency_us:0.000 pending_reqs:0 inflight_reqs:0 new:1;\r\n\
            STAT odd pending_reqs:7\r\nEND\r\n";
        let RouterServers { names, asked } = router(answer, 1).servers().expect("a list");
        assert_eq!(asked.into_iter().collect::<Vec<_>>(), [("[::1]:2".to_owned(), 0), ("a:1".to_owned(), 7)]);
        assert!(names.len() == 4 && names.contains("a:1:ascii:plain:notcompressed-50"), "{names:?}");
        assert!(router(b"STAT x\r\nEND\r\n", 1).servers().is_err());
    }

    #[test]
    fn a_router_says_which_servers_it_does_not_ask() {
        let answer =
            b"STAT 10.0.0.1:1 status:tko num_failures:4\r\nSTAT b:1 status:down num_failures:1\r\nEND\r\n";
        assert_eq!(router(answer, 1).suspects().expect("a list"), ["10.0.0.1:1"]);
        assert!(router(b"END\r\n", 1).suspects().expect("a list").is_empty());
        assert!(router(b"STAT x\r\nEND\r\n", 1).suspects().is_err());
    }

    #[track_caller]
    fn check_nonsense(answer: &'static [u8], times: usize) {
        let error = router(answer, times).loaded().expect_err("nonsense").to_string();
        assert!(error.len() < 600, "{error}");
    }

    #[test]
    fn nonsense_is_an_error_of_bounded_length() {
        check_nonsense(b"", 1);
        check_nonsense(b"END\r\n", 1);
        check_nonsense(b"SERVER_ERROR busy\r\n", 1);
        check_nonsense(b"\xff\xfe\0", 1);
        check_nonsense(b"VALUE __mcrouter__.config_md5_digest 0 4\r\nnone\r\nEND\r\n", 1);
        check_nonsense(&[b'x'; 4096], 10_000);
    }

    #[test]
    fn a_router_that_sends_a_byte_now_and_then_does_not_keep_its_client() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address").to_string();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            // Each byte comes long before the limit of 200 ms has passed again.
            while stream.write_all(b"x").is_ok() {
                thread::park_timeout(Duration::from_millis(20));
            }
        });
        let client = RouterClient::new(PeerPlace { address, tls: None }, Duration::from_millis(200));
        let error = client.loaded().expect_err("no answer");
        assert!(matches!(error, RouterClientError::Io { .. }), "{error}");
    }
}
