use super::*;
use crate::observe::facts::{CpuWeight, Interrupt};
use crate::observe::shapes::{Shape, VIRTIO};
use crate::plan::{PlanRequest, plan};
use crate::settings::scope::FindingSubject;
use crate::settings::strategy::Strategy;
use crate::settings::strategy::{tests::XEN_16, tests::check, tests::host};

/// Two CPUs, and an interface with an interrupt for each direction.
const VIRTIO_2: Shape = Shape { cpus: 2, threads: 1, nodes: 1, queues: 1, irqs: VIRTIO };

fn thread(tid: u32, policy: u32, affinity: &str) -> Thread {
    let affinity = affinity.parse().unwrap();
    Thread { tid, name: format!("t{tid}"), policy, affinity, started: 7, ..Thread::default() }
}

fn with_service(mut facts: Facts, affinity: &str) -> Facts {
    let threads = vec![thread(81, scheduling::OTHER, affinity)];
    facts.services = vec![Service { pid: 80, name: "memcached".into(), threads, ..Service::default() }];
    facts
}

const IS_FIRST: &str = "scheduling of thread 81 policy=1 priority=1";

#[test]
fn turns_are_shortened_where_the_kernel_can() {
    let mut facts = with_service(host(XEN_16), "0-15");
    check(&facts, "sched-slice", &["scheduling of thread 81 policy=0 slice_ns=500000"]);
    facts.services[0].threads[0].slice_ns = Some(500_000);
    check(&facts, "sched-slice", &[]);
}

#[test]
fn before_linux_6_12_its_cgroup_gets_more_turns() {
    let mut facts = with_service(host(XEN_16), "0-15");
    facts.kernel.version = (6, 11);
    check(
        &facts,
        "sched-slice",
        &[
            "memcached (PID 80): turns of a thread's own length take Linux 6.12, and a weight takes a cgroup of its own: run it as a unit with CPUWeight=1000",
        ],
    );
    let path = "/sys/fs/cgroup/system.slice/memcached.service/cpu.weight";
    let mut weighing = |value, ordinary| {
        facts.services[0].cpu_weight = Some(CpuWeight { path: path.into(), value, ordinary });
        facts.clone()
    };
    check(&weighing(100, 100), "sched-slice", &[&format!("{path} 1000")]);
    check(&weighing(1024, 1024), "sched-slice", &[&format!("{path} 10240")]);
    check(&weighing(5000, 100), "sched-slice", &[]);
}

#[test]
fn threads_with_a_policy_of_their_own_keep_it() {
    let mut facts = with_service(host(XEN_16), "1-15");
    facts.services[0].threads.extend([thread(82, 5, "0-15"), thread(83, 3, "0-15"), thread(84, 1, "0-15")]);
    let left = "threads of memcached (PID 80): 2 chose a policy of their own, and are left with it: t82 (82), t83 (83)";
    check(&facts, "sched-fifo", &[IS_FIRST, left]);
    check(&facts, "sched-slice", &["scheduling of thread 81 policy=0 slice_ns=500000", left]);
}

#[test]
fn fifo_never_reaches_a_cpu_that_receives_packets() {
    check(&with_service(host(XEN_16), "1-15"), "sched-fifo", &[IS_FIRST]);
    check(
        &with_service(host(XEN_16), "0-15"),
        "sched-fifo",
        &[
            "memcached (PID 80): it may run on CPUs 0-15, and would starve the packets that are received on 0: keep it to 1-15 first (AllowedCPUs=1-15); where it has the host to itself, --accept-risk does without",
        ],
    );
    check(
        &with_service(host(XEN_16), "0"),
        "sched-fifo",
        &[
            "memcached (PID 80): it may run on CPUs 0, and would starve the packets that are received on 0: keep it to 1-15 first (AllowedCPUs=1-15); where it has the host to itself, --accept-risk does without",
        ],
    );
    check(
        &host(XEN_16),
        "sched-fifo",
        &["services: no memcached, evenkeel, mysqld or redis was found; name one with --pid"],
    );
}

#[test]
fn on_two_cpus_only_where_packets_arrive_counts() {
    let facts = |receiving: u32| {
        let mut facts = with_service(host(VIRTIO_2), "1");
        let place = |irq: &mut Interrupt, cpu| irq.effective = CpuSet::from_iter([cpu]);
        place(&mut facts.interrupts[0], receiving);
        place(&mut facts.interrupts[1], 1 - receiving);
        facts
    };
    check(&facts(0), "sched-fifo", &[IS_FIRST]);
    check(
        &facts(1),
        "sched-fifo",
        &[
            "memcached (PID 80): it may run on CPUs 1, and would starve the packets that are received on 1: keep it to 0 first (AllowedCPUs=0); where it has the host to itself, --accept-risk does without",
        ],
    );
    let mut everywhere = facts(0);
    everywhere.interrupts[0].effective = CpuSet::first(2);
    check(
        &everywhere,
        "sched-fifo",
        &[
            "memcached (PID 80): every CPU receives packets, and it would starve them: move the interrupts off some CPU of 0-1 first; where it has the host to itself, --accept-risk does without",
        ],
    );
}

#[test]
fn what_is_first_already_is_part_of_a_whole_plan() {
    let mut facts = with_service(host(XEN_16), "1-15");
    facts.services[0].threads[0] = Thread { priority: 1, ..thread(81, scheduling::FIFO, "1-15") };
    check(&facts, "sched-fifo", &[]);
    let proposed = Strategy::SchedFifo.changes(&CpuModel::of(&facts), &[]);
    assert_eq!(proposed.changes.len(), 1);
}

#[test]
fn fifo_takes_a_budget_where_cgroups_ration_it() {
    let mut facts = with_service(host(XEN_16), "1-15");
    facts.kernel.rt_group_sched = Some(true);
    facts.services[0].cgroup = "/a".into();
    let refused = "memcached (PID 80): the kernel has CONFIG_RT_GROUP_SCHED, and the cgroup /a no real-time budget (cpu.rt_runtime_us): it would be refused";
    check(&facts, "sched-fifo", &[refused]);
    facts.services[0].realtime_budget_us = Some(0);
    check(&facts, "sched-fifo", &[refused]);
    facts.services[0].realtime_budget_us = Some(10_000);
    check(&facts, "sched-fifo", &[IS_FIRST]);
    facts.services[0].cgroup = "/".into();
    facts.services[0].realtime_budget_us = None;
    check(&facts, "sched-fifo", &[IS_FIRST]);
}

#[test]
fn fifo_is_refused_where_nothing_would_stop_it() {
    let mut facts = with_service(host(XEN_16), "1-15");
    facts.sysctls.insert("kernel.sched_rt_runtime_us".into(), "-1".into());
    check(&facts, "sched-fifo", &[IS_FIRST]);
    facts.kernel.version = (6, 1);
    check(
        &facts,
        "sched-fifo",
        &[
            "memcached (PID 80): kernel.sched_rt_runtime_us is -1, and before Linux 6.12 nothing else stops a thread that never waits: set it to 950000 first",
        ],
    );
}

/// The plan for a service on all CPUs when the user accepts the risk.
#[track_caller]
fn check_at_risk(change: impl Fn(&mut Facts), wanted: Result<&str, &str>) {
    let mut facts = with_service(host(XEN_16), "0-15");
    facts.kernel.version = (5, 10);
    let sysctl = |name: &str, value: &str| (format!("kernel.sched_rt_{name}_us"), value.to_owned());
    facts.sysctls.extend([sysctl("runtime", "950000"), sysctl("period", "1000000")]);
    change(&mut facts);
    let asked = PlanRequest { strategy: Some(Strategy::SchedFifo), ..PlanRequest::default() };
    let refused = plan(&facts, &asked);
    assert_eq!((refused.changes.len(), refused.refusals.len()), (0, 1), "not unless it is said");
    let made = plan(&facts, &PlanRequest { accept_risk: true, ..asked });
    let said = match made.refusals.as_slice() {
        [] => Ok(made.changes[0].why.as_str()),
        [refusal] => Err(refusal.reason.as_str()),
        more => panic!("{more:?}"),
    };
    let part = |said: &str, wanted: &str| assert!(said.contains(wanted), "{said}\nshould have\n{wanted}");
    match (said, wanted) {
        (Ok(said), Ok(wanted)) | (Err(said), Err(wanted)) => part(said, wanted),
        (said, wanted) => panic!("{said:?} instead of {wanted:?}"),
    }
    assert_eq!(made.changes.len(), usize::from(wanted.is_ok()));
}

/// Pinterest 2022: memcached alone on its hosts, SCHED_FIFO on all CPUs.
#[test]
fn pinterest_2022_fifo_on_all_cpus_takes_an_accepted_risk_and_a_net_that_is_seen() {
    let runtime = |value: &'static str| {
        move |facts: &mut Facts| drop(facts.sysctls.insert("kernel.sched_rt_runtime_us".into(), value.into()))
    };
    check_at_risk(|_| {}, Ok("kernel.sched_rt_runtime_us leaves 5 % of every CPU to others"));
    check_at_risk(runtime("-1"), Err("kernel.sched_rt_runtime_us is -1"));
    check_at_risk(runtime("1000000"), Err("kernel.sched_rt_runtime_us is 1000000"));
    check_at_risk(|facts| facts.sysctls.clear(), Err("cannot be read"));
    check_at_risk(|facts| facts.realtime.shares_runtime = Some(true), Err("RT_RUNTIME_SHARE"));
    check_at_risk(|facts| facts.kernel.version = (4, 14), Err("RT_RUNTIME_SHARE"));
    check_at_risk(
        |facts| (facts.kernel.version, facts.realtime.shares_runtime) = ((4, 14), Some(false)),
        Ok("leaves 5 %"),
    );
    let fair = |ns: u64, but: Option<u32>| {
        move |facts: &mut Facts| {
            facts.kernel.version = (6, 12);
            facts.realtime.fair_server_ns =
                (0..16).map(|cpu| (cpu, if but == Some(cpu) { 0 } else { ns })).collect();
        }
    };
    check_at_risk(fair(50_000_000, None), Ok("the fair server leaves 50 ms of each period to others"));
    check_at_risk(fair(50_000_000, Some(3)), Err("the fair server is off on CPUs 3"));
    check_at_risk(|facts| facts.kernel.version = (6, 12), Err("mount -t debugfs"));
    // Budgets for groups: bandwidth is limited as it was before.
    check_at_risk(
        |facts| (facts.kernel.version, facts.kernel.rt_group_sched) = ((6, 12), Some(true)),
        Ok("leaves 5 %"),
    );
    let rationed = |facts: &mut Facts| {
        facts.kernel.rt_group_sched = Some(true);
        facts.services[0].cgroup = "/a".into();
    };
    check_at_risk(rationed, Err("no real-time budget"));
}

#[test]
fn what_costs_others_least_is_advised_first() {
    let facts = with_service(host(XEN_16), "0-15");
    let model = CpuModel::of(&facts);
    let finding = Some(FindingSubject { name: "memcached (PID 80)", is_note: false });
    let scope = Scope { finding, ..Scope::all(&model, &[]) };
    let proposed = ProposedChanges::of("", &[slice, advise], &scope);
    assert_eq!((proposed.changes.len(), proposed.refusals.len()), (1, 0));
    let steps = ["AllowedCPUs=1-15", "CPUWeight=1000", "sched-slice", "sched-fifo"];
    let places: Vec<_> = steps.iter().map(|step| proposed.advice[0].find(step).expect(step)).collect();
    assert!(places.is_sorted(), "{}", proposed.advice[0]);
}
