//! Formats of traces: Twitter's columns, those of Meta's key-value caches, and what Redis' MONITOR prints.
//!
//! Columns have their names in a first line, in any order, or are Twitter's without one. Each line is one request, or,
//! where it has a count or several keys, some.

use super::TraceRecord;
use crate::types::mix::Command;
use crate::workload::keyspace::KEY_SIZE_MAX;

/// How the lines of a trace are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Columns(Columns),
    /// `1764031576.604009 [0 127.0.0.1:51682] "SET" "key" "value"`, as `redis-cli monitor` prints it.
    Monitor,
}

/// The places of columns in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Columns {
    count: usize,
    time: Option<usize>,
    key: usize,
    key_size: Option<usize>,
    value_size: usize,
    operation: usize,
    ttl: Option<usize>,
    op_count: Option<usize>,
}

/// The requests of a line.
#[derive(Debug, PartialEq)]
pub(super) struct Parsed {
    /// In seconds, and whether that has no fraction; `None` in a trace without times.
    pub(super) at_s: Option<(f64, bool)>,
    pub(super) records: Vec<TraceRecord>,
    /// How often they were made.
    pub(super) times: u32,
}

/// Twitter's, which have no line of names.
const TWITTER: Columns = Columns {
    count: 7,
    time: Some(0),
    key: 1,
    key_size: Some(2),
    value_size: 3,
    operation: 5,
    ttl: Some(6),
    op_count: None,
};

pub(super) const KEY: &str = "a key of 1 to 250 letters, digits and signs of ASCII";
pub(super) const FIELDS: &str = "timestamp,key,key size,value size,client id,operation,TTL";
const NAMED_FIELDS: &str = "as many fields as the first line has names";
const NAMES: &str = "names of columns with key, op and size (or operation and value_size) among them";
const OPERATION: &str =
    "an operation: get, gets, set, add, replace, cas, append, prepend, delete, incr, decr, touch";
const VALUE_SIZE: &str = "a value size of at most 1 GiB";
const VALUE_LEN_MAX: usize = 1 << 30;
/// More repetitions of one line are no count.
const TIMES_MAX: u32 = 1 << 20;
const TIMES: &str = "an op_count of 1 to 1,048,576";
/// Commands of Redis that are about the connection or the server: a cache's requests are the others.
const NOT_OF_A_CACHE: [&str; 14] = [
    "ping", "hello", "auth", "select", "client", "command", "info", "quit", "monitor", "config", "time",
    "dbsize", "flushall", "flushdb",
];
const MONITORED: &str = "a line of MONITOR: a timestamp, [database address], and words in quotes";
const MONITORED_COMMAND: &str = "GET, MGET, GETEX, SET, SETEX, PSETEX, SETNX, MSET, GETSET, APPEND, DEL, UNLINK, INCR, INCRBY, DECR, DECRBY or EXPIRE";

impl Format {
    /// The format of a trace with this first line, and whether that is a line of names.
    pub(super) fn of(first: &str) -> Result<(Format, bool), &'static str> {
        if monitored(first).is_ok() {
            return Ok((Format::Monitor, false));
        }
        let names: Vec<String> =
            first.split(',').map(|name| name.trim().to_ascii_lowercase().replace([' ', '-'], "_")).collect();
        let is_number = first.starts_with(|c: char| c.is_ascii_digit());
        let at = |known: &[&str]| names.iter().position(|name| known.contains(&name.as_str()));
        // A line that is neither is refused as a request would be.
        if is_number || at(&["key", "anonymized_key"]).is_none() {
            return Ok((Format::Columns(TWITTER), false));
        }
        let columns = || {
            Some(Columns {
                count: names.len(),
                time: at(&["timestamp", "op_time", "time"]),
                key: at(&["key", "anonymized_key"])?,
                key_size: at(&["key_size"]),
                value_size: at(&["value_size", "size"])?,
                operation: at(&["operation", "op"])?,
                ttl: at(&["ttl"]),
                op_count: at(&["op_count"]),
            })
        };
        columns().map(|columns| (Format::Columns(columns), true)).ok_or(NAMES)
    }

    /// A line, or what was expected of it.
    pub(super) fn parse(&self, line: &str) -> Result<Parsed, &'static str> {
        match self {
            Format::Columns(columns) => columns.parse(line),
            Format::Monitor => parse_monitored(line),
        }
    }

    /// A line of it is at most this long: a key of 250 bytes and some numbers, or a value of 1 MiB with escapes.
    pub(super) fn line_len_max(&self) -> u64 {
        match self {
            Format::Columns(_) => 1024,
            Format::Monitor => 8 << 20,
        }
    }

    /// Whether lines have the times of requests.
    pub(super) fn has_times(&self) -> bool {
        !matches!(self, Format::Columns(Columns { time: None, .. }))
    }
}

impl Columns {
    fn parse(&self, line: &str) -> Result<Parsed, &'static str> {
        let wrong = if *self == TWITTER { FIELDS } else { NAMED_FIELDS };
        let mut fields: Vec<&str> = line.split(',').collect();
        // A key may have commas, the other fields have none.
        let more = fields.len().checked_sub(self.count).ok_or(wrong)?;
        let key_start: usize = fields[..self.key].iter().map(|field| field.len() + 1).sum();
        let key_len: usize =
            fields[self.key..=self.key + more].iter().map(|field| field.len() + 1).sum::<usize>() - 1;
        let key = &line[key_start..key_start + key_len];
        fields.drain(self.key..self.key + more);
        let at_s = match self.time.map(|at| fields[at]) {
            None => None,
            Some(time) => {
                let at_s = time.parse().ok().filter(|at_s: &f64| (0.0..1e12).contains(at_s));
                Some((at_s.ok_or("a timestamp in seconds")?, !time.contains('.')))
            }
        };
        let key_size = match self.key_size.map(|at| fields[at].parse()) {
            None => 0,
            Some(size) => size.map_err(|_| "a key size")?,
        };
        let command = match fields[self.operation].to_ascii_lowercase().as_str() {
            // Its unique is not in the trace.
            "cas" | "set_lease" => Command::Set,
            "get_lease" => Command::Get,
            name => Command::of_name(name).ok_or(OPERATION)?,
        };
        let value_len = fields[self.value_size].parse().ok().filter(|len| *len <= VALUE_LEN_MAX);
        let value_len = value_len.ok_or(VALUE_SIZE)?;
        let ttl = match self.ttl.map(|at| fields[at]) {
            None | Some("") => 0,
            Some(ttl) => ttl.parse().map_err(|_| "a TTL in seconds")?,
        };
        let times = match self.op_count.map(|at| fields[at].parse()) {
            None => 1,
            Some(count) => count.ok().filter(|count| (1..=TIMES_MAX).contains(count)).ok_or(TIMES)?,
        };
        let key = key_of(key.as_bytes(), key_size)?;
        Ok(Parsed { at_s, records: vec![TraceRecord { at_ns: 0, command, key, value_len, ttl }], times })
    }
}

/// An anonymous key may be shorter than its original. Caches that allow longer keys are replayed with the longest.
fn key_of(key: &[u8], size: usize) -> Result<Box<[u8]>, &'static str> {
    let mut key = key.to_vec();
    key.resize(key.len().max(size.min(KEY_SIZE_MAX)), b'0');
    match size > LONG_KEYS_MAX
        || key.is_empty()
        || key.len() > KEY_SIZE_MAX
        || !key.iter().all(u8::is_ascii_graphic)
    {
        true => Err(KEY),
        false => Ok(key.into()),
    }
}

/// CacheLib's keys have at most 255 bytes.
const LONG_KEYS_MAX: usize = 255;

/// The time of a line, and its words.
fn monitored(line: &str) -> Result<(f64, Vec<Vec<u8>>), &'static str> {
    // redis-cli prints the reply's sign where its output is no terminal.
    let line = line.strip_prefix('+').unwrap_or(line);
    let (time, rest) = line.split_once(" [").ok_or(MONITORED)?;
    let at_s: f64 = time.parse().map_err(|_| MONITORED)?;
    let (_, mut rest) = rest.split_once("] ").ok_or(MONITORED)?;
    let mut words = Vec::new();
    while let Some(quoted) = rest.trim_start().strip_prefix('"') {
        let (word, after) = unquoted(quoted).ok_or(MONITORED)?;
        words.push(word);
        rest = after;
    }
    match rest.trim().is_empty() && !words.is_empty() && (0.0..1e12).contains(&at_s) {
        true => Ok((at_s, words)),
        false => Err(MONITORED),
    }
}

/// A word with Redis' escapes, up to its closing quote, and what follows.
fn unquoted(quoted: &str) -> Option<(Vec<u8>, &str)> {
    let (bytes, mut word, mut at) = (quoted.as_bytes(), Vec::new(), 0);
    loop {
        match *bytes.get(at)? {
            b'"' => return Some((word, quoted.get(at + 1..)?)),
            b'\\' => {
                let (byte, len) = match *bytes.get(at + 1)? {
                    b'x' => (u8::from_str_radix(quoted.get(at + 2..at + 4)?, 16).ok()?, 4),
                    b'n' => (b'\n', 2),
                    b'r' => (b'\r', 2),
                    b't' => (b'\t', 2),
                    b'a' => (7, 2),
                    b'b' => (8, 2),
                    other => (other, 2),
                };
                word.push(byte);
                at += len;
            }
            byte => {
                word.push(byte);
                at += 1;
            }
        }
    }
}

fn parse_monitored(line: &str) -> Result<Parsed, &'static str> {
    let (at_s, words) = monitored(line)?;
    let name = String::from_utf8_lossy(&words[0]).to_ascii_lowercase();
    let words: Vec<&[u8]> = words[1..].iter().map(Vec::as_slice).collect();
    let seconds = |word: &[u8]| -> Result<u64, &'static str> {
        std::str::from_utf8(word).ok().and_then(|word| word.parse().ok()).ok_or("a TTL in seconds")
    };
    let one = |command, key: &[u8], value: &[u8], ttl| -> Result<TraceRecord, &'static str> {
        Ok(TraceRecord { at_ns: 0, command, key: key_of(key, 0)?, value_len: value.len(), ttl })
    };
    let each = |command| words.iter().map(|key| one(command, key, b"", 0)).collect::<Result<Vec<_>, _>>();
    let records = match (name.as_str(), &words[..]) {
        (name, _) if NOT_OF_A_CACHE.contains(&name) => Ok(Vec::new()),
        ("get" | "getex", [key, ..]) => one(Command::Get, key, b"", 0).map(|record| vec![record]),
        ("mget", [_, ..]) => each(Command::Get),
        ("del" | "unlink", [_, ..]) => each(Command::Delete),
        ("set", [key, value, options @ ..]) => {
            let ttl = match options {
                [.., unit, ttl] if unit.eq_ignore_ascii_case(b"ex") => seconds(ttl)?,
                [.., unit, ttl] if unit.eq_ignore_ascii_case(b"px") => seconds(ttl)?.div_ceil(1000),
                _ => 0,
            };
            one(Command::Set, key, value, ttl).map(|record| vec![record])
        }
        ("setex", [key, ttl, value]) => one(Command::Set, key, value, seconds(ttl)?).map(|it| vec![it]),
        ("psetex", [key, ttl, value]) => {
            one(Command::Set, key, value, seconds(ttl)?.div_ceil(1000)).map(|it| vec![it])
        }
        ("setnx", [key, value]) => one(Command::Add, key, value, 0).map(|it| vec![it]),
        ("getset", [key, value]) => one(Command::Set, key, value, 0).map(|it| vec![it]),
        ("mset", [_, _, ..]) => {
            words.chunks_exact(2).map(|pair| one(Command::Set, pair[0], pair[1], 0)).collect()
        }
        ("append", [key, value]) => one(Command::Append, key, value, 0).map(|it| vec![it]),
        ("incr" | "incrby", [key, ..]) => one(Command::Incr, key, b"", 0).map(|it| vec![it]),
        ("decr" | "decrby", [key, ..]) => one(Command::Decr, key, b"", 0).map(|it| vec![it]),
        ("expire", [key, ttl, ..]) => one(Command::Touch, key, b"", seconds(ttl)?).map(|it| vec![it]),
        _ => Err(MONITORED_COMMAND),
    };
    Ok(Parsed { at_s: Some((at_s, false)), records: records?, times: 1 })
}
