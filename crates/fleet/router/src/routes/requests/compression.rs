//! Pools with compression: what its servers are sent, and what of their replies the client gets.
//!
//! ```text
//! set k        set k, with the bit and a shorter value ─► the server's answer
//! get k        get k      ─ the bit ─► the value, without the bit      ─ damaged ─► a miss
//! mg k v       mg k v f   ─ the same
//! mg k s       mg k s v f ─ the size of the value
//! ```

use std::sync::Arc;

use protocol::client::{Line, Parsed, parse};
use protocol::request::SetMode;

use crate::client::{HeldOutput, ReplyBytes};
use crate::flight::derive::{has_flag, stored_by, value_of, with_flags, with_value};
use crate::flight::item::{ReplyItem, flags_of};
use crate::flight::render::miss;
use crate::flight::reply::FlightReply;
use crate::message::operation::Operation;
use crate::message::outcome::Outcome;
use crate::message::request::{RequestBody, RoutedRequest, StoredRequest};
use crate::routes::route::{Decision, FirstStep, Opening, Route, Scene};
use crate::servers::compression::{Compression, Compressor};

/// A longer value is held by the reply, not copied into it: what the network's buffers take together with a line.
const HELD_MIN: usize = 12 * 1024;

const NO_CONCATENATION: &str = "append and prepend are not there in a pool with compression";

/// The only child, which is a server, with compressed values.
#[derive(Clone, Debug)]
pub(crate) struct Compressed(pub(crate) Arc<Compression>);

impl Route for Compressed {
    type Progress = ();

    fn name(&self) -> Option<&'static str> {
        Some("compression")
    }

    fn begin(&self, opening: &mut Opening<'_>) -> FirstStep<()> {
        match way(&self.0, opening.compressor, &opening.message) {
            Way::Plain => FirstStep::Pass(0, None),
            Way::Refused(why) => FirstStep::Answer(FlightReply::error(Outcome::ClientError, &why)),
            Way::Changed(derived) => FirstStep::Pass(0, Some(derived)),
            Way::Watched(derived) => FirstStep::Ask((), 0, derived),
        }
    }

    fn replied<'a>(&self, (): &mut (), scene: &mut Scene<'_>, reply: FlightReply<'a>) -> Decision<'a> {
        Decision::Done(plain(&self.0, scene.compressor, &scene.message, reply))
    }
}

/// What becomes of a request.
enum Way {
    /// The server gets it as it is, and the client its reply.
    Plain,
    /// Neither: this error.
    Refused(String),
    /// The server gets this one, and the client its reply.
    Changed(StoredRequest),
    /// The server gets this one, or the request as it is; its reply is looked at.
    Watched(Option<StoredRequest>),
}

fn way(compression: &Compression, compressor: &mut Compressor, message: &RoutedRequest<'_>) -> Way {
    use Operation::{Add, Append, Cas, Gat, Gats, Get, Gets, MetaGet, MetaSet, Prepend, Replace, Set};
    match message.operation {
        Get | Gets | Gat | Gats => Way::Watched(None),
        MetaGet => match (has_flag(message, b'v'), has_flag(message, b's'), has_flag(message, b'f')) {
            (true, ..) => Way::Watched(with_flags(message, b"f")),
            // Only the value says how long it is.
            (_, true, _) => Way::Watched(with_flags(message, b"vf")),
            (.., true) => Way::Watched(None),
            _ => Way::Plain,
        },
        Append | Prepend | MetaSet(SetMode::Append | SetMode::Prepend) => {
            Way::Refused(NO_CONCATENATION.to_owned())
        }
        Set | Add | Replace | Cas | MetaSet(_) => stored(compression, compressor, message),
        _ => Way::Plain,
    }
}

fn stored(compression: &Compression, compressor: &mut Compressor, message: &RoutedRequest<'_>) -> Way {
    // What cannot be understood is refused by the server.
    let Some(stored) = stored_by(message) else { return Way::Plain };
    if stored.flags & compression.flag != 0 {
        let bit = compression.flag.trailing_zeros();
        return Way::Refused(format!("bit {bit} of the flags is reserved for compression in this pool"));
    }
    let packed = value_of(message).and_then(|value| compressor.pack(compression, value));
    let Some(packed) = packed else { return Way::Plain };
    let changed = with_value(message, stored.flags | compression.flag, packed);
    match message.operation.is_meta() && has_flag(message, b's') {
        true => Way::Watched(Some(changed)),
        false => Way::Changed(changed),
    }
}

/// A server's reply as the client gets it.
fn plain<'a>(
    compression: &Compression,
    compressor: &mut Compressor,
    message: &RoutedRequest<'_>,
    reply: FlightReply<'a>,
) -> FlightReply<'a> {
    if let Operation::MetaSet(_) = message.operation {
        let len = value_of(message).map(<[u8]>::len);
        return shown(message, reply, compression.flag, (len, None));
    }
    if !reply.outcome.is_hit() {
        return reply;
    }
    let is_packed = flags_of(&reply.answer).is_some_and(|flags| flags & compression.flag != 0);
    let is_meta = message.operation.is_meta();
    if !is_packed && (!is_meta || (has_flag(message, b'v') && has_flag(message, b'f'))) {
        return reply;
    }
    let Some(item) = ReplyItem::of(&reply.answer) else {
        return shown(message, reply, compression.flag, (None, None));
    };
    let wants_value = !is_meta || has_flag(message, b'v');
    let (len, value) = if is_packed {
        let stored = match item.body {
            RequestBody::Bytes(bytes) => &bytes[..item.len],
            RequestBody::HeldValue(held) => held,
            RequestBody::None | RequestBody::Held(_) => &[],
        };
        let Some(value) = compressor.unpack(compression, stored) else { return miss(message) };
        (value.len(), wants_value.then(|| held(value)))
    } else {
        (item.len, wants_value.then(|| item.to_value()))
    };
    shown(message, reply, compression.flag, (Some(len), value))
}

fn held(value: &[u8]) -> HeldOutput {
    let mut output = HeldOutput::default();
    match value.len() < HELD_MIN {
        true => output.copy(value),
        false => output.hold(Arc::from(value)),
    }
    output
}

/// The reply with what the client has asked for: the flags without the bit, this size, this value.
fn shown<'a>(
    message: &RoutedRequest<'_>,
    reply: FlightReply<'a>,
    bit: u64,
    (len, value): (Option<usize>, Option<HeldOutput>),
) -> FlightReply<'a> {
    let front = match &reply.answer {
        ReplyBytes::Copied(bytes) => bytes,
        ReplyBytes::Gathered(gathered) => gathered.front(),
    };
    let Ok(Parsed::Head { line, .. }) = parse(front) else { return reply };
    let mut output = HeldOutput::default();
    match (line, len) {
        (Line::Value(head), Some(len)) => {
            output.copy(b"VALUE ");
            output.copy(message.client_key());
            output.copy(format!(" {} {len}", head.flags & !bit).as_bytes());
            if let Some(cas) = head.cas {
                output.copy(format!(" {cas}").as_bytes());
            }
        }
        (Line::MetaValue { flags: facts, .. } | Line::Header(facts), _) => {
            match (&value, len) {
                (Some(_), Some(len)) => output.copy(format!("VA {len}").as_bytes()),
                _ => output.copy(b"HD"),
            }
            for (letter, argument) in facts.words() {
                match (letter, len) {
                    (b'f', _) if !has_flag(message, b'f') => {}
                    (b'f', _) => {
                        let flags = facts.read().ok().and_then(|facts| facts.flags).unwrap_or(0);
                        output.copy(format!(" f{}", flags & !bit).as_bytes());
                    }
                    (b's', Some(len)) => output.copy(format!(" s{len}").as_bytes()),
                    _ => {
                        output.copy(&[b' ', letter]);
                        output.copy(argument);
                    }
                }
            }
        }
        _ => return reply,
    }
    output.copy(b"\r\n");
    if let Some(value) = value {
        output.append(value);
        output.copy(b"\r\n");
    }
    if matches!(line, Line::Value(_)) {
        output.copy(b"END\r\n");
    }
    FlightReply { outcome: reply.outcome, answer: ReplyBytes::Gathered(output) }
}
