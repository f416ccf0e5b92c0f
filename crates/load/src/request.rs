//! The bytes of requests, in either protocol.

use crate::description::Protocol;
use crate::mix::Command;
use crate::plan::Items;
use crate::trace::Record;
use crate::ttl::on_the_wire;

/// Appends requests about items to a buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writer<'a> {
    pub(crate) items: &'a Items,
    pub(crate) protocol: Protocol,
}

/// How a get is to be answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    /// More than one key is asked for.
    pub(crate) several: bool,
    /// With the key, which the text protocol always does.
    pub(crate) keyed: bool,
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
        match self.protocol {
            Protocol::Text => {
                out.extend_from_slice(command.name().as_bytes());
                for item in chosen {
                    out.push(b' ');
                    self.items.keys.write(item, out);
                }
                out.extend_from_slice(b"\r\n");
            }
            Protocol::Meta => self.meta_get(command, chosen, answer, out),
        }
    }

    /// Several keys are asked for quietly: misses are left out and `mn` marks the end.
    #[inline]
    fn meta_get(
        self,
        command: Command,
        chosen: impl Iterator<Item = u64>,
        answer: Answer,
        out: &mut Vec<u8>,
    ) {
        let flags: &[u8] = match (command, answer.several, answer.keyed) {
            (Command::Gets, false, false) => b" v c\r\n",
            (Command::Gets, false, true) => b" v c k\r\n",
            (Command::Gets, true, false) => b" v c q\r\n",
            (Command::Gets, true, true) => b" v c k q\r\n",
            (_, false, false) => b" v\r\n",
            (_, false, true) => b" v k\r\n",
            (_, true, false) => b" v q\r\n",
            (_, true, true) => b" v k q\r\n",
        };
        for item in chosen {
            out.extend_from_slice(b"mg ");
            self.items.keys.write(item, out);
            out.extend_from_slice(flags);
        }
        if answer.several {
            out.extend_from_slice(b"mn\r\n");
        }
    }

    /// Any command but a get, about the item, or about the counter of this number.
    #[inline]
    pub(crate) fn change(self, command: Command, item: u64, out: &mut Vec<u8>) {
        if command.is_store() { self.store(command, item, out) } else { self.small(command, item, out) }
    }

    #[inline]
    fn store(self, command: Command, item: u64, out: &mut Vec<u8>) {
        let Items { keys, values, .. } = self.items;
        self.store_head(command, |out| keys.write(item, out), self.items.ttl(item), values.size(item), out);
        values.write(item, out);
        out.extend_from_slice(b"\r\n");
    }

    /// The line before a value.
    #[inline]
    fn store_head(
        self,
        command: Command,
        key: impl Fn(&mut Vec<u8>),
        ttl: u64,
        len: usize,
        out: &mut Vec<u8>,
    ) {
        match self.protocol {
            Protocol::Text => {
                out.extend_from_slice(command.name().as_bytes());
                out.push(b' ');
                key(out);
                out.extend_from_slice(b" 0 ");
                write_number(ttl, out);
                out.push(b' ');
                write_number(len as u64, out);
            }
            Protocol::Meta => {
                out.extend_from_slice(b"ms ");
                key(out);
                out.push(b' ');
                write_number(len as u64, out);
                out.extend_from_slice(mode(command));
                if ttl > 0 {
                    out.extend_from_slice(b" T");
                    write_number(ttl, out);
                }
            }
        }
        out.extend_from_slice(b"\r\n");
    }

    fn small(self, command: Command, item: u64, out: &mut Vec<u8>) {
        let keys = &self.items.keys;
        match command.counts() {
            true => self.line(command, |out| keys.write_counter(item, out), self.items.ttl(item), out),
            false => self.line(command, |out| keys.write(item, out), self.items.ttl(item), out),
        }
    }

    /// What a trace asks. Values of less than 20 bytes are numbers, so that counters can count.
    pub(crate) fn traced(self, record: &Record, out: &mut Vec<u8>) {
        let Record { command, key, value_len, .. } = record;
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
        out.extend_from_slice(b"\r\n");
    }

    /// A request of one key without a value.
    fn line(self, command: Command, key: impl Fn(&mut Vec<u8>), ttl: u64, out: &mut Vec<u8>) {
        let (before, after): (&[u8], &[u8]) = match (self.protocol, command) {
            (Protocol::Text, Command::Incr) => (b"incr ", b" 1"),
            (Protocol::Text, Command::Decr) => (b"decr ", b" 1"),
            (Protocol::Text, Command::Touch) => (b"touch ", b" "),
            (Protocol::Text, Command::Get) => (b"get ", b""),
            (Protocol::Text, Command::Gets) => (b"gets ", b""),
            (Protocol::Text, _) => (b"delete ", b""),
            (Protocol::Meta, Command::Incr) => (b"ma ", b""),
            (Protocol::Meta, Command::Decr) => (b"ma ", b" MD"),
            (Protocol::Meta, Command::Touch) => (b"mg ", b" T"),
            (Protocol::Meta, Command::Get) => (b"mg ", b" v"),
            (Protocol::Meta, Command::Gets) => (b"mg ", b" v c"),
            (Protocol::Meta, _) => (b"md ", b""),
        };
        out.extend_from_slice(before);
        key(out);
        out.extend_from_slice(after);
        if command == Command::Touch {
            write_number(ttl, out);
        }
        out.extend_from_slice(b"\r\n");
    }

    /// Stores a counter at 0.
    pub(crate) fn set_counter(self, number: u64, out: &mut Vec<u8>) {
        let ttl = self.items.ttl(number);
        match self.protocol {
            Protocol::Text => {
                out.extend_from_slice(b"set ");
                self.items.keys.write_counter(number, out);
                out.extend_from_slice(b" 0 ");
                write_number(ttl, out);
                out.extend_from_slice(b" 1\r\n0\r\n");
            }
            Protocol::Meta => {
                out.extend_from_slice(b"ms ");
                self.items.keys.write_counter(number, out);
                out.extend_from_slice(b" 1 T");
                write_number(ttl, out);
                out.extend_from_slice(b"\r\n0\r\n");
            }
        }
    }
}

/// The largest 64-bit number has this many digits, and not all numbers of as many digits fit.
const NUMBER_LEN_MAX: usize = 20;

/// The mode of `ms` that does what the command does in the text protocol.
fn mode(command: Command) -> &'static [u8] {
    match command {
        Command::Add => b" ME",
        Command::Replace => b" MR",
        Command::Append => b" MA",
        Command::Prepend => b" MP",
        _ => b"",
    }
}

pub(crate) fn write_number(number: u64, out: &mut Vec<u8>) {
    if number >= 10 {
        write_number(number / 10, out);
    }
    out.push(b'0' + (number % 10) as u8);
}
