//! Kinds of requests, and the replies to them.

use crate::types::description::CommandProtocol;
use crate::types::mix::Command;
use protocol::client::Line;

/// The forms of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    /// `get` of any number of keys: values, then `END`.
    Get { command: Command, keys: u32 },
    /// One `mg`: a value or a miss.
    MetaGet(Command),
    /// Quiet `mg`s and `mn`: values, then `MN`.
    MetaGets { command: Command, keys: u32 },
    /// One get in a packet: a value or a miss.
    PacketGet(Command),
    /// Quiet gets in packets and a `noop`: values, then the reply to the `noop`.
    PacketGets { command: Command, keys: u32 },
    /// Anything else: one line or packet.
    Change(Command, CommandProtocol),
    /// A set of an item that was missed: not part of the load.
    Refill(CommandProtocol),
}

impl RequestKind {
    /// Keys that the request has: 0 for a change.
    #[inline]
    pub(super) fn keys(self) -> u32 {
        match self {
            RequestKind::Get { keys, .. }
            | RequestKind::MetaGets { keys, .. }
            | RequestKind::PacketGets { keys, .. } => keys,
            RequestKind::MetaGet(_) | RequestKind::PacketGet(_) => 1,
            RequestKind::Change(..) | RequestKind::Refill(_) => 0,
        }
    }

    #[inline]
    pub(super) fn command(self) -> Command {
        match self {
            RequestKind::Get { command, .. }
            | RequestKind::MetaGet(command)
            | RequestKind::MetaGets { command, .. }
            | RequestKind::PacketGet(command)
            | RequestKind::PacketGets { command, .. }
            | RequestKind::Change(command, _) => command,
            RequestKind::Refill(_) => Command::Set,
        }
    }

    pub(super) fn expected(self) -> &'static str {
        match self {
            RequestKind::Get { .. } => "VALUE or END, to a get",
            RequestKind::MetaGet(_) => "VA or EN, to an mg",
            RequestKind::MetaGets { .. } => "VA or MN, to quiet mgs and mn",
            RequestKind::PacketGet(_) => "a value or Not found, to a get in a packet",
            RequestKind::PacketGets { .. } => "values, then a noop, to quiet gets and a noop in packets",
            RequestKind::Change(_, CommandProtocol::Binary)
            | RequestKind::Refill(CommandProtocol::Binary) => {
                "a packet with the opcode and the number of the request"
            }
            RequestKind::Change(Command::Touch, CommandProtocol::Text) => "TOUCHED or NOT_FOUND, to a touch",
            RequestKind::Change(Command::Touch, CommandProtocol::Meta) => "HD or EN, to an mg with T",
            RequestKind::Change(Command::Delete, CommandProtocol::Text) => {
                "DELETED or NOT_FOUND, to a delete"
            }
            RequestKind::Change(Command::Delete, CommandProtocol::Meta) => "HD or NF, to an md",
            RequestKind::Change(command, CommandProtocol::Text) if command.counts() => {
                "a number or NOT_FOUND, to incr or decr"
            }
            RequestKind::Change(command, CommandProtocol::Meta) if command.counts() => "HD or NF, to an ma",
            RequestKind::Change(_, CommandProtocol::Text) | RequestKind::Refill(CommandProtocol::Text) => {
                "STORED or NOT_STORED, to a set or its like"
            }
            RequestKind::Change(_, CommandProtocol::Meta) | RequestKind::Refill(CommandProtocol::Meta) => {
                "HD or NS, to an ms"
            }
        }
    }
}

/// A reply's answer about a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyOutcome {
    Done,
    Declined,
}

/// `None`: this line is no reply to this command.
#[inline]
pub(super) fn outcome(command: Command, protocol: CommandProtocol, line: &Line<'_>) -> Option<ReplyOutcome> {
    use ReplyOutcome::{Declined, Done};
    Some(match (protocol, command, line) {
        (_, Command::Get | Command::Gets, _) => return None,
        (CommandProtocol::Text, Command::Delete, Line::Deleted) => Done,
        (CommandProtocol::Text, Command::Touch, Line::Touched) => Done,
        (CommandProtocol::Text, Command::Incr | Command::Decr, Line::Number(_)) => Done,
        (CommandProtocol::Text, Command::Delete | Command::Touch | Command::Incr | Command::Decr, line) => {
            return matches!(line, Line::NotFound).then_some(Declined);
        }
        (CommandProtocol::Text, _, Line::Stored) => Done,
        (CommandProtocol::Text, _, Line::NotStored) => Declined,
        (CommandProtocol::Meta, _, Line::Header(_)) => Done,
        (CommandProtocol::Meta, Command::Touch, Line::Miss(_)) => Declined,
        (CommandProtocol::Meta, Command::Delete | Command::Incr | Command::Decr, Line::MetaNotFound(_)) => {
            Declined
        }
        (CommandProtocol::Meta, Command::Delete | Command::Touch | Command::Incr | Command::Decr, _) => {
            return None;
        }
        (CommandProtocol::Meta, _, Line::MetaNotStored(_)) => Declined,
        _ => return None,
    })
}
