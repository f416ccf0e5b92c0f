//! Counts of a server before and after a load: memcached's statistics, and the memory of its processes.

mod process_memory;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use os::clock::Stopwatch;
use os::processes;

use self::process_memory::ProcessMemory;
use crate::experiment::Experiment;
use crate::record::quantity::ADDED;
use crate::trial::halt::Halt;
use crate::trial::parse::output::LoadFigures;

/// A server that does not answer `stats` within this is not asked further.
const STATS_TIME_MAX: Duration = Duration::from_secs(5);
/// memcached writes some 3 KiB.
const STATS_LEN_MAX: u64 = 1 << 20;

/// A metric of memory: its name, and its bytes.
type MemoryMetric = (&'static str, fn(&ProcessMemory) -> u64);

/// The metrics of memory.
const MEMORY: [MemoryMetric; 4] = [
    ("server_rss_bytes", |memory| memory.resident),
    ("server_pss_bytes", |memory| memory.proportional),
    ("server_anon_bytes", |memory| memory.anonymous),
    ("server_peak_bytes", |memory| memory.peak),
];

/// Memory has come to rest if it changed by less than this between two looks.
const REST_BYTES: u64 = 64 << 10;
/// Between two looks, and for all of them: a server may rebuild its index behind its last reply.
const LOOK_EVERY: Duration = Duration::from_millis(200);
const LOOKS_MAX: u32 = 10;

/// What is counted of a server in a trial.
pub(super) struct Counted<'e> {
    stats: &'e [String],
    memory: Vec<MemoryMetric>,
    port: u16,
    pid: u32,
}

/// All counts of one moment, or the reason why there are none.
pub(super) struct ServerCounts {
    stats: Result<BTreeMap<String, String>, String>,
    memory: Result<ProcessMemory, String>,
}

impl<'e> Counted<'e> {
    /// The counts that the experiment names. Memory is not looked at unless a metric of it is wanted: that takes milliseconds.
    pub(super) fn of(experiment: &'e Experiment, port: u16, pid: u32) -> Counted<'e> {
        let measure = &experiment.measure;
        let names = || [&measure.primary].into_iter().chain(&measure.also).chain(measure.derived.values());
        // In a formula, or with the ending of its growth.
        let is_wanted = |name: &str| names().any(|text| text.contains(name));
        let memory = MEMORY.into_iter().filter(|(name, _)| is_wanted(name)).collect();
        Counted { stats: &experiment.workload.stats, memory, port, pid }
    }

    /// Counts now.
    pub(super) fn now(&self) -> ServerCounts {
        let stats = if self.stats.is_empty() { Ok(BTreeMap::new()) } else { statistics(self.port) };
        let memory = match self.memory.is_empty() {
            true => Ok(ProcessMemory::default()),
            false => {
                process_memory::of(&processes::with_descendants(self.pid)).map_err(|error| error.to_string())
            }
        };
        ServerCounts { stats, memory }
    }

    /// Counts once memory has come to rest.
    pub(super) fn at_rest(&self) -> ServerCounts {
        let mut counts = self.now();
        for _ in 0..if self.memory.is_empty() { 0 } else { LOOKS_MAX } {
            // Not ended early by a signal: the trial is over in a moment.
            let _ = Halt::default().pause(LOOK_EVERY);
            let later = self.now();
            let resident = |counts: &ServerCounts| counts.memory.as_ref().map_or(0, |memory| memory.resident);
            let is_at_rest = resident(&counts).abs_diff(resident(&later)) < REST_BYTES;
            counts = later;
            if is_at_rest {
                break;
            }
        }
        counts
    }

    /// Metrics of what was counted before and after, and what to say of counts that are missing.
    pub(super) fn figures(&self, before: &ServerCounts, after: &ServerCounts) -> (LoadFigures, Vec<String>) {
        let (mut figures, mut complaints) = (LoadFigures::new(), Vec::new());
        let mut add = |name: &str, before: Result<f64, String>, after: Result<f64, String>| {
            match &after {
                Ok(after) => drop(figures.insert(name.to_owned(), *after)),
                Err(why) => complaints.push(why.clone()),
            }
            match (before, after) {
                (Ok(before), Ok(after)) => drop(figures.insert(format!("{name}{ADDED}"), after - before)),
                (Err(why), Ok(_)) => complaints.push(format!("{why}, before the load")),
                (_, Err(_)) => {}
            }
        };
        for name in self.stats {
            add(name, before.statistic(name), after.statistic(name));
        }
        for (name, of) in &self.memory {
            let bytes = |counts: &ServerCounts| match &counts.memory {
                Ok(memory) => Ok(of(memory) as f64),
                Err(why) => Err(format!("memory-unknown: {why}")),
            };
            add(name, bytes(before), bytes(after));
        }
        complaints.dedup();
        (figures, complaints)
    }
}

impl ServerCounts {
    fn statistic(&self, name: &str) -> Result<f64, String> {
        let stats = self.stats.as_ref().map_err(|why| format!("stats-unknown: {why}"))?;
        let value = stats.get(name).ok_or_else(|| {
            format!("stats-unknown: the server has no {name:?} among its {} statistics", stats.len())
        })?;
        value.parse().map_err(|_| format!("stats-unknown: {name} is {value:?}, which is no number"))
    }
}

/// What `stats` answers at a port.
fn statistics(port: u16) -> Result<BTreeMap<String, String>, String> {
    let asked = ask(port).map_err(|error| format!("ask port {port} for stats: {error}"))?;
    let text = String::from_utf8_lossy(&asked);
    let Some(lines) = text.strip_suffix("END\r\n") else {
        return Err(format!(
            "port {port} answers stats with {:?}…",
            text.chars().take(40).collect::<String>()
        ));
    };
    let pair = |line: &str| {
        let (name, value) = line.strip_prefix("STAT ")?.split_once(' ')?;
        Some((name.to_owned(), value.to_owned()))
    };
    Ok(lines.lines().filter_map(pair).collect())
}

/// The answer as it comes, to its end, its last possible byte, or the end of the time.
fn ask(port: u16) -> std::io::Result<Vec<u8>> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, STATS_TIME_MAX)?;
    stream.set_write_timeout(Some(STATS_TIME_MAX))?;
    stream.write_all(b"stats\r\n")?;
    let (clock, mut answer) = (Stopwatch::start(), Vec::new());
    while !answer.ends_with(b"END\r\n") && (answer.len() as u64) < STATS_LEN_MAX {
        let left = STATS_TIME_MAX.saturating_sub(clock.passed()).max(Duration::from_millis(1));
        stream.set_read_timeout(Some(left))?;
        let mut piece = [0; 4096];
        match stream.read(&mut piece)? {
            0 => break,
            received => answer.extend_from_slice(&piece[..received]),
        }
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::tests::MINIMAL;
    use std::net::TcpListener;

    /// What a server says that answers once, and then twice `stats` of these.
    fn figures(stats: &str, answers: [&'static str; 2], primary: &str) -> (LoadFigures, Vec<String>) {
        let text = MINIMAL.replace("seconds = 5", &format!("seconds = 5\nstats = [{stats}]"));
        let text = text.replace("requests_per_cpu_second", primary);
        let experiment = Experiment::parse(&text).expect("an experiment");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let server = std::thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().expect("a client");
                let _ = stream.read(&mut [0; 64]);
                // In pieces, as a network may deliver it.
                answer.as_bytes().chunks(7).for_each(|piece| drop(stream.write_all(piece)));
            }
        });
        let counted = Counted::of(&experiment, port, std::process::id());
        let (before, after) = (counted.now(), counted.now());
        server.join().expect("no panic");
        counted.figures(&before, &after)
    }

    const BEFORE: &str =
        "STAT pid 7\r\nSTAT version 1.6.45\r\nSTAT get_misses 5\r\nSTAT curr_items 90\r\nEND\r\n";
    const AFTER: &str =
        "STAT pid 7\r\nSTAT version 1.6.45\r\nSTAT get_misses 8\r\nSTAT curr_items 70\r\nEND\r\n";

    #[test]
    fn a_statistic_is_a_metric_and_so_is_its_growth() {
        let (figures, complaints) = figures("\"curr_items\", \"get_misses\"", [BEFORE, AFTER], "p99_us");
        let wanted = [
            ("curr_items", 70.0),
            ("curr_items_added", -20.0),
            ("get_misses", 8.0),
            ("get_misses_added", 3.0),
        ];
        assert_eq!(figures, wanted.map(|(name, figure)| (name.to_owned(), figure)).into());
        assert!(complaints.is_empty(), "{complaints:?}");
    }

    #[test]
    fn what_a_server_does_not_say_is_not_zero() {
        let check = |stats: &str, answers, expected: &str| {
            let (figures, complaints) = figures(stats, answers, "p99_us");
            assert!(complaints.join("; ").starts_with(expected), "{complaints:?}");
            assert!(figures.keys().all(|name| !name.ends_with(ADDED)), "{figures:?}");
        };
        check(
            "\"curr_itemz\"",
            [BEFORE, AFTER],
            "stats-unknown: the server has no \"curr_itemz\" among its 4 statistics",
        );
        check("\"version\"", [BEFORE, AFTER], "stats-unknown: version is \"1.6.45\", which is no number");
        check(
            "\"pid\"",
            ["END\r\n", AFTER],
            "stats-unknown: the server has no \"pid\" among its 0 statistics, before the load",
        );
        check("\"pid\"", [BEFORE, "ERROR\r\n"], "stats-unknown: port");
    }

    #[test]
    fn memory_is_looked_at_where_it_is_wanted() {
        assert_eq!(figures("\"pid\"", [BEFORE, AFTER], "p99_us").0.len(), 2);
        let with = figures("\"pid\"", [BEFORE, AFTER], "server_anon_bytes_added").0;
        assert!(with["server_anon_bytes"] > 0.0 && with.contains_key("server_anon_bytes_added"), "{with:?}");
        assert!(!with.contains_key("server_rss_bytes"));
    }
}
