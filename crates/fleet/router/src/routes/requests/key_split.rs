//! KeySplitRoute: keeps an item under several keys, so that several servers share a hot one.

use protocol::limits::KEY_LEN_MAX;
use protocol::request::SetMode;

use crate::config::error::ConfigError;
use crate::flight::derive::{has_flag, is_binary, is_plain_read, with_key};
use crate::flight::reply::FlightReply;
use crate::message::operation::Operation;
use crate::message::request::{RoutedRequest, StoredRequest};
use crate::plan::NodeId;
use crate::routes::form::{AddRoute, Fields, RouteDefinition, RouteForm};
use crate::routes::route::{Decision, FirstStep, Numbers, Opening, Route, Scene};

/// Between a key and the number of its replica.
const SEPARATOR: &[u8] = b"::";

/// How a key is split into replicas: the key itself, and keys with `::1`, `::2` and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeySplit {
    /// 2 to 1000: as many as the route has children, which are all the same.
    pub(crate) replicas: u16,
    /// The one that this host uses.
    pub(crate) own: u16,
    /// A set goes to all.
    pub(crate) all_sync: bool,
    /// A get goes to all, and the first hit is its answer.
    pub(crate) first_hit: bool,
}

/// The replicas that a request goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Replicas {
    /// The key is too long for a number.
    None,
    /// That of this host.
    Own,
    /// All; that of this host answers.
    All,
    /// All; the first hit answers.
    FirstHit,
}

impl Route for KeySplit {
    type Progress = ();

    fn name(&self) -> Option<&'static str> {
        Some("keysplit")
    }

    fn begin(&self, opening: &mut Opening<'_>) -> FirstStep<()> {
        let message = &opening.message;
        match self.replicas_of(message) {
            Replicas::None => FirstStep::Pass(0, None),
            Replicas::Own => FirstStep::Pass(self.own, replica(message, self.own)),
            Replicas::All => FirstStep::Copy {
                before: Numbers::Range(0..self.replicas),
                answer: Some(self.own),
                after: Numbers::NONE,
            },
            Replicas::FirstHit => FirstStep::AskAll((), Numbers::Range(0..self.replicas)),
        }
    }

    /// The first that has the item, else the last.
    fn replied<'a>(&self, (): &mut (), scene: &mut Scene<'_>, reply: FlightReply<'a>) -> Decision<'a> {
        if !reply.outcome.is_hit() && scene.waiting > 0 {
            return Decision::Wait;
        }
        Decision::Done(reply)
    }

    fn request(&self, message: &RoutedRequest<'_>, _: Option<&()>, child: u16) -> Option<StoredRequest> {
        replica(message, child)
    }
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

    fn replicas_of(&self, message: &RoutedRequest<'_>) -> Replicas {
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
fn replica(message: &RoutedRequest<'_>, number: u16) -> Option<StoredRequest> {
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

/// mcrouter's limits of `replicas`.
const REPLICAS: std::ops::RangeInclusive<i64> = 2..=1000;

impl<C: AddRoute<KeySplit>> RouteForm<C> for KeySplit {
    const FORM: Fields = ("KeySplitRoute", &["all_sync", "destination", "first_hit", "replicas"]);

    const HAS_SHORT_FORM: bool = false;

    fn compile(compiler: &mut C, definition: RouteDefinition<'_>) -> Result<Vec<NodeId>, ConfigError> {
        let object = definition.json().object("a route")?;
        let destination = compiler.single(object.require("destination")?)?;
        let replicas = object.require("replicas")?.integer("`replicas`", REPLICAS)? as u16;
        let split = KeySplit {
            replicas,
            own: (compiler.host_id() % u32::from(replicas)) as u16,
            all_sync: object.require("all_sync")?.bool("`all_sync`")?,
            first_hit: object.bool("first_hit")?.unwrap_or(false),
        };
        let children = vec![destination; usize::from(replicas)];
        Ok(vec![compiler.add_route(split, children, definition.json())?])
    }
}
