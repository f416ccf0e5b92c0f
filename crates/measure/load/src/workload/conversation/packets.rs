//! Replies of the binary protocol, matched to requests by the number that both have.

use super::{Conversation, Ending, Ledger, ReplyContext, RequestKind, broken};
use crate::types::error::Error;
use crate::types::mix::Command;
use crate::workload::request::opcode;
use protocol::binary::{Opcode, ReplyStatus};
use protocol::client::{PacketPiece, ReplyPacket};

impl Conversation {
    /// Takes received bytes and counts the requests that they complete.
    #[inline]
    pub(super) fn receive_packets(
        &mut self,
        mut input: &[u8],
        reading: &mut ReplyContext<'_>,
    ) -> Result<(), Error> {
        let Conversation { packets, value_is_wanted, ledger, .. } = self;
        while let Some(piece) = packets.next(&mut input).map_err(broken)? {
            match piece {
                PacketPiece::Head(packet) => {
                    *value_is_wanted = ledger.packet(&packet, reading)?;
                    if *value_is_wanted && packet.value_len == 0 {
                        ledger.body(&[], true, reading);
                    }
                }
                PacketPiece::Value { bytes, end } if *value_is_wanted => ledger.body(bytes, end, reading),
                // The text of an error, or a counter's number.
                PacketPiece::Value { .. } => {}
            }
        }
        Ok(())
    }
}

impl Ledger {
    /// Takes the head of a reply. Returns whether its value is that of an item.
    #[inline]
    fn packet(&mut self, packet: &ReplyPacket<'_>, reading: &mut ReplyContext<'_>) -> Result<bool, Error> {
        let Some(&super::Pending { kind, found, .. }) = self.pending.front() else {
            return Err(unexpected(packet, "nothing: no request is on its way"));
        };
        let status = ReplyStatus::of(packet.status);
        if packet.number != self.oldest() || !answers(kind, packet.opcode) {
            return Err(unexpected(packet, kind.expected()));
        }
        let is_get = matches!(kind, RequestKind::PacketGet(_) | RequestKind::PacketGets { .. });
        let is_end = packet.opcode == Opcode::Noop as u8;
        match status {
            Some(ReplyStatus::Success) if is_get && !is_end => {
                if found == kind.keys() {
                    return Err(unexpected(packet, "a noop: every key has its value"));
                }
                if reading.track {
                    self.find_item(Some(packet.key), reading);
                }
                return Ok(true);
            }
            Some(ReplyStatus::Success) => self.complete(Ending::Answered, reading),
            Some(ReplyStatus::NotFound) if matches!(kind, RequestKind::PacketGet(_)) => {
                self.complete(Ending::Answered, reading);
            }
            Some(status) if Some(status) == declines(kind) => self.complete(Ending::Declined, reading),
            status => {
                reading.tally.error(status.map_or("unknown status", ReplyStatus::text).as_bytes());
                self.fail();
                // Within quiet gets an error answers one key; the `noop` still ends the request.
                if is_end || !matches!(kind, RequestKind::PacketGets { .. }) {
                    self.complete(Ending::Error, reading);
                }
            }
        }
        Ok(false)
    }
}

/// Whether a reply with this opcode may answer a request.
#[inline]
fn answers(kind: RequestKind, reply: u8) -> bool {
    let is = |opcode: Opcode| reply == opcode as u8;
    match kind {
        RequestKind::PacketGet(_) => is(Opcode::Get) || is(Opcode::GetK),
        RequestKind::PacketGets { .. } => is(Opcode::GetQ) || is(Opcode::GetKQ) || is(Opcode::Noop),
        kind => is(opcode(kind.command())),
    }
}

/// The status by which a change is declined: the item exists, or it does not.
fn declines(kind: RequestKind) -> Option<ReplyStatus> {
    match kind {
        RequestKind::PacketGet(_) | RequestKind::PacketGets { .. } => None,
        kind => match kind.command() {
            Command::Add => Some(ReplyStatus::Exists),
            Command::Append | Command::Prepend => Some(ReplyStatus::NotStored),
            Command::Set => None,
            _ => Some(ReplyStatus::NotFound),
        },
    }
}

#[cold]
fn unexpected(packet: &ReplyPacket<'_>, expected: &'static str) -> Error {
    let ReplyPacket { opcode, status, number, .. } = packet;
    let line = format!("a packet with opcode 0x{opcode:02x}, status 0x{status:02x}, number {number}");
    Error::Reply { line, expected }
}
