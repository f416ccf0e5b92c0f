//! Scheduling strategies for a service's threads: shorter turns, a greater weight, before all others.
//!
//! Only threads that are scheduled in the ordinary way are concerned. A thread that has made itself less important
//! (SCHED_IDLE, SCHED_BATCH) did so for the sake of the others, and one that has deadlines knows better.

use super::{Reason, Wishes};
use crate::change::{Risk, Setting, Stage};
use crate::cpu_model::CpuModel;
use crate::cpu_set::CpuSet;
use crate::facts::{Facts, Service, Thread};
use crate::finding::Finding;
use crate::scheduling;
use crate::signal::{Expected, Figure, Moves};

/// Length of a turn for threads that should wait less for theirs: of the 0.1 to 100 ms that the kernel takes, short
/// enough to be sooner than the default of about 3 ms, long enough for some hundred requests.
const SLICE_NS: u64 = 500_000;

/// Since when a thread can have turns of its own length (sched_setattr with SCHED_OTHER), and fair threads have a share
/// of every CPU whatever real-time threads do (the fair server).
const EEVDF_SLICES: (u32, u32) = (6, 12);

/// Beside neighbours of the ordinary weight, ten of eleven turns: enough to be served when there is work, and nobody
/// starves.
const WEIGHT_FACTOR: u64 = 10;

/// The lowest: threads of the kernel that are real-time themselves come first.
const FIFO_PRIORITY: u32 = 1;

const SHORT_TURNS: Reason = Reason {
    why: "who asks for short turns gets them sooner (EEVDF)",
    risk: Risk::Moderate,
    signal: &[Expected::figure(Figure::ThreadWait, Moves::Falls)],
};
const MORE_WEIGHT: Reason = Reason {
    why: "beside neighbours of the ordinary weight it gets ten of eleven turns; shorter turns take Linux 6.12",
    risk: Risk::Moderate,
    signal: &[Expected::words("its threads wait less (/proc/PID/task/TID/schedstat)")],
};
const FIRST: Reason = Reason {
    why: "these threads run before everything that is scheduled fairly",
    risk: Risk::High,
    signal: &[
        Expected::figure(Figure::ThreadWait, Moves::Falls),
        Expected::words("ksoftirqd's wait does not rise"),
    ],
};

/// Turns that come sooner: short ones, or before Linux 6.12 more of them.
pub(super) fn slice(wishes: &mut Wishes, facts: &Facts) {
    for_each_service(wishes, facts, |wishes, service| slice_of(wishes, facts, service));
}

fn slice_of(wishes: &mut Wishes, facts: &Facts, service: &Service) {
    if facts.kernel.version < EEVDF_SLICES {
        return weight_of(wishes, service);
    }
    name_others(wishes, service);
    for thread in service.threads.iter().filter(|thread| is_ordinary(thread)) {
        let wanted = format!("policy={} slice_ns={SLICE_NS}", scheduling::OTHER);
        schedule(wishes, thread, wanted, SHORT_TURNS.why.to_owned(), SHORT_TURNS);
    }
}

fn weight_of(wishes: &mut Wishes, service: &Service) {
    match &service.cpu_weight {
        Some(weight) => {
            let wanted = weight.value.max(weight.ordinary * WEIGHT_FACTOR).to_string();
            let setting = Setting::number(&weight.path);
            wishes.wish(Stage::Scheduling, setting, weight.value.to_string(), wanted, MORE_WEIGHT);
        }
        None => wishes.refuse(
            service.to_string(),
            "turns of a thread's own length take Linux 6.12, and a weight takes a cgroup of its own: run it as a unit \
             with CPUWeight=1000",
        ),
    }
}

/// Which CPUs real-time threads may take.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// Not those that receive packets, and not all.
    Apart,
    /// Any, if something stops threads that never wait: somebody has accepted the risk.
    Everywhere,
}

/// Before everything that is scheduled fairly.
pub(super) fn fifo(wishes: &mut Wishes, model: &CpuModel, reach: Reach) {
    for_each_service(wishes, model.facts, |wishes, service| {
        let danger = danger(model, service);
        let net = safety_net(model.facts);
        let why = match (refused_by_kernel(model.facts, service), danger, net) {
            (Some(reason), ..) => return wishes.refuse(service.to_string(), reason),
            (None, None, _) => FIRST.why.to_owned(),
            (None, Some(reason), _) if reach == Reach::Apart => {
                let way = "where it has the host to itself, --accept-risk does without";
                return wishes.refuse(service.to_string(), format!("{reason}; {way}"));
            }
            (None, Some(_), Err(reason)) => return wishes.refuse(service.to_string(), reason),
            (None, Some(_), Ok(net)) => format!("{}, on CPUs that receive packets, too; {net}", FIRST.why),
        };
        name_others(wishes, service);
        let wanted = format!("policy={} priority={FIFO_PRIORITY}", scheduling::FIFO);
        for thread in service.threads.iter().filter(|thread| may_be_first(thread)) {
            let why = why.clone();
            schedule(wishes, thread, wanted.clone(), why, FIRST);
        }
    });
}

/// What leaves time to ordinary threads, ksoftirqd among them, where real-time threads never wait; or why nothing is
/// known to. It has to be seen: that a kernel has it by default is not enough where a whole host depends on it.
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

/// Why the kernel would not take real-time threads, or nothing would ever stop them.
fn refused_by_kernel(facts: &Facts, service: &Service) -> Option<String> {
    let is_rationed = facts.kernel.rt_group_sched == Some(true) && !["", "/"].contains(&&*service.cgroup);
    if is_rationed && matches!(service.realtime_budget_us, None | Some(0)) {
        return Some(format!(
            "the kernel has CONFIG_RT_GROUP_SCHED, and the cgroup {} no real-time budget (cpu.rt_runtime_us): it would \
             be refused",
            service.cgroup
        ));
    }
    let budget = facts.sysctls.get("kernel.sched_rt_runtime_us").map(|budget| budget.trim());
    if budget == Some("-1") && facts.kernel.version < EEVDF_SLICES {
        return Some(
            "kernel.sched_rt_runtime_us is -1, and before Linux 6.12 nothing else stops a thread that never waits: set \
             it to 950000 first"
                .to_owned(),
        );
    }
    None
}

/// Why real-time threads would harm the host.
fn danger(model: &CpuModel, service: &Service) -> Option<String> {
    // A thread that never waits keeps ksoftirqd from its CPU; ENA resets itself when its interrupts starve
    // (amzn-drivers #336). So some CPU, and every one that receives packets, has to be out of its reach.
    let (online, irqs) = (&model.online, model.receiving_any());
    let reach = service.threads.iter().filter(|thread| may_be_first(thread));
    let reach = reach.fold(CpuSet::new(), |all, thread| all.or(&thread.affinity)).and(online);
    let (left, kept) = (online.without(&reach), irqs.and(&reach));
    if !left.is_empty() && kept.is_empty() {
        return None;
    }
    let away = if kept.is_empty() { CpuSet::from_iter(online.lowest()) } else { irqs };
    let own = online.without(&away);
    Some(match own.is_empty() {
        true => format!(
            "every CPU receives packets, and it would starve them: move the interrupts off some CPU of {online} first"
        ),
        false => format!(
            "it may run on CPUs {reach}, and would starve the packets that are received on {away}: keep it to {own} first \
             (AllowedCPUs={own})"
        ),
    })
}

/// What mends waiting, in the order of what it costs others: a sentence for whoever does it by hand.
fn order(model: &CpuModel, service: &Service) -> String {
    let unit = service.unit.as_deref().unwrap_or("UNIT");
    let own = model.for_service(service, &model.receiving_any());
    let place = match own.is_empty() || own == model.online {
        true => "CPUs of its own (AllowedCPUs=, and its neighbours elsewhere)".to_owned(),
        false => format!("CPUs without interrupts (`systemctl set-property {unit} AllowedCPUs={own}`)"),
    };
    format!(
        "{service} waits for CPUs: what costs others least comes first. 1. {place}; 2. a greater weight (`systemctl \
         set-property {unit} CPUWeight=1000`); 3. shorter turns (`--strategy sched-slice`, Linux 6.12); 4. only if it \
         still waits, before all others (`--strategy sched-fifo`)"
    )
}

/// Says which threads keep the policy that they have chosen. Those that are real-time already wait for nobody.
fn name_others(wishes: &mut Wishes, service: &Service) {
    let is_other = |thread: &&Thread| {
        !is_ordinary(thread) && ![scheduling::FIFO, scheduling::RR].contains(&thread.policy)
    };
    let named = |thread: &Thread| format!("{} ({})", thread.name, thread.tid);
    let others: Vec<String> = service.threads.iter().filter(is_other).map(named).collect();
    if !others.is_empty() {
        let reason = format!(
            "{} chose a policy of their own, and are left with it: {}",
            others.len(),
            others.join(", ")
        );
        wishes.refuse(format!("threads of {service}"), reason);
    }
}

/// Whether it is ordinary, or as the strategy would have it already.
fn may_be_first(thread: &Thread) -> bool {
    is_ordinary(thread) || (thread.policy == scheduling::FIFO && thread.priority == FIFO_PRIORITY)
}

fn is_ordinary(thread: &Thread) -> bool {
    thread.policy == scheduling::OTHER
}

fn schedule(wishes: &mut Wishes, thread: &Thread, wanted: String, why: String, reason: Reason) {
    // An id is used again, a moment of starting is not: a thread that came since is not the one that is meant.
    let which = if thread.started == 0 { String::new() } else { format!(" started={}", thread.started) };
    let slice = thread.slice_ns.map(|slice| format!(" slice_ns={slice}")).unwrap_or_default();
    let now =
        format!("policy={} priority={} nice={}{slice}{which}", thread.policy, thread.priority, thread.nice);
    let setting = Setting::Thread { tid: thread.tid };
    wishes.ask(Stage::Scheduling, setting, now, wanted, why, reason.risk, reason.signal);
}

fn for_each_service(wishes: &mut Wishes, facts: &Facts, each: impl Fn(&mut Wishes, &Service)) {
    if facts.services.is_empty() {
        wishes.refuse("services", "no memcached, evenkeel, mysqld or redis was found; name one with --pid");
    }
    facts.services.iter().for_each(|service| each(wishes, service));
}

/// Of the service that a finding is about, sooner turns, and in words what comes before and after them.
pub(crate) fn mend(model: &CpuModel, finding: &Finding) -> Wishes {
    let (facts, mut wishes) = (model.facts, Wishes::default());
    let is_meant = |service: &&Service| service.to_string() == finding.subject;
    // Nobody is meant if others are named.
    let Some(service) = facts.services.iter().find(is_meant) else { return wishes };
    slice_of(&mut wishes, facts, service);
    wishes.advice.push(order(model, service));
    wishes
}

#[cfg(test)]
mod tests;
