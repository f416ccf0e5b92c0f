//! Decisions of StagingRoute: a cache that is to replace another one gets what that one has.
//!
//! ```text
//! get     warm ─ hit ─► answer, and staging is asked for the key ─ miss ─► warm ─ hit ─► staging gets a copy
//! set     warm ─ stored ─► answer, and staging gets the same
//! others  warm ─ no error ─► answer, and staging gets the same request
//! ```

use protocol::client::Line;
use protocol::request::SetMode;

use super::derive::{self, Stored, has_flag, is_plain_read, look, store, stored_by};
use super::fill::exptime_of;
use super::item::ReplyItem;
use super::reply::FlightReply;
use super::steps::{Decision, Orders, Scene, Stage, StagingStage, State};
use crate::message::operation::Operation;
use crate::message::outcome::Outcome;
use crate::message::request::{RoutedRequest, StoredRequest};

/// Children.
const WARM: u16 = 0;
const STAGING: u16 = 1;

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

impl State {
    pub(super) fn staging<'a>(&mut self, scene: &mut Scene<'_>, reply: FlightReply<'a>) -> Decision<'a> {
        let Stage::Staging(stage) = self.stage else { unreachable!("the stage of another route") };
        let message = &scene.message;
        match stage {
            StagingStage::Warm => self.warm(message, reply),
            StagingStage::Look if reply.outcome == Outcome::NotFound => {
                let mirrored = Mirrored::of(message);
                match mirrored {
                    Mirrored::Item => {
                        self.ask_also(StagingStage::Fetch, (WARM, derive::fetch(message, true)), None)
                    }
                    _ => Decision::from(Orders::default()),
                }
            }
            StagingStage::Look => Decision::from(Orders::default()),
            StagingStage::Fetch => copy(message, scene.unix_s, &reply),
        }
    }

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
        self.stage = Stage::Staging(stage);
        Decision::from(Orders { copy: None, asks: vec![(child, Some(request))], answer })
    }
}

/// Staging gets warm's item, for as long as that lives.
fn copy<'a>(message: &RoutedRequest<'_>, unix_s: i64, reply: &FlightReply<'_>) -> Decision<'a> {
    let found = if reply.outcome.is_hit() { ReplyItem::of(&reply.answer) } else { None };
    let copy =
        found.filter(|item| !item.is_stale && matches!(item.line, Line::MetaValue { .. })).and_then(|item| {
            let exptime = exptime_of(item.ttl?, unix_s)?;
            Some((STAGING, store(message, &Stored::item(&item, exptime))))
        });
    Decision::from(Orders { copy, ..Orders::default() })
}

/// An `mg` with `c`, and otherwise with flags that only say what the reply repeats.
fn is_read_with_cas(message: &RoutedRequest<'_>) -> bool {
    has_flag(message, b'c') && derive::flags(message).all(|word| b"vftksqObhlc".contains(&word[0]))
}
