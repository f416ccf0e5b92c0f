//! Properties of the client's side for any bytes: replies from a hostile server, and request lines read back as a
//! server does.

use std::fmt::Write;

use crate::base64;
use crate::client::command::{self, Reply, ValueAttributes};
use crate::client::{Flag, Framer, Line, Opaque, Parsed, Piece, ReturnFlags, parse};
use crate::key::Key;
use crate::limits::{REPLY_BODY_LEN_MAX, REPLY_LINE_LEN_MAX};
use crate::meta::MetaFlags;
use crate::request::{self, ArithmeticMode, Get, Request, SetMode, Store, Verb};

/// Checks all properties of a reply stream. Its first two bytes choose where it is cut.
pub fn check_replies(input: &[u8]) {
    let Some((&[first, second], stream)) = input.split_first_chunk::<2>() else { return };
    check_head(stream);
    let whole = frame(&[stream]);
    let mut cuts = [first, second].map(|cut| usize::from(cut) % (stream.len() + 1));
    cuts.sort_unstable();
    let parts = [&stream[..cuts[0]], &stream[cuts[0]..cuts[1]], &stream[cuts[1]..]];
    assert_eq!(frame(&parts), whole, "cut at {cuts:?}");
    let small: Vec<&[u8]> = stream.chunks(usize::from(first % 7) + 1).collect();
    assert_eq!(frame(&small), whole, "in small pieces");
}

/// A head is a line, does not depend on what follows it, and is the same after it is written and parsed again.
fn check_head(input: &[u8]) {
    let newline = input.iter().position(|&byte| byte == b'\n');
    match parse(input) {
        Ok(Parsed::Incomplete) => {
            assert!(
                newline.is_none() && input.len() < REPLY_LINE_LEN_MAX,
                "a whole line is never incomplete"
            );
        }
        Err(broken) => {
            assert!(newline.is_some() || input.len() >= REPLY_LINE_LEN_MAX, "half a line is not refused");
            assert!(broken.to_string().len() < 500, "a sentence for people");
        }
        Ok(Parsed::Head { line, consumed, body }) => {
            assert_eq!(newline, Some(consumed - 1), "a head is a line");
            assert!(consumed <= REPLY_LINE_LEN_MAX && body.is_none_or(|len| len <= REPLY_BODY_LEN_MAX));
            assert_eq!(body, line.body());
            for len in super::prefixes(consumed) {
                assert_eq!(parse(&input[..len]), Ok(Parsed::Incomplete), "half a line is incomplete");
            }
            assert_eq!(parse(&input[..consumed]), parse(input), "what follows does not matter");
            let mut again = Vec::new();
            line.write(&mut again);
            assert!(line.to_string().len() < 500, "a word for people");
            match parse(&again) {
                // Longer by a carriage return, or by the space before a missing value.
                Err(_) if again.len() > REPLY_LINE_LEN_MAX => assert!(again.len() <= consumed + 2),
                Ok(Parsed::Head { line: second, .. }) => assert_eq!(second, line),
                other => panic!("{line:?} is written as something else: {other:?}"),
            }
            if let Some(flags) = flags(&line) {
                let _ = flags.read();
            }
        }
    }
}

fn flags<'a>(line: &Line<'a>) -> Option<ReturnFlags<'a>> {
    match *line {
        Line::MetaValue { flags, .. }
        | Line::Header(flags)
        | Line::Miss(flags)
        | Line::MetaNotStored(flags)
        | Line::MetaExists(flags)
        | Line::MetaNotFound(flags) => Some(flags),
        _ => None,
    }
}

/// The result of framing a stream: its lines and its end, and all bytes that a proxy may forward.
///
/// How much of a body is handed out before a wrong line end depends on the cut; nothing else may.
fn frame(parts: &[&[u8]]) -> (String, Vec<u8>) {
    let mut framer = Framer::default();
    let (mut seen, mut forwarded) = (String::new(), Vec::new());
    // The start of the body that has not ended yet.
    let mut body_at = None;
    for part in parts {
        let mut input = *part;
        loop {
            let before = input.len();
            match framer.next(&mut input) {
                Ok(Some(Piece::Line { line, raw })) => {
                    let _ = writeln!(seen, "{line:?}");
                    forwarded.extend_from_slice(raw);
                }
                Ok(Some(Piece::Body { bytes, end })) => {
                    body_at.get_or_insert(forwarded.len());
                    forwarded.extend_from_slice(bytes);
                    if end {
                        forwarded.extend_from_slice(b"\r\n");
                        body_at = None;
                    }
                }
                Ok(None) => break,
                Err(broken) => {
                    let _ = writeln!(seen, "broken: {}", broken.accepted);
                    forwarded.truncate(body_at.unwrap_or(forwarded.len()));
                    return (seen, forwarded);
                }
            }
            assert!(input.len() < before, "each piece takes something");
        }
        assert!(input.is_empty(), "nothing is left over");
    }
    (seen, forwarded)
}

/// Writes a request that the bytes describe, and reads it as a server does: the request must be the same.
pub fn check_requests(input: &[u8]) {
    let mut bytes = Bytes(input);
    let command = bytes.byte();
    let raw = bytes.some(255).to_vec();
    let Ok(key) = Key::new(&raw) else { return };
    let reply = if bytes.coin() { Reply::Wanted } else { Reply::Unwanted };
    let noreply = reply == Reply::Unwanted;
    let mut out = Vec::new();
    match command % 9 {
        0 => {
            let keys = vec![key; usize::from(bytes.byte() % 5) + 1];
            let with_cas = noreply;
            match with_cas {
                true => command::gets(&mut out, keys.iter().copied()),
                false => command::get(&mut out, keys.iter().copied()),
            }
            let Request::Get(get) = read(&out) else { panic!("no get: {}", out.escape_ascii()) };
            let Get { with_cas: read_cas, exptime, keys: read } = get;
            assert_eq!((read_cas, exptime), (with_cas, None));
            assert_eq!(read.collect::<Result<Vec<_>, _>>(), Ok(keys));
        }
        1 => {
            let verb = match bytes.byte() % 6 {
                0 => Verb::Add,
                1 => Verb::Replace,
                2 => Verb::Append,
                3 => Verb::Prepend,
                4 => Verb::Cas(bytes.number()),
                _ => Verb::Set,
            };
            let (flags, exptime) = (bytes.number() as u32, bytes.number() as i32);
            let len = (bytes.number() as usize) % (REPLY_BODY_LEN_MAX + 1);
            command::store(&mut out, verb, key, ValueAttributes { flags, exptime, len }, reply);
            assert_eq!(read(&out), Request::Store(Store { verb, key, flags, exptime, len, noreply }));
        }
        2 => {
            command::delete(&mut out, key, reply);
            assert_eq!(read(&out), Request::Delete { key, noreply });
        }
        3 => {
            let mode = bytes.arithmetic();
            let delta = bytes.number();
            command::arithmetic(&mut out, mode, key, delta, reply);
            assert_eq!(read(&out), Request::Arithmetic { mode, key, delta, noreply });
        }
        4 => {
            let exptime = bytes.number() as i32;
            command::touch(&mut out, key, exptime, reply);
            assert_eq!(read(&out), Request::Touch { key, exptime, noreply });
        }
        _ => check_meta(command % 9, &raw, &mut bytes, &mut out),
    }
    assert_eq!(out.iter().filter(|&&byte| byte == b'\n').count(), 1, "a request is a line");
}

fn check_meta(command: u8, raw: &[u8], bytes: &mut Bytes<'_>, out: &mut Vec<u8>) {
    let is_binary = bytes.coin();
    let key = |out: &mut Vec<u8>| match is_binary {
        true => base64::encode(out, raw),
        false => out.extend_from_slice(raw),
    };
    let opaque = bytes.some(40);
    let mut flags = bytes.flags(is_binary, Opaque::new(opaque));
    let len = (bytes.number() as usize) % (REPLY_BODY_LEN_MAX + 1);
    let (set_mode, arithmetic_mode) = (SetMode::Append, bytes.arithmetic());
    match command {
        5 => {
            command::meta_get(out, key, &flags);
            let mut each = Vec::new();
            command::meta_get_each(&mut each, [key; 3], &flags);
            assert_eq!(each, out.repeat(3), "a line for each key");
        }
        6 => {
            flags.push(Flag::SetMode(set_mode));
            command::meta_set(out, key, len, &flags);
        }
        7 => command::meta_delete(out, key, &flags),
        _ => {
            flags.push(Flag::ArithmeticMode(arithmetic_mode));
            command::meta_arithmetic(out, key, &flags);
        }
    }
    let request = read(out);
    let (read_key, read_flags) = match request {
        Request::MetaGet { key, flags } if command == 5 => (key, flags),
        Request::MetaSet { key, flags, len: read, mode }
            if command == 6 && (read, mode) == (len, set_mode) =>
        {
            (key, flags)
        }
        Request::MetaDelete { key, flags } if command == 7 => (key, flags),
        Request::MetaArithmetic { key, flags, mode } if command == 8 && mode == arithmetic_mode => {
            (key, flags)
        }
        // Encoded in base64, a key may be too long.
        Request::Refused(_) if is_binary && raw.len() > 186 => return,
        other => panic!("{} is read as {other:?}", out.escape_ascii()),
    };
    assert_eq!((read_key.bytes(&mut [0; 250]), read_key.is_binary()), (raw, is_binary));
    flags.iter().for_each(|flag| check_flag(flag, &read_flags));
    assert_eq!(read_flags.words().count(), flags.len());
}

/// Checks that the server reads the flag as it was written.
fn check_flag(flag: &Flag<'_>, read: &MetaFlags<'_>) {
    let is_read = match *flag {
        Flag::Binary => read.has(b'b'),
        Flag::Cas => read.has(b'c'),
        Flag::ClientFlags => read.has(b'f'),
        Flag::HitBefore => read.has(b'h'),
        Flag::Key => read.has(b'k'),
        Flag::Idle => read.has(b'l'),
        Flag::Quiet => read.quiet(),
        Flag::Size => read.has(b's'),
        Flag::Ttl => read.has(b't'),
        Flag::NoBump => read.no_bump(),
        Flag::Value => read.value(),
        Flag::DropValue => read.drop_value(),
        Flag::Invalidate => read.invalidate(),
        Flag::Opaque(opaque) => read.opaque().is_some_and(|word| word[1..] == *opaque.as_bytes()),
        Flag::CompareCas(cas) => read.compare_cas() == Some(cas),
        Flag::NewCas(cas) => read.new_cas() == Some(cas),
        Flag::SetClientFlags(flags) => read.client_flags() == flags,
        Flag::Exptime(exptime) => read.exptime() == Some(exptime),
        Flag::Vivify(exptime) => read.vivify() == Some(exptime),
        Flag::Recache(exptime) => read.recache() == Some(exptime),
        Flag::Initial(number) => read.initial() == number,
        Flag::Delta(number) => read.delta() == number,
        // The request has these in fields of its own.
        Flag::SetMode(_) | Flag::ArithmeticMode(_) => read.has(b'M'),
    };
    assert!(is_read, "{flag:?} is read as {read:?}");
}

/// Parses a line that must be complete.
#[track_caller]
fn read(line: &[u8]) -> Request<'_> {
    match request::parse(line) {
        request::Parsed::Head { request, consumed } => {
            assert_eq!(consumed, line.len(), "of {}", line.escape_ascii());
            request
        }
        request::Parsed::Incomplete => panic!("no whole line: {}", line.escape_ascii()),
    }
}

/// Decisions, each taken from the next bytes; zero when none are left.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn byte(&mut self) -> u8 {
        let (&first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        first
    }

    fn coin(&mut self) -> bool {
        self.byte() & 1 == 0
    }

    /// As many bytes as the next byte tells, but at most `most`.
    fn some(&mut self, most: usize) -> &'a [u8] {
        let len = usize::from(self.byte()).min(most).min(self.0.len());
        let (some, rest) = self.0.split_at(len);
        self.0 = rest;
        some
    }

    /// A number of any length in bits.
    fn number(&mut self) -> u64 {
        let bits = self.byte() % 65;
        let number = u64::from_be_bytes([(); 8].map(|()| self.byte()));
        number.checked_shr(64 - u32::from(bits)).unwrap_or(0)
    }

    fn arithmetic(&mut self) -> ArithmeticMode {
        if self.coin() { ArithmeticMode::Increment } else { ArithmeticMode::Decrement }
    }

    /// Each flag at most once, and at most as many as fit a line.
    fn flags(&mut self, is_binary: bool, opaque: Option<Opaque<'a>>) -> Vec<Flag<'a>> {
        let any = [
            Flag::Cas,
            Flag::ClientFlags,
            Flag::HitBefore,
            Flag::Key,
            Flag::Idle,
            Flag::Quiet,
            Flag::Size,
            Flag::Ttl,
            Flag::NoBump,
            Flag::Value,
            Flag::DropValue,
            Flag::Invalidate,
            Flag::CompareCas(self.number()),
            Flag::NewCas(self.number()),
            Flag::SetClientFlags(self.number() as u32),
            Flag::Exptime(self.number() as i32),
            Flag::Vivify(self.number() as i32),
            Flag::Recache(self.number() as i32),
            Flag::Initial(self.number()),
            Flag::Delta(self.number()),
        ];
        let wanted = u32::from_be_bytes([(); 4].map(|()| self.byte()));
        let chosen =
            any.into_iter().enumerate().filter(|(at, _)| wanted >> at & 1 == 1).map(|(_, flag)| flag);
        let own = is_binary.then_some(Flag::Binary).into_iter().chain(opaque.map(Flag::Opaque));
        // The command, the key, a length and a mode are words, too.
        own.chain(chosen).take(crate::limits::META_WORDS_MAX - 4).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{ErrorKind, Value};
    use crate::fuzz::tests::damaged;
    use crate::reply::{
        Code, ItemFacts, MetaCommand, ReplyKey, dump, line, meta_reply, number_line, value_head,
    };
    use stdx::prng::Prng;

    /// One reply of every kind, as a base for damaged ones.
    const REPLIES: &[&str] = &[
        "VALUE key 1 5 77\r\nhello\r\n",
        "VALUE k 0 0\r\n\r\nEND\r\n",
        "VA 5 kfoo Oab c42 f7 t-1 l3 h1 s5 W X Z\r\nhello\r\n",
        "VA 2\r\n\r\n\r\nMN\r\n",
        "HD t30 c18446744073709551615 b\r\n",
        "EN O1\r\n",
        "NS\r\nNF kx\r\nEX c1\r\n",
        "STORED\r\nNOT_STORED\r\nEXISTS\r\nNOT_FOUND\r\n",
        "DELETED\r\nTOUCHED\r\nOK\r\nRESET\r\nEND\r\n",
        "18446744073709551615\r\n0\r\n",
        "VERSION 1.6.45\r\n",
        "STAT pid 17\r\nSTAT version 1.6.45\r\nEND\r\n",
        "ME key exp=-1 la=9 cas=4 fetch=no cls=1 size=65\r\n",
        "BUSY currently processing crawler request\r\n",
        "ERROR\r\nCLIENT_ERROR bad data chunk\r\nSERVER_ERROR out of memory storing object\r\n",
        "ERROR Too many open connections\r\n",
    ];

    #[test]
    fn damaged_replies_are_the_same_wherever_they_are_cut() {
        let mut prng = Prng::new(11211);
        for round in 0..30_000 {
            let first = REPLIES[round % REPLIES.len()];
            let second = REPLIES[prng.below(REPLIES.len() as u64) as usize];
            let stream = damaged(&mut prng, [first, second].concat().into_bytes());
            let cuts = [prng.below(256) as u8, prng.below(256) as u8];
            check_replies(&[&cuts, &stream[..]].concat());
        }
    }

    #[test]
    fn lines_without_an_end_keep_the_properties() {
        let mut prng = Prng::new(3);
        for _ in 0..500 {
            let reply = REPLIES[prng.below(REPLIES.len() as u64) as usize].as_bytes();
            let at = prng.below(reply.len() as u64) as usize;
            let byte = reply[at];
            let mut stream = reply.to_vec();
            stream.splice(at..at, vec![byte; 1500 + prng.below(1000) as usize]).for_each(drop);
            let cuts = [prng.below(256) as u8, prng.below(256) as u8];
            check_replies(&[&cuts, &stream[..]].concat());
        }
    }

    #[test]
    fn the_longest_line_may_be_written_longer() {
        for (start, end) in [("x", "\n"), ("STAT x", "\n"), ("ME x", "\n"), ("STAT x", "\r\n")] {
            let line = format!("{start}{}{end}", "x".repeat(REPLY_LINE_LEN_MAX - start.len() - end.len()));
            check_replies(&[b"ab", line.as_bytes()].concat());
        }
    }

    #[test]
    fn the_client_reads_what_the_server_writes() {
        let mut prng = Prng::new(5);
        let number = |prng: &mut Prng| prng.below(u64::MAX) >> prng.below(64);
        for _ in 0..5_000 {
            let key = vec![b'a' + prng.below(26) as u8; 1 + prng.below(250) as usize];
            let (flags, len) = (number(&mut prng) as u32, prng.below(REPLY_BODY_LEN_MAX as u64) as usize);
            let cas = (prng.below(2) == 0).then(|| number(&mut prng));
            let mut out = Vec::new();
            value_head(&mut out, &key, flags, len, cas);
            check_line(&out, Line::Value(Value { key: &key, flags: u64::from(flags), len, cas }));
            out.clear();
            let count = number(&mut prng);
            number_line(&mut out, count);
            check_line(&out, Line::Number(count));
            check_facts(&key, number(&mut prng), &mut prng);
            out.clear();
            let facts = dump::DumpFacts { cas: count, ..dump::DumpFacts::default() };
            dump::debug_line(&mut out, ReplyKey { bytes: &key, binary: false }, &facts);
            let Ok(Parsed::Head { line: Line::Debug { key: read, facts }, .. }) = parse(&out) else {
                panic!("ME")
            };
            assert_eq!(read, key);
            assert!(facts.split(|&byte| byte == b' ').any(|pair| pair == format!("cas={count}").as_bytes()));
        }
    }

    /// The facts of an item, as `mg` returns them.
    fn check_facts(key: &[u8], number: u64, prng: &mut Prng) {
        let request = format!("mg {} v f k Oab c l h s t\r\n", key.escape_ascii());
        let Request::MetaGet { flags, .. } = read(request.as_bytes()) else { panic!("mg") };
        let facts = ItemFacts {
            flags: number as u32,
            len: number as usize % REPLY_BODY_LEN_MAX,
            cas: number,
            ttl_before: (prng.below(2) == 0).then_some(number as u32),
            ttl: None,
            idle: number as u32,
            hit_before: number.is_multiple_of(2),
            won: number.is_multiple_of(3),
            stale: number.is_multiple_of(5),
            token_sent: number.is_multiple_of(7),
        };
        let mut out = Vec::new();
        let key = ReplyKey { bytes: key, binary: prng.below(2) == 0 };
        meta_reply(&mut out, MetaCommand::Get, Code::Value(facts.len), &flags, key, &facts);
        let Ok(Parsed::Head { line: Line::MetaValue { len, flags }, .. }) = parse(&out) else { panic!("VA") };
        let read = flags.read().expect("facts");
        assert_eq!((len, read.size), (facts.len, Some(facts.len as u64)));
        assert_eq!((read.flags, read.cas), (Some(u64::from(facts.flags)), Some(facts.cas)));
        assert_eq!((read.idle_s, read.hit_before), (Some(u64::from(facts.idle)), Some(facts.hit_before)));
        assert_eq!((read.won, read.stale, read.token_sent), (facts.won, facts.stale, facts.token_sent));
        assert_eq!((read.opaque, read.is_binary), (Some(&b"ab"[..]), key.binary));
        let ttl = facts
            .ttl_before
            .map_or(crate::client::Ttl::Forever, |ttl| crate::client::Ttl::Seconds(ttl.into()));
        assert_eq!(read.ttl, Some(ttl));
        let mut written = Vec::new();
        match key.binary {
            true => base64::encode(&mut written, key.bytes),
            false => written.extend_from_slice(key.bytes),
        }
        assert_eq!(read.key, Some(&written[..]));
    }

    #[track_caller]
    fn check_line(bytes: &[u8], expected: Line<'_>) {
        assert_eq!(
            parse(bytes),
            Ok(Parsed::Head { line: expected, consumed: bytes.len(), body: expected.body() })
        );
        let mut again = Vec::new();
        expected.write(&mut again);
        assert_eq!(again, bytes);
    }

    #[test]
    fn the_client_reads_the_fixed_lines_of_the_server() {
        let known = [
            (line::STORED, Line::Stored),
            (line::NOT_STORED, Line::NotStored),
            (line::EXISTS, Line::Exists),
            (line::NOT_FOUND, Line::NotFound),
            (line::DELETED, Line::Deleted),
            (line::TOUCHED, Line::Touched),
            (line::OK, Line::Ok),
            (line::RESET, Line::Reset),
            (line::END, Line::End),
            (line::META_NOOP, Line::Noop),
            (line::CRAWLER_RUNNING, Line::Busy(b"currently processing crawler request")),
            (line::ERROR, Line::Error { kind: ErrorKind::Error, line: b"ERROR" }),
        ];
        for (bytes, expected) in known {
            check_line(bytes, expected);
        }
    }

    #[test]
    fn written_requests_are_read_as_the_same_requests() {
        let mut prng = Prng::new(7);
        for _ in 0..40_000 {
            let mut bytes: Vec<u8> = (0..prng.below(400)).map(|_| prng.below(256) as u8).collect();
            // Mostly a valid key: few random bytes are one.
            if prng.below(8) > 0 && bytes.len() > 2 {
                let len = usize::from(bytes[1]).min(bytes.len() - 2);
                bytes[2..2 + len].iter_mut().for_each(|byte| *byte = b'!' + *byte % 94);
            }
            check_requests(&bytes);
        }
    }

    #[test]
    fn a_key_named_noreply_is_a_key() {
        for command in 0..9 {
            for reply in 0..2 {
                check_requests(&[&[command, 7][..], b"noreply", &[reply]].concat());
            }
        }
    }
}
