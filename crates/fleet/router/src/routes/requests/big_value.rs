//! BigValueRoute: long values are kept in parts, under keys of their own, and the key itself has an index.
//!
//! ```text
//! get k      k ─ "1-3-987" ─► k:0:987, k:1:987, k:2:987 ─ all hits ─► answer
//! set k      k:0:987, k:1:987, k:2:987 ─ all stored ─► k = "1-3-987" ─► answer
//! ```
//!
//! The number at the end is a hash of the value: parts of two values of a key do not mix.

use std::sync::Arc;

use protocol::request::SetMode;

use crate::client::{HeldOutput, ReplyBytes, VALUE_MAX};
use crate::config::error::ConfigError;
use crate::config::json::Json;
use crate::flight::derive::{
    StoredItem, flags, has_flag, is_binary, store, stored_by, value_of, with_flags, with_key, with_value,
};
use crate::flight::item::{ReplyItem, flags_of, in_one_piece};
use crate::flight::render::{in_parts, miss, without_flags};
use crate::flight::reply::FlightReply;
use crate::message::operation::Operation;
use crate::message::operation::OperationClass;
use crate::message::outcome::Outcome;
use crate::message::request::{RequestBody, RoutedRequest, StoredRequest};
use crate::plan::NodeId;
use crate::plan::hash::spooky32;
use crate::plan::plain_route::PlainRoute;
use crate::routes::form::{AddRoute, Fields, RouteDefinition, RouteForm};
use crate::routes::route::{Decision, FirstStep, KeptReply, Numbers, Opening, Orders, Route, Scene};
use crate::servers::destination::ReplyKind;

/// mcrouter's mark of an item whose value is an index of parts, among the client's flags.
const BIG_FLAG: u64 = 0x8000;

/// Parts of a value. An index that names more is a miss: anybody can write one.
const PARTS_MAX: u16 = 10_000;

/// Parts that are asked for at a time, whatever the configuration says: a tenth of what may wait at a server.
const AT_ONCE_MAX: u16 = 1000;

/// Bytes of parts that are asked for at a time: half of what a server may leave unread.
const BATCH_BYTES_MAX: u64 = 2 << 20;

/// The answer at the limit of values that are put together or written.
const TOO_MANY_VALUES: &str = "too many big values at a time";

/// What a part that was read takes besides its bytes: parts may be empty.
pub(crate) const PART_SIZE: usize = size_of::<(u16, HeldOutput)>();

/// Which values are kept in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BigValue {
    /// Longer ones, in bytes: the length of parts. At least 1.
    pub threshold: u64,
    /// Parts that are asked for at a time; 0 for as many as possible.
    pub batch: u16,
    /// Clients do not see the mark of such a value among its flags.
    pub hides_flag: bool,
}

/// What a BigValueRoute knows of a value.
pub(crate) struct Partial {
    stage: BigValueStage,
    parts: Option<Box<BigParts>>,
    /// The reply with the index of a value that is read.
    index: KeptReply,
}

/// The reply that a BigValueRoute waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BigValueStage {
    /// To a read: a value, or where its parts are.
    Index,
    /// To reads of parts.
    Read,
    /// To sets of parts.
    Write,
    /// To the set of the index.
    Written,
}

/// The parts of a value, while they are read or written.
#[derive(Default)]
struct BigParts {
    count: u16,
    /// In the keys of the parts.
    suffix: u64,
    /// The next one to ask for.
    next: u16,
    /// Those that were read, with their numbers. It grows with them, and not with what an index says.
    read: Vec<(u16, HeldOutput)>,
    /// Bytes of their values.
    len: usize,
    /// What is taken of the limit of values that are put together.
    charged: usize,
    /// The worst reply to a part that was not what was wanted.
    failed: KeptReply,
}

impl Partial {
    fn new(stage: BigValueStage, parts: Option<Box<BigParts>>) -> Partial {
        Partial { stage, parts, index: KeptReply::default() }
    }
}

/// The child, for values in parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InParts(BigValue);

impl Route for InParts {
    type Progress = Partial;

    fn name(&self) -> Option<&'static str> {
        Some("big-value")
    }

    fn begin(&self, opening: &mut Opening<'_>) -> FirstStep<Partial> {
        let message = &opening.message;
        let Some(stage) = self.0.first(message) else { return FirstStep::Pass(0, None) };
        if stage == BigValueStage::Index {
            let request =
                if message.operation == Operation::MetaGet { with_flags(message, b"f") } else { None };
            return FirstStep::Ask(Partial::new(stage, None), 0, request);
        }
        let parts = self.0.parts(message).expect("a value that is written in parts has some");
        if !opening.assembled.take(parts.charged) {
            return FirstStep::Answer(FlightReply::error(Outcome::LocalError, TOO_MANY_VALUES));
        }
        let numbers = Numbers::Range(0..parts.next);
        FirstStep::AskAll(Partial::new(stage, Some(parts)), numbers)
    }

    fn replied<'a>(
        &self,
        partial: &mut Partial,
        scene: &mut Scene<'_>,
        reply: FlightReply<'a>,
    ) -> Decision<'a> {
        let reply = in_one_piece(reply);
        match partial.stage {
            BigValueStage::Index => partial.read_index(&self.0, scene, reply),
            BigValueStage::Read => partial.read_reply(&self.0, scene, reply),
            BigValueStage::Write => partial.write_reply(&self.0, scene, reply),
            BigValueStage::Written => Decision::Done(reply),
        }
    }

    /// One of the parts that are written.
    fn request(
        &self,
        message: &RoutedRequest<'_>,
        partial: Option<&Partial>,
        number: u16,
    ) -> Option<StoredRequest> {
        self.0.set_part(message, partial?.parts.as_deref()?, number)
    }

    fn charged(partial: &Partial) -> usize {
        partial.parts.as_ref().map_or(0, |parts| parts.charged)
    }

    /// Parts are bounded by the value: what is counted is how often each of them is asked for.
    fn fan_out(&self, children: &[NodeId], of: &dyn Fn(&NodeId) -> u32) -> u32 {
        of(&children[0])
    }
}

impl BigValue {
    /// What is done with a request: the first reply that is waited for. `None` if the child gets it as it is.
    fn first(&self, message: &RoutedRequest<'_>) -> Option<BigValueStage> {
        use Operation::{Add, Cas, Gat, Gats, Get, Gets, MetaGet, MetaSet, Replace, Set};
        match message.operation {
            Get | Gets | Gat | Gats => Some(BigValueStage::Index),
            MetaGet if has_flag(message, b'v') => Some(BigValueStage::Index),
            Set | Add | Replace | Cas | MetaSet(SetMode::Set | SetMode::Add | SetMode::Replace) => {
                let count = self.count(message)?;
                // The last key is the longest, and the longest suffix the same for all.
                let fits = part_of(message, count - 1, u64::from(u32::MAX)).is_some();
                fits.then_some(BigValueStage::Write)
            }
            _ => None,
        }
    }

    /// The parts of a request's value, if it is long, and no longer than may be read again.
    fn count(&self, message: &RoutedRequest<'_>) -> Option<u16> {
        let len = value_of(message)?.len() as u64;
        let count = if len > self.threshold { len.div_ceil(self.threshold) } else { return None };
        u16::try_from(count).ok().filter(|count| *count <= PARTS_MAX)
    }

    /// The parts of a request's value, of which the first are written now.
    fn parts(&self, message: &RoutedRequest<'_>) -> Option<Box<BigParts>> {
        let count = self.count(message)?;
        let value = value_of(message)?;
        // Parts of the same value that were written with another threshold have other keys: they would not fit together.
        let (suffix, charged) = (u64::from(spooky32(value, self.threshold as u32)), value.len());
        Some(Box::new(BigParts { count, suffix, charged, next: self.at_once(count), ..BigParts::default() }))
    }

    /// Parts that are asked for at a time.
    fn at_once(&self, count: u16) -> u16 {
        let of_bytes = u16::try_from(BATCH_BYTES_MAX / self.threshold).unwrap_or(u16::MAX).max(1);
        let batch = if self.batch == 0 { AT_ONCE_MAX } else { self.batch };
        count.min(batch).min(of_bytes).min(AT_ONCE_MAX)
    }

    fn set_part(&self, message: &RoutedRequest<'_>, parts: &BigParts, number: u16) -> Option<StoredRequest> {
        let (value, stored) = (value_of(message)?, stored_by(message)?);
        let threshold = self.threshold as usize;
        let start = usize::from(number) * threshold;
        let part: Arc<[u8]> = value[start..value.len().min(start + threshold)].into();
        let key = part_of(message, number, parts.suffix)?;
        let (len, body) = (part.len(), RequestBody::HeldValue(&part));
        Some(store(&key.message(), &StoredItem { len, body, ..stored }))
    }
}

/// The request with the key of a part, and without its value; `None` if that key is too long.
fn part_of(message: &RoutedRequest<'_>, number: u16, suffix: u64) -> Option<StoredRequest> {
    let mut out = StoredRequest::default();
    let message = RoutedRequest { body: RequestBody::None, ..*message };
    let changed = with_key(&message, &mut out, |key, _| {
        Some([key.full, format!(":{number}:{suffix}").as_bytes()].concat())
    });
    changed.is_ok().then_some(out)
}

/// A read of a part. A `gat` touches the parts, too.
fn read_part(message: &RoutedRequest<'_>, parts: &BigParts, number: u16) -> Option<StoredRequest> {
    let key = part_of(message, number, parts.suffix)?;
    let message = key.message();
    let mut out = StoredRequest::default();
    if message.operation == Operation::MetaGet {
        let mut after = if is_binary(&message) { b" b v".to_vec() } else { b" v".to_vec() };
        for word in flags(&message).filter(|word| word[0] == b'T') {
            after.push(b' ');
            after.extend_from_slice(word);
        }
        let expected = ReplyKind::Meta { strip: true, quiet: false };
        out.store(&RoutedRequest { expected, opaque: b"", after: &after, ..message });
        return Some(out);
    }
    let gat;
    let (operation, before): (_, &[u8]) = match (message.operation, message.before.strip_prefix(b"gats")) {
        (Operation::Gats, Some(rest)) => {
            gat = [b"gat", rest].concat();
            (Operation::Gat, &gat)
        }
        (Operation::Gets, _) => (Operation::Get, b"get "),
        (operation, _) => (operation, message.before),
    };
    out.store(&RoutedRequest { operation, before, ..message });
    Some(out)
}

impl Partial {
    fn read_index<'a>(&mut self, big: &BigValue, scene: &Scene<'_>, reply: FlightReply<'a>) -> Decision<'a> {
        let message = &scene.message;
        let is_big =
            reply.outcome.is_hit() && flags_of(&reply.answer).is_some_and(|flags| flags & BIG_FLAG != 0);
        if !is_big {
            return Decision::Done(match message.operation {
                Operation::MetaGet => without_flags(message, reply),
                _ => reply,
            });
        }
        let Some((count, suffix)) = parse_index(&reply.answer) else { return Decision::Done(miss(message)) };
        let at_once = big.at_once(count);
        let parts = BigParts { count, suffix, next: at_once, ..BigParts::default() };
        let asks: Option<Vec<_>> =
            (0..at_once).map(|number| Some((number, Some(read_part(message, &parts, number)?)))).collect();
        let Some(asks) = asks else { return Decision::Done(miss(message)) };
        self.index.keep(reply);
        self.parts = Some(Box::new(parts));
        self.stage = BigValueStage::Read;
        Decision::from(Orders { asks, ..Orders::default() })
    }

    fn read_reply<'a>(
        &mut self,
        big: &BigValue,
        scene: &mut Scene<'_>,
        reply: FlightReply<'a>,
    ) -> Decision<'a> {
        let parts = self.parts.as_mut().expect("parts that are read");
        let item = if reply.outcome.is_hit() { ReplyItem::of(&reply.answer) } else { None };
        match item {
            Some(item) if parts.len + item.len <= VALUE_MAX && scene.assembled.take(item.len + PART_SIZE) => {
                parts.charged += item.len + PART_SIZE;
                parts.len += item.len;
                parts.read.push((scene.child, item.to_value()));
            }
            Some(_) => parts.failed.keep_worse(FlightReply::error(Outcome::LocalError, TOO_MANY_VALUES)),
            None => parts.failed.keep_worse(reply),
        }
        if parts.next < parts.count && parts.failed.outcome().is_none() {
            let number = parts.next;
            parts.next += 1;
            if let Some(part) = read_part(&scene.message, parts, number) {
                return Decision::from(Orders { asks: vec![(number, Some(part))], ..Orders::default() });
            }
        }
        if scene.waiting > 0 {
            return Decision::Wait;
        }
        Decision::Done(match parts.failed.take() {
            Some(FlightReply { outcome: Outcome::NotFound, .. }) => miss(&scene.message),
            Some(failed) => failed,
            None => self.assemble(big, scene),
        })
    }

    /// All parts are there.
    fn assemble(&mut self, big: &BigValue, scene: &Scene<'_>) -> FlightReply<'static> {
        let index = self.index.give();
        let parts = self.parts.as_mut().expect("parts that are read");
        parts.read.sort_unstable_by_key(|(number, _)| *number);
        let value = parts.read.drain(..).map(|(_, value)| value);
        let hidden = if big.hides_flag { BIG_FLAG } else { 0 };
        in_parts(&scene.message, &index.answer, hidden, (parts.len, value))
    }

    fn write_reply<'a>(&mut self, big: &BigValue, scene: &Scene<'_>, reply: FlightReply<'a>) -> Decision<'a> {
        let parts = self.parts.as_mut().expect("parts that are written");
        if reply.outcome != Outcome::Stored {
            parts.failed.keep_worse(reply);
        }
        if parts.next < parts.count && parts.failed.outcome().is_none() {
            let number = parts.next;
            parts.next += 1;
            let part = big.set_part(&scene.message, parts, number);
            return Decision::from(Orders { asks: vec![(number, part)], ..Orders::default() });
        }
        if scene.waiting > 0 {
            return Decision::Wait;
        }
        if let Some(failed) = parts.failed.take() {
            return Decision::Done(match failed.outcome.is_error() {
                true => failed,
                // The reply to a part lacks what the client's request asks for.
                false => FlightReply::own(None, &scene.message),
            });
        }
        let index = format!("1-{}-{}\r\n", parts.count, parts.suffix);
        let old = stored_by(&scene.message).map_or(0, |stored| stored.flags);
        let index = with_value(&scene.message, old | BIG_FLAG, index.as_bytes());
        self.stage = BigValueStage::Written;
        Decision::from(Orders { asks: vec![(0, Some(index))], ..Orders::default() })
    }
}

/// The parts that an index names: how many, and the end of their keys.
fn parse_index(answer: &ReplyBytes<'_>) -> Option<(u16, u64)> {
    let ReplyItem { body: RequestBody::Bytes(body), .. } = ReplyItem::of(answer)? else { return None };
    let text = std::str::from_utf8(body.strip_suffix(b"\r\n")?).ok()?;
    let mut numbers = text.split('-').map(|number| {
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        number.parse::<u64>().ok().filter(|_| is_number)
    });
    let (version, count, suffix) = (numbers.next()??, numbers.next()??, numbers.next()??);
    let count = u16::try_from(count).ok().filter(|count| (1..=PARTS_MAX).contains(count))?;
    (version == 1 && numbers.next().is_none()).then_some((count, suffix))
}

/// Parts that are asked for at a time.
const BATCHES: std::ops::RangeInclusive<i64> = 0..=10_000;

impl<C: AddRoute<InParts>> RouteForm<C> for InParts {
    const FORM: Fields = ("BigValueRoute", &["batch_size", "hide_reply_flag", "split_threshold", "target"]);

    const HAS_SHORT_FORM: bool = false;

    fn compile(compiler: &mut C, definition: RouteDefinition<'_>) -> Result<Vec<NodeId>, ConfigError> {
        let object = definition.json().object("a route")?;
        let target = compiler.single(object.require("target")?)?;
        let threshold =
            object.require("split_threshold")?.integer("`split_threshold` in bytes", 0..=i64::MAX)?;
        let batch = object.require("batch_size")?.integer("`batch_size`", BATCHES)? as u16;
        let hides_flag = object.bool("hide_reply_flag")?.unwrap_or(false);
        let big = BigValue { threshold: threshold as u64, batch, hides_flag };
        match threshold {
            0 => Ok(vec![target]),
            _ => Ok(vec![add_in_parts(compiler, big, target, definition.json())?]),
        }
    }
}

/// Reads and storage commands of a route, with long values in parts.
pub(crate) fn add_in_parts(
    compiler: &mut impl AddRoute<InParts>,
    big: BigValue,
    target: NodeId,
    json: &Json,
) -> Result<NodeId, ConfigError> {
    let node = compiler.add_route(InParts(big), vec![target], json)?;
    let children = [(OperationClass::Get, node), (OperationClass::Update, node)].into();
    compiler.add_plain(PlainRoute::ByClass { children, default: target }, json)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(index: &str, expected: Option<(u16, u64)>) {
        let reply = format!("VALUE k 32768 {}\r\n{index}\r\nEND\r\n", index.len());
        assert_eq!(parse_index(&ReplyBytes::Copied(reply.as_bytes())), expected, "{index}");
    }

    #[test]
    fn parts_that_are_asked_for_at_a_time_are_bounded_by_their_number_and_their_bytes() {
        let at_once = |threshold, batch| BigValue { threshold, batch, hides_flag: false }.at_once(PARTS_MAX);
        assert_eq!(at_once(100, 10), 10);
        assert_eq!(at_once(100, 0), AT_ONCE_MAX);
        assert_eq!(at_once(100, 5000), AT_ONCE_MAX);
        assert_eq!(at_once(1 << 20, 10), 2);
        assert_eq!(at_once(100 << 20, 10), 1);
        assert_eq!(BigValue { threshold: 100, batch: 10, hides_flag: false }.at_once(3), 3);
    }

    #[test]
    fn an_index_is_three_numbers() {
        check("1-3-987", Some((3, 987)));
        check("1-10000-18446744073709551615", Some((10_000, u64::MAX)));
        for wrong in [
            "",
            "1-3",
            "1-3-",
            "1-3-9-1",
            "2-3-9",
            "1-0-9",
            "1-10001-9",
            "1-+3-9",
            "1-3-9 ",
            "1-3-x",
            "1--3-9",
        ] {
            check(wrong, None);
        }
    }
}
