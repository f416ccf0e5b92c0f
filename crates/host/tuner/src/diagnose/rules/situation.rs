//! Situations for tests, in the field's words: a line for each fact, and for what was counted in a window of 30 s.
//!
//! ```text
//! cpus 8 smt nodes=2            eight CPUs; hyperthreads i and i + 4; two nodes
//! kernel 6.1                    and: memory 64, swap 8 (GiB), thp always madvise, clock xen of xen,tsc,
//!                               isolated 4-5, nohz_full 6-7, slower 8-15 (efficiency cores), governor powersave, sched_ext scx_rusty, dead kernel.x=/etc/sysctl.conf
//! nic eth0 rx=2 tx=2 rps=1-7 flows=0 xps=0/1 max=8 ring=1024/8192 node=0 driver=ena
//! irqs 40-41 eth0-TxRx- on 0,1 managed      names end in 0, 1…; the CPUs take turns
//! service memcached pid=812 cgroup=/a policy=1 cpus=0-3 data=/data descriptors=9/10 connections=9/10     one thread
//! listener :11211 pid=812 backlog=128 waiting=1 fast_open=0; later=129 wait, after dropped=21; half_open=9;
//!                               queued=same: the same connections at each look, or queued=new
//! datagrams :11211 pid=812 dropped=9 queued=4096 | cache :1 listen_disabled_num=9 silent=2 (of 0-3)
//! disk md0 scheduler=none raid=raid0 chunk=4096 | mount /data rw,noatime | conntrack 7 of 100
//! cpu 0-3 user=5 softirq=80     percent of the window, or `80,0,5` of each; the rest is idle
//! NET_RX 0=900 1-7=10           soft interrupts; and BLOCK
//! arrivals 40 0=10,0,5          interrupts in each of three windows, or in all of them alike
//! count eth0 rx_packets=5       counters of an interface; or protocols: count TcpExt.X=1; or vmstat
//! thread 812 wait=3 run=80 turns=9 | pressure cpu=4 | schedstat 0-1 wait=4     percent of the window
//! heat 0-3 throttled=9          times that a CPU was slowed down
//! process stress pid=9 run=190 cpu=1 state=RRTR policy=1 priority=50 cpus=0-1      a state for each reading
//! cgroup /a periods=9 throttled=1 ms=5 | work md0 busy=40 requests=9 waited=9
//! ```
//!
//! [`check`] judges it and compares with lines `rule [severity] [verdict] subject: evidence, evidence…`, `no rule`,
//! `one rule` for a single finding of it, or `says words` for a cause.

use std::collections::BTreeMap;

use crate::observe::facts::*;
use crate::observe::reading::{Accepting, CpuTimes, Datagrams, DiskTimes, ProcessTimes, Reading, Throttling};
use crate::{Facts, Finding, RemedyStatus, Series, Severity};
use os::CpuSet;
use os::cpu_time::ThreadTimes;

/// Windows of a series, of ten seconds each.
const WINDOWS: u64 = 3;

/// Judges a situation, and compares.
#[track_caller]
pub(super) fn check(situation: &str, wanted: &str) {
    let (facts, series) = stage(situation);
    let findings = super::judge_each(&facts, &series);
    for line in wanted.lines().map(str::trim) {
        let of = |rule: &str| {
            assert!(super::explain(rule).is_some(), "there is no rule {rule}");
            findings.iter().filter(|finding| finding.rule == rule).count()
        };
        let found = match line.split_once(' ') {
            Some(("no", rule)) => of(rule) == 0,
            Some(("one", rule)) => of(rule) == 1,
            Some(("says", words)) => findings.iter().any(|finding| finding.cause.contains(words)),
            _ => findings.iter().any(|finding| is_described(finding, line)),
        };
        assert!(found, "wanted: {line}\nfound:\n{}", findings.iter().map(describe).collect::<String>());
    }
}

/// Judges a situation, and compares all output with lines `severity rule subject > consequences = PIDs alike`.
#[track_caller]
pub(super) fn check_folded(situation: &str, wanted: &str) {
    let (facts, series) = stage(situation);
    let line = |finding: &Finding| {
        let mut line = format!("{} {} {}", finding.severity.word(), finding.rule, finding.subject);
        let all = |finding: &Finding| {
            finding.unfolded().into_iter().skip(1).map(|(finding, _)| finding).collect::<Vec<_>>()
        };
        let follow: Vec<String> = finding.consequences.iter().map(|finding| finding.rule.clone()).collect();
        if !follow.is_empty() {
            line += &format!(" > {}", follow.join(" "));
        }
        let pid = |finding: &Finding| {
            let (_, pid) = finding.subject.split_once("(PID ").expect("a service");
            pid.trim_end_matches(')').to_owned()
        };
        if !finding.alike.is_empty() {
            line += &format!(" = {}", finding.alike.iter().map(pid).collect::<Vec<_>>().join(" "));
        }
        assert!(all(finding).len() >= finding.alike.len() + finding.consequences.len());
        line
    };
    let found: Vec<String> = super::judge(&facts, &series).iter().map(line).collect();
    let wanted: Vec<&str> = wanted.lines().map(str::trim).collect();
    assert_eq!(found, wanted);
}

fn is_described(finding: &Finding, line: &str) -> bool {
    let (head, evidence) = line.split_once(": ").unwrap_or((line, ""));
    let (rule, mut subject) = head.split_once(' ').unwrap_or((head, ""));
    let mut words = vec![finding.severity.word(), verdict(finding)];
    words.retain(|word| subject.contains(word));
    for word in &words {
        subject = subject.strip_prefix(word).unwrap_or(subject).trim_start();
    }
    let shown: Vec<&str> = finding.evidence.iter().map(|evidence| evidence.value.as_str()).collect();
    let mut rest = shown.as_slice();
    // In this order, others may be between them. Commas inside of numbers are no separators.
    let all = evidence.split(", ").filter(|piece| !piece.is_empty()).all(|piece| {
        let place = rest.iter().position(|value| value.starts_with(piece));
        place.is_some_and(|place| {
            rest = &rest[place + 1..];
            true
        })
    });
    finding.rule == rule && finding.subject == subject && all
}

fn verdict(finding: &Finding) -> &'static str {
    match finding.verdict {
        RemedyStatus::Fixable => "fixable",
        RemedyStatus::NotHere { .. } => "not-here",
    }
}

fn describe(finding: &Finding) -> String {
    let evidence: Vec<&str> = finding.evidence.iter().map(|evidence| evidence.value.as_str()).collect();
    let (severity, subject) = (finding.severity.word(), &finding.subject);
    let (rule, verdict, cause) = (&finding.rule, verdict(finding), &finding.cause);
    format!("  {rule} {severity} {verdict} {subject}: {}\n    says {cause}\n", evidence.join(", "))
}

/// The host and the counters of a situation.
pub(super) fn stage(situation: &str) -> (Facts, Series) {
    let mut stage =
        Stage { facts: Facts::default(), readings: vec![Reading::default(); WINDOWS as usize + 1] };
    stage.facts.kernel.version = (6, 18);
    for line in situation.lines().map(str::trim).filter(|line| !line.is_empty()) {
        stage.line(line);
    }
    for (i, reading) in stage.readings.iter_mut().enumerate() {
        reading.at_ms = 10_000 * i as u64;
    }
    stage.facts.interrupts.sort_by_key(|interrupt| interrupt.irq);
    (stage.facts, Series::new(stage.readings).expect("readings are in order"))
}

struct Stage {
    facts: Facts,
    readings: Vec<Reading>,
}

/// A line of a situation: its words, and the pairs of a name and a value among them.
struct Line<'l> {
    words: Vec<&'l str>,
    pairs: Vec<(&'l str, &'l str)>,
}

impl<'l> Line<'l> {
    fn new(text: &'l str) -> Line<'l> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let pairs = words.iter().filter_map(|word| word.split_once('=')).collect();
        Line { words, pairs }
    }

    /// The word at this place, as a number.
    fn word(&self, place: usize) -> u64 {
        self.words[place].parse().expect(self.words[place])
    }

    fn value(&self, name: &str) -> Option<&'l str> {
        self.pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.value(name).map(|value| value.parse().expect(name))
    }

    fn number_u32(&self, name: &str) -> Option<u32> {
        self.value(name).map(|value| value.parse().expect(name))
    }
}

impl Stage {
    fn line(&mut self, text: &str) {
        let line = Line::new(text);
        let is_known =
            self.network(&line) || self.machine(&line) || self.program(&line) || self.counter(&line);
        assert!(is_known, "no word of situations: {}", line.words[0]);
    }

    /// Interfaces, sockets and their sysctls. Returns whether the line is one of these.
    fn network(&mut self, line: &Line) -> bool {
        match line.words[0] {
            "nic" => self.nic(line),
            "irqs" => self.irqs(&line.words),
            "sysctl" => line.pairs.iter().for_each(|(name, value)| {
                self.facts.sysctls.insert((*name).to_owned(), (*value).to_owned());
            }),
            "dead" => {
                let pairs = line.pairs.iter().map(|(name, file)| ((*name).to_owned(), (*file).to_owned()));
                self.facts.obsolete_sysctls.extend(pairs);
            }
            "listener" => self.listener(line),
            "datagrams" => self.datagrams(line),
            "conntrack" => self.facts.per_packet_costs.conntrack = Some((line.word(1), line.word(3))),
            _ => return false,
        }
        true
    }

    /// The machine and its kernel. Returns whether the line is one of these.
    fn machine(&mut self, line: &Line) -> bool {
        let words = &line.words;
        match words[0] {
            "cpus" => {
                let nodes = line.number("nodes").unwrap_or(1);
                self.cpus(line.word(1) as u32, words.contains(&"smt"), nodes);
            }
            "kernel" => {
                let (major, minor) = words[1].split_once('.').expect(words[1]);
                self.facts.kernel.version = (major.parse().expect(major), minor.parse().expect(minor));
            }
            "slower" => self.facts.slower = set(words[1]),
            "isolated" => self.facts.isolated = set(words[1]),
            "nohz_full" => self.facts.nohz_full = set(words[1]),
            "memory" => self.facts.memory_bytes = line.word(1) << 30,
            "swap" => self.facts.swap_bytes = Some(line.word(1) << 30),
            "sched_ext" => self.facts.sched_ext = Some(words[1].to_owned()),
            "thp" => {
                self.facts.huge_pages.enabled = Some(words[1].to_owned());
                self.facts.huge_pages.defrag = words.get(2).map(|word| (*word).to_owned());
            }
            "clock" => {
                let available = words[3].split(',').map(str::to_owned).collect();
                self.facts.clock_source = ClockSource { current: Some(words[1].to_owned()), available };
            }
            "governor" => {
                self.facts.cpus.iter_mut().for_each(|cpu| cpu.governor = Some(words[1].to_owned()));
            }
            "disk" => self.facts.disks.push(disk(line)),
            "mount" => self.facts.mounts.push(Mount {
                path: words[1].to_owned(),
                options: words[2].split(',').map(str::to_owned).collect(),
                ..Mount::default()
            }),
            _ => return false,
        }
        true
    }

    /// Programs, with what they count themselves. Returns whether the line is one of these.
    fn program(&mut self, line: &Line) -> bool {
        match line.words[0] {
            "service" => self.facts.services.push(service(line)),
            "agent" => self.facts.agents.push(Agent {
                name: line.words[1].to_owned(),
                pid: line.number_u32("pid"),
                sets: String::new(),
            }),
            "cache" => self.cache(line),
            "process" => self.process(line),
            "thread" => self.over_time(|reading, seconds| {
                // A percent of a second are ten million nanoseconds.
                let share = |name: &str| line.number(name).unwrap_or(0) * seconds * 10_000_000;
                let slices = line.number("turns").unwrap_or(0) * seconds / (10 * WINDOWS);
                let times = ThreadTimes { run_ns: share("run"), wait_ns: share("wait"), slices };
                reading.threads.insert(line.word(1) as u32, times);
            }),
            _ => return false,
        }
        true
    }

    /// Counters of the kernel. Returns whether the line is one of these.
    fn counter(&mut self, line: &Line) -> bool {
        let (words, pairs) = (&line.words, &line.pairs);
        let part = |name: &str, seconds| line.number(name).unwrap_or(0) * seconds / (10 * WINDOWS);
        match words[0] {
            "pressure" => self.over_time(|reading, seconds| {
                for (name, percent) in pairs {
                    let us = percent.parse::<u64>().expect(percent) * seconds * 10_000;
                    reading.stalled_us.insert((*name).to_owned(), us);
                }
            }),
            "cgroup" => self.over_time(|reading, seconds| {
                let part = |name: &str| part(name, seconds);
                let throttled_us = part("ms") * 1000;
                let times =
                    Throttling { periods: part("periods"), throttled: part("throttled"), throttled_us };
                reading.cgroups.insert(words[1].to_owned(), times);
            }),
            "work" => self.over_time(|reading, seconds| {
                let (requests, waited_ms) = (part("requests", seconds), part("waited", seconds));
                let busy_ms = line.number("busy").unwrap_or(0) * seconds * 10;
                reading
                    .disks
                    .insert(words[1].to_owned(), DiskTimes { requests, waited_ms, busy_ms, in_flight: 0 });
            }),
            "cpu" => set(words[1]).iter().for_each(|cpu| self.cpu_times(cpu, pairs)),
            kind @ ("NET_RX" | "BLOCK") => self.each(pairs, |reading, cpu, count| {
                reading.softirqs.entry(kind.to_owned()).or_default().insert(cpu, count);
            }),
            "schedstat" | "heat" => set(words[1]).iter().for_each(|cpu| {
                self.over_time(|reading, seconds| {
                    let waited = line.number("wait").map(|percent| percent * seconds * 10_000_000);
                    reading.run_delay_ns.extend(waited.map(|waited| (cpu, waited)));
                    let throttles = line.number("throttled").map(|count| count * seconds / (10 * WINDOWS));
                    reading.heat_throttles.extend(throttles.map(|count| (cpu, count)));
                });
            }),
            "softnet" => set(words[1]).iter().for_each(|cpu| self.softnet(cpu, pairs)),
            "arrivals" => set(words[1]).iter().for_each(|irq| {
                self.each(pairs, |reading, cpu, count| {
                    reading.interrupts.entry(irq).or_default().insert(cpu, count);
                });
            }),
            "count" => self.count(words[1], pairs),
            _ => return false,
        }
        true
    }

    fn cache(&mut self, line: &Line) {
        let name = line.words[1];
        self.over_time(|reading, _| _ = reading.caches.entry(name.to_owned()).or_default());
        let mut counters = line.pairs.clone();
        counters.retain(|(name, _)| *name != "silent");
        self.each_name(&counters, |reading, counter, amount| {
            let statistics = reading.caches.entry(name.to_owned()).or_default();
            statistics.insert(counter.to_owned(), amount);
        });
        if let Some(reading) = line.number("silent") {
            self.readings[reading as usize].caches.entry(name.to_owned()).or_default().clear();
        }
    }

    fn cpus(&mut self, count: u32, smt: bool, nodes: u64) {
        let per_node = count / nodes as u32;
        let siblings = |id: u32| match smt {
            true => [id % (count / 2), id % (count / 2) + count / 2].into_iter().collect(),
            false => CpuSet::from_iter([id]),
        };
        let cpu = |id: u32| {
            let node = id / per_node;
            let cache = (node * per_node..(node + 1) * per_node).collect();
            Cpu { id, online: true, node, package: node, siblings: siblings(id), cache, governor: None }
        };
        self.facts.cpus = (0..count).map(cpu).collect();
        (0..count).for_each(|cpu| self.cpu_times(cpu, &[]));
    }

    fn listener(&mut self, line: &Line) {
        let number = |name: &str| line.number_u32(name);
        let inode = self.facts.listeners.len() as u64 + 1;
        let waiting = number("waiting").unwrap_or(0);
        self.facts.listeners.push(ListeningSocket {
            address: line.words[1].to_owned(),
            backlog: number("backlog").unwrap_or(0),
            waiting,
            inode,
            pid: number("pid"),
            fast_open: number("fast_open"),
            ..ListeningSocket::default()
        });
        for (i, reading) in self.readings.iter_mut().enumerate() {
            let now = if i == 0 { waiting } else { number("later").unwrap_or(waiting) };
            let dropped = if i == 0 { 0 } else { number("dropped").unwrap_or(0) };
            let half_open = number("half_open").unwrap_or(0);
            match line.value("queued") {
                Some("same") => _ = reading.queued.insert(inode, (0..u64::from(now)).collect()),
                Some("new") => {
                    let first = 1000 * i as u64;
                    reading.queued.insert(inode, (first..first + u64::from(now)).collect());
                }
                _ => {}
            }
            reading.accepting.insert(inode, Accepting { waiting: now, dropped, half_open });
        }
    }

    fn datagrams(&mut self, line: &Line) {
        let address = line.words[1];
        let inode = 1_000_000 + self.facts.datagrams.len() as u64;
        let pid = line.number_u32("pid");
        self.facts.datagrams.push(DatagramSocket { address: address.to_owned(), inode, pid, port: 0 });
        for (i, reading) in self.readings.iter_mut().enumerate() {
            let dropped = if i == 0 { 0 } else { line.number("dropped").unwrap_or(0) };
            let queued_bytes = line.number("queued").unwrap_or(0);
            reading.datagrams.insert(inode, Datagrams { queued_bytes, dropped });
        }
    }

    /// Adds counts by name.
    fn each_name(&mut self, pairs: &[(&str, &str)], add: impl Fn(&mut Reading, &str, u64)) {
        for (name, value) in pairs {
            let amounts = amounts(value);
            for (i, reading) in self.readings.iter_mut().enumerate() {
                add(reading, name, after(i, &amounts));
            }
        }
    }

    fn process(&mut self, line: &Line) {
        let (name, number) = (line.words[1], |name: &str| line.number(name));
        let pid = number("pid").expect("a PID") as u32;
        let policy = number("policy").unwrap_or(0) as u32;
        let run = number("run").unwrap_or(0);
        if policy != 0 {
            let affinity = line.value("cpus").map_or(self.facts.online(), set);
            let priority = number("priority").unwrap_or(1) as u32;
            let thread =
                Thread { tid: pid, name: name.to_owned(), policy, priority, affinity, ..Thread::default() };
            self.facts.realtime_threads.push(RealtimeThread { pid, thread });
        }
        let states: Vec<char> = line.value("state").unwrap_or("S").chars().cycle().take(4).collect();
        self.over_time(|reading, seconds| {
            let (state, cpu) = (states[(seconds / 10) as usize], number("cpu").unwrap_or(0) as u32);
            // A percent of a second is a tick.
            let ticks = run * seconds;
            let times = ProcessTimes { name: name.to_owned(), state, ticks, cpu, policy };
            reading.processes.insert(pid, times);
            if policy != 0 {
                let run_ns = run * seconds * 10_000_000;
                reading.threads.insert(pid, ThreadTimes { run_ns, wait_ns: 0, slices: 1 + seconds });
            }
        });
    }

    fn nic(&mut self, line: &Line) {
        let (value, number) = (|name: &str| line.value(name), |name: &str| line.number_u32(name));
        let rx = RxQueue {
            rps_unknown: value("rps") == Some("unknown"),
            rps: value("rps").filter(|mask| *mask != "unknown").map(set).unwrap_or_default(),
            flows: number("flows").unwrap_or(0),
        };
        let masks: Vec<&str> = value("xps").map(|masks| masks.split('/').collect()).unwrap_or_default();
        let tx = |queue: usize| TxQueue {
            xps: masks
                .get(queue)
                .or(masks.first())
                .map(|mask| if *mask == "none" { CpuSet::new() } else { set(mask) }),
            xps_rxqs: None,
        };
        let rx: Vec<RxQueue> = vec![rx; number("rx").unwrap_or(1) as usize];
        let both =
            |text: &str| text.split_once('/').map(|(now, max)| (now.parse().unwrap(), max.parse().unwrap()));
        self.facts.nics.push(Nic {
            name: line.words[1].to_owned(),
            driver: value("driver").map(str::to_owned),
            node: number("node"),
            up: true,
            physical: true,
            channels: Some(rx.len() as u32),
            channels_max: number("max"),
            rx_ring: value("ring").and_then(both),
            tx: (0..number("tx").unwrap_or(1) as usize).map(tx).collect(),
            rx,
            ..Nic::default()
        });
    }

    fn irqs(&mut self, words: &[&str]) {
        let device = words[2].split_once('-').map_or(words[2], |(device, _)| device);
        // virtio interrupts carry the name of the bus, not of the interface.
        let device = if device.starts_with("virtio") { "eth0" } else { device };
        let cpus: Vec<u32> = set(words[4]).iter().collect();
        for (i, irq) in set(words[1]).iter().enumerate() {
            let effective = CpuSet::from_iter([cpus[i % cpus.len()]]);
            self.facts.interrupts.push(Interrupt {
                irq,
                name: format!("{}{i}", words[2]),
                device: Some(device.to_owned()),
                affinity: effective.clone(),
                effective,
                managed: words.contains(&"managed"),
            });
        }
    }

    fn cpu_times(&mut self, cpu: u32, pairs: &[(&str, &str)]) {
        // In each of the windows, or in all of them alike.
        let ticks_of = |name: &str| -> Vec<u64> {
            let value = pairs.iter().find(|(key, _)| *key == name).map_or("0", |(_, value)| value);
            let percents = value.split(',').map(|percent| percent.parse::<f64>().expect(name));
            // Ten seconds are a thousand ticks, and a percent of them ten.
            percents.map(|percent| (percent * 10.0).round() as u64).cycle().take(WINDOWS as usize).collect()
        };
        for (i, reading) in self.readings.iter_mut().enumerate() {
            let ticks = |name: &str| after(i, &ticks_of(name));
            let busy: u64 = ["user", "system", "irq", "softirq", "steal"].into_iter().map(ticks).sum();
            let times = CpuTimes {
                user: ticks("user"),
                system: ticks("system"),
                irq: ticks("irq"),
                softirq: ticks("softirq"),
                steal: ticks("steal"),
                iowait: 0,
                idle: 1000 * i as u64 - busy,
            };
            reading.cpus.insert(cpu, times);
        }
    }

    /// Sets the values of a counter after this many seconds, in each reading.
    fn over_time(&mut self, set: impl Fn(&mut Reading, u64)) {
        for (i, reading) in self.readings.iter_mut().enumerate() {
            set(reading, 10 * i as u64);
        }
    }

    fn softnet(&mut self, cpu: u32, pairs: &[(&str, &str)]) {
        for (i, reading) in self.readings.iter_mut().enumerate() {
            let row = reading.softnet.entry(cpu).or_default();
            for (name, value) in pairs {
                let total = after(i, &amounts(value));
                match *name {
                    "dropped" => row.dropped = total,
                    "squeezed" => row.time_squeeze = total,
                    "rps" => row.received_rps = total,
                    other => panic!("no column of softnet_stat: {other}"),
                }
            }
        }
    }

    /// Adds counts by CPU: `0=900 1-7=10`.
    fn each(&mut self, pairs: &[(&str, &str)], add: impl Fn(&mut Reading, u32, u64)) {
        for (cpus, value) in pairs {
            let amounts = amounts(value);
            for (i, reading) in self.readings.iter_mut().enumerate() {
                set(cpus).iter().for_each(|cpu| add(reading, cpu, after(i, &amounts)));
            }
        }
    }

    fn count(&mut self, what: &str, pairs: &[(&str, &str)]) {
        for (name, value) in pairs {
            let amounts = amounts(value);
            for (i, reading) in self.readings.iter_mut().enumerate() {
                let counters: &mut BTreeMap<String, u64> = match what {
                    "vmstat" => &mut reading.vmstat,
                    _ if what.contains('=') => &mut reading.protocols,
                    nic => reading.nics.entry(nic.to_owned()).or_default(),
                };
                counters.insert((*name).to_owned(), after(i, &amounts));
            }
        }
    }
}

/// The counts of each window: `9000` over all of them, or `1,2,3`.
fn amounts(value: &str) -> Vec<u64> {
    let amounts: Vec<u64> = value.split(',').map(|amount| amount.parse().expect(value)).collect();
    match amounts.as_slice() {
        [all] => (1..=WINDOWS).map(|i| all * i / WINDOWS - all * (i - 1) / WINDOWS).collect(),
        _ => amounts,
    }
}

/// A counter after this many windows.
fn after(windows: usize, amounts: &[u64]) -> u64 {
    amounts.iter().take(windows).sum()
}

fn set(list: &str) -> CpuSet {
    CpuSet::parse_list(list).expect(list)
}

fn service(line: &Line) -> Service {
    let (name, value) = (line.words[1], |name: &str| line.value(name));
    let pid = line.number_u32("pid").unwrap_or(1);
    let kind = match value("kind").unwrap_or(name) {
        "memcached" => ServiceKind::Memcached,
        "evenkeel" => ServiceKind::Evenkeel,
        "mysqld" => ServiceKind::Mysql,
        "redis" => ServiceKind::Redis,
        _ => ServiceKind::Generic,
    };
    let of = |name: &str| {
        let (now, max) = value(name)?.split_once('/').expect("now/max");
        Some((now.parse::<u64>().expect(now), max.parse::<u64>().expect(max)))
    };
    let thread = Thread {
        tid: pid,
        name: name.to_owned(),
        policy: value("policy").map_or(0, |policy| policy.parse().expect("a policy")),
        affinity: value("cpus").map(set).unwrap_or_default(),
        ..Thread::default()
    };
    Service {
        pid,
        kind,
        name: name.to_owned(),
        cgroup: value("cgroup").unwrap_or("/").to_owned(),
        data: value("data").map(str::to_owned).into_iter().collect(),
        descriptors: of("descriptors").map(|(now, _)| now),
        descriptors_max: of("descriptors").map(|(_, max)| max),
        sockets: of("connections").map(|(now, _)| now),
        connections_max: of("connections").map(|(_, max)| max),
        threads: vec![thread],
        allocator: value("allocator").unwrap_or_default().to_owned(),
        swapped_bytes: value("swapped").map_or(0, |bytes| bytes.parse().expect("bytes")),
        ..Service::default()
    }
}

fn disk(line: &Line) -> BlockDevice {
    let (value, number) = (|name: &str| line.value(name), |name: &str| line.number(name));
    let raid = |level: &str| Raid {
        level: level.to_owned(),
        disks: 2,
        chunk_bytes: number("chunk").unwrap_or(0),
        degraded: number("degraded").unwrap_or(0) as u32,
    };
    BlockDevice {
        name: line.words[1].to_owned(),
        rotational: number("rotational") == Some(1),
        scheduler: value("scheduler").map(str::to_owned),
        schedulers: value("schedulers").unwrap_or_default().split(',').map(str::to_owned).collect(),
        nomerges: number("nomerges").map(|nomerges| nomerges as u32),
        read_ahead_kb: number("ahead").map(|ahead| ahead as u32),
        raid: value("raid").map(raid),
        ..BlockDevice::default()
    }
}

#[test]
#[should_panic(expected = "wanted: somaxconn-low net.core.somaxconn: 129")]
fn a_situation_that_is_not_so_is_noticed() {
    check("sysctl net.core.somaxconn=128", "somaxconn-low net.core.somaxconn: 129");
}

#[test]
fn severities_come_in_order() {
    let (facts, series) = stage("sysctl net.core.somaxconn=128\n count TcpExt.ListenOverflows=30");
    let severities: Vec<Severity> =
        super::judge(&facts, &series).iter().map(|finding| finding.severity).collect();
    assert_eq!(severities, [Severity::Critical, Severity::Note]);
}
