//! Readings of the counters of a host, and the differences between two of them.
//!
//! Counters since boot do not show the present; rules use a [`Series`] of readings, some seconds apart. A counter
//! that went down was reset (a driver, a restart): its difference counts as unknown, not as negative.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use os::cpu_time::ThreadTimes;
use serde::{Deserialize, Serialize};

/// All counters at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reading {
    /// Milliseconds since some moment that all readings of a series share.
    pub at_ms: u64,
    /// CPU times, by CPU: /proc/stat.
    pub cpus: BTreeMap<u32, CpuTimes>,
    /// By CPU: /proc/net/softnet_stat.
    pub softnet: BTreeMap<u32, Softnet>,
    /// Soft interrupts by kind and CPU: `NET_RX` → CPU → times.
    pub softirqs: BTreeMap<String, BTreeMap<u32, u64>>,
    /// Interrupts of devices by number and CPU.
    pub interrupts: BTreeMap<u32, BTreeMap<u32, u64>>,
    /// Counters of interfaces: `eth0` → `rx_packets`, and the driver's own.
    pub nics: BTreeMap<String, BTreeMap<String, u64>>,
    /// /proc/net/netstat and /proc/net/snmp: `TcpExt.ListenOverflows`.
    pub protocols: BTreeMap<String, u64>,
    /// /proc/vmstat.
    pub vmstat: BTreeMap<String, u64>,
    /// Threads of the services, by thread id: /proc/PID/task/TID/schedstat.
    pub threads: BTreeMap<u32, ThreadTimes>,
    /// All processes, by process id: /proc/PID/stat.
    pub processes: BTreeMap<u32, ProcessTimes>,
    /// Microseconds in which some task was stalled: `cpu`, `memory`, `io` (/proc/pressure).
    pub stalled_us: BTreeMap<String, u64>,
    /// Nanoseconds that tasks have waited for a CPU, added up, by CPU: /proc/schedstat. Read only where the kernel does
    /// not report the pressure on CPUs.
    pub run_delay_ns: BTreeMap<u32, u64>,
    /// How often a CPU was slowed down for its heat or power, by CPU; empty: it does not count that.
    pub heat_throttles: BTreeMap<u32, u64>,
    /// CPU quotas, by cgroup: cpu.stat.
    pub cgroups: BTreeMap<String, Throttling>,
    /// By disk: /sys/block/NAME/stat.
    pub disks: BTreeMap<String, DiskTimes>,
    /// Of listening sockets, by inode.
    pub accepting: BTreeMap<u64, Accepting>,
    /// Of UDP sockets, by inode.
    pub datagrams: BTreeMap<u64, Datagrams>,
    /// Statistics that a cache has answered, by its address.
    pub caches: BTreeMap<String, BTreeMap<String, u64>>,
    /// Of those where connections wait: the kernel's numbers (cookies) of all connections that wait at that port. Missing
    /// where they are too many.
    pub queued: BTreeMap<u64, BTreeSet<u64>>,
}

/// A CPU's time by kind, in clock ticks (1/100 s).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CpuTimes {
    /// In programs, `nice` included.
    pub user: u64,
    /// In the kernel on behalf of programs.
    pub system: u64,
    /// Idle.
    pub idle: u64,
    /// Idle while a disk was busy.
    pub iowait: u64,
    /// In interrupt handlers.
    pub irq: u64,
    /// In soft interrupts.
    pub softirq: u64,
    /// Wanted, but given to another guest.
    pub steal: u64,
}

/// A row of /proc/net/softnet_stat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Softnet {
    /// Packets handled here; with RPS, on the CPU they were steered to.
    pub processed: u64,
    /// Packets dropped because the backlog was full.
    pub dropped: u64,
    /// Times that work was left when the budget was used up.
    pub time_squeeze: u64,
    /// Wake-ups by another CPU's steering.
    pub received_rps: u64,
    /// Packets dropped by the flow limit.
    pub flow_limit: u64,
}

/// A row of /proc/PID/stat.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessTimes {
    /// Its name in the kernel.
    pub name: String,
    /// Of its first thread, at this moment: `R` running, `S` sleeping, `D` waiting in the kernel, `T` stopped…
    pub state: char,
    /// CPU time of all its threads, in clock ticks (1/100 s).
    pub ticks: u64,
    /// The CPU of its first thread's last run.
    pub cpu: u32,
    /// Scheduling policy of its first thread, as in sched(7).
    pub policy: u32,
}

/// A cgroup's CPU quota.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Throttling {
    /// Periods in which it ran.
    pub periods: u64,
    /// Periods in which it was stopped.
    pub throttled: u64,
    /// Microseconds that it was stopped.
    pub throttled_us: u64,
}

/// Counts of connections at a listening socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Accepting {
    /// Connections that wait to be accepted, at this moment.
    pub waiting: u32,
    /// Handshakes that were dropped, mostly for lack of room. Counts up since Linux 4.7.
    pub dropped: u32,
    /// Pending handshakes at its address, at this moment; workers that share one have the same number.
    pub half_open: u32,
}

/// Counts of datagrams at a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Datagrams {
    /// Bytes that wait to be read, at this moment.
    pub queued_bytes: u64,
    /// Datagrams that were dropped, mostly for lack of room.
    pub dropped: u64,
}

/// A disk's work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskTimes {
    /// Requests done, reads and writes.
    pub requests: u64,
    /// Milliseconds that requests waited and were served, summed over them.
    pub waited_ms: u64,
    /// Milliseconds in which there were requests.
    pub busy_ms: u64,
    /// Requests that are being served, at this moment.
    pub in_flight: u64,
}

/// Readings in order of time, at least two. Clones and parts share them: one reading of a large host has half a million
/// counts.
#[derive(Clone, Debug, PartialEq)]
pub struct Series(Vec<Arc<Reading>>);

/// A count in a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// The total.
    pub count: u64,
    /// The window's length in seconds.
    pub window_s: f64,
}

impl Rate {
    /// Per second.
    pub fn per_s(self) -> f64 {
        self.count as f64 / self.window_s
    }
}

impl CpuTimes {
    /// The whole CPU time.
    pub fn total(self) -> u64 {
        self.user + self.system + self.idle + self.iowait + self.irq + self.softirq + self.steal
    }

    /// The difference to an earlier reading; `None` if something was reset.
    pub fn since(self, earlier: CpuTimes) -> Option<CpuTimes> {
        Some(CpuTimes {
            user: self.user.checked_sub(earlier.user)?,
            system: self.system.checked_sub(earlier.system)?,
            idle: self.idle.checked_sub(earlier.idle)?,
            // The kernel's documentation allows this one to decrease.
            iowait: self.iowait.saturating_sub(earlier.iowait),
            irq: self.irq.checked_sub(earlier.irq)?,
            softirq: self.softirq.checked_sub(earlier.softirq)?,
            steal: self.steal.checked_sub(earlier.steal)?,
        })
    }
}

impl Series {
    /// A series; `None` unless there are two readings in ascending order of time.
    pub fn new(readings: Vec<Reading>) -> Option<Series> {
        let ascending = readings.windows(2).all(|pair| pair[0].at_ms < pair[1].at_ms);
        (readings.len() >= 2 && ascending).then(|| Series(readings.into_iter().map(Arc::new).collect()))
    }

    /// The first reading.
    pub fn first(&self) -> &Reading {
        &self.0[0]
    }

    /// The last reading.
    pub fn last(&self) -> &Reading {
        &self.0[self.0.len() - 1]
    }

    /// All of them.
    pub fn readings(&self) -> &[Arc<Reading>] {
        &self.0
    }

    /// From each reading to the next.
    pub fn windows(&self) -> Vec<Series> {
        self.0.windows(2).map(|pair| Series(pair.to_vec())).collect()
    }

    /// Seconds from the first to the last.
    pub fn window_s(&self) -> f64 {
        (self.last().at_ms - self.first().at_ms) as f64 / 1000.0
    }

    /// The increment of the value that `count` reads, from the first to the last reading; `None` if it is missing in
    /// one, or was reset in between.
    pub fn rate(&self, count: impl Fn(&Reading) -> Option<u64>) -> Option<Rate> {
        let counts: Vec<u64> = self.0.iter().map(|reading| count(reading)).collect::<Option<_>>()?;
        let ascending = counts.windows(2).all(|pair| pair[0] <= pair[1]);
        ascending.then(|| Rate { count: counts[counts.len() - 1] - counts[0], window_s: self.window_s() })
    }

    /// The rate of a counter of /proc/net/netstat or snmp: `TcpExt.ListenOverflows`.
    pub fn protocol(&self, name: &str) -> Option<Rate> {
        self.rate(|reading| reading.protocols.get(name).copied())
    }

    /// The rate of a counter of an interface.
    pub fn nic(&self, nic: &str, counter: &str) -> Option<Rate> {
        self.rate(|reading| reading.nics.get(nic)?.get(counter).copied())
    }

    /// A CPU's time in the window.
    pub fn cpu(&self, cpu: u32) -> Option<CpuTimes> {
        self.last().cpus.get(&cpu)?.since(*self.first().cpus.get(&cpu)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overflows(counts: &[u64]) -> Option<Rate> {
        let reading = |(i, count): (usize, &u64)| Reading {
            at_ms: 2000 * i as u64,
            protocols: BTreeMap::from([("TcpExt.ListenOverflows".to_owned(), *count)]),
            ..Reading::default()
        };
        Series::new(counts.iter().enumerate().map(reading).collect())?.protocol("TcpExt.ListenOverflows")
    }

    #[test]
    fn a_rate_is_what_was_added_over_the_window() {
        let rate = overflows(&[5, 7, 25]).unwrap();
        assert_eq!((rate.count, rate.window_s, rate.per_s()), (20, 4.0, 5.0));
    }

    #[test]
    fn a_counter_that_was_reset_tells_nothing() {
        assert_eq!(overflows(&[5, 2, 25]), None);
    }

    #[test]
    fn one_reading_is_no_series() {
        assert_eq!(Series::new(vec![Reading::default()]), None);
        assert_eq!(Series::new(vec![Reading::default(); 2]), None, "no time has passed");
    }
}
