//! Requests that comparisons leave out, for all servers or for some versions of memcached, with the reasons.
//! Generators of requests refer to this table. Accepted differences in output are declared where outputs are
//! compared (`dev/end_to_end/tests/differential/differences.rs`); docs/serve/compatibility.md is the list
//! for users.

/// A version as printed by `memcached -V`.
pub(crate) type Version = (u32, u32, u32);

/// The memcached whose behaviour is followed.
pub(crate) const FOLLOWED: Version = (1, 6, 45);

/// A kind of request, or a feature of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    BlankValue,
    BinaryProtocol,
    Passing,
    LateOpaque,
    PastTime,
    MadeInBase64,
    LongNumber,
    TooLongKey,
    Unsettled,
    RefusedStore,
    LineEnd,
    LargeTime,
    SetCas,
    DropValue,
    StoredLength,
    QuietCount,
    GatLine,
    LargeFlags,
    OddNumber,
    UnknownNoreply,
    Space,
    DeleteWords,
    AppendMakes,
    Base64Facts,
    WrongWord,
}

/// A kind of request that is not compared.
pub(crate) struct Unwritten {
    pub(crate) what: What,
    /// Description of the requests.
    pub(crate) requests: &'static str,
    /// The first memcached version that answers as Evenkeel does; `None`: no version.
    pub(crate) same_since: Option<Version>,
    pub(crate) reason: &'static str,
}

const fn never(what: What, requests: &'static str, reason: &'static str) -> Unwritten {
    Unwritten { what, requests, same_since: None, reason }
}

/// Compared with 1.6.45, and not with 1.6.18.
const fn newer(what: What, requests: &'static str, reason: &'static str) -> Unwritten {
    Unwritten { what, requests, same_since: Some(FOLLOWED), reason }
}

pub(crate) const UNWRITTEN: &[Unwritten] = &[
    never(What::BlankValue, "incr of a value of only white space", "memcached reads beyond the value"),
    never(
        What::BinaryProtocol,
        "the byte 0x80 first",
        "it begins a packet: conversations of packets are compared for themselves",
    ),
    never(
        What::Passing,
        "stats, dumps, watch, shutdown",
        "they depend on time, on memory, or on other connections",
    ),
    never(
        What::LateOpaque,
        "overlong opaques with mg, ms and ma",
        "memcached reports them after it has counted, made an item or found a value too large",
    ),
    never(
        What::PastTime,
        "ma with times that have passed",
        "memcached counts such an item's time below zero",
    ),
    never(
        What::MadeInBase64,
        "what makes an item under a key in base64, or a new one of an item with such a key, but for storing it: mg, ma, \
         append, prepend, numbers that get longer",
        "memcached does not keep the mark",
    ),
    never(
        What::LongNumber,
        "incr of a value of 32 to 512 KiB that begins with a number",
        "memcached counts in it, here it is no number",
    ),
    never(
        What::TooLongKey,
        "get, touch and the meta commands with a key of 251 bytes",
        "memcached's answer has an empty line too much since 1.6.45",
    ),
    never(
        What::Unsettled,
        "incr, decr and ma right behind a reply with the same item",
        "memcached counts in place unless the item is on its way to a client: `mn` before it waits for that",
    ),
    newer(
        What::RefusedStore,
        "stores that are refused for their line, or damaged",
        "1.6.18 takes the value for commands",
    ),
    newer(
        What::LineEnd,
        "lines whose end is damaged",
        "two requests become one, which may be a refused store",
    ),
    newer(What::LargeTime, "times such as 4000000000", "1.6.18 takes them"),
    newer(What::SetCas, "the flag E", "1.6.18 does not know it"),
    newer(What::DropValue, "the flag x of md", "1.6.18 does not know it"),
    newer(What::StoredLength, "the flag s of ms", "1.6.18 returns nothing for it"),
    newer(What::QuietCount, "the flag q of ma", "1.6.18 answers all the same when it has made the counter"),
    newer(What::GatLine, "gat without a key, or damaged", "1.6.18 answers END where 1.6.45 sees an error"),
    newer(What::LargeFlags, "client flags beyond 32 bits with ms", "1.6.18 takes them"),
    newer(
        What::OddNumber,
        "incr, decr and touch with odd numbers, or damaged",
        "1.6.18 reads signs and white space",
    ),
    newer(What::UnknownNoreply, "what is damaged and has noreply", "1.6.18 answers all the same"),
    newer(
        What::Space,
        "white space before a request, and the bytes 0, \\r and \\n within one",
        "1.6.18 takes lines with them that 1.6.45 refuses",
    ),
    newer(What::DeleteWords, "delete and lru, damaged", "1.6.18 refuses words that 1.6.45 does not look at"),
    newer(What::AppendMakes, "the flag N of ms", "1.6.18 does not make the item"),
    newer(
        What::Base64Facts,
        "me with a key in base64",
        "1.6.18 prints the facts of the decoded key, where 1.6.45 finds none",
    ),
    newer(
        What::WrongWord,
        "the words of errors",
        "1.6.18 says ERROR, or another CLIENT_ERROR: that there is one is compared",
    ),
];

/// The server for which requests are generated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) Version);

impl Peer {
    /// Whether it answers this as Evenkeel does.
    pub(crate) fn agrees_on(self, what: What) -> bool {
        let entry = UNWRITTEN.iter().find(|entry| entry.what == what).expect("every kind is in the table");
        entry.same_since.is_some_and(|since| self.0 >= since)
    }

    /// Kinds that are compared with newer versions only.
    pub(crate) fn left_out(self) -> impl Iterator<Item = &'static Unwritten> {
        UNWRITTEN.iter().filter(move |entry| entry.same_since.is_some() && !self.agrees_on(entry.what))
    }
}

#[test]
fn every_kind_is_declared_once_and_the_one_that_is_followed_leaves_out_none() {
    for (place, entry) in UNWRITTEN.iter().enumerate() {
        assert!(UNWRITTEN[..place].iter().all(|other| other.what != entry.what), "{:?}", entry.what);
        assert!(!entry.requests.is_empty() && !entry.reason.is_empty(), "{:?}", entry.what);
    }
    assert_eq!(Peer(FOLLOWED).left_out().count(), 0);
    assert!(Peer((1, 6, 18)).left_out().any(|entry| entry.what == What::SetCas));
    assert!(!Peer(FOLLOWED).agrees_on(What::Passing));
}
