//! Traces: the requests to a cache with their times, a line for each, as Twitter and others published them (format.rs).
//!
//! A thread of its own reads ahead of the run, by a bounded queue for each worker, so a trace may be longer than memory.

mod each;
mod format;

pub use each::{TraceClass, read_trace};

use self::format::{Format, Parsed};
use crate::types::error::Error;
use crate::types::mix::Command;
use crate::types::part::Part;
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
    /// Requests per second of a trace without times.
    pub(crate) rate: Option<f64>,
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
        let Trace { path, speed, rate } = self.trace.clone();
        let (mut line, mut number) = (Vec::new(), 0);
        let mut format: Option<Format> = None;
        let mut first = None;
        let mut second = Vec::new();
        let mut last_s: f64 = 0.0;
        // Of a trace without times.
        let mut passed = 0_u64;
        loop {
            line.clear();
            let most = format.as_ref().map_or(FIRST_LINE_LEN_MAX, Format::line_len_max);
            let mut bounded = self.lines.by_ref().take(most);
            let read = bounded.read_until(b'\n', &mut line);
            if read.map_err(|source| unreadable(&path, source))? == 0 {
                self.spread(&mut second);
                self.send();
                return Ok(());
            }
            number += 1;
            // A line that is not text is not of the form either: the parser refuses its replacement characters.
            let text = String::from_utf8_lossy(&line);
            let text = text.trim_end_matches(['\n', '\r']);
            let wrong = |expected: &'static str| Error::Trace {
                path: path.clone(),
                line: number,
                expected,
                found: text.chars().take(LINE_SHOWN_MAX).collect(),
            };
            let format = match &format {
                Some(format) => format,
                None => {
                    // redis-cli prints this before the first request.
                    if text == "OK" {
                        continue;
                    }
                    let (found, is_names) = Format::of(text).map_err(wrong)?;
                    check_pace(&found, rate).map_err(Error::Arguments)?;
                    let found = format.insert(found);
                    if is_names {
                        continue;
                    }
                    found
                }
            };
            let Parsed { at_s, records, times } = format.parse(text).map_err(wrong)?;
            for _ in 0..times {
                for mut record in records.iter().cloned() {
                    let untimed_s = || passed as f64 / rate.unwrap_or(1.0);
                    let (at_s, is_whole) = at_s.unwrap_or_else(|| (untimed_s() * speed, false));
                    passed += 1;
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
                    record.at_ns = (since_s * 1e9 / speed) as u64;
                    match is_whole {
                        true => second.push(record),
                        false if self.pass(record) => {}
                        false => return Ok(()),
                    }
                }
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
/// A longer first line is cut: only MONITOR's are, which their beginning shows, and they are refused then.
const FIRST_LINE_LEN_MAX: u64 = 8 << 20;

fn unreadable(path: &Path, source: io::Error) -> Error {
    Error::TraceFile { path: path.to_path_buf(), source }
}

/// A trace has times, or is replayed at a rate.
fn check_pace(format: &Format, rate: Option<f64>) -> Result<(), String> {
    match (format.has_times(), rate) {
        (true, Some(_)) => Err(String::from("this --trace has times of its own: leave out --rate")),
        (false, None) => Err(String::from("this --trace has no times: give a --rate to replay it at")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;

    /// What two workers get of a trace, in order of time; or what the reader says.
    fn read(text: &str, speed: f64) -> Result<Vec<String>, String> {
        read_at(text, speed, None)
    }

    fn read_at(text: &str, speed: f64, rate: Option<f64>) -> Result<Vec<String>, String> {
        static FILES: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = FILES.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("evenkeel-trace-{}-{number}", std::process::id()));
        std::fs::write(&path, text).expect("a file");
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..2).map(|_| sync_channel(ROUNDS_AHEAD)).unzip();
        let outcome = Reader::open(&Trace { path: path.clone(), speed, rate }, Part::WHOLE, senders)
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
    fn a_first_line_of_names_says_where_the_columns_are() {
        let names = "timestamp,anonymized key,key size,value size,client id,operation,TTL\n";
        let wanted = ["0 get a 0 0", "500 set b 30 60"];
        let lines = "100,a,1,0,7,get,0\n100,b,1,30,8,set,60\n";
        assert_eq!(read(&format!("{names}{lines}"), 1.0).expect("a trace"), wanted);
        let other = "ttl,operation,timestamp,key,value_size\n0,get,1.5,x,0\n9,set,1.75,y,z,7\n";
        assert_eq!(read(other, 1.0).expect("a trace"), ["0 get x 0 0", "250 set y,z 7 9"]);
        let error = read("key,when\nx,1\n", 1.0).expect_err("no operation");
        assert!(
            error.starts_with("read FILE, line 1: expected names of columns with key, op and size"),
            "{error}"
        );
        let error = read("key,op,size,op_time\nx,get\n", 1.0).expect_err("two fields");
        assert!(
            error.starts_with("read FILE, line 2: expected as many fields as the first line has names"),
            "{error}"
        );
    }

    #[test]
    fn metas_traces_are_read_with_and_without_times() {
        let timed = "op_time,key,key_size,op,op_count,size,cache_hits,ttl,usecase,sub_usecase\n\
                     100,7,3,GET,2,62,1,0,366,300\n100,8,255,SET_LEASE,1,10,0,60,366,300\n101,7,3,DELETE,1,0,0,0,1,1\n";
        let long = format!("8{}", "0".repeat(249));
        let wanted =
            ["0 get 700 62 0", "333 get 700 62 0", &format!("666 set {long} 10 60"), "1000 delete 700 0 0"];
        assert_eq!(read(timed, 1.0).expect("a trace"), wanted);
        let untimed = "key,op,size,op_count,key_size\n7,SET,82,1,2\n7,GET_LEASE,82,3,2\n";
        let wanted = ["0 set 70 82 0", "100 get 70 82 0", "200 get 70 82 0", "300 get 70 82 0"];
        assert_eq!(read_at(untimed, 1.0, Some(10.0)).expect("a trace"), wanted);
        let refused = |text: &str, rate| read_at(text, 1.0, rate).expect_err("no pace");
        assert!(refused(untimed, None).ends_with("this --trace has no times: give a --rate to replay it at"));
        assert!(refused(timed, Some(1.0)).ends_with("this --trace has times of its own: leave out --rate"));
        let count = untimed.replace(",3,", ",0,");
        assert!(refused(&count, Some(1.0)).contains("line 3: expected an op_count of 1 to 1,048,576"));
    }

    #[test]
    fn what_redis_monitor_prints_is_read() {
        let text = "OK\n1764031576.5 [0 127.0.0.1:51682] \"SET\" \"a\" \"v\\x00\\\"\" \"EX\" \"60\"\n\
                    +1764031576.6 [0 lua] \"mget\" \"a\" \"b\"\n1764031576.7 [3 [::1]:5] \"ping\"\n\
                    1764031577.0 [0 x] \"setex\" \"c\" \"5\" \"12\"\n1764031577.5 [0 x] \"del\" \"c\"\n\
                    1764031577.5 [0 x] \"expire\" \"a\" \"7\"\n";
        let wanted = [
            "0 set a 3 60",
            "99 get a 0 0",
            "99 get b 0 0",
            "500 set c 2 5",
            "1000 delete c 0 0",
            "1000 touch a 0 7",
        ];
        let mut found = read(text, 1.0).expect("a trace");
        found.sort_by_key(|line| wanted.iter().position(|wanted| wanted == line));
        assert_eq!(found, wanted);
        let error = |line: &str| read(&format!("{text}{line}\n"), 1.0).expect_err(line);
        assert!(error("1764031578.0 [0 x] \"lpush\" \"l\" \"1\"").contains("line 8: expected GET, MGET"));
        assert!(error("1764031578.0 [0 x] \"get\" \"a b\"").contains(format::KEY));
        assert!(error("1764031578.0 [0 x] \"get").contains("expected a line of MONITOR"));
    }

    #[test]
    fn a_wrong_line_is_named() {
        let check = |line: &str, expected: &str| {
            let text = format!("5,a,1,0,7,get,0\n{line}\n");
            let wanted = format!("read FILE, line 2: expected {expected}, found {line:?}");
            assert_eq!(read(&text, 1.0), Err(wanted));
        };
        check("5,a,1,0,7,get", format::FIELDS);
        check("", format::FIELDS);
        check("x,a,1,0,7,get,0", "a timestamp in seconds");
        check("4,a,1,0,7,get,0", "a timestamp not before that of the line above");
        check("5,,0,0,7,get,0", format::KEY);
        check("5,a b,3,0,7,get,0", format::KEY);
        check("5,a,256,0,7,get,0", format::KEY);
        check("5,ä,1,0,7,get,0", format::KEY);
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
            Reader::open(
                &Trace { path: path.clone(), speed: 1.0, rate: None },
                Part { index, of: 2 },
                senders,
            )
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
