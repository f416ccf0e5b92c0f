//! Requests in packets of the binary protocol.

use super::{Answer, Writer, exptime};
use crate::types::mix::Command;
use protocol::binary::Opcode;
use protocol::client::command::AppendKey;
use protocol::client::packet;

impl Writer<'_> {
    /// Gets of the chosen keys. Several are asked for quietly: misses are left out and a `noop` marks the end.
    #[inline]
    pub(super) fn packet_gets<K: AppendKey>(
        self,
        keys: impl Iterator<Item = K>,
        answer: Answer,
        out: &mut Vec<u8>,
    ) {
        let opcode = match (answer.several, answer.keyed) {
            (false, false) => Opcode::Get,
            (false, true) => Opcode::GetK,
            (true, false) => Opcode::GetQ,
            (true, true) => Opcode::GetKQ,
        };
        for key in keys {
            packet::of_key(out, opcode, self.number, key);
        }
        if answer.several {
            packet::bare(out, Opcode::Noop, self.number);
        }
    }

    /// A packet up to its value.
    #[inline]
    pub(super) fn packet_store_head(
        self,
        command: Command,
        key: impl AppendKey,
        ttl: u64,
        len: usize,
        out: &mut Vec<u8>,
    ) {
        let opcode = opcode(command);
        match command {
            Command::Append | Command::Prepend => packet::join(out, opcode, self.number, key, len),
            _ => packet::store(out, opcode, self.number, key, exptime(ttl) as u32, len),
        }
    }

    /// A packet of one key without a value.
    pub(super) fn packet_line(self, command: Command, key: impl AppendKey, ttl: u64, out: &mut Vec<u8>) {
        let opcode = opcode(command);
        match command {
            Command::Incr | Command::Decr => packet::arithmetic(out, opcode, self.number, key, 1),
            Command::Touch => packet::touch(out, opcode, self.number, key, exptime(ttl) as u32),
            _ => packet::of_key(out, opcode, self.number, key),
        }
    }
}

/// The opcode of a command; of a get, that of a single one. Every reply to a get has the CAS unique.
#[inline]
pub(crate) fn opcode(command: Command) -> Opcode {
    match command {
        Command::Get | Command::Gets => Opcode::Get,
        Command::Set => Opcode::Set,
        Command::Add => Opcode::Add,
        Command::Replace => Opcode::Replace,
        Command::Append => Opcode::Append,
        Command::Prepend => Opcode::Prepend,
        Command::Delete => Opcode::Delete,
        Command::Incr => Opcode::Increment,
        Command::Decr => Opcode::Decrement,
        Command::Touch => Opcode::Touch,
    }
}
