//! Properties that hold for any bytes: checked here with a fixed seed, and by `dev/fuzz/` without end.

mod client;
mod packets;

pub use client::{check_replies, check_requests};
pub use packets::check_packets;

use crate::auth::{self, Login};
use crate::key::{KeyRun, Step};
use crate::limits::KEY_LEN_MAX;
use crate::meta::{MetaFlags, MetaKey};
use crate::reply::{Code, ItemFacts, MetaCommand, ReplyKey, meta_reply};
use crate::request::{Get, Parsed, Request, parse, parse_any, unfinished};

/// Checks all properties for `input`; panics if one does not hold.
pub fn check(input: &[u8]) {
    let parsed = parse(input);
    assert_eq!(debug(parsed), debug(parse_any(input)), "the short cuts and the word parser agree");
    unfinished(input);
    check_login(input);
    let Parsed::Head { request, consumed } = parsed else {
        assert!(!input.contains(&b'\n'), "a whole line is never incomplete");
        return;
    };
    assert_eq!(input.iter().position(|&byte| byte == b'\n'), Some(consumed - 1), "a head is a line");
    for len in prefixes(consumed) {
        assert_eq!(parse(&input[..len]), Parsed::Incomplete, "half a line is incomplete");
    }
    assert_eq!(debug(parse(&input[..consumed])), debug(parsed), "what follows a line does not matter");
    match request {
        Request::Get(get) if get.exptime.is_none() => check_keys(&get, &input[..consumed]),
        Request::MetaGet { key, flags } => check_meta(MetaCommand::Get, key, &flags),
        Request::MetaSet { key, flags, .. } => check_meta(MetaCommand::Set, key, &flags),
        Request::MetaDelete { key, flags } => check_meta(MetaCommand::Delete, key, &flags),
        Request::MetaArithmetic { key, flags, .. } => check_meta(MetaCommand::Arithmetic, key, &flags),
        _ => {}
    }
}

/// A login consumes at most the whole input.
fn check_login(input: &[u8]) {
    if let Login::Refused { consumed, .. } | Login::Attempt { consumed, .. } = auth::parse(input) {
        assert!(consumed <= input.len(), "nothing is consumed before it is there");
    }
}

/// NaN is not equal to itself, but its text is.
fn debug(parsed: Parsed<'_>) -> String {
    format!("{parsed:?}")
}

/// All lengths below `len` if they are few, otherwise the first and the last of them.
fn prefixes(len: usize) -> impl Iterator<Item = usize> {
    (0..len).filter(move |&prefix| prefix < 64 || len - prefix < 64)
}

/// The keys of a line are the same whether it is whole or arrives byte by byte.
fn check_keys(get: &Get<'_>, line: &[u8]) {
    let whole: Result<Vec<_>, _> = get.keys.collect();
    let (mut run, mut at) = KeyRun::start(line).expect("a get may be a run");
    let mut end = at;
    let mut keys = Vec::new();
    let outcome = loop {
        match run.step(&line[at..end]) {
            Step::Key { key, consumed } => {
                keys.push(key);
                at += consumed;
            }
            Step::More { consumed } => {
                at += consumed;
                assert!(end - at <= KEY_LEN_MAX + 1, "at most a key is held back");
                end += 1;
            }
            Step::End { outcome, consumed } => {
                assert_eq!(at + consumed, line.len(), "a run ends with its line");
                break outcome;
            }
        }
    };
    assert_eq!(run.with_cas(), get.with_cas);
    match whole {
        Ok(whole) => assert_eq!((keys, outcome), (whole, Ok(()))),
        Err(error) => assert_eq!(outcome, Err(error.reply())),
    }
}

/// A key of a meta command is not empty, and any reply to it is one line.
fn check_meta(command: MetaCommand, key: MetaKey<'_>, flags: &MetaFlags<'_>) {
    let mut buffer = [0; KEY_LEN_MAX];
    let bytes = key.bytes(&mut buffer);
    assert!((1..=KEY_LEN_MAX).contains(&bytes.len()), "a key is neither empty nor too long");
    let codes = [Code::Value(1), Code::Done, Code::NotStored, Code::Exists, Code::NotFound, Code::Miss];
    for code in codes {
        let mut out = Vec::new();
        let reply_key = ReplyKey { bytes, binary: key.is_binary() };
        meta_reply(&mut out, command, code, flags, reply_key, &ItemFacts::default());
        assert!(
            out.is_empty() || out.iter().filter(|&&byte| byte == b'\n').count() == 1,
            "a reply is a line"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::FLAGS;
    use stdx::prng::Prng;

    /// One line of every command, as a base for damaged ones.
    const REQUESTS: &[&str] = &[
        "get a",
        "gets a b  c",
        "gat 10 a b",
        "gats -1 a",
        "set key 1 2 3",
        "add k 0 0 0 noreply",
        "replace k 0 -1 5",
        "append k 4294967295 0 5",
        "prepend k 0 0 5",
        "cas k 1 2 3 4 noreply",
        "delete k 0 noreply",
        "incr k 18446744073709551615",
        "decr k 1 noreply",
        "touch k 100",
        "flush_all 10 noreply",
        "version",
        "verbosity 1",
        "quit",
        "shutdown graceful",
        "stats cachedump 1 10",
        "stats detail on",
        "watch fetchers evictions",
        "cache_memlimit 64 noreply",
        "lru_crawler metadump 1,2,3",
        "lru_crawler crawl all",
        "slabs automove ratio 0.5",
        "slabs reassign 1 2",
        "lru tune 10 20 0.2 2.0",
        "lru temp_ttl 5",
        "extstore max_frag 0.8",
        "extstore write_rate 11.6",
        "refresh_certs",
        "mn",
        "mg foo v f c k t s h l q u O123 T30 N10 R5 E7 C9",
        "mg Zm9v b k v",
        "ms foo 5 F9 T0 ME I C1 E2 k c s Oq",
        "md foo q I T3 x",
        "ma foo N0 J5 D2 MD v t c",
        "me Zm9v b x",
        "GET / HTTP/1.1",
    ];

    /// Bytes with a meaning in the protocol, so that they occur more often than by chance.
    const SPECIAL: &[u8] = b"  \r\n\0\t-+09=kvbTOMq\xff\x80noreplyHTTP/";

    pub(super) fn damaged(prng: &mut Prng, mut line: Vec<u8>) -> Vec<u8> {
        for _ in 0..prng.below(4) {
            let at = prng.below(line.len() as u64 + 1) as usize;
            let byte = if prng.below(3) == 0 {
                prng.below(256) as u8
            } else {
                SPECIAL[prng.below(SPECIAL.len() as u64) as usize]
            };
            match prng.below(5) {
                0 if at < line.len() => drop(line.remove(at)),
                1 if at < line.len() => line[at] = byte,
                2 => line.splice(at..at, vec![byte; prng.below(300) as usize]).for_each(drop),
                3 => line.extend_from_within(at..),
                _ => line.insert(at, byte),
            }
        }
        line
    }

    /// One line for each meta flag, next to another flag.
    fn with_each_flag() -> impl Iterator<Item = String> {
        FLAGS.iter().map(|row| {
            let argument = if row.value.is_empty() { "" } else { "2" };
            format!("mg Zm9v v {}{argument}", char::from(row.letter))
        })
    }

    #[test]
    fn damaged_requests_keep_the_properties() {
        let mut prng = Prng::new(11211);
        let requests: Vec<String> =
            REQUESTS.iter().map(|&request| request.to_owned()).chain(with_each_flag()).collect();
        for round in 0..60_000 {
            let request = requests[round % requests.len()].as_bytes().to_vec();
            let ending: &[u8] = if prng.below(4) == 0 { b"\n" } else { b"\r\nvalue\r\n" };
            let line = damaged(&mut prng, [&request, ending].concat());
            check(&line);
        }
    }

    #[test]
    fn random_bytes_keep_the_properties() {
        let mut prng = Prng::new(1);
        for _ in 0..20_000 {
            let len = prng.below(80);
            let line: Vec<u8> = (0..len)
                .map(|_| match prng.below(2) {
                    0 => prng.below(256) as u8,
                    _ => SPECIAL[prng.below(SPECIAL.len() as u64) as usize],
                })
                .collect();
            check(&line);
        }
    }
}
