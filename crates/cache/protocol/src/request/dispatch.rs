//! The command of a line: recognised by the short cuts, otherwise by the words.

use memchr::memchr;

use super::types::{ArithmeticMode, Get, Parsed, Refused, Request, SetMode, Verb};
use super::{admin, classic, fast, meta_command, stats};
use crate::limits::LINE_LEN_MIN;
use crate::reply::line;
use crate::words::Sentence;

/// Parses the head at the start of `input`. Never panics, for any bytes.
#[inline]
pub fn parse(input: &[u8]) -> Parsed<'_> {
    // Every arm returns its request directly: a common value would be copied once more.
    match input.first_chunk::<4>() {
        Some(b"get ") => {
            if let Some((keys, consumed)) = fast::keys(input, 4) {
                let get = Get { with_cas: false, exptime: None, keys };
                return Parsed::Head { request: Request::Get(get), consumed };
            }
        }
        Some(b"gets") => {
            if let Some((keys, consumed)) = fast::keys_after(input, b"gets ") {
                let get = Get { with_cas: true, exptime: None, keys };
                return Parsed::Head { request: Request::Get(get), consumed };
            }
        }
        Some(b"set ") => {
            if let Some((store, consumed)) = fast::store(input, 4, Verb::Set) {
                return Parsed::Head { request: Request::Store(store), consumed };
            }
        }
        Some(b"add ") => {
            if let Some((store, consumed)) = fast::store(input, 4, Verb::Add) {
                return Parsed::Head { request: Request::Store(store), consumed };
            }
        }
        Some([b'm', b'g', b' ', _]) => {
            if let Some((key, flags, consumed)) = fast::meta(input, 3) {
                return Parsed::Head { request: Request::MetaGet { key, flags }, consumed };
            }
        }
        Some([b'm', b's', b' ', _]) => {
            if let Some((key, len, flags, consumed)) = fast::meta_set(input, 3)
                && let Some(mode) = SetMode::of_flag(flags.mode)
            {
                return Parsed::Head { request: Request::MetaSet { key, flags, len, mode }, consumed };
            }
        }
        Some([b'm', b'd', b' ', _]) => {
            if let Some((key, flags, consumed)) = fast::meta(input, 3) {
                return Parsed::Head { request: Request::MetaDelete { key, flags }, consumed };
            }
        }
        Some([b'm', b'a', b' ', _]) => {
            if let Some((key, flags, consumed)) = fast::meta(input, 3)
                && let Some(mode) = ArithmeticMode::of_flag(flags.mode)
            {
                return Parsed::Head { request: Request::MetaArithmetic { key, flags, mode }, consumed };
            }
        }
        Some(b"mn\r\n") => return Parsed::Head { request: Request::MetaNoop, consumed: 4 },
        _ => {}
    }
    parse_less_frequent(input)
}

/// The short cuts of less frequent commands, kept out of [`parse`] because that is inlined into the server's loop.
#[inline(never)]
fn parse_less_frequent(input: &[u8]) -> Parsed<'_> {
    match input.first_chunk::<4>() {
        Some(b"incr") => {
            if let Some((key, delta, noreply, consumed)) = fast::key_and_number(input, b"incr ") {
                let mode = ArithmeticMode::Increment;
                return Parsed::Head { request: Request::Arithmetic { mode, key, delta, noreply }, consumed };
            }
        }
        Some(b"dele") => {
            if let Some((key, noreply, consumed)) = fast::key(input, b"delete ") {
                return Parsed::Head { request: Request::Delete { key, noreply }, consumed };
            }
        }
        _ => {}
    }
    parse_any(input)
}

/// [`parse`] without the short cuts.
#[inline(never)]
pub(crate) fn parse_any(input: &[u8]) -> Parsed<'_> {
    let Some(newline) = memchr(b'\n', input) else {
        return Parsed::Incomplete;
    };
    let consumed = newline + 1;
    let line = match &input[..newline] {
        [line @ .., b'\r'] => line,
        line => line,
    };
    if consumed < LINE_LEN_MIN {
        return Parsed::Head { request: Request::Refused(Refused::line(line::BAD_FORMAT)), consumed };
    }
    let request = judge(line).unwrap_or_else(Request::Refused);
    Parsed::Head { request, consumed }
}

/// Finds the command. Only an administrative one may have spaces before it.
fn judge(line: &[u8]) -> Result<Request<'_>, Refused> {
    let command = &line[..memchr(b' ', line).unwrap_or(line.len())];
    match command {
        b"mg" | b"ms" | b"md" | b"ma" | b"me" => meta_command::parse(command[1], line),
        b"mn" => Ok(Request::MetaNoop),
        b"get" => classic::get(line, false),
        b"gets" => classic::get(line, true),
        b"gat" => classic::gat(line, false),
        b"gats" => classic::gat(line, true),
        b"set" => classic::store(line, Verb::Set),
        b"add" => classic::store(line, Verb::Add),
        b"replace" => classic::store(line, Verb::Replace),
        b"append" => classic::store(line, Verb::Append),
        b"prepend" => classic::store(line, Verb::Prepend),
        b"cas" => classic::store(line, Verb::Cas(0)),
        b"delete" => classic::delete(line),
        b"incr" => classic::arithmetic(line, ArithmeticMode::Increment),
        b"decr" => classic::arithmetic(line, ArithmeticMode::Decrement),
        b"touch" => classic::touch(line),
        b"quit" => Ok(Request::Quit),
        b"version" => Ok(Request::Version),
        b"stats" => Ok(stats::parse(line)),
        b"watch" => Ok(admin::watch(&Sentence::of_line(line))),
        _ => admin::parse(&Sentence::of_line(line)),
    }
}
