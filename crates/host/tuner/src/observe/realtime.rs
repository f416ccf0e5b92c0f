//! Real-time throttling: the time that a kernel reserves for ordinary threads where real-time threads never wait.

use crate::observe::facts::Facts;
use os::CpuSet;

/// First version in which a thread can have time slices of its own length (sched_setattr with SCHED_OTHER), and fair
/// threads have a share of every CPU whatever real-time threads do (the fair server).
pub(crate) const EEVDF_SLICES: (u32, u32) = (6, 12);

/// The limit that reserves time for ordinary threads, ksoftirqd among them, where real-time threads never wait; or
/// the reason why none is known. It has to be read: that a kernel has it by default is not enough where a whole host
/// depends on it.
pub(crate) fn safety_net(facts: &Facts) -> Result<String, String> {
    let number = |name: &str| facts.sysctls.get(name).and_then(|value| value.trim().parse::<i64>().ok());
    // With budgets for groups, bandwidth is limited as before 6.12.
    if facts.kernel.version >= EEVDF_SLICES && facts.kernel.rt_group_sched != Some(true) {
        let of = |cpu| facts.realtime.fair_server_ns.get(&cpu).copied();
        let online = facts.online();
        if online.iter().all(|cpu| of(cpu).is_none()) {
            return Err(
                "whether the fair server leaves time to other threads can only be seen in debugfs: mount -t \
                        debugfs none /sys/kernel/debug first"
                    .to_owned(),
            );
        }
        let off: CpuSet = online.iter().filter(|cpu| of(*cpu).unwrap_or(0) == 0).collect();
        return match online.iter().filter_map(of).min() {
            Some(least) if off.is_empty() => {
                Ok(format!("the fair server leaves {} ms of each period to others", least / 1_000_000))
            }
            _ => Err(format!(
                "the fair server is off on CPUs {off}, and nothing else stops a thread that never waits: write 50000000 \
                 to /sys/kernel/debug/sched/fair_server/cpu*/runtime first"
            )),
        };
    }
    let (runtime, period) = (number("kernel.sched_rt_runtime_us"), number("kernel.sched_rt_period_us"));
    let (Some(runtime), Some(period)) = (runtime, period) else {
        return Err(
            "kernel.sched_rt_runtime_us cannot be read, so nothing is known to stop a thread that never \
                    waits"
                .to_owned(),
        );
    };
    if runtime < 0 || runtime >= period {
        return Err(format!(
            "kernel.sched_rt_runtime_us is {runtime}, and nothing else stops a thread that never waits: set it to \
             950000 first"
        ));
    }
    // It was on by default before 5.10.
    let shares = facts.realtime.shares_runtime.unwrap_or(facts.kernel.version < (5, 10));
    if shares {
        return Err("CPUs lend each other real-time budget (RT_RUNTIME_SHARE), so a thread that never waits takes all of \
                    its CPU: echo NO_RT_RUNTIME_SHARE > /sys/kernel/debug/sched_features first (since 5.13: \
                    sched/features)"
            .to_owned());
    }
    let left = 100 - 100 * runtime / period;
    Ok(format!("kernel.sched_rt_runtime_us leaves {left} % of every CPU to others"))
}
