//! Questions to a router over its memcached port: the digest it has loaded, and its counts of requests.
//!
//! Bounded in time and length: a router on probation may answer nonsense, slowly, or without end.

use std::io;
use std::str::FromStr;
use std::time::Duration;

use fleet::TextDigest;
use fleet::probation::RouterCounts;
use router::md5_hex;

use crate::wire::{PeerPlace, converse};

/// Bytes of one answer: `stats count` of a router has some 10 KB.
const ANSWER_LEN_MAX: usize = 256 * 1024;

/// Why a router gave no answer that can be used.
#[derive(Debug, thiserror::Error)]
pub enum RouterClientError {
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

/// A client for one router.
#[derive(Clone, Debug)]
pub struct RouterClient {
    place: PeerPlace,
    /// For the whole conversation.
    limit: Duration,
}

impl RouterClient {
    /// A client that waits at most `limit` for an answer.
    pub fn new(place: PeerPlace, limit: Duration) -> RouterClient {
        RouterClient { place, limit }
    }

    /// The digest of the configuration that the router has loaded.
    pub fn loaded(&self) -> Result<TextDigest, RouterClientError> {
        let answer = self.ask(b"get __mcrouter__.config_md5_digest\r\n")?;
        digest_in(&answer).ok_or_else(|| self.nonsense(&answer, "a value with an MD5"))
    }

    /// Requests that the router has answered since it started, and those that failed.
    pub fn counts(&self) -> Result<RouterCounts, RouterClientError> {
        let answer = self.ask(b"stats count\r\n")?;
        counts_in(&answer)
            .ok_or_else(|| self.nonsense(&answer, "request_replied_count and request_error_count"))
    }

    /// Servers that the router does not ask any more, by their addresses.
    pub fn suspects(&self) -> Result<Vec<String>, RouterClientError> {
        let answer = self.ask(b"stats suspect_servers\r\n")?;
        suspects_in(&answer).ok_or_else(|| self.nonsense(&answer, "lines of servers with their status"))
    }

    fn ask(&self, question: &[u8]) -> Result<Vec<u8>, RouterClientError> {
        converse(&self.place, question, self.limit, ANSWER_LEN_MAX, is_whole)
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
    Some(RouterCounts { requests: count("request_replied_count")?, errors: count("request_error_count")? })
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
        assert_eq!(counts, RouterCounts { requests: 900, errors: 7 });
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
