//! Requests on their way: to a route, and from the last route to a server.

use crate::plan::{LogId, ServerId};
use crate::servers::destination::ReplyTarget;
use crate::slab::Id;

/// A request for a server.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Send {
    /// In the plan of the flight.
    pub(crate) server: ServerId,
    pub(crate) keep_prefix: bool,
    /// The stored request, of which this is a user.
    pub(crate) request: Id,
    /// For whom its reply is.
    pub(crate) target: ReplyTarget,
    pub(crate) marks: Marks,
}

/// What a route above has made of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    /// Its key says that it is a failover.
    pub(crate) is_tagged: bool,
    /// It is for a shadow.
    pub(crate) is_shadow: bool,
    /// The log that takes it, if it is a delete that fails.
    pub(crate) log: Option<LogId>,
}

impl Marks {
    /// The marks of the same request for a shadow.
    pub(crate) fn of_shadow(self) -> Marks {
        Marks { is_shadow: true, log: None, ..self }
    }
}

/// A request on its way to a route.
#[derive(Clone, Copy)]
pub(crate) struct Leg {
    pub(crate) request: Id,
    /// For whom its reply is.
    pub(crate) owner: ReplyTarget,
    pub(crate) marks: Marks,
}
