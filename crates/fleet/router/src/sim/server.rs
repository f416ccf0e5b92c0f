//! Any bytes of a server: a client gets the reply to each request or an error, in their order, wherever the bytes are cut.

use protocol::client::{Line, Parsed, ReturnFlags, parse};

use super::cut;
use super::hosts::{Scene, Speaker};
use crate::config::json;

const CONFIG: &[u8] = br#"{"pools": {"A": {"servers": ["a:1"]}}, "route": "PoolRoute|A"}"#;

/// A reply that a client accepts.
enum Awaited {
    /// Values of some of these keys, in this order.
    Values(&'static [&'static [u8]]),
    /// One line, with or without a value, of the meta protocol if it says so, with this opaque.
    Meta(Option<&'static [u8]>),
    /// One line.
    Classic,
    /// Nothing, or a line of the meta protocol.
    Quiet(&'static [u8]),
    Noop,
}

/// Requests, and what is accepted. A quiet one is the last but `mn`: nobody could say whose an error would be.
const ASKED: [(&str, Awaited); 16] = [
    ("get a\r\n", Awaited::Values(&[b"a"])),
    ("get b c d b\r\n", Awaited::Values(&[b"b", b"c", b"d", b"b"])),
    ("gets e\r\n", Awaited::Values(&[b"e"])),
    ("get /././f\r\n", Awaited::Values(&[b"/././f"])),
    ("set g 0 0 3\r\nxyz\r\n", Awaited::Classic),
    ("cas h 0 0 1 5\r\nx\r\n", Awaited::Classic),
    ("delete i\r\n", Awaited::Classic),
    ("incr j 1\r\n", Awaited::Classic),
    ("touch k 9\r\n", Awaited::Classic),
    ("mg l v t f c O11\r\n", Awaited::Meta(Some(b"11"))),
    ("mg /././m v k\r\n", Awaited::Meta(None)),
    ("ms n 2\r\nxy\r\n", Awaited::Meta(None)),
    ("ma o v\r\n", Awaited::Meta(None)),
    ("get p\r\n", Awaited::Values(&[b"p"])),
    ("ma q q v O12\r\n", Awaited::Quiet(b"12")),
    ("mn\r\n", Awaited::Noop),
];

/// Checks that a client gets its replies in the order of its requests, each of them or an error, whatever its server sends
/// and wherever that is cut; panics if it does not.
///
/// The first byte of `input` says how many cuts there are; two bytes for each cut follow, and then what the server sends.
///
/// # Panics
/// If the property does not hold.
pub fn check_server(input: &[u8]) {
    let Some((sent, pieces)) = cut(input) else { return };
    let (whole, cut) = (heard(&[sent]), heard(&pieces));
    assert!(whole == cut, "cut:\n  {}\nwhole:\n  {}", cut.escape_ascii(), whole.escape_ascii());
}

/// What the client receives if the server sends these pieces.
fn heard(pieces: &[&[u8]]) -> Vec<u8> {
    let config = json::parse(0, CONFIG).expect("JSON");
    let mut scene = Scene::new(&config, Speaker::server(pieces)).expect("a plan");
    // A client may ask for more at once once it has had short replies.
    scene.send(&[&b"mn\r\n".repeat(16)]);
    scene.heard_by_client();
    let asked: String = ASKED.iter().map(|(request, _)| *request).collect();
    scene.send(&[asked.as_bytes()]);
    scene.let_server_speak();
    scene.wait(20_000);
    let (received, is_closed) = scene.heard_by_client();
    assert!(!is_closed, "the client is connected");
    check_replies(&received).unwrap_or_else(|error| panic!("{error}: {}", received.escape_ascii()));
    received
}

fn check_replies(received: &[u8]) -> Result<(), String> {
    let mut rest = received;
    for (request, awaited) in &ASKED {
        take(awaited, &mut rest).map_err(|error| format!("{error} for {request:?}"))?;
    }
    if rest.is_empty() { Ok(()) } else { Err(format!("{} bytes too many", rest.len())) }
}

/// Takes a line, and the value behind it.
fn take_line<'r>(rest: &mut &'r [u8]) -> Result<Line<'r>, String> {
    let before: &'r [u8] = rest;
    let Ok(Parsed::Head { line, consumed, .. }) = parse(before) else { return Err("no reply".to_owned()) };
    let whole = consumed + line.body().map_or(0, |len| len + 2);
    let body = before.get(consumed..whole).ok_or("half a value")?;
    if !body.is_empty() && !body.ends_with(b"\r\n") {
        return Err("a value without its end".to_owned());
    }
    *rest = &before[whole..];
    Ok(line)
}

/// Takes the reply to a request.
fn take(awaited: &Awaited, rest: &mut &[u8]) -> Result<(), String> {
    match awaited {
        Awaited::Values(keys) => {
            let (mut left, mut has_values) = (keys.iter(), false);
            loop {
                match take_line(rest)? {
                    Line::Value(value) if left.any(|key| *key == value.key) => has_values = true,
                    Line::End => return Ok(()),
                    Line::Error { .. } if !has_values => return Ok(()),
                    other => return Err(format!("{other:?}")),
                }
            }
        }
        Awaited::Classic => match take_line(rest)? {
            Line::Value(_) | Line::End | Line::Noop | Line::Header(_) | Line::Miss(_) => {
                Err("another kind".to_owned())
            }
            _ => Ok(()),
        },
        Awaited::Meta(opaque) => check_meta(take_line(rest)?, *opaque),
        Awaited::Quiet(opaque) => {
            if rest.starts_with(b"MN\r\n") {
                return Ok(());
            }
            check_meta(take_line(rest)?, Some(opaque))
        }
        Awaited::Noop => match take_line(rest)? {
            Line::Noop => Ok(()),
            other => Err(format!("{other:?}")),
        },
    }
}

fn check_meta(line: Line<'_>, opaque: Option<&[u8]>) -> Result<(), String> {
    let flags = match line {
        Line::MetaValue { flags, .. }
        | Line::Header(flags)
        | Line::Miss(flags)
        | Line::MetaNotStored(flags)
        | Line::MetaExists(flags)
        | Line::MetaNotFound(flags) => flags,
        Line::Error { .. } => return Ok(()),
        other => return Err(format!("{other:?}")),
    };
    let found = opaque_of(flags);
    // Some servers repeat none with a miss.
    if found == opaque || found.is_none() { Ok(()) } else { Err(format!("the opaque {found:?}")) }
}

fn opaque_of<'l>(flags: ReturnFlags<'l>) -> Option<&'l [u8]> {
    flags.words().find(|(letter, _)| *letter == b'O').map(|(_, opaque)| opaque)
}
