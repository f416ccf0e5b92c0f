//! Replies to `mg`, `ms`, `md` and `ma`: a code, then the requested facts in the order of the request.

use crate::base64;
use crate::meta::{MetaCommand, MetaFlags, bit, bits, returned_by};
use crate::number::{Backward, write_u64};

/// The first word of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// `VA <len>`: the value (its bytes and a line end) follows the line.
    Value(usize),
    /// `HD`: done, or found.
    Done,
    /// `NS`: not stored.
    NotStored,
    /// `EX`: the CAS differs.
    Exists,
    /// `NF`: no such item.
    NotFound,
    /// `EN`: `mg` found nothing.
    Miss,
}

/// A key as a reply prints it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyKey<'a> {
    /// The bytes, not encoded.
    pub bytes: &'a [u8],
    /// Print it in base64, with flag `b`: the item's (or, without an item, the request's) key was received so.
    pub binary: bool,
}

/// Facts about the item of a reply. All zero if there is no item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItemFacts {
    /// The client's flags.
    pub flags: u32,
    /// Length of the value.
    pub len: usize,
    /// The CAS; 0 if nothing was stored.
    pub cas: u64,
    /// Remaining seconds before this request changed them; `None` is no expiry.
    pub ttl_before: Option<u32>,
    /// Remaining seconds now; `None` is no expiry.
    pub ttl: Option<u32>,
    /// Seconds since the last access before this one.
    pub idle: u32,
    /// Whether it was fetched before.
    pub hit_before: bool,
    /// Whether this client won the right to recache.
    pub won: bool,
    /// Whether it is marked as stale.
    pub stale: bool,
    /// Whether another client won before.
    pub token_sent: bool,
}

/// Appends the reply's line, or nothing if the request is quiet and the outcome is the usual one.
///
/// The returned flags are those of [`FLAGS`](crate::meta::FLAGS) for this command; only `O` and `k` if `mg`, `md` or
/// `ma` found no item.
#[inline]
pub fn meta_reply(
    out: &mut Vec<u8>,
    command: MetaCommand,
    code: Code,
    flags: &MetaFlags<'_>,
    key: ReplyKey<'_>,
    facts: &ItemFacts,
) {
    if flags.quiet() && silenced(command, code) {
        return;
    }
    write_code(out, code);
    let returned = returned(command, code);
    let mut ttl = facts.ttl_before;
    for word in flags.words() {
        match word[0] {
            b'O' => {
                out.push(b' ');
                out.extend_from_slice(word);
            }
            b'k' => write_key(out, key),
            letter if returned & bit(letter) == 0 => {}
            // A `t` after a change shows it; a `t` before it does not.
            b'T' | b'N' => ttl = facts.ttl,
            b't' => write_ttl(out, ttl),
            b'c' => write_fact(out, b'c', facts.cas),
            b's' => write_fact(out, b's', facts.len as u64),
            b'f' => write_fact(out, b'f', u64::from(facts.flags)),
            b'l' => write_fact(out, b'l', u64::from(facts.idle)),
            b'h' => write_fact(out, b'h', u64::from(facts.hit_before)),
            _ => {}
        }
    }
    let marks = [(facts.token_sent, b" Z"), (facts.stale, b" X"), (facts.won, b" W")];
    for (marked, mark) in marks {
        if marked {
            out.extend_from_slice(mark);
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// `q` suppresses the usual outcome: a miss of `mg`, success of the other commands.
fn silenced(command: MetaCommand, code: Code) -> bool {
    match command {
        MetaCommand::Get => code == Code::Miss,
        MetaCommand::Arithmetic => matches!(code, Code::Done | Code::Value(_)),
        MetaCommand::Set | MetaCommand::Delete => code == Code::Done,
    }
}

/// Flags whose effect shows in a `t` after them.
const TTL_CHANGES: u64 = bits(b"TN");

/// The flags that need an item, as bits; and `T` and `N`, for their effect on `t`.
#[inline]
fn returned(command: MetaCommand, code: Code) -> u64 {
    let found = matches!(code, Code::Done | Code::Value(_));
    match command {
        MetaCommand::Get if found => const { TTL_CHANGES | returned_by(MetaCommand::Get) },
        MetaCommand::Arithmetic if found => const { TTL_CHANGES | returned_by(MetaCommand::Arithmetic) },
        MetaCommand::Set => const { returned_by(MetaCommand::Set) },
        _ => 0,
    }
}

fn write_code(out: &mut Vec<u8>, code: Code) {
    let text: &[u8] = match code {
        Code::Value(len) => {
            out.extend_from_slice(b"VA ");
            return write_u64(out, len as u64);
        }
        Code::Done => b"HD",
        Code::NotStored => b"NS",
        Code::Exists => b"EX",
        Code::NotFound => b"NF",
        Code::Miss => b"EN",
    };
    out.extend_from_slice(text);
}

fn write_key(out: &mut Vec<u8>, key: ReplyKey<'_>) {
    out.extend_from_slice(b" k");
    if key.binary {
        base64::encode(out, key.bytes);
        out.extend_from_slice(b" b");
    } else {
        out.extend_from_slice(key.bytes);
    }
}

fn write_ttl(out: &mut Vec<u8>, ttl: Option<u32>) {
    match ttl {
        Some(seconds) => write_fact(out, b't', u64::from(seconds)),
        None => out.extend_from_slice(b" t-1"),
    }
}

fn write_fact(out: &mut Vec<u8>, letter: u8, number: u64) {
    let mut fact = Backward::<22>::new();
    fact.number(number);
    fact.byte(letter);
    fact.byte(b' ');
    out.extend_from_slice(fact.written());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::{Argument, COMMANDS, FLAGS, FlagRow};
    use crate::request::{Parsed, Request, parse};

    const FACTS: ItemFacts = ItemFacts {
        flags: 7,
        len: 5,
        cas: 42,
        ttl_before: None,
        ttl: Some(30),
        idle: 3,
        hit_before: true,
        won: false,
        stale: false,
        token_sent: false,
    };

    /// The reply with `code` to `request`, about [`FACTS`].
    #[track_caller]
    fn check(request: &str, code: Code, facts: ItemFacts, expected: &str) {
        let line = format!("{request}\r\n");
        let Parsed::Head { request, .. } = parse(line.as_bytes()) else { panic!("an incomplete line") };
        let (command, key, flags) = match request {
            Request::MetaGet { key, flags } => (MetaCommand::Get, key, flags),
            Request::MetaSet { key, flags, .. } => (MetaCommand::Set, key, flags),
            Request::MetaDelete { key, flags } => (MetaCommand::Delete, key, flags),
            Request::MetaArithmetic { key, flags, .. } => (MetaCommand::Arithmetic, key, flags),
            other => panic!("no meta command: {other:?}"),
        };
        let mut buffer = [0; 250];
        let key = ReplyKey { bytes: key.bytes(&mut buffer), binary: key.is_binary() };
        let mut out = Vec::new();
        meta_reply(&mut out, command, code, &flags, key, &facts);
        assert_eq!(out.escape_ascii().to_string(), expected);
    }

    #[test]
    fn facts_come_in_the_order_of_the_request() {
        check("mg foo v f k Oab c l h s", Code::Value(5), FACTS, "VA 5 f7 kfoo Oab c42 l3 h1 s5\\r\\n");
        check("mg foo s O1 k", Code::Done, FACTS, "HD s5 O1 kfoo\\r\\n");
        check("ms foo 5 c k O1 s f t", Code::Done, FACTS, "HD c42 kfoo O1 s5\\r\\n");
        check("ma foo t c k O1 s f", Code::Done, FACTS, "HD t-1 c42 kfoo O1\\r\\n");
        check("md foo t c k O1 s f", Code::Done, FACTS, "HD kfoo O1\\r\\n");
    }

    /// A reply about an item to a request with this flag alone.
    fn reply_with(row: &FlagRow, command: MetaCommand) -> String {
        let argument = if row.value.is_empty() { "" } else { "1" };
        let line = format!("mg foo {}{argument}\r\n", char::from(row.letter));
        let Parsed::Head { request: Request::MetaGet { flags, .. }, .. } = parse(line.as_bytes()) else {
            panic!("{line} is not read");
        };
        let mut out = Vec::new();
        meta_reply(&mut out, command, Code::Done, &flags, ReplyKey { bytes: b"foo", binary: false }, &FACTS);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn exactly_the_flags_that_the_table_marks_are_returned() {
        for (row, command) in FLAGS.iter().flat_map(|row| COMMANDS.map(|command| (row, command))) {
            if matches!(row.argument, Argument::KeyIsBinary) || row.letter == b'q' {
                continue; // `b` comes back with `k` only, and `q` may leave nothing to look at.
            }
            let reply = reply_with(row, command);
            let expected = format!("HD {}", char::from(row.letter));
            let is_returned = reply.starts_with(&expected) && reply.len() > "HD x\r\n".len();
            let letter = char::from(row.letter);
            assert_eq!(is_returned, row.returned.contains(&command), "{letter} with {command:?}: {reply:?}");
        }
    }

    #[test]
    fn a_ttl_depends_on_its_place_among_the_flags() {
        check("mg foo t T30", Code::Done, FACTS, "HD t-1\\r\\n");
        check("mg foo T30 t", Code::Done, FACTS, "HD t30\\r\\n");
        check("ma foo N30 t", Code::Value(2), FACTS, "VA 2 t30\\r\\n");
    }

    #[test]
    fn without_an_item_only_opaque_and_key_are_returned() {
        check("mg foo v f k Oab c t", Code::Miss, FACTS, "EN kfoo Oab\\r\\n");
        check("ma foo c t O1 k", Code::NotFound, FACTS, "NF O1 kfoo\\r\\n");
        check("md Zm9v b k", Code::NotFound, FACTS, "NF kZm9v b\\r\\n");
        check(
            "ms foo 5 c s",
            Code::NotStored,
            ItemFacts { len: 5, ..ItemFacts::default() },
            "NS c0 s5\\r\\n",
        );
    }

    #[test]
    fn quiet_suppresses_the_usual_outcome() {
        check("mg foo q", Code::Miss, FACTS, "");
        check("mg foo q", Code::Done, FACTS, "HD\\r\\n");
        check("ms foo 5 q", Code::Done, FACTS, "");
        check("ms foo 5 q", Code::Exists, FACTS, "EX\\r\\n");
        check("md foo q", Code::NotFound, FACTS, "NF\\r\\n");
        check("ma foo v q", Code::Value(1), FACTS, "");
    }

    #[test]
    fn marks_come_last() {
        check("mg foo s", Code::Done, ItemFacts { won: true, stale: true, ..FACTS }, "HD s5 X W\\r\\n");
        check(
            "mg foo s",
            Code::Done,
            ItemFacts { token_sent: true, stale: true, ..FACTS },
            "HD s5 Z X\\r\\n",
        );
    }
}
