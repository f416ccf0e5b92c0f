//! Counters of a host: one [`Reading`] per call.
//!
//! Cheap enough for once a second: only the interrupts, interfaces, disks and threads that the facts name are read,
//! and one line of each process.
//! A counter that does not exist, or cannot be read, is missing in the reading; the probe has noted the reason.

mod cpu;
mod devices;
mod network;
mod service;

use std::collections::BTreeMap;

use crate::observe::facts::Facts;
use crate::observe::probe::view::ProbeView;
use crate::observe::probe::{datagram, host_is_there, listener, process};
use crate::observe::reading::{Accepting, DiskTimes, Reading};
use crate::observe::root::{Error, Root};

pub use devices::devices;

/// Reads all counters. `at_ms` is the moment, in milliseconds since any fixed time.
///
/// Fails only if `root` holds no host.
pub fn read(root: &Root, facts: &Facts, at_ms: u64) -> Result<Reading, Error> {
    let view = ProbeView::new(root);
    let (accepting, stalled_us) = (accepting(&view), stalled(&view));
    let has_pressure = stalled_us.contains_key("cpu");
    Ok(Reading {
        queued: listener::queued(&view, facts, &accepting),
        datagrams: datagram::counts(&view, facts),
        nics: network::nics(&view, &facts.nics.iter().map(|nic| nic.name.as_str()).collect::<Vec<_>>()),
        protocols: network::protocols(&view),
        vmstat: pairs(&view, "/proc/vmstat"),
        threads: service::threads(&view, facts),
        processes: process::times(&view),
        run_delay_ns: if has_pressure { BTreeMap::new() } else { cpu::run_delays(&view) },
        heat_throttles: cpu::heat_throttles(&view, facts),
        stalled_us,
        cgroups: service::cgroups(&view, facts),
        disks: disks(&view, |name| facts.disks.iter().any(|disk| disk.name == name)),
        accepting,
        ..cpus(root, facts, at_ms)?
    })
}

/// Reads the counters of CPUs, packets and interrupts; the rest is missing. It costs a few small files: for a host on
/// which reading is expensive.
///
/// Fails only if `root` holds no host.
pub fn cpus(root: &Root, facts: &Facts, at_ms: u64) -> Result<Reading, Error> {
    host_is_there(root)?;
    let view = ProbeView::new(root);
    Ok(Reading {
        at_ms,
        cpus: cpu::times(&view),
        softnet: cpu::softnet(&view),
        softirqs: cpu::softirqs(&view),
        interrupts: cpu::interrupts(&view, facts),
        ..Reading::default()
    })
}

/// A file of lines with a name and a number.
fn pairs(view: &ProbeView, path: &str) -> BTreeMap<String, u64> {
    let pair = |line: &String| {
        let (name, value) = line.split_once(' ')?;
        Some((name.to_owned(), value.trim().parse().ok()?))
    };
    view.lines(path).iter().filter_map(pair).collect()
}

/// `some avg10=0.00 avg60=0.00 avg300=0.00 total=1234`: 1234.
fn stalled(view: &ProbeView) -> BTreeMap<String, u64> {
    let total = |kind: &str| {
        let lines = view.lines(&format!("/proc/pressure/{kind}"));
        let some = lines.iter().find(|line| line.starts_with("some "))?;
        some.rsplit_once("total=")?.1.parse().ok()
    };
    let kinds = ["cpu", "io", "memory"].into_iter();
    kinds.filter_map(|kind| Some((kind.to_owned(), total(kind)?))).collect()
}

/// A captured host does not change.
fn accepting(view: &ProbeView) -> BTreeMap<u64, Accepting> {
    if view.root.is_live() { listener::accepting(view) } else { BTreeMap::new() }
}

/// Numbers of /proc/diskstats after the name, as Documentation/admin-guide/iostats.rst counts them, from 0.
const READS: usize = 0;
const READ_MS: usize = 3;
const WRITES: usize = 4;
const WRITE_MS: usize = 7;
const IN_FLIGHT: usize = 8;
const BUSY_MS: usize = 9;

fn disks(view: &ProbeView, wanted: impl Fn(&str) -> bool) -> BTreeMap<String, DiskTimes> {
    let disk = |line: &String| {
        let mut words = line.split_whitespace().skip(2);
        let name = words.next().filter(|name| wanted(name))?;
        let numbers: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
        let number = |place: usize| numbers.get(place).copied();
        let times = DiskTimes {
            requests: number(READS)? + number(WRITES)?,
            waited_ms: number(READ_MS)? + number(WRITE_MS)?,
            busy_ms: number(BUSY_MS)?,
            in_flight: number(IN_FLIGHT)?,
        };
        Some((name.to_owned(), times))
    };
    view.lines("/proc/diskstats").iter().filter_map(disk).collect()
}
