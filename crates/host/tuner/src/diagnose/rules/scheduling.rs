//! Scheduling: threads that are ready and do not run.

use super::contention::Competitor;
use super::figures::{percent, percent_if_known};
use super::host::{RuleInput, named};
use super::rule::{Explanation, Remedy, RemedyOrder, Rule};
use crate::observe::facts::{Service, Thread};
use crate::observe::realtime;
use crate::settings::strategy::Strategy;
use crate::settings::turns;
use crate::{Evidence, Finding, Severity};
use os::CpuSet;

pub(super) const RULES: &[Rule] = &[
    Rule {
        explanation: Explanation {
            rule: "scheduling-delay",
            title: "threads of a service wait for a CPU",
            evidence: "A thread's waiting time (schedstat), as a share of the window and of most of its parts: from \
                       2 % on while the host is idle for more than 20 %, from 5 % on otherwise; critical from 10 % on. A \
                       thread that runs for less than 0.1 % counts only if it waits for half of the time.",
            meaning: "The thread had work and no CPU. The cause names who had it: a quota that was used up, the \
                      hypervisor, real-time threads, interrupts, or other programs. With idle CPUs about it is a \
                      matter of placement, on a busy host of competition.",
            remedy: "First the named cause. Against programs like itself, in this order: placement (its own CPUs, away from \
                     interrupts; neighbours elsewhere), cpu.weight, \
                     a shorter slice (since Linux 6.12), and SCHED_FIFO last, with priority 1 and at least one CPU of \
                     the interrupts left to the kernel (Pinterest: client p99 10 to 40 % lower). None of these helps \
                     against a quota, the hypervisor, real-time threads or interrupts.",
        },
        remedy: Remedy::of_strategy(Strategy::SchedSlice, &[turns::slice, turns::advise])
            .ordered(RemedyOrder::AfterCause),
        find: delay,
    },
    Rule {
        explanation: Explanation {
            rule: "realtime-everywhere",
            title: "real-time threads may take every CPU",
            evidence: "A service has threads with SCHED_FIFO or SCHED_RR that may run on all CPUs, or the driver \
                       counts suspected_poll_starvation. A note where the fair server (Linux 6.12) or RT throttling \
                       is seen to leave time to other threads, else a warning; critical once a device starves.",
            meaning: "ksoftirqd is an ordinary thread: where a real-time thread does not sleep, packets wait for it, \
                      and drivers (ENA) reset the device in the belief that it hangs.",
            remedy: "Leave the CPUs that take the interrupts, or at least one CPU, out of the set of its unit \
                     (AllowedCPUs=); no plan does that.",
        },
        remedy: Remedy::ByHand,
        find: realtime,
    },
    Rule {
        explanation: Explanation {
            rule: "scheduler-replaced",
            title: "a loaded scheduler decides which threads run (sched_ext)",
            evidence: "/sys/kernel/sched_ext/state is `enabled`.",
            meaning: "Slices, weights and nice values mean what that scheduler makes of them, if anything. Meta \
                      reports gains of a few percent; others lost half their throughput on large machines.",
            remedy: "Nothing to change: compare with and without it under load, and leave its settings to the one who \
                     loaded it. SCHED_FIFO still runs before it.",
        },
        remedy: Remedy::ReportOnly,
        find: replaced,
    },
];

/// Waiting that clients of a cache notice, while CPUs are idle (proposal).
const PLACEMENT_WAIT_PERCENT: f64 = 2.0;
const PLACEMENT_IDLE_PERCENT: f64 = 20.0;
/// On a busy host some thread always waits a little (proposal).
const CONTENTION_WAIT_PERCENT: f64 = 5.0;
const CRITICAL_WAIT_PERCENT: f64 = 10.0;
/// A thread that runs less than a thousandth of the time is idle (proposal): a timer, a log, a worker without clients…
const IDLE_RUN_PERCENT: f64 = 0.1;
/// … unless it waits for most of it (proposal).
const STARVED_WAIT_PERCENT: f64 = 50.0;
/// First version in which a thread may ask for a shorter slice (sched_setattr with SCHED_OTHER).
const SLICE_SINCE: (u32, u32) = (6, 12);
/// From this much stolen time on the hypervisor causes the waiting (netdata's warning).
const STOLEN_PERCENT: f64 = 5.0;

/// How long a thread waited.
struct Waited<'a> {
    thread: &'a Thread,
    percent: f64,
    run_percent: f64,
    slice_delay_us: f64,
}

impl Waited<'_> {
    /// Whether a request may have waited with it: a thread that runs next to never has none to serve, unless it is kept
    /// from running.
    fn counts(&self) -> bool {
        self.run_percent >= IDLE_RUN_PERCENT || self.percent >= STARVED_WAIT_PERCENT
    }
}

fn waits<'a>(host: &RuleInput, service: &'a Service) -> Vec<Waited<'a>> {
    let waited = |thread: &'a Thread| {
        let times = |part: fn(&os::cpu_time::ThreadTimes) -> u64| {
            host.series.rate(|reading| reading.threads.get(&thread.tid).map(part))
        };
        let (wait, run, slices) = (times(|t| t.wait_ns)?, times(|t| t.run_ns)?, times(|t| t.slices)?);
        let percent = |ns: u64| ns as f64 / 1e7 / host.series.window_s();
        Some(Waited {
            thread,
            percent: percent(wait.count),
            run_percent: percent(run.count),
            slice_delay_us: wait.count as f64 / 1e3 / slices.count.max(1) as f64,
        })
    };
    service.threads.iter().filter_map(waited).collect()
}

fn delay(host: &RuleInput) -> Vec<Finding> {
    host.facts.services.iter().filter_map(|service| delay_of(host, service)).collect()
}

fn delay_of(host: &RuleInput, service: &Service) -> Option<Finding> {
    let waits = waits(host, service);
    let worst = waits.iter().filter(|wait| wait.counts()).max_by(|a, b| a.percent.total_cmp(&b.percent))?;
    let idle = host.mean(|load| load.idle);
    let placement = idle.is_some_and(|idle| idle > PLACEMENT_IDLE_PERCENT);
    let threshold = if placement { PLACEMENT_WAIT_PERCENT } else { CONTENTION_WAIT_PERCENT };
    let waits_in = |part: &RuleInput| {
        let of_part = self::waits(part, service);
        of_part.iter().any(|wait| wait.thread.tid == worst.thread.tid && wait.percent >= threshold)
    };
    if worst.percent < threshold || !host.mostly(waits_in) {
        return None;
    }
    let severity =
        if worst.percent >= CRITICAL_WAIT_PERCENT { Severity::Critical } else { Severity::Warning };
    let waiting = thread(worst.thread);
    let outside = outside(host, service);
    let competitor = Competitor::of(host, service, worst.thread);
    let cause = match (&outside, &competitor, placement) {
        (Some(outside), _, _) => format!("{waiting} waits because {}", outside.cause),
        (None, Competitor::Others(_), true) => {
            format!("{waiting} waits for its CPU while others are idle: it is badly placed")
        }
        (None, Competitor::Others(_), false) => format!("{waiting} competes for a CPU on a busy host"),
        (None, ..) => format!("{waiting} waits"),
    };
    let words = if outside.is_none() { competitor.words() } else { String::new() };
    let cause = format!("{cause} {words}").trim_end().to_owned();
    let reason = outside.map(|outside| outside.remedy).or_else(|| competitor.reason());
    let late = waits.iter().filter(|wait| wait.counts() && wait.percent >= threshold).count();
    let mut finding = Finding::about(severity, named(service))
        .cause(cause)
        .effect(match reason {
            Some(_) => "requests are served when they arrive".to_owned(),
            None => effect(host, placement),
        })
        .saw(
            host.measured(format!("waiting, {}", thread(worst.thread)), percent(worst.percent))
                .threshold(percent(threshold)),
        )
        .saw(host.measured("running, the same", percent(worst.run_percent)))
        .saw(host.measured("mean delay of a turn, the same", format!("{:.0} µs", worst.slice_delay_us)))
        .saw(host.measured("threads beyond the threshold", format!("{late} of {}", waits.len())))
        .saw(host.measured("idle, mean of all CPUs", percent_if_known(idle)));
    if let Some(stalled) = host.series.rate(|reading| reading.stalled_us.get("cpu").copied()) {
        finding = finding.saw(host.measured("pressure/cpu some", percent(stalled.per_s() / 1e4)));
    }
    let finding = competitor.evidence(host).into_iter().fold(finding, Finding::saw);
    Some(match reason {
        Some(reason) => finding.not_here(reason),
        None => finding,
    })
}

fn thread(thread: &Thread) -> String {
    format!("thread {} ({})", thread.name, thread.tid)
}

/// Actions on this kernel, the cheapest for others first.
fn effect(host: &RuleInput, placement: bool) -> String {
    let place = match placement {
        true => "CPUs of its own first",
        false => "CPUs of its own first, if any can be spared",
    };
    let slice = match host.facts.kernel.version >= SLICE_SINCE {
        true => "a shorter slice (sched-slice)",
        false => "(a shorter slice takes Linux 6.12)",
    };
    let fifo = match host.facts.kernel.rt_group_sched {
        Some(true) => "SCHED_FIFO last (sched-fifo), if its cgroup has a real-time budget",
        _ => "SCHED_FIFO last (sched-fifo)",
    };
    format!("requests are served when they arrive; {place}; then a higher cpu.weight, {slice}, and {fifo}")
}

/// The external limit of the CPU.
struct Outside {
    cause: String,
    remedy: String,
}

/// The external limit of the CPU, if there is one.
fn outside(host: &RuleInput, service: &Service) -> Option<Outside> {
    let is_above = |cgroup: &str| {
        cgroup == "/" || service.cgroup == cgroup || service.cgroup.starts_with(&format!("{cgroup}/"))
    };
    let stopped = |cgroup: &&String| {
        let throttled = host.series.rate(|reading| Some(reading.cgroups.get(*cgroup)?.throttled));
        is_above(cgroup) && throttled.is_some_and(|rate| rate.count > 0)
    };
    let quota = host.series.last().cgroups.keys().find(stopped);
    if let Some(cgroup) = quota {
        return Some(Outside {
            cause: format!("the CPU quota of {cgroup} stops it"),
            remedy: format!("the quota of {cgroup} stops it (cpu-throttled): raise it before anything else"),
        });
    }
    let stolen = host.mean(|load| load.steal).filter(|stolen| *stolen >= STOLEN_PERCENT);
    stolen.map(|stolen| Outside {
        cause: format!("the hypervisor takes {} of the CPU time", percent(stolen)),
        remedy: format!("the hypervisor takes {} of the CPU time (cpu-stolen)", percent(stolen)),
    })
}

fn replaced(host: &RuleInput) -> Vec<Finding> {
    let finding = |name: &String| {
        Finding::about(Severity::Note, "scheduler")
            .cause(format!("{name} schedules ordinary threads in place of the kernel's own scheduler"))
            .effect("it is known which scheduler the figures are of")
            .saw(Evidence::setting("sched_ext", name))
    };
    host.facts.sched_ext.iter().map(finding).collect()
}

/// As in sched(7).
const POLICIES_REALTIME: [u32; 2] = [1, 2];

fn realtime(host: &RuleInput) -> Vec<Finding> {
    let starved: u64 = host
        .wires()
        .filter_map(|nic| host.series.nic(&nic.name, "suspected_poll_starvation"))
        .map(|rate| rate.count)
        .sum();
    host.facts.services.iter().filter_map(|service| realtime_of(host, service, starved)).collect()
}

fn realtime_of(host: &RuleInput, service: &Service, starved: u64) -> Option<Finding> {
    let is_realtime = |thread: &&Thread| POLICIES_REALTIME.contains(&thread.policy);
    let threads: Vec<&Thread> = service.threads.iter().filter(is_realtime).collect();
    let cpus = threads.iter().fold(CpuSet::new(), |all, thread| all.or(&thread.affinity)).and(&host.online);
    let everywhere = !threads.is_empty() && cpus == host.online;
    if threads.is_empty() || !(everywhere || starved > 0) {
        return None;
    }
    let net = realtime::safety_net(host.facts);
    let severity = match (starved, &net) {
        (1.., _) => Severity::Critical,
        (0, Err(_)) => Severity::Warning,
        (0, Ok(_)) => Severity::Note,
    };
    let finding = Finding::about(severity, named(service))
        .cause(format!(
            "{} real-time threads of {} leave no CPU to the kernel's own work",
            threads.len(),
            service.name
        ))
        .effect("packets are handled even while the service is busy")
        .saw(Evidence::setting("real-time threads", threads.len().to_string()))
        .saw(Evidence::setting("CPUs that they may take", format!("{cpus} of {}", host.online)))
        .saw(Evidence::setting("what stops them", net.unwrap_or_else(|why| format!("nothing: {why}"))));
    Some(match starved {
        0 => finding,
        _ => finding.saw(host.measured("suspected_poll_starvation", starved.to_string()).threshold("0")),
    })
}

#[cfg(test)]
mod tests {
    use crate::diagnose::rules::situation::check;

    #[test]
    fn waiting_while_others_are_idle_is_placement() {
        let host = "cpus 4\n cpu 0 user=90\n service memcached pid=812\n";
        check(
            &format!("{host} thread 812 wait=3 run=80 turns=30000\n pressure cpu=4"),
            "scheduling-delay warning fixable memcached (PID 812): 3.0 %, 80 %, 30 µs, 1 of 1, 78 %, 4.0 %",
        );
        check(&format!("{host} thread 812 wait=1 run=80 turns=30000"), "no scheduling-delay");
    }

    #[test]
    fn a_thread_that_hardly_runs_counts_only_if_it_is_kept_from_running() {
        let host = "cpus 2\n cpu 0-1 user=95\n service memcached pid=812\n";
        check(&format!("{host} thread 812 wait=30 run=0 turns=30"), "no scheduling-delay");
        check(
            &format!("{host} thread 812 wait=80 run=0 turns=30"),
            "scheduling-delay critical memcached (PID 812): 80 %, 0.0 %",
        );
    }

    #[test]
    fn waiting_on_a_busy_host_is_competition() {
        let host = "cpus 2\n cpu 0-1 user=95\n service memcached pid=812\n";
        check(
            &format!("{host} thread 812 wait=12 run=40 turns=3000"),
            "scheduling-delay critical memcached (PID 812): 12 %, 40 %, 1200 µs",
        );
        check(&format!("{host} thread 812 wait=4 run=40 turns=3000"), "no scheduling-delay");
    }

    #[test]
    fn quotas_and_stolen_time_are_not_cured_by_priorities() {
        let host = "cpus 2\n cpu 0-1 user=95\n service memcached pid=812 cgroup=/a/b\n thread 812 wait=12 run=9 turns=9\n";
        check(
            &format!("{host} cgroup /a periods=300 throttled=3 ms=9"),
            "scheduling-delay not-here memcached (PID 812): 12 %",
        );
        check(
            &format!("{host} cgroup /c periods=300 throttled=3 ms=9"),
            "scheduling-delay fixable memcached (PID 812): 12 %",
        );
        check(
            &host.replace("user=95", "user=80 steal=15"),
            "scheduling-delay not-here memcached (PID 812): 12 %\n cpu-stolen all CPUs: 15 %",
        );
    }

    #[test]
    fn who_competes_is_named() {
        let host = "cpus 2\n cpu 0-1 user=95\n service memcached pid=812 cpus=0-1\n thread 812 wait=12 run=40 turns=3000\n
             process memcached pid=812 run=60\n";
        check(
            &format!("{host} process stress pid=9 run=130 cpu=1\n process sshd pid=8 run=4"),
            "scheduling-delay fixable memcached (PID 812): 12 %, 130 %
             says competes for a CPU on a busy host beside stress (PID 9) 130 %",
        );
        check(
            &format!("{host} process jackd pid=9 run=90 policy=1 priority=50 cpus=1"),
            "scheduling-delay not-here memcached (PID 812): 12 %, 90 %
             says thread memcached (812) waits while jackd (PID 9, thread 9, SCHED_FIFO 50) took 90 % of a CPU",
        );
        // Not where this thread may run, or hardly at all.
        let bound = host.replace("cpus=0-1", "cpus=0");
        check(
            &format!("{bound} process jackd pid=9 run=90 policy=1 priority=50 cpus=1 cpu=1"),
            "scheduling-delay fixable memcached (PID 812)",
        );
        check(
            &format!("{host} process jackd pid=9 run=4 policy=1 priority=50 cpus=1"),
            "scheduling-delay fixable memcached (PID 812)",
        );
    }

    #[test]
    fn nothing_comes_before_an_interrupt() {
        let host = "cpus 4\n cpu 0 user=40 softirq=55\n service memcached pid=812 cpus=CPUS\n thread 812 wait=12 run=40 turns=9";
        check(
            &host.replace("CPUS", "0"),
            "scheduling-delay not-here memcached (PID 812): 12 %, 55 %\n says while interrupts took 55 % of CPU 0",
        );
        check(&host.replace("CPUS", "0-1"), "scheduling-delay fixable memcached (PID 812)");
    }

    #[test]
    fn a_quota_is_the_cause_and_no_bad_place() {
        let idle = "cpus 4\n service memcached pid=812 cgroup=/a\n thread 812 wait=30 run=20 turns=9\n";
        check(
            &format!("{idle} cgroup /a periods=300 throttled=90 ms=900"),
            "scheduling-delay not-here memcached (PID 812): 30 %
             says thread memcached (812) waits because the CPU quota of /a stops it",
        );
        check(idle, "says it is badly placed");
    }

    #[test]
    fn realtime_threads_leave_a_cpu_to_the_kernel() {
        let host = "cpus 4\n nic eth0\n service memcached pid=812 policy=1 cpus=CPUS\n";
        let on = |cpus: &str| host.replace("CPUS", cpus);
        check(&on("0-3"), "realtime-everywhere warning memcached (PID 812): 1, 0-3 of 0-3");
        check(&on("1-3"), "no realtime-everywhere");
        check(
            &format!("{} count eth0 suspected_poll_starvation=2", on("1-3")),
            "realtime-everywhere critical memcached (PID 812): 1, 1-3 of 0-3, 2",
        );
        check(&on("0-3").replace("policy=1", "policy=0"), "no realtime-everywhere");
        // Pinterest's dedicated hosts of 2022: on all CPUs, and RT throttling leaves the kernel its share.
        let net = "kernel 5.10\n sysctl kernel.sched_rt_runtime_us=950000 kernel.sched_rt_period_us=1000000";
        check(
            &format!("{} {net}", on("0-3")),
            "realtime-everywhere note memcached (PID 812): 1, 0-3 of 0-3, kernel.sched_rt_runtime_us leaves 5 %",
        );
    }

    #[test]
    fn a_containers_own_root_may_have_a_quota() {
        let host = "cpus 2\n cpu 0-1 user=95\n service memcached pid=812 cgroup=/\n thread 812 wait=12 run=80 turns=900";
        check(host, "scheduling-delay memcached (PID 812): 12 %");
        check(
            &format!("{host}\n cgroup / periods=300 throttled=3 ms=9"),
            "scheduling-delay not-here memcached (PID 812): 12 %",
        );
    }

    #[test]
    fn another_scheduler_is_reported() {
        check("sched_ext scx_rusty", "scheduler-replaced note scheduler: scx_rusty");
        check("cpus 2", "no scheduler-replaced");
    }
}
