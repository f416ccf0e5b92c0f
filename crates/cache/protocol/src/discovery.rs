//! Auto-discovery: the list of a cluster's members, from the text of a file to the replies that clients of ElastiCache and
//! Memorystore read.
//!
//! The reply is the one of AWS' documentation ("Adding Auto Discovery to your client library"): a number that grows with
//! each change, a line end, the members with a space between two, a line end, and then the line end of every value. Clients
//! look for these bytes: some wait for `\n\r\nEND\r\n`, some count the lines. No file is read here.

use std::collections::HashMap;
use std::fmt::Write;
use std::net::IpAddr;
use std::sync::Arc;

use crate::binary;
use crate::reply::{line, value_head};

/// What clients ask for in `config get`, and in the binary protocol.
pub const DISCOVERY_NAME: &[u8] = b"cluster";

/// The key that clients ask for with `get` where the server says that it is older than 1.4.14.
pub const DISCOVERY_KEY: &[u8] = b"AmazonElastiCache:cluster";

/// The longest file: some 1000 members with names as long as AWS gives them. As much as one turn of a connection sends.
pub const DISCOVERY_FILE_LEN_MAX: usize = 64 * 1024;

/// Each client has a connection to each member, and ElastiCache has at most 60 in a cluster: beyond this, clients need a
/// router.
pub const DISCOVERY_MEMBERS_MAX: usize = 1000;

/// A name of DNS (RFC 1035).
const HOST_LEN_MAX: usize = 253;

/// How much of a wrong word an error shows.
const SHOWN_MAX: usize = 60;

/// What is wrong with a file of members.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiscoveryError {
    /// The file is too long.
    #[error("expected at most {DISCOVERY_FILE_LEN_MAX} bytes, found more")]
    TooLong,
    /// The last line has no end.
    #[error(
        "expected a line end behind the last line, found none: is the file complete? Write another one, and rename it"
    )]
    Unfinished,
    /// There is no revision.
    #[error("line {line}: expected the revision, a number from 1 to {}, found `{found}`", i64::MAX)]
    Revision {
        /// The line's number.
        line: usize,
        /// What stands there.
        found: String,
    },
    /// There is nothing.
    #[error("expected the revision and at least one member (host|ip|port), found {0}")]
    Missing(&'static str),
    /// A member is not one.
    #[error("line {line}: expected host|ip|port, the ip may be empty, found `{found}`: {why}")]
    Member {
        /// The line's number.
        line: usize,
        /// What stands there.
        found: String,
        /// Which part is wrong.
        why: &'static str,
    },
    /// A member stands there twice: clients would send it twice as many keys.
    #[error("line {line}: `{found}` is the member of line {earlier} once more")]
    Twice {
        /// The line's number.
        line: usize,
        /// What stands there.
        found: String,
        /// The line of the first.
        earlier: usize,
    },
    /// There are too many.
    #[error("expected at most {DISCOVERY_MEMBERS_MAX} members, found more; have clients ask routers")]
    TooMany,
    /// The revision is smaller than before.
    #[error(
        "revision {found} is older than {current}, which is in use: clients that compare would ignore it, and others would \
         follow. Raise it, also to go back to earlier members"
    )]
    Older {
        /// In use.
        current: u64,
        /// In the file.
        found: u64,
    },
    /// Other members under the same revision.
    #[error(
        "the members have changed, and the revision is still {0}: clients would not notice. Raise it with each change"
    )]
    SameRevision(u64),
}

/// A checked list of members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveryList {
    revision: u64,
    members: usize,
    /// The value of the reply.
    text: Box<[u8]>,
}

impl DiscoveryList {
    /// Reads a file: a revision, then members, separated by spaces or line ends. So a line for each member is read, and the
    /// value of the reply, too. A line that begins with `#` is a comment.
    ///
    /// # Errors
    /// The line, what was found there, and what is accepted.
    pub fn parse(file: &[u8]) -> Result<DiscoveryList, DiscoveryError> {
        if file.len() > DISCOVERY_FILE_LEN_MAX {
            return Err(DiscoveryError::TooLong);
        }
        let mut words = words(file);
        let Some((line, first)) = words.next() else { return Err(DiscoveryError::Missing("neither")) };
        let revision =
            revision(first).ok_or_else(|| DiscoveryError::Revision { line, found: shown(first) })?;
        if !file.ends_with(b"\n") {
            return Err(DiscoveryError::Unfinished);
        }
        let (mut seen, mut members, mut text) = (HashMap::new(), 0, format!("{revision}\n"));
        for (line, word) in words {
            if members == DISCOVERY_MEMBERS_MAX {
                return Err(DiscoveryError::TooMany);
            }
            let wrong = |why| DiscoveryError::Member { line, found: shown(word), why };
            let member = Member::parse(word).map_err(wrong)?;
            for address in member.addresses() {
                if let Some(earlier) = seen.insert(address, (line, members))
                    && earlier.1 != members
                {
                    return Err(DiscoveryError::Twice { line, found: shown(word), earlier: earlier.0 });
                }
            }
            let space = if members == 0 { "" } else { " " };
            write!(text, "{space}{}|{}|{}", member.host, member.ip, member.port)
                .expect("writing to a String does not fail");
            members += 1;
        }
        if members == 0 {
            return Err(DiscoveryError::Missing("no member"));
        }
        text.push('\n');
        Ok(DiscoveryList { revision, members, text: text.into_bytes().into() })
    }

    /// Whether this list may take the place of `current`.
    ///
    /// # Errors
    /// If clients would not follow, or not all of them.
    pub fn follows(&self, current: &DiscoveryList) -> Result<(), DiscoveryError> {
        if self.revision < current.revision {
            return Err(DiscoveryError::Older { current: current.revision, found: self.revision });
        }
        if self.revision == current.revision && self.text != current.text {
            return Err(DiscoveryError::SameRevision(self.revision));
        }
        Ok(())
    }

    /// Grows with each change.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// How many there are.
    pub fn members(&self) -> usize {
        self.members
    }

    /// The reply to `config get cluster`.
    pub fn config_reply(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(format!("CONFIG cluster 0 {}\r\n", self.text.len()).as_bytes());
        self.end_of_value(out);
        out.extend_from_slice(line::END);
    }

    /// The value of [`DISCOVERY_KEY`], without `END`.
    pub fn value(&self, out: &mut Vec<u8>) {
        value_head(out, DISCOVERY_KEY, 0, self.text.len(), None);
        self.end_of_value(out);
    }

    /// The reply of the binary protocol.
    pub fn packet(&self, out: &mut Vec<u8>, to: binary::ReplyTo) {
        binary::reply::value_head(out, to, b"", 0, self.text.len(), 0);
        out.extend_from_slice(&self.text);
    }

    fn end_of_value(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.text);
        out.extend_from_slice(b"\r\n");
    }
}

/// What is known of a file of members, for those who answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiscoveryState {
    /// The last good list.
    pub list: Option<Arc<DiscoveryList>>,
    /// The file is that list.
    pub is_current: bool,
    /// How often a file was refused, each content once.
    pub refusals: u64,
}

impl DiscoveryState {
    /// Statistics by name.
    pub fn statistics(&self) -> [(&'static str, u64); 4] {
        let list = self.list.as_deref();
        [
            ("evenkeel_cluster_revision", list.map_or(0, DiscoveryList::revision)),
            ("evenkeel_cluster_members", list.map_or(0, DiscoveryList::members) as u64),
            ("evenkeel_cluster_file_current", self.is_current.into()),
            ("evenkeel_cluster_file_refused", self.refusals),
        ]
    }
}

/// The words of a file with the numbers of their lines, without comments.
fn words(file: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let lines = file.split(|&byte| byte == b'\n').enumerate();
    let lines = lines.filter(|(_, line)| !line.starts_with(b"#"));
    lines.flat_map(|(index, line)| {
        let words = line.split(|&byte| matches!(byte, b' ' | b'\t' | b'\r'));
        words.filter(|word| !word.is_empty()).map(move |word| (index + 1, word))
    })
}

/// Digits only. Java's clients read 64 bits with a sign, and begin below 1.
fn revision(word: &[u8]) -> Option<u64> {
    digits(word).filter(|revision| (1..=i64::MAX as u64).contains(revision))
}

fn digits(word: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(word).ok()?;
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// The beginning of a word, which may be any bytes.
fn shown(word: &[u8]) -> String {
    let short = &word[..word.len().min(SHOWN_MAX)];
    let more = if short.len() < word.len() { "…" } else { "" };
    format!("{}{more}", short.escape_ascii())
}

/// One member.
struct Member<'f> {
    host: &'f str,
    ip: &'f str,
    port: u16,
}

impl<'f> Member<'f> {
    fn parse(word: &'f [u8]) -> Result<Member<'f>, &'static str> {
        let text = std::str::from_utf8(word).map_err(|_| "these bytes are no text")?;
        let mut parts = text.split('|');
        let (Some(host), Some(ip), Some(port), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err("it has not three parts");
        };
        if !is_host(host) {
            return Err(
                "the host is neither a name of at most 253 letters, digits, `-`, `_` and `.` nor an address",
            );
        }
        if !ip.is_empty() && ip.parse::<IpAddr>().is_err() {
            return Err("the ip is no IPv4 or IPv6 address, which has no brackets");
        }
        let port = digits(port.as_bytes()).and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0);
        Ok(Member { host, ip, port: port.ok_or("the port is no number from 1 to 65535")? })
    }

    /// Where clients connect to: some to the host, some to the ip.
    fn addresses(&self) -> impl Iterator<Item = (String, u16)> {
        let texts = [self.host, self.ip].into_iter().filter(|text| !text.is_empty());
        texts.map(|text| match text.parse::<IpAddr>() {
            Ok(ip) => (ip.to_string(), self.port),
            Err(_) => (text.trim_end_matches('.').to_ascii_lowercase(), self.port),
        })
    }
}

fn is_host(host: &str) -> bool {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let name = !host.is_empty() && host.len() <= HOST_LEN_MAX && host.bytes().all(is_name);
    name || host.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests;
