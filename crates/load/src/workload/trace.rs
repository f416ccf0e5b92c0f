//! Traces: the requests to a cache with their times, a line for each, as Twitter published them.
//!
//! `timestamp,key,key size,value size,client id,operation,TTL`. A thread of its own reads ahead of the run, by a bounded
//! queue for each worker, so a trace may be longer than memory.

use crate::types::error::Error;
use crate::types::mix::Command;
use crate::types::part::Part;
use crate::workload::keyspace::KEY_SIZE_MAX;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::SyncSender;
use stdx::prng::mix;

/// A request of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TraceRecord {
    /// Since the first request, at the speed of the replay.
    pub(crate) at_ns: u64,
    pub(crate) command: Command,
    pub(crate) key: Box<[u8]>,
    pub(crate) value_len: usize,
    pub(crate) ttl: u64,
}

impl TraceRecord {
    /// The same for all requests of a key.
    pub(crate) fn hash(&self) -> u64 {
        self.key.iter().fold(0, |hash, byte| mix(hash ^ u64::from(*byte)).wrapping_add(1))
    }
}

/// The trace, and how much faster than recorded to replay it.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    pub(crate) path: PathBuf,
    pub(crate) speed: f64,
}

/// Requests that all workers together get at once: worth the wake-up, and few enough to stay in the cache.
const ROUND: usize = 1024;
/// Rounds that wait for a worker.
pub(crate) const ROUNDS_AHEAD: usize = 64;
/// A whole timestamp means some time within this second: its requests are spread over it, which takes all of them. More
/// are about 100 MB.
const SECOND_MAX: usize = 1 << 20;

/// Reads a trace for workers, each of which gets the requests of its share of the keys.
#[derive(Debug)]
pub(crate) struct Reader {
    trace: Trace,
    lines: BufReader<File>,
    /// Of all machines' workers, those of this one.
    part: Part,
    workers: Vec<SyncSender<Vec<TraceRecord>>>,
    round: Vec<Vec<TraceRecord>>,
    in_round: usize,
}

impl Reader {
    pub(crate) fn open(
        trace: &Trace,
        part: Part,
        workers: Vec<SyncSender<Vec<TraceRecord>>>,
    ) -> Result<Reader, Error> {
        let file = File::open(&trace.path).map_err(|source| unreadable(&trace.path, source))?;
        let round = workers.iter().map(|_| Vec::new()).collect();
        Ok(Reader { trace: trace.clone(), lines: BufReader::new(file), part, workers, round, in_round: 0 })
    }

    /// Reads until the end, or until the workers have ended.
    pub(crate) fn run(&mut self) -> Result<(), Error> {
        let (mut line, mut number) = (Vec::new(), 0);
        let mut first = None;
        let mut second = Vec::new();
        let mut last_s: f64 = 0.0;
        loop {
            line.clear();
            let mut bounded = self.lines.by_ref().take(LINE_LEN_MAX);
            let read = bounded.read_until(b'\n', &mut line);
            if read.map_err(|source| unreadable(&self.trace.path, source))? == 0 {
                self.spread(&mut second);
                self.send();
                return Ok(());
            }
            number += 1;
            // A line that is not text is not of the form either: the parser refuses its replacement characters.
            let text = String::from_utf8_lossy(&line);
            let text = text.trim_end_matches(['\n', '\r']);
            let wrong = |expected: &'static str| Error::Trace {
                path: self.trace.path.clone(),
                line: number,
                expected,
                found: text.chars().take(LINE_SHOWN_MAX).collect(),
            };
            let (at_s, is_whole, mut record) = parse(text).map_err(wrong)?;
            if at_s < last_s {
                return Err(wrong("a timestamp not before that of the line above"));
            }
            if second.len() == SECOND_MAX {
                return Err(wrong("at most 1,048,576 requests with one whole timestamp"));
            }
            if at_s > last_s {
                self.spread(&mut second);
            }
            last_s = at_s;
            let since_s = at_s - *first.get_or_insert(at_s);
            record.at_ns = (since_s * 1e9 / self.trace.speed) as u64;
            let listened = match is_whole {
                true => {
                    second.push(record);
                    true
                }
                false => self.pass(record),
            };
            if !listened {
                return Ok(());
            }
        }
    }

    /// Passes on the requests of one second, evenly.
    fn spread(&mut self, second: &mut Vec<TraceRecord>) {
        let gap_ns = 1e9 / self.trace.speed / second.len() as f64;
        for (place, mut record) in second.drain(..).enumerate() {
            record.at_ns += (place as f64 * gap_ns) as u64;
            self.pass(record);
        }
    }

    /// `false`: a worker has ended, so the run has.
    fn pass(&mut self, record: TraceRecord) -> bool {
        let all = self.workers.len() * self.part.of;
        let worker = (record.hash() % all as u64) as usize;
        let (part, worker) = (worker / self.workers.len(), worker % self.workers.len());
        if part != self.part.index {
            return true;
        }
        self.round[worker].push(record);
        self.in_round += 1;
        self.in_round < ROUND || self.send()
    }

    fn send(&mut self) -> bool {
        self.in_round = 0;
        let mut listened = true;
        // To all of them: the workers that are left get their requests of before the end of the one that has ended.
        for (round, worker) in self.round.iter_mut().zip(&self.workers) {
            listened &= worker.send(std::mem::take(round)).is_ok();
        }
        listened
    }
}

const LINE_SHOWN_MAX: usize = 120;
/// Far more than a key of 250 bytes and six numbers take: a longer line is cut, and refused.
const LINE_LEN_MAX: u64 = 1024;

fn unreadable(path: &Path, source: io::Error) -> Error {
    Error::TraceFile { path: path.to_path_buf(), source }
}

/// A line: its time in seconds, whether that has no fraction, and the request; `Err` says what was expected.
fn parse(line: &str) -> Result<(f64, bool, TraceRecord), &'static str> {
    // A key may have commas, the other fields have none.
    let (time, rest) = line.split_once(',').ok_or(FIELDS)?;
    let mut fields = rest.rsplitn(6, ',');
    let mut field = || fields.next().ok_or(FIELDS);
    let (ttl, operation, _client, value_size, key_size, key) =
        (field()?, field()?, field()?, field()?, field()?, field()?);
    let at_s =
        time.parse().ok().filter(|at_s: &f64| (0.0..1e12).contains(at_s)).ok_or("a timestamp in seconds")?;
    let key_size: usize = key_size.parse().map_err(|_| "a key size")?;
    let mut key = key.as_bytes().to_vec();
    // An anonymous key may be shorter than its original.
    key.resize(key.len().max(key_size), b'0');
    if key.is_empty() || key.len() > KEY_SIZE_MAX || key.iter().any(|byte| !byte.is_ascii_graphic()) {
        return Err(KEY);
    }
    let command = match operation {
        // Its unique is not in the trace.
        "cas" => Command::Set,
        name => Command::of_name(name).ok_or(
            "an operation: get, gets, set, add, replace, cas, append, prepend, delete, incr, decr, touch",
        )?,
    };
    let value_len =
        value_size.parse().ok().filter(|len| *len <= VALUE_LEN_MAX).ok_or("a value size of at most 1 GiB")?;
    let ttl = ttl.parse().map_err(|_| "a TTL in seconds")?;
    Ok((at_s, !time.contains('.'), TraceRecord { at_ns: 0, command, key: key.into(), value_len, ttl }))
}

const KEY: &str = "a key of 1 to 250 letters, digits and signs of ASCII";
const FIELDS: &str = "timestamp,key,key size,value size,client id,operation,TTL";
const VALUE_LEN_MAX: usize = 1 << 30;

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;

    /// What two workers get of a trace, in order of time; or what the reader says.
    fn read(text: &str, speed: f64) -> Result<Vec<String>, String> {
        static FILES: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = FILES.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("evenkeel-trace-{}-{number}", std::process::id()));
        std::fs::write(&path, text).expect("a file");
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..2).map(|_| sync_channel(ROUNDS_AHEAD)).unzip();
        let outcome = Reader::open(&Trace { path: path.clone(), speed }, Part::WHOLE, senders)
            .and_then(|mut reader| reader.run());
        std::fs::remove_file(&path).expect("the file");
        outcome.map_err(|error| error.to_string().replace(&path.display().to_string(), "FILE"))?;
        let mut records: Vec<TraceRecord> = receivers.iter().flatten().flatten().collect();
        records.sort_by_key(|record| record.at_ns);
        let show = |record: TraceRecord| {
            let TraceRecord { at_ns, command, key, value_len, ttl } = record;
            format!("{} {} {} {value_len} {ttl}", at_ns / 1_000_000, command.name(), key.escape_ascii())
        };
        Ok(records.into_iter().map(show).collect())
    }

    #[test]
    fn whole_seconds_are_spread_and_others_are_exact() {
        let whole = "100,a,1,0,7,get,0\n100,b,1,30,8,set,60\n102,a,b,3,0,7,delete,0\n";
        assert_eq!(
            read(whole, 1.0).expect("a trace"),
            ["0 get a 0 0", "500 set b 30 60", "2000 delete a,b 0 0"]
        );
        assert_eq!(
            read(whole, 4.0).expect("a trace"),
            ["0 get a 0 0", "125 set b 30 60", "500 delete a,b 0 0"]
        );
        let exact = "0.5,a,4,0,7,cas,0\r\n0.5,b,1,0,8,incr,1\n0.75,c,1,0,8,touch,9";
        assert_eq!(read(exact, 1.0).expect("a trace"), ["0 set a000 0 0", "0 incr b 0 1", "250 touch c 0 9"]);
        assert_eq!(read("", 1.0), Ok(Vec::new()));
    }

    #[test]
    fn a_wrong_line_is_named() {
        let check = |line: &str, expected: &str| {
            let text = format!("5,a,1,0,7,get,0\n{line}\n");
            let wanted = format!("read FILE, line 2: expected {expected}, found {line:?}");
            assert_eq!(read(&text, 1.0), Err(wanted));
        };
        check("5,a,1,0,7,get", FIELDS);
        check("", FIELDS);
        check("x,a,1,0,7,get,0", "a timestamp in seconds");
        check("4,a,1,0,7,get,0", "a timestamp not before that of the line above");
        check("5,,0,0,7,get,0", KEY);
        check("5,a b,3,0,7,get,0", KEY);
        check("5,a,251,0,7,get,0", KEY);
        check("5,ä,1,0,7,get,0", KEY);
        check("5,a,x,0,7,get,0", "a key size");
        check("5,a,1,-1,7,get,0", "a value size of at most 1 GiB");
        check("5,a,1,0,7,get,x", "a TTL in seconds");
    }

    #[test]
    fn a_file_that_is_no_trace_takes_no_memory() {
        let error = read(&"x".repeat(5_000_000), 1.0).expect_err("a line of 5 MB");
        assert!(
            error.starts_with("read FILE, line 1: expected timestamp,key,") && error.len() < 300,
            "{error}"
        );
    }

    #[test]
    fn all_requests_of_a_key_go_to_one_worker_of_all_machines() {
        let path = std::env::temp_dir().join(format!("evenkeel-trace-keys-{}", std::process::id()));
        let text: String = (0..3000).map(|n| format!("{n}.0,key{},1,0,7,get,0\n", n % 100)).collect();
        std::fs::write(&path, text).expect("a file");
        let mut receivers = Vec::new();
        for index in 0..2 {
            let (senders, two): (Vec<_>, Vec<_>) = (0..2).map(|_| sync_channel(ROUNDS_AHEAD)).unzip();
            Reader::open(&Trace { path: path.clone(), speed: 1.0 }, Part { index, of: 2 }, senders)
                .and_then(|mut reader| reader.run())
                .expect("a trace");
            receivers.extend(two);
        }
        std::fs::remove_file(&path).expect("the file");
        let keys = |receiver: std::sync::mpsc::Receiver<Vec<TraceRecord>>| {
            let keys: std::collections::BTreeSet<_> =
                receiver.iter().flatten().map(|record| record.key).collect();
            keys
        };
        let keys: Vec<_> = receivers.into_iter().map(keys).collect();
        assert!(keys.iter().all(|keys| keys.len() > 15), "{keys:?}");
        assert_eq!(keys.iter().map(|keys| keys.len()).sum::<usize>(), 100);
    }
}
