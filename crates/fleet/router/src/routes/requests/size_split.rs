//! L1L2SizeSplitRoute: large values are in l2, and l1 has a mark in their place.
//!
//! ```text
//! get        l1 ─ a mark ─► l2 ─ hit ─► answer           ─ miss ─► answer, and l1 forgets the mark
//! large set  l2 ─ stored ─► l1 gets a mark ─► answer
//! ```

use protocol::request::SetMode;

use crate::config::error::ConfigError;
use crate::flight::derive::{flags, has_flag, is_binary, stored_by, with_flags, with_key, with_value};
use crate::flight::item::in_one_piece;
use crate::flight::render::{miss, with_cas, without_flags};
use crate::flight::reply::FlightReply;
use crate::message::operation::Operation;
use crate::message::operation::OperationClass;
use crate::message::outcome::Outcome;
use crate::message::request::{RequestBody, RoutedRequest, StoredRequest};
use crate::plan::NodeId;
use crate::plan::plain_route::PlainRoute;
use crate::routes::form::{AddRoute, Fields, RouteDefinition, RouteForm};
use crate::routes::requests::mark::{LargeMark, MARK_FLAG};
use crate::routes::route::{Decision, FirstStep, Opening, Orders, Route, Scene};
use crate::routes::substitutes::fill::COPY_EXPTIMES;
use crate::servers::destination::ReplyKind;

/// Children.
const L1: u16 = 0;
const L2: u16 = 1;

/// Between a key and the number of a mark, in the keys of l2.
const SEPARATOR: &str = "|==|";

/// mcrouter splits only keys that leave room for such a number in its 255 bytes.
const KEY_LEN_MAX: usize = 255 - SEPARATOR.len() - 20;

/// The first; the second for large values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SizeSplit {
    /// Values from this length on, in bytes; 0 for none.
    pub(crate) threshold: u64,
    /// Items with a sooner time of expiry are kept as if they were small, in seconds; 0 for none.
    pub(crate) ttl_threshold_s: u32,
    /// Both caches get a large value.
    pub(crate) both_full_set: bool,
}

/// The reply that an L1L2SizeSplitRoute waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SizeSplitStage {
    /// Of l1, to a read.
    Small,
    /// Of l2, to a read: l1 has this mark.
    Large(LargeMark),
    /// Of l1, which shall have this mark and is to forget it.
    Forget(LargeMark),
    /// Of l2, to a set.
    Body,
    /// Of l1, to its mark.
    Marked,
    /// Of l1, to a set that l2 gets then, too.
    Both,
}

impl SizeSplit {
    /// What is done with a request: the first reply that is waited for. `None` if l1 gets it as it is.
    fn first(&self, message: &RoutedRequest<'_>) -> Option<SizeSplitStage> {
        use Operation::{Gat, Gats, Get, Gets, MetaGet, MetaSet, Set};
        match message.operation {
            Get | Gets | Gat | Gats | MetaGet => Some(SizeSplitStage::Small),
            Set => self.first_of_set(message),
            MetaSet(SetMode::Set) if !has_flag(message, b'C') => self.first_of_set(message),
            _ => None,
        }
    }

    fn first_of_set(&self, message: &RoutedRequest<'_>) -> Option<SizeSplitStage> {
        let stored = stored_by(message)?;
        let is_short_lived = self.ttl_threshold_s != 0 && stored.exptime < i64::from(self.ttl_threshold_s);
        let is_small = self.threshold == 0 || (stored.len as u64) < self.threshold;
        if is_small || is_short_lived || message.key.full.len() > KEY_LEN_MAX {
            return None;
        }
        Some(if self.both_full_set { SizeSplitStage::Both } else { SizeSplitStage::Body })
    }
}

/// What l1 is asked first, if that is not the client's own request.
fn small_request(message: &RoutedRequest<'_>) -> Option<StoredRequest> {
    match message.operation {
        // To see whether it is a mark.
        Operation::MetaGet => with_flags(message, b"f"),
        _ => None,
    }
}

impl Route for SizeSplit {
    type Progress = SizeSplitStage;

    fn name(&self) -> Option<&'static str> {
        Some("l1l2-sizesplit")
    }

    fn begin(&self, opening: &mut Opening<'_>) -> FirstStep<SizeSplitStage> {
        let message = &opening.message;
        match self.first(message) {
            None => FirstStep::Pass(L1, None),
            Some(SizeSplitStage::Body) => FirstStep::Ask(SizeSplitStage::Body, L2, None),
            Some(stage) => FirstStep::Ask(stage, L1, small_request(message)),
        }
    }

    fn replied<'a>(
        &self,
        stage: &mut SizeSplitStage,
        scene: &mut Scene<'_>,
        reply: FlightReply<'a>,
    ) -> Decision<'a> {
        let reply = in_one_piece(reply);
        let message = &scene.message;
        match *stage {
            SizeSplitStage::Small => match LargeMark::of(&reply.answer).filter(|_| reply.outcome.is_hit()) {
                Some(mark) => stage.ask_large(message, mark, reply),
                None if message.operation == Operation::MetaGet => {
                    Decision::Done(without_flags(message, reply))
                }
                None => Decision::Done(reply),
            },
            SizeSplitStage::Large(mark) => stage.large(message, mark, reply),
            SizeSplitStage::Forget(mark) => {
                let now = LargeMark::of(&reply.answer).filter(|now| now.number == mark.number);
                let cas = now.and_then(|now| now.cas);
                Decision::from(cas.map_or_else(Orders::default, |cas| forget(message, cas)))
            }
            SizeSplitStage::Body if reply.outcome == Outcome::Stored => {
                stage.then(SizeSplitStage::Marked, L1, Some(marked(message)))
            }
            SizeSplitStage::Both if reply.outcome == Outcome::Stored => {
                let mut same = StoredRequest::default();
                same.store(message);
                Decision::from(Orders { copy: Some((L2, same)), asks: Vec::new(), answer: Some(reply) })
            }
            SizeSplitStage::Body | SizeSplitStage::Both | SizeSplitStage::Marked => Decision::Done(reply),
        }
    }

    fn only_reads(&self, _: u16) -> bool {
        false
    }

    /// Asked, looked at again, and made to forget; and asked for the value.
    fn fan_out(&self, children: &[NodeId], of: &dyn Fn(&NodeId) -> u32) -> u32 {
        of(&children[0]).saturating_mul(3).saturating_add(of(&children[1]))
    }
}

impl SizeSplitStage {
    fn ask_large<'a>(
        &mut self,
        message: &RoutedRequest<'_>,
        mark: LargeMark,
        reply: FlightReply<'a>,
    ) -> Decision<'a> {
        match of_l2(message, mark) {
            Some(derived) => self.then(SizeSplitStage::Large(mark), L2, Some(derived)),
            // No key of l2 is so long.
            None => Decision::Done(reply),
        }
    }

    fn large<'a>(
        &mut self,
        message: &RoutedRequest<'_>,
        mark: LargeMark,
        reply: FlightReply<'a>,
    ) -> Decision<'a> {
        if reply.outcome != Outcome::NotFound {
            return Decision::Done(with_cas(message, reply, mark.cas));
        }
        let answer = Some(miss(message));
        if let Some(cas) = mark.cas {
            return Decision::from(Orders { answer, ..forget(message, cas) });
        }
        if mark.number.is_none() {
            // It may be another one by now, of a value that is there.
            return Decision::Done(miss(message));
        }
        *self = SizeSplitStage::Forget(mark);
        Decision::from(Orders { copy: None, asks: vec![(L1, Some(look_at_mark(message)))], answer })
    }

    fn then<'a>(
        &mut self,
        stage: SizeSplitStage,
        child: u16,
        request: Option<StoredRequest>,
    ) -> Decision<'a> {
        *self = stage;
        Decision::from(Orders { asks: vec![(child, request)], ..Orders::default() })
    }
}

/// The client's read for l2: under the key of the mark, without what only concerns the item of l1.
fn of_l2(message: &RoutedRequest<'_>, mark: LargeMark) -> Option<StoredRequest> {
    let (operation, before): (_, &[u8]) = match message.operation {
        Operation::Gets => (Operation::Get, b"get "),
        Operation::Gats => (Operation::Gat, message.before),
        other => (other, message.before),
    };
    let gat;
    let before = match (message.operation, message.before.strip_prefix(b"gats")) {
        (Operation::Gats, Some(rest)) => {
            gat = [b"gat", rest].concat();
            &gat
        }
        _ => before,
    };
    let mut after = message.after.to_vec();
    if operation == Operation::MetaGet {
        after.clear();
        for word in flags(message).filter(|word| b"vftksqObhlcT".contains(&word[0])) {
            after.push(b' ');
            after.extend_from_slice(word);
        }
    }
    let request = RoutedRequest { operation, before, after: &after, ..*message };
    let mut out = StoredRequest::default();
    let Some(number) = mark.number else {
        out.store(&request);
        return Some(out);
    };
    let changed = with_key(&request, &mut out, |key, _| {
        Some([key.full, SEPARATOR.as_bytes(), number.to_string().as_bytes()].concat())
    });
    changed.is_ok().then_some(out)
}

/// The client's set with a mark in place of the value.
fn marked(message: &RoutedRequest<'_>) -> StoredRequest {
    let old = stored_by(message).map_or(0, |stored| stored.flags);
    with_value(message, old | MARK_FLAG, b"\r\n")
}

/// A read of a mark with its CAS.
fn look_at_mark(message: &RoutedRequest<'_>) -> StoredRequest {
    let mut out = StoredRequest::default();
    let common = RoutedRequest { opaque: b"", body: RequestBody::None, ..*message };
    if message.operation.is_meta() {
        let after: &[u8] = if is_binary(message) { b" b v f c" } else { b" v f c" };
        let expected = ReplyKind::Meta { strip: true, quiet: false };
        out.store(&RoutedRequest {
            operation: Operation::MetaGet,
            expected,
            before: b"mg ",
            after,
            ..common
        });
    } else {
        out.store(&RoutedRequest {
            operation: Operation::Gets,
            expected: ReplyKind::Values,
            before: b"gets ",
            after: b"\r\n",
            ..common
        });
    }
    out
}

/// Lets l1 forget an item with this CAS.
fn forget(message: &RoutedRequest<'_>, cas: u64) -> Orders<'static> {
    let mut out = StoredRequest::default();
    let common = RoutedRequest { opaque: b"", body: RequestBody::Bytes(b"\r\n"), ..*message };
    if message.operation.is_meta() {
        let after = format!(" 0{} C{cas} T-1", if is_binary(message) { " b" } else { "" });
        let expected = ReplyKind::Meta { strip: true, quiet: false };
        let operation = Operation::MetaSet(SetMode::Set);
        out.store(&RoutedRequest { operation, expected, before: b"ms ", after: after.as_bytes(), ..common });
    } else {
        let after = format!(" 0 -1 0 {cas}\r\n");
        let (operation, expected) = (Operation::Cas, ReplyKind::Line);
        out.store(&RoutedRequest { operation, expected, before: b"cas ", after: after.as_bytes(), ..common });
    }
    Orders { copy: Some((L1, out)), ..Orders::default() }
}

impl<C: AddRoute<SizeSplit>> RouteForm<C> for SizeSplit {
    const FORM: Fields = (
        "L1L2SizeSplitRoute",
        &["both_full_set", "failure_ttl", "l1", "l2", "retries", "threshold", "ttl_threshold"],
    );

    const HAS_SHORT_FORM: bool = false;

    fn compile(compiler: &mut C, definition: RouteDefinition<'_>) -> Result<Vec<NodeId>, ConfigError> {
        let (object, json) = (definition.json().object("a route")?, definition.json());
        let (l1, l2) = (compiler.single(object.require("l1")?)?, compiler.single(object.require("l2")?)?);
        // Read for mcrouter's sake: they are about leases, and about marks whose value is missing, which are misses here.
        object.integer("failure_ttl", 1..=i64::from(i32::MAX))?;
        object.integer("retries", 1..=10)?;
        let split = SizeSplit {
            threshold: object.require("threshold")?.integer("`threshold` in bytes", 0..=i64::MAX)? as u64,
            ttl_threshold_s: object.integer("ttl_threshold", COPY_EXPTIMES)?.unwrap_or(0) as u32,
            both_full_set: object.bool("both_full_set")?.unwrap_or(false),
        };
        let node = compiler.add_route(split, vec![l1, l2], json)?;
        let children = [(OperationClass::Get, node), (OperationClass::Update, node)].into();
        Ok(vec![compiler.add_plain(PlainRoute::ByClass { children, default: l1 }, json)?])
    }
}
