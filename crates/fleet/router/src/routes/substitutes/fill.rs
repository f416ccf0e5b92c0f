//! Routes that fill one cache from another: WarmUpRoute and L1L2CacheRoute.
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

use crate::config::error::ConfigError;
use crate::config::json::Json;
use crate::flight::derive::{self, StoredItem, exptime, exptime_of, fetch, is_plain_read, store, with_flags};
use crate::flight::item::{ReplyItem, flags_of, in_one_piece};
use crate::flight::render::{as_asked, miss, without_flags};
use crate::flight::reply::FlightReply;
use crate::message::operation::Operation;
use crate::message::operation::OperationClass;
use crate::message::outcome::Outcome;
use crate::message::request::{RequestBody, RoutedRequest, StoredRequest};
use crate::plan::NodeId;
use crate::plan::plain_route::PlainRoute;
use crate::routes::form::{AddRoute, Fields, RouteDefinition, RouteForm};
use crate::routes::route::{Decision, FirstStep, KeptReply, Opening, Orders, Route, Scene};

/// Children.
const NEAR: u16 = 0;
const FAR: u16 = 1;

/// mcrouter's mark of an item that stands for a miss, among the client's flags.
const NEGATIVE_FLAG: u64 = 0x10000;
/// The value of such an item.
const NEGATIVE_VALUE: &[u8] = b"ncache\r\n";

/// The first; the second for what it does not have, with a copy into the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fill {
    /// The time of expiry of copies; `None` for that of their originals.
    pub(crate) exptime: Option<u32>,
    /// Items that stand for misses.
    pub(crate) negative: Option<NegativeCache>,
    /// The second answers all reads while the first fails, also those that are about the item in the first.
    pub(crate) stands_in: bool,
}

/// Items in the first cache that stand for misses of the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NegativeCache {
    /// Their time of expiry.
    pub(crate) exptime: u32,
    /// The second cache is asked again every so many times that such an item is found; 0 for no such items.
    pub(crate) update_period: u32,
}

/// What a filling route knows of an item.
pub(crate) struct Filling {
    stage: FillStage,
    /// Near's miss, to be given if far does not have the item either.
    miss: KeptReply,
}

/// The reply that a filling route waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FillStage {
    Near,
    Far,
    /// Of the copy, before near is asked again.
    Storing,
    Again,
    /// Of far, for a request about the item itself: near fails.
    StandIn,
    /// Of far, for an item that stands for a miss and is to be renewed.
    Renewing,
}

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
fn near_request(fill: &Fill, message: &RoutedRequest<'_>) -> Option<StoredRequest> {
    match message.operation {
        // To see whether it stands for a miss.
        Operation::MetaGet if fill.negative.is_some() => with_flags(message, b"f"),
        _ => None,
    }
}

impl Route for Fill {
    type Progress = Filling;

    fn name(&self) -> Option<&'static str> {
        Some(if self.negative.is_some() { "l1l2-cache" } else { "warm-up" })
    }

    fn begin(&self, opening: &mut Opening<'_>) -> FirstStep<Filling> {
        let filling = Filling { stage: FillStage::Near, miss: KeptReply::default() };
        FirstStep::Ask(filling, NEAR, near_request(self, &opening.message))
    }

    fn replied<'a>(
        &self,
        filling: &mut Filling,
        scene: &mut Scene<'_>,
        reply: FlightReply<'a>,
    ) -> Decision<'a> {
        let reply = in_one_piece(reply);
        let need = Need::of(&scene.message);
        match filling.stage {
            FillStage::Near => filling.near(need, self, scene, reply),
            FillStage::Far => filling.far(need, self, scene, reply),
            FillStage::Storing | FillStage::Again if stands_in(self, &reply) => filling.ask_stand_in(),
            FillStage::Storing => filling.ask_near_again(self, scene),
            FillStage::Again => Decision::Done(near_reply(self, &scene.message, reply)),
            FillStage::StandIn => Decision::Done(reply),
            FillStage::Renewing => renew(self, scene, &reply),
        }
    }

    /// What far has is copied.
    fn only_reads(&self, child: u16) -> bool {
        child == NEAR
    }

    /// Asked, given a copy, asked again; and what it is filled from.
    fn fan_out(&self, children: &[NodeId], of: &dyn Fn(&NodeId) -> u32) -> u32 {
        of(&children[0]).saturating_mul(3).saturating_add(of(&children[1]))
    }
}

impl Filling {
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
            self.miss.keep(reply);
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
                None => exptime_of(item.ttl?, scene.choices.unix_s)?,
            };
            (!item.is_stale).then(|| store(message, &StoredItem::item(&item, exptime)))
        });
        let is_miss = reply.outcome == Outcome::NotFound;
        let negative = fill.negative.filter(|negative| is_miss && negative.update_period > 0);
        let negative = negative.map(|negative| negative_item(message, &negative, true));
        let (answer, copy) = match (need, copy) {
            (Need::Item, Some(copy)) => return self.ask(FillStage::Storing, NEAR, Some(copy)),
            (Need::Item, None) if stands_in(fill, &reply) => return Decision::Done(reply),
            (Need::Item, None) => (self.miss.give(), negative),
            (Need::Value, copy) => (as_asked(message, reply), copy.or(negative)),
            _ => return Decision::Done(reply),
        };
        let copy = copy.map(|copy| (NEAR, copy));
        Decision::from(Orders { copy, answer: Some(answer), ..Orders::default() })
    }

    fn ask_stand_in<'a>(&mut self) -> Decision<'a> {
        self.miss.clear();
        self.ask(FillStage::StandIn, FAR, None)
    }

    fn ask_near_again<'a>(&mut self, fill: &Fill, scene: &Scene<'_>) -> Decision<'a> {
        self.miss.clear();
        self.ask(FillStage::Again, NEAR, near_request(fill, &scene.message))
    }

    /// Near has an item that stands for a miss: it is one. Every so many times, far is asked whether it still is.
    fn negative<'a>(&mut self, fill: &Fill, scene: &mut Scene<'_>) -> Decision<'a> {
        let miss = miss(&scene.message);
        let period = fill.negative.map_or(0, |negative| negative.update_period);
        if !scene.is_nth(period) {
            return Decision::Done(miss);
        }
        self.stage = FillStage::Renewing;
        // Its copy has the configured time of expiry: no need for that of the original.
        let derived = fetch(&scene.message, false);
        Decision::from(Orders { asks: vec![(FAR, Some(derived))], answer: Some(miss), copy: None })
    }

    fn ask<'a>(&mut self, stage: FillStage, child: u16, derived: Option<StoredRequest>) -> Decision<'a> {
        self.stage = stage;
        Decision::from(Orders { asks: vec![(child, derived)], ..Orders::default() })
    }
}

/// The item that stands for a miss gets the value that far has by now, or lives on.
fn renew<'a>(fill: &Fill, scene: &Scene<'_>, reply: &FlightReply<'_>) -> Decision<'a> {
    let found = if reply.outcome.is_hit() { ReplyItem::of(&reply.answer) } else { None };
    let copy = match (found, fill.negative, fill.exptime) {
        (Some(item), _, Some(exptime)) => Some(store(
            &scene.message,
            &StoredItem { is_new: false, ..StoredItem::item(&item, i64::from(exptime)) },
        )),
        (None, Some(negative), _) => Some(negative_item(&scene.message, &negative, false)),
        _ => None,
    };
    Decision::from(Orders { copy: copy.map(|copy| (NEAR, copy)), ..Orders::default() })
}

fn negative_item(message: &RoutedRequest<'_>, negative: &NegativeCache, is_new: bool) -> StoredRequest {
    let body = RequestBody::Bytes(NEGATIVE_VALUE);
    let len = NEGATIVE_VALUE.len() - 2;
    let exptime = i64::from(negative.exptime);
    store(message, &StoredItem { is_new, flags: NEGATIVE_FLAG, exptime, len, body })
}

/// Whether it is an error, and far is to be asked whatever the request is about.
fn stands_in(fill: &Fill, reply: &FlightReply<'_>) -> bool {
    fill.stands_in && reply.outcome.is_error()
}

fn is_negative(fill: &Fill, reply: &FlightReply<'_>) -> bool {
    fill.negative.is_some()
        && reply.outcome.is_hit()
        && flags_of(&reply.answer).is_some_and(|flags| flags & NEGATIVE_FLAG != 0)
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

/// Times of expiry of copies. Below 0, nothing would be kept.
pub(crate) const COPY_EXPTIMES: std::ops::RangeInclusive<i64> = 0..=i32::MAX as i64;

impl<C: AddRoute<Fill>> RouteForm<C> for Fill {
    const FORM: Fields =
        ("L1L2CacheRoute", &["l1", "l2", "ncacheExptime", "ncacheUpdatePeriod", "upgradingL1Exptime"]);

    const HAS_SHORT_FORM: bool = false;

    fn compile(compiler: &mut C, definition: RouteDefinition<'_>) -> Result<Vec<NodeId>, ConfigError> {
        let object = definition.json().object("a route")?;
        let (l1, l2) = (compiler.single(object.require("l1")?)?, compiler.single(object.require("l2")?)?);
        object.require("upgradingL1Exptime")?;
        let seconds = |field| Ok(object.integer(field, COPY_EXPTIMES)?.unwrap_or(0) as u32);
        let negative = NegativeCache {
            exptime: seconds("ncacheExptime")?,
            update_period: seconds("ncacheUpdatePeriod")?,
        };
        let exptime = Some(seconds("upgradingL1Exptime")?);
        let fill = Fill { exptime, negative: Some(negative), stands_in: true };
        Ok(vec![fill.add(compiler, l1, l2, definition.json())?])
    }
}

impl Fill {
    /// Reads go to `near`, and for what it does not have to `far`; everything else goes to `near`.
    pub(super) fn add(
        self,
        compiler: &mut impl AddRoute<Fill>,
        near: NodeId,
        far: NodeId,
        json: &Json,
    ) -> Result<NodeId, ConfigError> {
        let reads = compiler.add_route(self, vec![near, far], json)?;
        let children = [(OperationClass::Get, reads)].into();
        compiler.add_plain(PlainRoute::ByClass { children, default: near }, json)
    }
}
