//! Decisions of routes that fill one cache from another: WarmUpRoute and L1L2CacheRoute.
//!
//! ```text
//! get        near ─ hit ─► answer      near ─ miss ─► far ─ hit ─► answer, and near gets a copy
//! gets, gat  near ─ hit ─► answer      near ─ miss ─► far ─ hit ─► near gets a copy ─► near is asked again ─► answer
//! ```
//!
//! While near fails, far gets the second kind, too, as the client wrote it, if the route wants that (L1L2CacheRoute).
//!
//! The second form is for requests that are also about the item itself: its CAS, its time of expiry. An `mg` has it if one
//! of its flags is.

use protocol::client::Ttl;

use super::derive::{self, Stored, exptime, fetch, is_plain_read, store, with_flags};
use super::item::ReplyItem;
use super::render::{as_asked, miss, without_flags};
use super::reply::FlightReply;
use super::steps::{Decision, FillStage, Orders, Scene, Stage, State};
use crate::message::operation::Operation;
use crate::message::outcome::Outcome;
use crate::message::request::{RequestBody, RoutedRequest, StoredRequest};
use crate::plan::{Fill, NegativeCache};

/// Children.
const NEAR: u16 = 0;
const FAR: u16 = 1;

/// mcrouter's mark of an item that stands for a miss, among the client's flags.
const NEGATIVE_FLAG: u64 = 0x10000;
/// The value of such an item.
const NEGATIVE_VALUE: &[u8] = b"ncache\r\n";

/// Beyond it, memcached takes a time of expiry for a moment since 1970.
const RELATIVE_EXPTIME_MAX_S: u64 = 30 * 24 * 3600;

/// What a request needs besides the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// Nothing: far's reply answers it.
    Value,
    /// No value: far's reply answers it, and there is nothing to copy.
    Facts,
    /// The item in near.
    Item,
    /// The item in near, and no value: far is not asked.
    ItemFacts,
}

impl Need {
    fn of(message: &RoutedRequest<'_>) -> Need {
        let has_value = match message.operation {
            Operation::MetaGet => derive::has_flag(message, b'v'),
            operation => operation != Operation::MetaDebug,
        };
        match (is_plain_read(message), has_value) {
            (true, true) => Need::Value,
            (true, false) => Need::Facts,
            (false, true) => Need::Item,
            (false, false) => Need::ItemFacts,
        }
    }
}

/// What near is asked, if that is not the client's own request.
pub(super) fn near_request(fill: &Fill, message: &RoutedRequest<'_>) -> Option<StoredRequest> {
    match message.operation {
        // To see whether it stands for a miss.
        Operation::MetaGet if fill.negative.is_some() => with_flags(message, b"f"),
        _ => None,
    }
}

impl State {
    pub(super) fn fill<'a>(
        &mut self,
        fill: &Fill,
        scene: &mut Scene<'_>,
        reply: FlightReply<'a>,
    ) -> Decision<'a> {
        let Stage::Fill(stage) = self.stage else { unreachable!("the stage of another route") };
        let need = Need::of(&scene.message);
        match stage {
            FillStage::Near => self.near(need, fill, scene, reply),
            FillStage::Far => self.far(need, fill, scene, reply),
            FillStage::Storing | FillStage::Again if stands_in(fill, &reply) => self.ask_stand_in(),
            FillStage::Storing => self.ask_near_again(fill, scene),
            FillStage::Again => Decision::Done(near_reply(fill, &scene.message, reply)),
            FillStage::StandIn => Decision::Done(reply),
            FillStage::Renewing => renew(fill, scene, &reply),
        }
    }

    fn near<'a>(
        &mut self,
        need: Need,
        fill: &Fill,
        scene: &mut Scene<'_>,
        reply: FlightReply<'a>,
    ) -> Decision<'a> {
        if is_negative(fill, &reply) {
            return self.negative(fill, scene);
        }
        if matches!(need, Need::Item | Need::ItemFacts) && stands_in(fill, &reply) {
            return self.ask_stand_in();
        }
        if reply.outcome.is_hit() || need == Need::ItemFacts {
            return Decision::Done(near_reply(fill, &scene.message, reply));
        }
        let derived = match (need, scene.message.operation) {
            (Need::Facts | Need::ItemFacts, _) => None,
            (Need::Value, Operation::Get) if fill.exptime.is_some() => None,
            (Need::Value, Operation::MetaGet) => {
                with_flags(&scene.message, if fill.exptime.is_some() { b"f" } else { b"ft" })
            }
            _ => Some(fetch(&scene.message, known_exptime(fill, &scene.message).is_none())),
        };
        if need == Need::Item {
            self.keep(reply);
        }
        self.ask(FillStage::Far, FAR, derived)
    }

    fn far<'a>(
        &mut self,
        need: Need,
        fill: &Fill,
        scene: &mut Scene<'_>,
        reply: FlightReply<'a>,
    ) -> Decision<'a> {
        let message = &scene.message;
        let item = if reply.outcome.is_hit() { ReplyItem::of(&reply.answer) } else { None };
        let copy = item.and_then(|item| {
            let exptime = match known_exptime(fill, message) {
                Some(exptime) => exptime,
                None => exptime_of(item.ttl?, scene.unix_s)?,
            };
            (!item.is_stale).then(|| store(message, &Stored::item(&item, exptime)))
        });
        let is_miss = reply.outcome == Outcome::NotFound;
        let negative = fill.negative.filter(|negative| is_miss && negative.update_period > 0);
        let negative = negative.map(|negative| negative_item(message, &negative, true));
        let (answer, copy) = match (need, copy) {
            (Need::Item, Some(copy)) => return self.ask(FillStage::Storing, NEAR, Some(copy)),
            (Need::Item, None) if stands_in(fill, &reply) => return Decision::Done(reply),
            (Need::Item, None) => (self.take_kept(), negative),
            (Need::Value, copy) => (as_asked(message, reply), copy.or(negative)),
            _ => return Decision::Done(reply),
        };
        let copy = copy.map(|copy| (NEAR, copy));
        Decision::from(Orders { copy, answer: Some(answer), ..Orders::default() })
    }

    fn ask_stand_in<'a>(&mut self) -> Decision<'a> {
        self.kept = None;
        self.ask(FillStage::StandIn, FAR, None)
    }

    fn ask_near_again<'a>(&mut self, fill: &Fill, scene: &Scene<'_>) -> Decision<'a> {
        self.kept = None;
        self.ask(FillStage::Again, NEAR, near_request(fill, &scene.message))
    }

    /// Near has an item that stands for a miss: it is one. Every so many times, far is asked whether it still is.
    fn negative<'a>(&mut self, fill: &Fill, scene: &mut Scene<'_>) -> Decision<'a> {
        let miss = miss(&scene.message);
        let period = fill.negative.map_or(0, |negative| negative.update_period);
        if !scene.is_nth(period) {
            return Decision::Done(miss);
        }
        self.stage = Stage::Fill(FillStage::Renewing);
        // Its copy has the configured time of expiry: no need for that of the original.
        let derived = fetch(&scene.message, false);
        Decision::from(Orders { asks: vec![(FAR, Some(derived))], answer: Some(miss), copy: None })
    }

    fn ask<'a>(&mut self, stage: FillStage, child: u16, derived: Option<StoredRequest>) -> Decision<'a> {
        self.stage = Stage::Fill(stage);
        Decision::from(Orders { asks: vec![(child, derived)], ..Orders::default() })
    }
}

/// The item that stands for a miss gets the value that far has by now, or lives on.
fn renew<'a>(fill: &Fill, scene: &Scene<'_>, reply: &FlightReply<'_>) -> Decision<'a> {
    let found = if reply.outcome.is_hit() { ReplyItem::of(&reply.answer) } else { None };
    let copy = match (found, fill.negative, fill.exptime) {
        (Some(item), _, Some(exptime)) => {
            Some(store(&scene.message, &Stored { is_new: false, ..Stored::item(&item, i64::from(exptime)) }))
        }
        (None, Some(negative), _) => Some(negative_item(&scene.message, &negative, false)),
        _ => None,
    };
    Decision::from(Orders { copy: copy.map(|copy| (NEAR, copy)), ..Orders::default() })
}

fn negative_item(message: &RoutedRequest<'_>, negative: &NegativeCache, is_new: bool) -> StoredRequest {
    let body = RequestBody::Bytes(NEGATIVE_VALUE);
    let len = NEGATIVE_VALUE.len() - 2;
    let exptime = i64::from(negative.exptime);
    store(message, &Stored { is_new, flags: NEGATIVE_FLAG, exptime, len, body })
}

/// Whether it is an error, and far is to be asked whatever the request is about.
fn stands_in(fill: &Fill, reply: &FlightReply<'_>) -> bool {
    fill.stands_in && reply.outcome.is_error()
}

fn is_negative(fill: &Fill, reply: &FlightReply<'_>) -> bool {
    fill.negative.is_some()
        && reply.outcome.is_hit()
        && super::item::flags_of(&reply.answer).is_some_and(|flags| flags & NEGATIVE_FLAG != 0)
}

/// Near's reply as the client asked for it.
fn near_reply<'a>(fill: &Fill, message: &RoutedRequest<'_>, reply: FlightReply<'a>) -> FlightReply<'a> {
    if is_negative(fill, &reply) {
        return miss(message);
    }
    match fill.negative.is_some() && message.operation == Operation::MetaGet {
        true => without_flags(message, reply),
        false => reply,
    }
}

/// The time of expiry of a copy, if far need not be asked: the client's own, or that of the configuration.
fn known_exptime(fill: &Fill, message: &RoutedRequest<'_>) -> Option<i64> {
    exptime(message).or(fill.exptime.map(i64::from))
}

/// The time of expiry that lets a copy end with its original; `None` for one that is about to end.
pub(super) fn exptime_of(ttl: Ttl, unix_s: i64) -> Option<i64> {
    match ttl {
        Ttl::Forever => Some(0),
        Ttl::Seconds(0) => None,
        Ttl::Seconds(seconds) if seconds <= RELATIVE_EXPTIME_MAX_S => Some(seconds as i64),
        Ttl::Seconds(seconds) if unix_s > 0 => Some(unix_s.saturating_add(i64::try_from(seconds).ok()?)),
        Ttl::Seconds(_) => Some(RELATIVE_EXPTIME_MAX_S as i64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_ends_with_its_original() {
        let now = 1_700_000_000;
        assert_eq!(exptime_of(Ttl::Forever, now), Some(0));
        assert_eq!(exptime_of(Ttl::Seconds(0), now), None);
        assert_eq!(exptime_of(Ttl::Seconds(60), now), Some(60));
        assert_eq!(exptime_of(Ttl::Seconds(2_592_000), now), Some(2_592_000));
        assert_eq!(exptime_of(Ttl::Seconds(2_592_001), now), Some(now + 2_592_001));
        assert_eq!(exptime_of(Ttl::Seconds(2_592_001), 0), Some(2_592_000), "while the time is not known");
        assert_eq!(exptime_of(Ttl::Seconds(u64::MAX), now), None);
    }
}
