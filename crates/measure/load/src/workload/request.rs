//! Bytes of requests, in any of the protocols.

mod packets;

pub(crate) use packets::opcode;

use crate::types::description::CommandProtocol;
use crate::types::mix::Command;
use crate::types::ttl::on_the_wire;
use crate::workload::items::Items;
use crate::workload::plan::RunPlan;
use crate::workload::trace::TraceRecord;
use protocol::client::Flag;
use protocol::client::command::{self, Reply, ValueAttributes};
use protocol::request::{ArithmeticMode, SetMode, Verb};

/// Appends requests about items to a buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writer<'a> {
    pub(crate) items: &'a Items,
    pub(crate) protocol: CommandProtocol,
    /// The number of the next request, which packets have.
    pub(crate) number: u32,
}

/// The form of a get's reply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    /// More than one key is asked for.
    pub(crate) several: bool,
    /// With the key, which the text protocol always does.
    pub(crate) keyed: bool,
}

impl<'a> Writer<'a> {
    /// The items and the protocol of a run.
    pub(crate) fn new(plan: &'a RunPlan) -> Writer<'a> {
        Writer { items: &plan.items, protocol: plan.run.protocol, number: 0 }
    }
}

impl Writer<'_> {
    /// `get` or `gets` of the chosen items.
    #[inline]
    pub(crate) fn get(
        self,
        command: Command,
        chosen: impl Iterator<Item = u64>,
        answer: Answer,
        out: &mut Vec<u8>,
    ) {
        let keys = &self.items.keys;
        let chosen = chosen.map(|item| move |out: &mut Vec<u8>| keys.write(item, out));
        match (self.protocol, command) {
            (CommandProtocol::Text, Command::Gets) => command::gets(out, chosen),
            (CommandProtocol::Text, _) => command::get(out, chosen),
            (CommandProtocol::Meta, _) => {
                command::meta_get_each(out, chosen, retrieval_flags(command, answer));
                // Several keys are asked for quietly: misses are left out and `mn` marks the end.
                if answer.several {
                    command::meta_noop(out);
                }
            }
            (CommandProtocol::Binary, _) => self.packet_gets(chosen, answer, out),
        }
    }

    /// Any command but a get, for the item, or for the counter of this number.
    #[inline]
    pub(crate) fn change(self, command: Command, item: u64, out: &mut Vec<u8>) {
        if command.is_store() { self.store(command, item, out) } else { self.small(command, item, out) }
    }

    #[inline]
    fn store(self, command: Command, item: u64, out: &mut Vec<u8>) {
        let Items { keys, values, .. } = self.items;
        self.store_head(command, |out| keys.write(item, out), self.items.ttl(item), values.size(item), out);
        values.write(item, out);
        self.end_value(out);
    }

    /// What ends a value: nothing in a packet.
    #[inline]
    fn end_value(self, out: &mut Vec<u8>) {
        if self.protocol != CommandProtocol::Binary {
            out.extend_from_slice(b"\r\n");
        }
    }

    /// The line or packet before a value.
    #[inline]
    fn store_head(
        self,
        command: Command,
        key: impl FnOnce(&mut Vec<u8>),
        ttl: u64,
        len: usize,
        out: &mut Vec<u8>,
    ) {
        let (verb, mode) = match command {
            Command::Add => (Verb::Add, Some(SetMode::Add)),
            Command::Replace => (Verb::Replace, Some(SetMode::Replace)),
            Command::Append => (Verb::Append, Some(SetMode::Append)),
            Command::Prepend => (Verb::Prepend, Some(SetMode::Prepend)),
            _ => (Verb::Set, None),
        };
        let exptime = exptime(ttl);
        match self.protocol {
            CommandProtocol::Text => {
                command::store(out, verb, key, ValueAttributes { flags: 0, exptime, len }, Reply::Wanted);
            }
            CommandProtocol::Meta => {
                match (mode.map(Flag::SetMode), (exptime > 0).then_some(Flag::Exptime(exptime))) {
                    (None, None) => command::meta_set(out, key, len, &[]),
                    (Some(flag), None) | (None, Some(flag)) => command::meta_set(out, key, len, &[flag]),
                    (Some(mode), Some(exptime)) => command::meta_set(out, key, len, &[mode, exptime]),
                }
            }
            CommandProtocol::Binary => self.packet_store_head(command, key, ttl, len, out),
        }
    }

    fn small(self, command: Command, item: u64, out: &mut Vec<u8>) {
        let keys = &self.items.keys;
        match command.counts() {
            true => self.line(command, |out| keys.write_counter(item, out), self.items.ttl(item), out),
            false => self.line(command, |out| keys.write(item, out), self.items.ttl(item), out),
        }
    }

    /// The requests of a trace. Values of less than 20 bytes are numbers, so that counters can count.
    pub(crate) fn traced(self, record: &TraceRecord, out: &mut Vec<u8>) {
        let TraceRecord { command, key, value_len, .. } = record;
        let ttl = on_the_wire(record.ttl, self.items.start);
        let key = |out: &mut Vec<u8>| out.extend_from_slice(key);
        if !command.is_store() {
            return self.line(*command, key, ttl, out);
        }
        self.store_head(*command, key, ttl, *value_len, out);
        match *value_len < NUMBER_LEN_MAX {
            true => out.resize(out.len() + value_len, b'1'),
            false => self.items.values.write_sized(record.hash(), *value_len, out),
        }
        self.end_value(out);
    }

    /// A request of one key without a value.
    fn line(self, command: Command, key: impl FnOnce(&mut Vec<u8>), ttl: u64, out: &mut Vec<u8>) {
        let mode = match command {
            Command::Decr => ArithmeticMode::Decrement,
            _ => ArithmeticMode::Increment,
        };
        match (self.protocol, command) {
            (CommandProtocol::Text, Command::Incr | Command::Decr) => {
                command::arithmetic(out, mode, key, 1, Reply::Wanted);
            }
            (CommandProtocol::Text, Command::Touch) => command::touch(out, key, exptime(ttl), Reply::Wanted),
            (CommandProtocol::Text, Command::Get) => command::get(out, [key]),
            (CommandProtocol::Text, Command::Gets) => command::gets(out, [key]),
            (CommandProtocol::Text, _) => command::delete(out, key, Reply::Wanted),
            (CommandProtocol::Meta, Command::Incr) => command::meta_arithmetic(out, key, &[]),
            (CommandProtocol::Meta, Command::Decr) => {
                command::meta_arithmetic(out, key, &[Flag::ArithmeticMode(mode)]);
            }
            (CommandProtocol::Meta, Command::Touch) => {
                command::meta_get(out, key, &[Flag::Exptime(exptime(ttl))])
            }
            (CommandProtocol::Meta, Command::Get | Command::Gets) => {
                let answer = Answer { several: false, keyed: false };
                command::meta_get(out, key, retrieval_flags(command, answer));
            }
            (CommandProtocol::Meta, _) => command::meta_delete(out, key, &[]),
            (CommandProtocol::Binary, _) => self.packet_line(command, key, ttl, out),
        }
    }

    /// A set before the run: of the item of this number, or, beyond the last one, of a counter.
    pub(crate) fn fill(self, number: u64, out: &mut Vec<u8>) {
        match number.checked_sub(self.items.count) {
            None => self.change(Command::Set, number, out),
            Some(counter) => self.set_counter(counter, out),
        }
    }

    /// Stores a counter at 0.
    fn set_counter(self, number: u64, out: &mut Vec<u8>) {
        let key = |out: &mut Vec<u8>| self.items.keys.write_counter(number, out);
        self.store_head(Command::Set, key, self.items.ttl(number), 1, out);
        out.push(b'0');
        self.end_value(out);
    }
}

/// The largest 64-bit number has this many digits, and not all numbers of as many digits fit.
const NUMBER_LEN_MAX: usize = 20;

/// Flags with which an `mg` does what the command does in the text protocol.
#[inline]
fn retrieval_flags(command: Command, answer: Answer) -> &'static [Flag<'static>] {
    use Flag::{Cas, Key, Quiet, Value};
    match (command, answer.several, answer.keyed) {
        (Command::Gets, false, false) => &[Value, Cas],
        (Command::Gets, false, true) => &[Value, Cas, Key],
        (Command::Gets, true, false) => &[Value, Cas, Quiet],
        (Command::Gets, true, true) => &[Value, Cas, Key, Quiet],
        (_, false, false) => &[Value],
        (_, false, true) => &[Value, Key],
        (_, true, false) => &[Value, Quiet],
        (_, true, true) => &[Value, Key, Quiet],
    }
}

/// Servers keep times in 32 bits: later times end in 2038.
#[inline]
fn exptime(ttl: u64) -> i32 {
    i32::try_from(ttl).unwrap_or(i32::MAX)
}
