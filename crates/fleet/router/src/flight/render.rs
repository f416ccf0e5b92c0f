//! Replies to derived requests, written as replies to the client's own.

use protocol::client::{Line, Parsed, parse};

use super::derive::{flags, has_flag};
use super::item::ReplyItem;
use super::reply::FlightReply;
use crate::client::{HeldOutput, ReplyBytes};
use crate::message::operation::Operation;
use crate::message::outcome::Outcome;
use crate::message::request::RoutedRequest;
use crate::servers::destination::ReplyKind;

/// The reply to a request for an item, as one to the client's `get` or `mg`.
pub(crate) fn as_asked<'a>(message: &RoutedRequest<'_>, reply: FlightReply<'a>) -> FlightReply<'a> {
    if reply.outcome.is_error() {
        return reply;
    }
    match message.operation {
        Operation::MetaGet => without_flags(message, reply),
        _ if reply.outcome == Outcome::NotFound => miss(message),
        _ => as_value(message, reply),
    }
}

/// A miss in the words of the client's request.
pub(crate) fn miss(message: &RoutedRequest<'_>) -> FlightReply<'static> {
    if message.operation != Operation::MetaGet
        || matches!(message.expected, ReplyKind::Meta { quiet: true, .. })
    {
        return FlightReply::without_server(None, message.operation, message.expected);
    }
    // A miss repeats what is known without an item.
    let mut output = HeldOutput::default();
    output.copy(b"EN");
    for word in flags(message).filter(|word| b"Okb".contains(&word[0])) {
        output.copy(b" ");
        match word[0] {
            b'k' => {
                output.copy(b"k");
                output.copy(message.client_key());
            }
            _ => output.copy(word),
        }
    }
    output.copy(b"\r\n");
    FlightReply { outcome: Outcome::NotFound, answer: ReplyBytes::Gathered(output) }
}

/// `VALUE`, the value, `END`.
fn as_value<'a>(message: &RoutedRequest<'_>, reply: FlightReply<'a>) -> FlightReply<'a> {
    let Some(item) = ReplyItem::of(&reply.answer) else { return reply };
    if matches!(item.line, Line::Value(_)) {
        return reply;
    }
    let mut output = HeldOutput::default();
    output.copy(b"VALUE ");
    output.copy(message.client_key());
    output.copy(format!(" {} {}\r\n", item.flags, item.len).as_bytes());
    item.write_body(&mut output);
    output.copy(b"END\r\n");
    FlightReply { outcome: reply.outcome, answer: ReplyBytes::Gathered(output) }
}

/// The reply to an `mg` without the flags that only the router asked for.
pub(crate) fn without_flags<'a>(message: &RoutedRequest<'_>, reply: FlightReply<'a>) -> FlightReply<'a> {
    let front = match &reply.answer {
        ReplyBytes::Copied(bytes) => bytes,
        ReplyBytes::Gathered(gathered) => gathered.front(),
    };
    let Ok(Parsed::Head { line, .. }) = parse(front) else { return reply };
    let (Line::MetaValue { flags: facts, .. } | Line::Header(facts) | Line::Miss(facts)) = line else {
        return reply;
    };
    // W, X and Z are the server's own.
    let is_wanted = |letter: u8| !matches!(letter, b'f' | b't') || has_flag(message, letter);
    if facts.words().all(|(letter, _)| is_wanted(letter)) {
        return reply;
    }
    let mut output = HeldOutput::default();
    match line {
        Line::MetaValue { len, .. } => output.copy(format!("VA {len}").as_bytes()),
        Line::Header(_) => output.copy(b"HD"),
        _ => output.copy(b"EN"),
    }
    for (letter, argument) in facts.words().filter(|(letter, _)| is_wanted(*letter)) {
        output.copy(&[b' ', letter]);
        output.copy(argument);
    }
    output.copy(b"\r\n");
    if let Some(item) = ReplyItem::of(&reply.answer) {
        item.write_body(&mut output);
    }
    FlightReply { outcome: reply.outcome, answer: ReplyBytes::Gathered(output) }
}

/// The reply to a read of a value in parts: the facts of its index without these bits of its flags, and the value.
pub(crate) fn in_parts(
    message: &RoutedRequest<'_>,
    index: &ReplyBytes<'_>,
    hidden: u64,
    (len, value): (usize, impl Iterator<Item = HeldOutput>),
) -> FlightReply<'static> {
    let front = match index {
        ReplyBytes::Copied(bytes) => bytes,
        ReplyBytes::Gathered(gathered) => gathered.front(),
    };
    let shown = |flags: u64| flags & !hidden;
    let mut output = HeldOutput::default();
    match parse(front) {
        Ok(Parsed::Head { line: Line::Value(head), .. }) => {
            output.copy(b"VALUE ");
            output.copy(message.client_key());
            output.copy(format!(" {} {len}", shown(head.flags)).as_bytes());
            if let Some(cas) = head.cas {
                output.copy(format!(" {cas}").as_bytes());
            }
        }
        Ok(Parsed::Head { line: Line::MetaValue { flags: facts, .. }, .. }) => {
            output.copy(format!("VA {len}").as_bytes());
            for (letter, argument) in facts.words() {
                match letter {
                    b'f' if !has_flag(message, b'f') => continue,
                    b'f' => {
                        let flags = facts.read().ok().and_then(|facts| facts.flags).unwrap_or(0);
                        output.copy(format!(" f{}", shown(flags)).as_bytes());
                    }
                    b's' => output.copy(format!(" s{len}").as_bytes()),
                    _ => {
                        output.copy(&[b' ', letter]);
                        output.copy(argument);
                    }
                }
            }
        }
        _ => return miss(message),
    }
    output.copy(b"\r\n");
    value.for_each(|part| output.append(part));
    output.copy(b"\r\n");
    if !message.operation.is_meta() {
        output.copy(b"END\r\n");
    }
    FlightReply { outcome: Outcome::Found, answer: ReplyBytes::Gathered(output) }
}

/// A read's reply with this CAS: that of another item, which stands for the one in the reply.
pub(crate) fn with_cas<'a>(
    message: &RoutedRequest<'_>,
    reply: FlightReply<'a>,
    cas: Option<u64>,
) -> FlightReply<'a> {
    let Some(cas) = cas.filter(|_| reply.outcome.is_hit()) else { return reply };
    let front = match &reply.answer {
        ReplyBytes::Copied(bytes) => bytes,
        ReplyBytes::Gathered(gathered) => gathered.front(),
    };
    let Ok(Parsed::Head { line, .. }) = parse(front) else { return reply };
    let mut output = HeldOutput::default();
    match line {
        Line::Value(value) => {
            output.copy(b"VALUE ");
            output.copy(message.client_key());
            output.copy(format!(" {} {} {cas}", value.flags, value.len).as_bytes());
        }
        Line::MetaValue { flags: facts, .. } | Line::Header(facts) => {
            match line.body() {
                Some(len) => output.copy(format!("VA {len}").as_bytes()),
                None => output.copy(b"HD"),
            }
            for (letter, argument) in facts.words() {
                output.copy(&[b' ', letter]);
                match letter {
                    b'c' => output.copy(cas.to_string().as_bytes()),
                    _ => output.copy(argument),
                }
            }
        }
        _ => return reply,
    }
    output.copy(b"\r\n");
    if let Some(item) = ReplyItem::of(&reply.answer) {
        item.write_body(&mut output);
    }
    if matches!(line, Line::Value(_)) {
        output.copy(b"END\r\n");
    }
    FlightReply { outcome: reply.outcome, answer: ReplyBytes::Gathered(output) }
}
