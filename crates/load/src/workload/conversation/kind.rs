//! Kinds of requests, and the replies to them.

use crate::types::description::Protocol;
use crate::types::mix::Command;
use protocol::client::Line;

/// The forms of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `get` of any number of keys: values, then `END`.
    Get { command: Command, keys: u32 },
    /// One `mg`: a value or a miss.
    MetaGet(Command),
    /// Quiet `mg`s and `mn`: values, then `MN`.
    MetaGets { command: Command, keys: u32 },
    /// Anything else: one line.
    Change(Command, Protocol),
    /// A set of an item that was missed: not part of the load.
    Refill(Protocol),
}

impl Kind {
    /// Keys that the request has: 0 for a change.
    #[inline]
    pub(super) fn keys(self) -> u32 {
        match self {
            Kind::Get { keys, .. } | Kind::MetaGets { keys, .. } => keys,
            Kind::MetaGet(_) => 1,
            Kind::Change(..) | Kind::Refill(_) => 0,
        }
    }

    #[inline]
    pub(super) fn command(self) -> Command {
        match self {
            Kind::Get { command, .. }
            | Kind::MetaGet(command)
            | Kind::MetaGets { command, .. }
            | Kind::Change(command, _) => command,
            Kind::Refill(_) => Command::Set,
        }
    }

    pub(super) fn expected(self) -> &'static str {
        match self {
            Kind::Get { .. } => "VALUE or END, to a get",
            Kind::MetaGet(_) => "VA or EN, to an mg",
            Kind::MetaGets { .. } => "VA or MN, to quiet mgs and mn",
            Kind::Change(Command::Touch, Protocol::Text) => "TOUCHED or NOT_FOUND, to a touch",
            Kind::Change(Command::Touch, Protocol::Meta) => "HD or EN, to an mg with T",
            Kind::Change(Command::Delete, Protocol::Text) => "DELETED or NOT_FOUND, to a delete",
            Kind::Change(Command::Delete, Protocol::Meta) => "HD or NF, to an md",
            Kind::Change(command, Protocol::Text) if command.counts() => {
                "a number or NOT_FOUND, to incr or decr"
            }
            Kind::Change(command, Protocol::Meta) if command.counts() => "HD or NF, to an ma",
            Kind::Change(_, Protocol::Text) | Kind::Refill(Protocol::Text) => {
                "STORED or NOT_STORED, to a set or its like"
            }
            Kind::Change(_, Protocol::Meta) | Kind::Refill(Protocol::Meta) => "HD or NS, to an ms",
        }
    }
}

/// A reply's answer about a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    Declined,
}

/// `None`: this line is no reply to this command.
#[inline]
pub(super) fn outcome(command: Command, protocol: Protocol, line: &Line<'_>) -> Option<Outcome> {
    use Outcome::{Declined, Done};
    Some(match (protocol, command, line) {
        (_, Command::Get | Command::Gets, _) => return None,
        (Protocol::Text, Command::Delete, Line::Deleted) => Done,
        (Protocol::Text, Command::Touch, Line::Touched) => Done,
        (Protocol::Text, Command::Incr | Command::Decr, Line::Number(_)) => Done,
        (Protocol::Text, Command::Delete | Command::Touch | Command::Incr | Command::Decr, line) => {
            return matches!(line, Line::NotFound).then_some(Declined);
        }
        (Protocol::Text, _, Line::Stored) => Done,
        (Protocol::Text, _, Line::NotStored) => Declined,
        (Protocol::Meta, _, Line::Header(_)) => Done,
        (Protocol::Meta, Command::Touch, Line::Miss(_)) => Declined,
        (Protocol::Meta, Command::Delete | Command::Incr | Command::Decr, Line::MetaNotFound(_)) => Declined,
        (Protocol::Meta, Command::Delete | Command::Touch | Command::Incr | Command::Decr, _) => return None,
        (Protocol::Meta, _, Line::MetaNotStored(_)) => Declined,
        _ => return None,
    })
}
