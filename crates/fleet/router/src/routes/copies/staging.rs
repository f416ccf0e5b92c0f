//! StagingRoute: a cache that is to replace another one gets what that one has.
//!
//! ```text
//! get     warm ─ hit ─► answer, and staging is asked for the key ─ miss ─► warm ─ hit ─► staging gets a copy
//! set     warm ─ stored ─► answer, and staging gets the same
//! others  warm ─ no error ─► answer, and staging gets the same request
//! ```

use protocol::client::Line;
use protocol::request::SetMode;

use crate::config::error::ConfigError;
use crate::flight::derive::{self, StoredItem, exptime_of, has_flag, is_plain_read, look, store, stored_by};
use crate::flight::item::{ReplyItem, in_one_piece};
use crate::flight::reply::FlightReply;
use crate::message::operation::Operation;
use crate::message::operation::OperationClass;
use crate::message::outcome::Outcome;
use crate::message::request::{RoutedRequest, StoredRequest};
use crate::plan::NodeId;
use crate::plan::plain_route::PlainRoute;
use crate::routes::copies::all_sync::AllSync;
use crate::routes::form::{AddRoute, Fields, RouteDefinition, RouteForm};
use crate::routes::route::{Decision, FirstStep, Opening, Orders, Route, Scene};

/// Children.
const WARM: u16 = 0;
const STAGING: u16 = 1;

/// The first; the second is kept alike.
#[derive(Clone, Debug)]
pub(crate) struct Staging;

/// The reply that a StagingRoute waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StagingStage {
    Warm,
    /// Whether staging has the item.
    Look,
    /// The item of warm.
    Fetch,
}

/// What staging gets after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mirrored {
    /// The item, if it does not have it.
    Item,
    /// A look at the item, so that both caches know what is in use.
    Look,
    /// What was stored, whatever the condition was.
    Value,
    /// The same request.
    Request,
}

impl Mirrored {
    fn of(message: &RoutedRequest<'_>) -> Mirrored {
        match message.operation {
            Operation::Get => Mirrored::Item,
            Operation::MetaGet if is_plain_read(message) && has_flag(message, b'v') => Mirrored::Item,
            Operation::Gets => Mirrored::Look,
            Operation::MetaGet if is_read_with_cas(message) => Mirrored::Look,
            Operation::Set | Operation::Cas | Operation::MetaSet(SetMode::Set) => Mirrored::Value,
            _ => Mirrored::Request,
        }
    }
}

impl Route for Staging {
    type Progress = StagingStage;

    fn name(&self) -> Option<&'static str> {
        Some("staging")
    }

    fn begin(&self, _: &mut Opening<'_>) -> FirstStep<StagingStage> {
        FirstStep::Ask(StagingStage::Warm, WARM, None)
    }

    fn replied<'a>(
        &self,
        stage: &mut StagingStage,
        scene: &mut Scene<'_>,
        reply: FlightReply<'a>,
    ) -> Decision<'a> {
        let reply = in_one_piece(reply);
        let message = &scene.message;
        match *stage {
            StagingStage::Warm => stage.warm(message, reply),
            StagingStage::Look if reply.outcome == Outcome::NotFound => {
                let mirrored = Mirrored::of(message);
                match mirrored {
                    Mirrored::Item => {
                        stage.ask_also(StagingStage::Fetch, (WARM, derive::fetch(message, true)), None)
                    }
                    _ => Decision::from(Orders::default()),
                }
            }
            StagingStage::Look => Decision::from(Orders::default()),
            StagingStage::Fetch => copy(message, scene.choices.unix_s, &reply),
        }
    }

    fn only_reads(&self, _: u16) -> bool {
        false
    }

    /// Asked, and asked for the item; looked at, and given a copy.
    fn fan_out(&self, children: &[NodeId], of: &dyn Fn(&NodeId) -> u32) -> u32 {
        of(&children[0]).saturating_add(of(&children[1])).saturating_mul(2)
    }
}

impl StagingStage {
    fn warm<'a>(&mut self, message: &RoutedRequest<'_>, reply: FlightReply<'a>) -> Decision<'a> {
        let outcome = reply.outcome;
        let copy = match Mirrored::of(message) {
            Mirrored::Item | Mirrored::Look if outcome.is_hit() => {
                return self.ask_also(StagingStage::Look, (STAGING, look(message)), Some(reply));
            }
            Mirrored::Value if outcome == Outcome::Stored => {
                stored_by(message).map(|stored| store(message, &stored))
            }
            Mirrored::Request if !outcome.is_error() => {
                let mut same = StoredRequest::default();
                same.store(message);
                Some(same)
            }
            _ => None,
        };
        Decision::from(Orders {
            copy: copy.map(|copy| (STAGING, copy)),
            asks: Vec::new(),
            answer: Some(reply),
        })
    }

    fn ask_also<'a>(
        &mut self,
        stage: StagingStage,
        (child, request): (u16, StoredRequest),
        answer: Option<FlightReply<'a>>,
    ) -> Decision<'a> {
        *self = stage;
        Decision::from(Orders { copy: None, asks: vec![(child, Some(request))], answer })
    }
}

/// Staging gets warm's item, for as long as that lives.
fn copy<'a>(message: &RoutedRequest<'_>, unix_s: i64, reply: &FlightReply<'_>) -> Decision<'a> {
    let found = if reply.outcome.is_hit() { ReplyItem::of(&reply.answer) } else { None };
    let copy =
        found.filter(|item| !item.is_stale && matches!(item.line, Line::MetaValue { .. })).and_then(|item| {
            let exptime = exptime_of(item.ttl?, unix_s)?;
            Some((STAGING, store(message, &StoredItem::item(&item, exptime))))
        });
    Decision::from(Orders { copy, ..Orders::default() })
}

/// An `mg` with `c`, and otherwise with flags that only say what the reply repeats.
fn is_read_with_cas(message: &RoutedRequest<'_>) -> bool {
    has_flag(message, b'c') && derive::flags(message).all(|word| b"vftksqObhlc".contains(&word[0]))
}

impl<C: AddRoute<Staging> + AddRoute<AllSync>> RouteForm<C> for Staging {
    const FORM: Fields = ("StagingRoute", &["staging", "warm"]);

    const HAS_SHORT_FORM: bool = false;

    /// Deletes go to both, and the worse reply counts.
    fn compile(compiler: &mut C, definition: RouteDefinition<'_>) -> Result<Vec<NodeId>, ConfigError> {
        let (object, json) = (definition.json().object("a route")?, definition.json());
        let warm = compiler.single(object.require("warm")?)?;
        let children = vec![warm, compiler.single(object.require("staging")?)?];
        let deletes = compiler.add_route(AllSync, children.clone(), json)?;
        let default = compiler.add_route(Staging, children, json)?;
        let children = [(OperationClass::Delete, deletes)].into();
        Ok(vec![compiler.add_plain(PlainRoute::ByClass { children, default }, json)?])
    }
}
