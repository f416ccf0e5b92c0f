//! Decisions of L1L2SizeSplitRoute: large values are in l2, and l1 has a mark in their place.
//!
//! ```text
//! get        l1 ─ a mark ─► l2 ─ hit ─► answer           ─ miss ─► answer, and l1 forgets the mark
//! large set  l2 ─ stored ─► l1 gets a mark ─► answer
//! ```

use protocol::request::SetMode;

use super::derive::{flags, has_flag, is_binary, stored_by, with_flags, with_key, with_value};
use super::mark::{MARK_FLAG, Mark};
use super::render::{miss, with_cas, without_flags};
use super::reply::FlightReply;
use super::steps::{Decision, Orders, Scene, SizeSplitStage, Stage, State};
use crate::message::operation::Operation;
use crate::message::outcome::Outcome;
use crate::message::request::{RequestBody, RoutedRequest, StoredRequest};
use crate::plan::SizeSplit;
use crate::servers::destination::ReplyKind;

/// Children.
const L1: u16 = 0;
const L2: u16 = 1;

/// Between a key and the number of a mark, in the keys of l2.
const SEPARATOR: &str = "|==|";

/// mcrouter splits only keys that leave room for such a number in its 255 bytes.
const KEY_LEN_MAX: usize = 255 - SEPARATOR.len() - 20;

impl SizeSplit {
    /// What is done with a request: the first reply that is waited for. `None` if l1 gets it as it is.
    pub(super) fn first(&self, message: &RoutedRequest<'_>) -> Option<SizeSplitStage> {
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
pub(super) fn small_request(message: &RoutedRequest<'_>) -> Option<StoredRequest> {
    match message.operation {
        // To see whether it is a mark.
        Operation::MetaGet => with_flags(message, b"f"),
        _ => None,
    }
}

impl State {
    pub(super) fn size_split<'a>(&mut self, scene: &mut Scene<'_>, reply: FlightReply<'a>) -> Decision<'a> {
        let Stage::SizeSplit(stage) = self.stage else { unreachable!("the stage of another route") };
        let message = &scene.message;
        match stage {
            SizeSplitStage::Small => match Mark::of(&reply.answer).filter(|_| reply.outcome.is_hit()) {
                Some(mark) => self.ask_large(message, mark, reply),
                None if message.operation == Operation::MetaGet => {
                    Decision::Done(without_flags(message, reply))
                }
                None => Decision::Done(reply),
            },
            SizeSplitStage::Large(mark) => self.large(message, mark, reply),
            SizeSplitStage::Forget(mark) => {
                let now = Mark::of(&reply.answer).filter(|now| now.number == mark.number);
                let cas = now.and_then(|now| now.cas);
                Decision::from(cas.map_or_else(Orders::default, |cas| forget(message, cas)))
            }
            SizeSplitStage::Body if reply.outcome == Outcome::Stored => {
                self.then(SizeSplitStage::Marked, L1, Some(marked(message)))
            }
            SizeSplitStage::Both if reply.outcome == Outcome::Stored => {
                let mut same = StoredRequest::default();
                same.store(message);
                Decision::from(Orders { copy: Some((L2, same)), asks: Vec::new(), answer: Some(reply) })
            }
            SizeSplitStage::Body | SizeSplitStage::Both | SizeSplitStage::Marked => Decision::Done(reply),
        }
    }

    fn ask_large<'a>(
        &mut self,
        message: &RoutedRequest<'_>,
        mark: Mark,
        reply: FlightReply<'a>,
    ) -> Decision<'a> {
        match of_l2(message, mark) {
            Some(derived) => self.then(SizeSplitStage::Large(mark), L2, Some(derived)),
            // No key of l2 is so long.
            None => Decision::Done(reply),
        }
    }

    fn large<'a>(&mut self, message: &RoutedRequest<'_>, mark: Mark, reply: FlightReply<'a>) -> Decision<'a> {
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
        self.stage = Stage::SizeSplit(SizeSplitStage::Forget(mark));
        Decision::from(Orders { copy: None, asks: vec![(L1, Some(look_at_mark(message)))], answer })
    }

    fn then<'a>(
        &mut self,
        stage: SizeSplitStage,
        child: u16,
        request: Option<StoredRequest>,
    ) -> Decision<'a> {
        self.stage = Stage::SizeSplit(stage);
        Decision::from(Orders { asks: vec![(child, request)], ..Orders::default() })
    }
}

/// The client's read for l2: under the key of the mark, without what only concerns the item of l1.
fn of_l2(message: &RoutedRequest<'_>, mark: Mark) -> Option<StoredRequest> {
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
