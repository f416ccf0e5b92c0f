//! Replicas of keys: KeySplitRoute keeps an item under several keys, so that several servers share a hot one.

use std::sync::Arc;

use protocol::limits::KEY_LEN_MAX;
use protocol::request::SetMode;

use super::derive::{has_flag, is_binary, is_plain_read, with_key};
use super::reply::FlightReply;
use super::{Flights, Leg};
use crate::message::operation::Operation;
use crate::message::request::{RoutedRequest, StoredRequest};
use crate::plan::choices::Choices;
use crate::plan::{Compound, KeySplit, RoutePlan};
use crate::servers::destination::ReplyTarget;

/// Between a key and the number of its replica.
const SEPARATOR: &[u8] = b"::";

/// The replicas that a request goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Replicas {
    /// The key is too long for a number.
    None,
    /// That of this host.
    Own,
    /// All; that of this host answers.
    All,
    /// All; the first hit answers.
    FirstHit,
}

impl KeySplit {
    /// Whether the key has room for the number of each replica: those who share it must agree on its replicas.
    fn fits(&self, message: &RoutedRequest<'_>) -> bool {
        let last = self.replicas - 1;
        if message.operation.is_meta() && is_binary(message) {
            return replica_key(message, last).is_some();
        }
        let digits = last.checked_ilog10().map_or(1, |power| power as usize + 1);
        message.key.full.len() + SEPARATOR.len() + digits <= KEY_LEN_MAX
    }

    pub(super) fn replicas_of(&self, message: &RoutedRequest<'_>) -> Replicas {
        if !self.fits(message) {
            return Replicas::None;
        }
        let is_set = match message.operation {
            Operation::Set => true,
            Operation::MetaSet(SetMode::Set) => !has_flag(message, b'C'),
            _ => false,
        };
        match message.operation {
            Operation::Delete | Operation::MetaDelete => Replicas::All,
            _ if is_set && self.all_sync => Replicas::All,
            Operation::Get | Operation::MetaGet if self.first_hit && is_plain_read(message) => {
                Replicas::FirstHit
            }
            _ => Replicas::Own,
        }
    }
}

/// The request for a replica; `None` for the first one, whose key is the client's.
pub(super) fn replica(message: &RoutedRequest<'_>, number: u16) -> Option<StoredRequest> {
    if number == 0 { None } else { replica_key(message, number) }
}

fn replica_key(message: &RoutedRequest<'_>, number: u16) -> Option<StoredRequest> {
    let mut out = StoredRequest::default();
    let changed = with_key(message, &mut out, |key, _| {
        // Before a hash stop, so that it counts for the choice of a server.
        let (routing, after) = key.full.split_at(key.prefix_len + key.routing_len);
        Some([routing, SEPARATOR, number.to_string().as_bytes(), after].concat())
    });
    changed.is_ok().then_some(out)
}

impl Flights {
    /// Sends the request for one replica.
    pub(super) fn begin_replica(
        &mut self,
        plan: &Arc<RoutePlan>,
        compound: &Compound,
        number: u16,
        leg: Leg,
        choices: &mut Choices,
    ) -> Option<FlightReply<'static>> {
        let node = compound.children[usize::from(number)];
        match replica(&self.requests.get_mut(leg.request)?.request.message(), number) {
            Some(derived) => self.begin_derived(plan, node, derived, leg, choices),
            None => self.begin(plan, node, leg, choices),
        }
    }

    /// Sends the request for all replicas, of which that of this host has the reply.
    pub(super) fn begin_replicas(
        &mut self,
        plan: &Arc<RoutePlan>,
        compound: &Compound,
        split: KeySplit,
        leg: Leg,
        choices: &mut Choices,
    ) -> Option<FlightReply<'static>> {
        for number in (0..split.replicas).filter(|number| *number != split.own) {
            let leg = Leg { owner: ReplyTarget::Nobody, ..leg };
            self.begin_replica(plan, compound, number, leg, choices);
        }
        self.begin_replica(plan, compound, split.own, leg, choices)
    }
}
