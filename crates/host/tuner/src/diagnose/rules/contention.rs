//! CPU contention: CPUs without idle time, and the programs that take it.

use super::figures::{cpus, percent};
use super::host::RuleInput;
use super::rule::{Explanation, Remedy, Rule};
use crate::observe::cpu_load::BUSY_PERCENT;
use crate::observe::facts::{RealtimeThread, Service, Thread};
use crate::observe::reading::ProcessTimes;
use crate::{Evidence, Finding, Severity};
use os::CpuSet;

pub(super) const RULES: &[Rule] = &[Rule {
    explanation: Explanation {
        rule: "cpus-full",
        title: "CPUs have no time left, and tasks wait for one",
        evidence: "CPUs are idle for less than 2 %, and some task waited for a CPU (pressure/cpu) for 20 % of the \
                   window or more, both in most of its parts; critical from 60 % on, if it is all CPUs. Where the \
                   kernel does not report pressure (before Linux 4.20, Red Hat 8 without psi=1), the waiting is that of \
                   /proc/schedstat; without either it is unknown, which is listed under \"not seen\".",
        meaning: "There is more work than these CPUs do. Every further request waits, and averages over all CPUs hide \
                  it where only some are full. The evidence names who used most of the time.",
        remedy: "Move the other programs away, or give the service CPUs of its own (AllowedCPUs=). If the service \
                 itself uses the time: more CPUs, or more hosts. Priorities only decide who waits.",
    },
    remedy: Remedy::ByHand,
    find: full,
}];

/// Less idle time than this is none (netdata and Brendan Gregg's USE method ask for saturation, which is the pressure).
const FULL_IDLE_PERCENT: f64 = 2.0;
/// Pressure above the usual level (proposal).
const PRESSURE_PERCENT: f64 = 20.0;
const PRESSURE_CRITICAL_PERCENT: f64 = 60.0;
/// A program that uses a smaller share of a CPU does not delay others noticeably (proposal).
const SHARE_MIN_PERCENT: f64 = 5.0;
/// More than these cannot be handled in one finding.
const NAMED_MAX: usize = 3;

fn full(host: &RuleInput) -> Vec<Finding> {
    let full = full_cpus(host);
    let Some((what, pressure)) = waiting(host, &full) else { return Vec::new() };
    let lasts = |part: &RuleInput| {
        let waits = waiting(part, &full).is_some_and(|(_, percent)| percent >= PRESSURE_PERCENT);
        waits && full.without(&full_cpus(part)).is_empty()
    };
    if full.is_empty() || pressure < PRESSURE_PERCENT || !host.mostly(lasts) {
        return Vec::new();
    }
    let is_all = full.len() == host.loads.len();
    let busiest = busiest(host, &full, None);
    let whom = match busiest.is_empty() {
        true => String::new(),
        false => format!("; most of it went to {}", list(&busiest)),
    };
    let severity = match is_all && pressure >= PRESSURE_CRITICAL_PERCENT {
        true => Severity::Critical,
        false => Severity::Warning,
    };
    let idle = |cpus: &CpuSet| {
        let known: Vec<f64> = cpus.iter().filter_map(|cpu| Some(host.load(cpu)?.idle)).collect();
        known.iter().sum::<f64>() / known.len().max(1) as f64
    };
    let others: CpuSet = host.loads.keys().copied().filter(|cpu| !full.contains(*cpu)).collect();
    let subject = if is_all { "all CPUs".to_owned() } else { cpus(&full) };
    let cause = match is_all {
        true => format!("all CPUs are busy all the time, and tasks wait for one{whom}"),
        false => {
            format!("{subject} have no time left while the others are {} idle{whom}", percent(idle(&others)))
        }
    };
    let finding = Finding::about(severity, subject)
        .cause(cause)
        .effect("ready threads find a CPU")
        .saw(host.measured("idle, mean of these", percent(idle(&full))).threshold(percent(FULL_IDLE_PERCENT)))
        .saw(host.measured(what, percent(pressure)).threshold(percent(PRESSURE_PERCENT)));
    let finding = busiest.iter().fold(finding, |finding, user| finding.saw(user.evidence(host)));
    vec![match is_all {
        true => finding
            .not_here("there is more work than CPUs: move programs elsewhere, or choose a larger machine"),
        false => finding,
    }]
}

fn full_cpus(host: &RuleInput) -> CpuSet {
    let full =
        host.loads.iter().filter(|(_, load)| load.idle < FULL_IDLE_PERCENT && load.steal < BUSY_PERCENT);
    full.map(|(cpu, _)| *cpu).collect()
}

/// Part of the time in which some task waited for a CPU, in percent, and the kernel's name of that; `None`: unknown.
/// Without PSI it is the sum of all waiting for these CPUs, which is never less.
fn waiting(host: &RuleInput, on: &CpuSet) -> Option<(&'static str, f64)> {
    if let Some(stalled) = host.series.rate(|reading| reading.stalled_us.get("cpu").copied()) {
        return Some(("pressure/cpu some", stalled.per_s() / 1e4));
    }
    let waited_ns = |cpu: u32| host.series.rate(|reading| reading.run_delay_ns.get(&cpu).copied());
    let waited: Vec<f64> = on.iter().map(|cpu| Some(waited_ns(cpu)?.per_s() / 1e7)).collect::<Option<_>>()?;
    Some(("waiting for these CPUs (schedstat)", waited.iter().sum::<f64>().min(100.0)))
}

/// A program, and its share of one CPU.
pub(super) struct User {
    pid: u32,
    name: String,
    percent: f64,
}

impl User {
    fn evidence(&self, host: &RuleInput) -> Evidence {
        host.measured(format!("CPU time of {} (PID {})", self.name, self.pid), percent(self.percent))
    }
}

/// `stress (PID 9) 190 %, gzip (PID 10) 40 %`
fn list(users: &[User]) -> String {
    let one = |user: &User| format!("{} (PID {}) {}", user.name, user.pid, percent(user.percent));
    users.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// CPU time of a process in the window, in percent of one CPU; `None`: it came or went meanwhile.
pub(super) fn share(host: &RuleInput, pid: u32) -> Option<f64> {
    let rate = host.series.rate(|reading| Some(reading.processes.get(&pid)?.ticks))?;
    Some(rate.per_s())
}

/// Programs with most CPU time, as far as they were seen on these CPUs; without one process.
fn busiest(host: &RuleInput, on: &CpuSet, without: Option<u32>) -> Vec<User> {
    let was_seen = |pid: u32| {
        let readings = host.series.readings().iter();
        readings.filter_map(|reading| reading.processes.get(&pid)).any(|process| on.contains(process.cpu))
    };
    let processes = host.series.last().processes.iter().filter(|(pid, _)| Some(**pid) != without);
    let user = |(pid, times): (&u32, &ProcessTimes)| {
        let percent = share(host, *pid).filter(|percent| *percent >= SHARE_MIN_PERCENT)?;
        was_seen(*pid).then(|| User { pid: *pid, name: times.name.clone(), percent })
    };
    let mut users: Vec<User> = processes.filter_map(user).collect();
    users.sort_by(|a, b| b.percent.total_cmp(&a.percent));
    users.truncate(NAMED_MAX);
    users
}

/// Reasons why a thread waits for a CPU.
pub(super) enum Competitor {
    /// Threads that run before all ordinary ones, and their CPU time.
    Realtime { who: String, percent: f64 },
    /// Interrupts on its CPUs.
    Interrupts { cpus: CpuSet, percent: f64 },
    /// Ordinary programs; empty if none was seen.
    Others(Vec<User>),
}

impl Competitor {
    /// The cause of a service thread's waiting.
    pub(super) fn of(host: &RuleInput, service: &Service, thread: &Thread) -> Competitor {
        let allowed = thread.affinity.and(&host.online);
        let allowed = if allowed.is_empty() { host.online.clone() } else { allowed };
        if let Some(realtime) = realtime(host, service, thread, &allowed) {
            return realtime;
        }
        let known: Vec<f64> = allowed.iter().filter_map(|cpu| host.interrupts(cpu)).collect();
        if !allowed.is_empty()
            && known.len() == allowed.len()
            && known.iter().all(|percent| *percent >= BUSY_PERCENT)
        {
            let percent = known.iter().sum::<f64>() / known.len() as f64;
            return Competitor::Interrupts { cpus: allowed, percent };
        }
        Competitor::Others(busiest(host, &allowed, Some(service.pid)))
    }

    /// `while …`, for the cause; empty if no program was seen.
    pub(super) fn words(&self) -> String {
        match self {
            Competitor::Realtime { who, percent: took } => {
                format!("while {who} took {} of a CPU and runs before every ordinary thread", percent(*took))
            }
            Competitor::Interrupts { cpus: on, percent: took } => {
                format!("while interrupts took {} of {}", percent(*took), cpus(on))
            }
            Competitor::Others(users) if users.is_empty() => String::new(),
            Competitor::Others(users) => format!("beside {}", list(users)),
        }
    }

    /// The reason why no slice, weight or nice value helps, and the remedy.
    pub(super) fn reason(&self) -> Option<String> {
        match self {
            Competitor::Realtime { who, .. } => Some(format!(
                "no slice, weight or nice value comes before a real-time thread: keep {who} away from its CPUs \
                 (AllowedCPUs=, taskset), or make it ordinary (chrt --other)"
            )),
            Competitor::Interrupts { cpus: on, .. } => Some(format!(
                "nothing comes before an interrupt: move the service away from {} (AllowedCPUs=), or spread the \
                 interrupts",
                cpus(on)
            )),
            Competitor::Others(_) => None,
        }
    }

    pub(super) fn evidence(&self, host: &RuleInput) -> Vec<Evidence> {
        match self {
            Competitor::Realtime { who, percent: took } => vec![host.measured(who, percent(*took))],
            Competitor::Interrupts { cpus: on, percent: took } => {
                vec![host.measured(format!("irq + softirq, mean of {}", cpus(on)), percent(*took))]
            }
            Competitor::Others(users) => users.iter().map(|user| user.evidence(host)).collect(),
        }
    }
}

/// Real-time threads of others on these CPUs that took a noticeable part of one. Against a real-time thread only those
/// of at least its priority count.
fn realtime(host: &RuleInput, service: &Service, waiting: &Thread, on: &CpuSet) -> Option<Competitor> {
    let goes_first = |other: &&RealtimeThread| {
        let is_first = waiting.policy == 0 || other.thread.priority >= waiting.priority;
        other.pid != service.pid && is_first && !other.thread.affinity.and(on).is_empty()
    };
    let took = |other: &RealtimeThread| {
        let run = host.series.rate(|reading| Some(reading.threads.get(&other.thread.tid)?.run_ns))?;
        Some(run.count as f64 / 1e7 / host.series.window_s())
    };
    let others = host.facts.realtime_threads.iter().filter(goes_first);
    let mut found: Vec<(&RealtimeThread, f64)> =
        others.filter_map(|other| Some((other, took(other)?))).collect();
    found.retain(|(_, percent)| *percent >= SHARE_MIN_PERCENT);
    found.sort_by(|a, b| b.1.total_cmp(&a.1));
    let percent = found.iter().map(|(_, percent)| percent).sum();
    let (first, _) = found.first()?;
    let name = |other: &RealtimeThread| {
        let policy = match other.thread.policy {
            1 => "SCHED_FIFO",
            2 => "SCHED_RR",
            _ => "SCHED_DEADLINE",
        };
        let Thread { name, priority, tid, .. } = &other.thread;
        format!("{name} (PID {}, thread {tid}, {policy} {priority})", other.pid)
    };
    let who = match found.len() {
        1 => name(first),
        more => format!("{} and {} more real-time threads", name(first), more - 1),
    };
    Some(Competitor::Realtime { who, percent })
}

#[cfg(test)]
mod tests {
    use crate::diagnose::rules::situation::check;

    #[test]
    fn cpus_without_idle_time_and_tasks_that_wait_are_a_finding_without_any_service() {
        let host =
            "cpus 2\n cpu 0-1 user=100\n process stress pid=9 run=190 cpu=1\n process sshd pid=10 run=4\n";
        check(
            &format!("{host} pressure cpu=80"),
            "cpus-full critical not-here all CPUs: 0.0 %, 80 %, 190 %\n says most of it went to stress (PID 9) 190 %",
        );
        check(&format!("{host} pressure cpu=40"), "cpus-full warning all CPUs: 0.0 %, 40 %");
        check(&format!("{host} pressure cpu=19"), "no cpus-full");
        check("cpus 2\n cpu 0-1 user=97\n pressure cpu=80", "no cpus-full");
        check("cpus 2\n cpu 0-1 user=100,0,0\n pressure cpu=80", "no cpus-full");
        check("cpus 2\n cpu 0-1 user=60 steal=40\n pressure cpu=80", "no cpus-full");
    }

    #[test]
    fn without_pressure_the_waiting_for_each_cpu_counts_and_without_both_it_is_unknown() {
        let host = "cpus 4\n cpu 0-1 user=100\n";
        check(&format!("{host} schedstat 0-1 wait=30"), "cpus-full warning CPUs 0-1: 0.0 %, 60 %");
        check(&format!("{host} schedstat 0-1 wait=9\n schedstat 2-3 wait=90"), "no cpus-full");
        check(&format!("{host} schedstat 0-1 wait=90\n pressure cpu=19"), "no cpus-full");
        check(
            &format!("{host} cpu 2-3 user=100\n schedstat 0-3 wait=50"),
            "cpus-full critical all CPUs: 0.0 %, 100 %",
        );
        check(host, "no cpus-full");
    }

    #[test]
    fn some_cpus_may_be_full_while_others_idle() {
        check(
            "cpus 4\n cpu 0-1 user=100\n pressure cpu=80\n process a pid=9 run=99 cpu=3\n process b pid=8 run=98 cpu=0",
            "cpus-full warning fixable CPUs 0-1: 0.0 %, 80 %, 98 %
             says CPUs 0-1 have no time left while the others are 100 % idle; most of it went to b (PID 8) 98 %",
        );
    }
}
