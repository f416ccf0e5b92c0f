//! Scheduling strategies for a service's threads: shorter time slices, a greater weight, real-time priority.
//!
//! Only ordinary threads are changed. A thread with a lower priority of its own choice (SCHED_IDLE, SCHED_BATCH) made
//! it for the benefit of others, and one with deadlines has better information.

use crate::observe::cpu_model::CpuModel;
use crate::observe::facts::{Facts, Service, Thread};
use crate::observe::realtime::{EEVDF_SLICES, safety_net};
use crate::observe::scheduling;
use crate::settings::change::{Risk, Setting, Stage};
use crate::settings::proposal::{ProposedChanges, Reason};
use crate::settings::scope::Scope;
use crate::settings::signal::{ExpectedSignals, Figure, Moves};
use os::CpuSet;

/// Length of a time slice for threads that should wait less: of the 0.1 to 100 ms that the kernel allows, short
/// enough to be earlier than the default of about 3 ms, long enough for some hundred requests.
const SLICE_NS: u64 = 500_000;

/// Beside neighbours of the ordinary weight, ten of eleven time slices: enough to be served when there is work, and
/// no thread starves.
const WEIGHT_FACTOR: u64 = 10;

/// The lowest: threads of the kernel that are real-time themselves come first.
const FIFO_PRIORITY: u32 = 1;

const SHORT_TURNS: Reason = Reason {
    why: "a thread with shorter turns gets its turn sooner (EEVDF)",
    risk: Risk::Moderate,
    signal: &[ExpectedSignals::figure(Figure::ThreadWait, Moves::Falls)],
};
const MORE_WEIGHT: Reason = Reason {
    why: "beside neighbours of the ordinary weight it gets ten of eleven turns; shorter turns take Linux 6.12",
    risk: Risk::Moderate,
    signal: &[ExpectedSignals::words("its threads wait less (/proc/PID/task/TID/schedstat)")],
};
const FIRST: Reason = Reason {
    why: "these threads run before everything that is scheduled fairly",
    risk: Risk::High,
    signal: &[
        ExpectedSignals::figure(Figure::ThreadWait, Moves::Falls),
        ExpectedSignals::words("ksoftirqd's wait does not rise"),
    ],
};

/// Earlier time slices: short ones, or before Linux 6.12 more of them.
pub(crate) fn slice(proposed: &mut ProposedChanges, scope: &Scope) {
    for_each_service(proposed, scope, |proposed, service| slice_of(proposed, scope.facts(), service));
}

fn slice_of(proposed: &mut ProposedChanges, facts: &Facts, service: &Service) {
    if facts.kernel.version < EEVDF_SLICES {
        return weight_of(proposed, service);
    }
    name_others(proposed, service);
    for thread in service.threads.iter().filter(|thread| is_ordinary(thread)) {
        let wanted = format!("policy={} slice_ns={SLICE_NS}", scheduling::OTHER);
        schedule(proposed, thread, wanted, SHORT_TURNS.why.to_owned(), SHORT_TURNS);
    }
}

fn weight_of(proposed: &mut ProposedChanges, service: &Service) {
    match &service.cpu_weight {
        Some(weight) => {
            let wanted = weight.value.max(weight.ordinary * WEIGHT_FACTOR).to_string();
            let setting = Setting::number(&weight.path);
            proposed.propose(Stage::Scheduling, setting, weight.value.to_string(), wanted, MORE_WEIGHT);
        }
        None => proposed.refuse(
            service.to_string(),
            "turns of a thread's own length take Linux 6.12, and a weight takes a cgroup of its own: run it as a unit \
             with CPUWeight=1000",
        ),
    }
}

/// Before all fair threads: not on CPUs that receive packets, and not on all. If the user accepts the risk, on any, as
/// long as there is a limit for threads that never wait.
pub(crate) fn fifo(proposed: &mut ProposedChanges, scope: &Scope) {
    let model = scope.now;
    for_each_service(proposed, scope, |proposed, service| {
        let danger = danger(model, service);
        let net = safety_net(model.facts);
        let why = match (refused_by_kernel(model.facts, service), danger, net) {
            (Some(reason), ..) => return proposed.refuse(service.to_string(), reason),
            (None, None, _) => FIRST.why.to_owned(),
            (None, Some(reason), _) if !scope.accept_risk => {
                let way = "where it has the host to itself, --accept-risk does without";
                return proposed.refuse(service.to_string(), format!("{reason}; {way}"));
            }
            (None, Some(_), Err(reason)) => return proposed.refuse(service.to_string(), reason),
            (None, Some(_), Ok(net)) => format!("{}, on CPUs that receive packets, too; {net}", FIRST.why),
        };
        name_others(proposed, service);
        let wanted = format!("policy={} priority={FIFO_PRIORITY}", scheduling::FIFO);
        for thread in service.threads.iter().filter(|thread| may_be_first(thread)) {
            let why = why.clone();
            schedule(proposed, thread, wanted.clone(), why, FIRST);
        }
    });
}

/// The reason why the kernel would refuse real-time threads, or nothing would limit them.
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

/// The reason why real-time threads would harm the host.
fn danger(model: &CpuModel, service: &Service) -> Option<String> {
    // A thread that never waits keeps ksoftirqd from its CPU; ENA resets itself when its interrupts starve
    // (amzn-drivers #336). So the threads must not reach some CPU, nor any that receives packets.
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

/// Remedies of waiting, in the order of their cost for others: a sentence for manual changes.
pub(crate) fn advise(proposed: &mut ProposedChanges, scope: &Scope) {
    proposed.advice.extend(scope.services().map(|service| order(scope.now, service)));
}

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

/// Lists the threads that keep their chosen policy. Real-time threads do not wait for ordinary ones.
fn name_others(proposed: &mut ProposedChanges, service: &Service) {
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
        proposed.refuse(format!("threads of {service}"), reason);
    }
}

/// Whether it is ordinary, or has the strategy's policy already.
fn may_be_first(thread: &Thread) -> bool {
    is_ordinary(thread) || (thread.policy == scheduling::FIFO && thread.priority == FIFO_PRIORITY)
}

fn is_ordinary(thread: &Thread) -> bool {
    thread.policy == scheduling::OTHER
}

fn schedule(proposed: &mut ProposedChanges, thread: &Thread, wanted: String, why: String, reason: Reason) {
    // An id is used again, a start time is not: a thread that was started since is another one.
    let which = if thread.started == 0 { String::new() } else { format!(" started={}", thread.started) };
    let slice = thread.slice_ns.map(|slice| format!(" slice_ns={slice}")).unwrap_or_default();
    let now =
        format!("policy={} priority={} nice={}{slice}{which}", thread.policy, thread.priority, thread.nice);
    let setting = Setting::Thread { tid: thread.tid };
    proposed.propose_with(Stage::Scheduling, setting, now, wanted, why, reason.risk, reason.signal);
}

fn for_each_service(
    proposed: &mut ProposedChanges,
    scope: &Scope,
    each: impl Fn(&mut ProposedChanges, &Service),
) {
    if scope.finding.is_none() && scope.facts().services.is_empty() {
        proposed.refuse("services", "no memcached, evenkeel, mysqld or redis was found; name one with --pid");
    }
    scope.services().for_each(|service| each(proposed, service));
}

#[cfg(test)]
mod tests;
