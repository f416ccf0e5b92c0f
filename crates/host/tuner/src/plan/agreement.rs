//! Agreement of rules and plans: on random hosts, a plan from findings is not undone by the findings after it.
//!
//! The host is a model: each queue has its share of the packets' work, done where its interrupt arrives, or, where
//! packets are steered, for the greater part on the CPUs that they are steered to. A plan from the findings is
//! written into the facts as the kernel would take it, then counted and judged again.

use std::collections::{BTreeMap, BTreeSet};

use stdx::prng::Prng;

use super::{Plan, PlanRequest, plan};
use crate::Series;
use crate::diagnose::finding::{Finding, RemedyStatus, Severity};
use crate::diagnose::rules::judge_each;
use crate::observe::cpu_model::{Choice, CpuModel, Measured};
use crate::observe::facts::{Facts, Service, Thread};
use crate::observe::irq_name::of_queues;
use crate::observe::reading::{CpuTimes, Reading};
use crate::observe::scheduling::Scheduling;
use crate::observe::shapes::{ENA, Shape, VIRTIO, XEN};
use crate::plan::change::{PlanRefusal, Setting, SettingValue};
use crate::plan::strategy::Strategy;
use os::CpuSet;

const HOSTS: u64 = 600;

/// After this many plans from findings there must be no further change: queues first, then their interrupts, then
/// packets.
const PLANS_MAX: usize = 3;

/// The cost of steering a packet for the CPU with the interrupt, as a share of its work.
const HOP: f64 = 0.1;

struct Case {
    facts: Facts,
    /// The cost of packets, in percent of a CPU.
    work_percent: f64,
    /// The load of programs on every CPU, in percent.
    user_percent: f64,
}

fn some_of(cpus: &CpuSet, prng: &mut Prng, one_in: u64) -> CpuSet {
    cpus.iter().filter(|_| prng.below(one_in) == 0).collect()
}

fn one_of(cpus: &CpuSet, prng: &mut Prng) -> CpuSet {
    cpus.iter().nth(prng.below(cpus.len() as u64) as usize).into_iter().collect()
}

fn case(seed: u64) -> Case {
    let mut prng = Prng::new(seed);
    let threads = 1 + prng.below(2) as u32;
    let nodes = 1 + prng.below(2) as u32;
    let cpus = threads * nodes * (1 + prng.below(12) as u32);
    let irqs = [ENA, VIRTIO, XEN][prng.below(3) as usize];
    let queues = if irqs == XEN { 1 } else { 1 + prng.below(u64::from(cpus.min(16))) as u32 };
    let mut facts = Shape { cpus, threads, nodes, queues, irqs }.facts();
    facts.kernel.version = (6, 18);
    let all = CpuSet::first(cpus);
    // CPU 0 is always present, and does the kernel's work.
    for cpu in facts.cpus.iter_mut().skip(1) {
        cpu.online = prng.below(12) > 0;
    }
    if prng.below(4) == 0 {
        facts.isolated = some_of(&all, &mut prng, 3).without(&CpuSet::first(1));
        facts.nohz_full = some_of(&all, &mut prng, 6).without(&CpuSet::first(1));
    }
    let online = facts.online();
    facts
        .sysctls
        .insert("net.core.rps_sock_flow_entries".into(), ["0", "32768"][prng.below(2) as usize].into());
    // Interrupts are on one CPU, on few, or anywhere; some are the kernel's own.
    let places = match prng.below(3) {
        0 => one_of(&online, &mut prng),
        1 => some_of(&online, &mut prng, 4).or(&CpuSet::first(1)),
        _ => online.clone(),
    };
    let managed = prng.below(6) == 0;
    for irq in &mut facts.interrupts {
        irq.effective = one_of(&places, &mut prng);
        irq.affinity = irq.effective.clone();
        irq.managed = managed && prng.below(3) > 0;
    }
    let isolated = facts.isolated();
    let steered = (prng.below(3) == 0).then(|| some_of(&online, &mut prng, 2).without(&isolated));
    let nic = &mut facts.nics[0];
    nic.node = (prng.below(3) > 0).then(|| prng.below(u64::from(nodes)) as u32);
    for queue in &mut nic.rx {
        queue.rps = steered.clone().unwrap_or_default();
        queue.flows = [0, 4096][prng.below(2) as usize];
    }
    let chooses = prng.below(3) > 0;
    for queue in &mut nic.tx {
        queue.xps = chooses.then(|| some_of(&online, &mut prng, 4));
    }
    if prng.below(2) == 0 {
        let affinity = if prng.below(2) == 0 { online.clone() } else { some_of(&online, &mut prng, 2) };
        let affinity = if affinity.is_empty() { online } else { affinity };
        let threads = vec![Thread { tid: 81, affinity, ..Thread::default() }];
        facts.services = vec![Service { pid: 80, name: "memcached".into(), threads, ..Service::default() }];
    }
    let (work, user) = (prng.below(200), prng.below(60));
    Case { facts, work_percent: work as f64, user_percent: user as f64 }
}

/// The load of each CPU by packets, in percent.
fn packets(case: &Case, facts: &Facts) -> BTreeMap<u32, f64> {
    let (model, nic) = (CpuModel::of(facts), &facts.nics[0]);
    let mut spent: BTreeMap<u32, f64> = facts.online().iter().map(|cpu| (cpu, 0.0)).collect();
    let share = case.work_percent / nic.rx.len() as f64;
    let mut spend = |cpus: &CpuSet, percent: f64| {
        for cpu in cpus.iter() {
            *spent.entry(cpu).or_default() += percent / cpus.len() as f64;
        }
    };
    let irqs = of_queues(facts, nic);
    for (queue, irq) in nic.rx.iter().zip(irqs.iter().filter(|irq| irq.receives())) {
        let (taker, steered) = (model.taken_by(irq.interrupt), queue.rps.and(&facts.online()));
        match steered.is_empty() {
            true => spend(&taker, share),
            false => {
                spend(&taker, share * HOP);
                spend(&steered, share);
            }
        }
    }
    spent
}

/// Three windows of ten seconds.
fn counted(case: &Case, facts: &Facts) -> Series {
    let (model, spent) = (CpuModel::of(facts), packets(case, facts));
    let reading = |i: u64| {
        let mut reading = Reading { at_ms: 10_000 * i, ..Reading::default() };
        for (cpu, percent) in &spent {
            let softirq = (percent.min(100.0) * 10.0) as u64;
            let user = ((case.user_percent * 10.0) as u64).min(1000 - softirq);
            let idle = 1000 - softirq - user;
            let times =
                CpuTimes { user: user * i, softirq: softirq * i, idle: idle * i, ..CpuTimes::default() };
            reading.cpus.insert(*cpu, times);
            let packets = (percent * 1000.0) as u64 * i;
            reading.softirqs.entry("NET_RX".into()).or_default().insert(*cpu, packets);
        }
        for irq in &facts.interrupts {
            let takers = model.taken_by(irq);
            reading.interrupts.insert(irq.irq, takers.iter().map(|cpu| (cpu, 5000 * i)).collect());
        }
        let packets = (case.work_percent * 5000.0) as u64 * i;
        reading.nics.insert("eth0".into(), BTreeMap::from([("rx_packets".into(), packets)]));
        reading
    };
    Series::new((0..=3).map(reading).collect()).unwrap()
}

/// The host after a plan, as the kernel would have it.
fn after(facts: &Facts, plan: &Plan) -> Facts {
    let (mut facts, isolated) = (facts.clone(), facts.isolated());
    for change in &plan.changes {
        let path = change.setting.to_string();
        let value = change.setting.value(&change.wanted).unwrap();
        let queue = || path.split("-").nth(1).unwrap().split('/').next().unwrap().parse::<usize>().unwrap();
        match value {
            SettingValue::Cpus(cpus) if change.setting.irq().is_some() => {
                let number = change.setting.irq();
                let irq = facts.interrupts.iter_mut().find(|irq| Some(irq.irq) == number).unwrap();
                assert!(
                    !irq.managed
                        && !cpus
                            .and(&facts.cpus.iter().filter(|cpu| cpu.online).map(|cpu| cpu.id).collect())
                            .is_empty()
                );
                (irq.affinity, irq.effective) = (cpus.clone(), cpus);
            }
            SettingValue::Cpus(cpus) if path.ends_with("rps_cpus") => {
                assert!(
                    cpus.and(&isolated).is_empty(),
                    "{path} {cpus}: the kernel would take {isolated} out"
                );
                facts.nics[0].rx[queue()].rps = cpus;
            }
            SettingValue::Cpus(cpus) => facts.nics[0].tx[queue()].xps = Some(cpus),
            SettingValue::Number(number) if path.ends_with("rps_flow_cnt") => {
                facts.nics[0].rx[queue()].flows = number as u32;
            }
            SettingValue::Number(number) => {
                let name = path.trim_start_matches("/proc/sys/").replace('/', ".");
                facts.sysctls.insert(name, number.to_string());
            }
            SettingValue::Scheduling(wanted) => schedule(&mut facts, &change.setting, &wanted),
            other => panic!("{path}: {other:?}"),
        }
    }
    facts
}

fn schedule(facts: &mut Facts, setting: &Setting, wanted: &Scheduling) {
    let threads = facts.services.iter_mut().flat_map(|service| &mut service.threads);
    for thread in threads.filter(|thread| *setting == Setting::Thread { tid: thread.tid }) {
        thread.policy = wanted.get("policy").unwrap() as u32;
        thread.priority = wanted.get("priority").unwrap_or_default() as u32;
        thread.slice_ns = wanted.get("slice_ns").or(thread.slice_ns);
    }
}

/// The findings, and the plan from them.
fn found(case: &Case, facts: &Facts) -> (Vec<Finding>, Plan) {
    let series = counted(case, facts);
    let findings = judge_each(facts, &series);
    let measured = Measured::of(&series);
    let plan = plan(facts, &PlanRequest { findings: &findings, measured, ..PlanRequest::default() });
    (findings, plan)
}

/// The description of a failure, as short as possible.
fn said(facts: &Facts, findings: &[Finding], plan: &Plan) -> String {
    let nic = &facts.nics[0];
    let findings = findings
        .iter()
        .map(|finding| format!("\n  {} ({}): {}", finding.rule, finding.subject, finding.cause));
    let changes = plan.changes.iter().map(|change| {
        format!("\n  {}: {} to {} ({})", change.setting, change.now, change.wanted, change.asked_by)
    });
    let irqs =
        facts.interrupts.iter().map(|irq| format!(" {}{}", irq.affinity, if irq.managed { "m" } else { "" }));
    format!(
        "CPUs {} isolated {} node {:?}\n{:?}\n{:?}\ninterrupts{}\nfindings{}\nplan{}\nrefused {:#?}",
        facts.online(),
        facts.isolated(),
        nic.node,
        nic.rx,
        nic.tx,
        irqs.collect::<String>(),
        findings.collect::<String>(),
        changes.collect::<String>(),
        plan.refusals,
    )
}

fn settings(plan: &Plan) -> BTreeSet<Setting> {
    plan.changes.iter().map(|change| change.setting.clone()).collect()
}

/// Rules about the CPUs of packets and interrupts.
const OF_CPUS: [&str; 10] = [
    "irqs-misplaced",
    "softirq-one-core",
    "irqs-piled-up",
    "rps-missing",
    "rps-redundant",
    "rps-harmful",
    "rfs-off",
    "rfs-half-set",
    "xps-missing",
    "xps-crossed",
];

/// Plans from findings until nothing is planned: their number, or the error.
fn plans_until_rest(seed: u64) -> Result<u64, String> {
    let case = case(seed);
    let mut facts = case.facts.clone();
    let mut set: BTreeSet<Setting> = BTreeSet::new();
    for round in 0..=PLANS_MAX {
        let (findings, plan) = found(&case, &facts);
        let wrong = |what: String| {
            Err(format!("{what}; host {seed}, plan {round}, {}", said(&facts, &findings, &plan)))
        };
        if plan.changes.is_empty() {
            // For each finding without a change the plan has a reason.
            let is_answered = |finding: &&Finding| {
                let is_it = |refusal: &PlanRefusal| {
                    refusal.asked_by == finding.rule || refusal.subject == finding.subject
                };
                plan.refusals.iter().any(is_it)
            };
            let asks = |finding: &&Finding| {
                OF_CPUS.contains(&finding.rule.as_str()) && finding.verdict == RemedyStatus::Fixable
            };
            return match findings.iter().filter(asks).find(|finding| !is_answered(finding)) {
                Some(finding) => wrong(format!("{} is not answered", finding.rule)),
                None => Ok(round as u64),
            };
        }
        if round == PLANS_MAX {
            return wrong("it comes to no rest".to_owned());
        }
        // Send queues follow the interrupts.
        if plan.changes.iter().any(|change| change.setting.irq().is_some()) {
            set.retain(|setting| !setting.to_string().ends_with("xps_cpus"));
        }
        for setting in settings(&plan) {
            if !set.insert(setting.clone()) {
                return wrong(format!("{setting} was set already"));
            }
        }
        facts = after(&facts, &plan);
    }
    unreachable!("the last round returns")
}

#[test]
fn plans_from_findings_come_to_rest_and_none_takes_back_what_another_has_set() {
    let results: Vec<Result<u64, String>> = (0..HOSTS).map(plans_until_rest).collect();
    let wrong: Vec<&String> = results.iter().filter_map(|result| result.as_ref().err()).collect();
    let first = wrong.iter().take(3).map(|what| what.as_str()).collect::<Vec<_>>().join("\n\n");
    assert!(wrong.is_empty(), "{} of {HOSTS} hosts are wrong:\n{first}", wrong.len());
    let planned: u64 = results.iter().flatten().sum();
    assert!(planned > HOSTS / 2, "{planned} plans for {HOSTS} hosts test little");
}

#[test]
fn a_strategy_that_is_in_force_asks_for_nothing_and_no_rule_for_its_opposite() {
    let strategies =
        [Strategy::Spread, Strategy::Irq0Rps, Strategy::RpsRfs, Strategy::Xps, Strategy::SchedFifo];
    let mut calm = 0;
    for seed in 0..HOSTS {
        let case = case(seed);
        let mut prng = Prng::new(seed);
        let online = case.facts.online();
        let choice = match prng.below(3) {
            0 => Choice { irq_cpus: Some(some_of(&online, &mut prng, 3).or(&CpuSet::first(1))), cpus: None },
            _ => Choice::default(),
        };
        let strategy = strategies[prng.below(strategies.len() as u64) as usize];
        let planned = |facts: &Facts| {
            let measured = Measured::of(&counted(&case, facts));
            let choice = choice.clone();
            plan(facts, &PlanRequest { strategy: Some(strategy), measured, choice, ..PlanRequest::default() })
        };
        let first = planned(&case.facts);
        let facts = after(&case.facts, &first);
        let again = planned(&facts);
        assert_eq!(again.changes, [], "host {seed}: {} and then again", strategy.name());
        let (findings, opposite) = found(&case, &facts);
        // Where a CPU is busy with interrupts all the same, the strategy was the wrong one, and rules may report it.
        let busiest = packets(&case, &facts).values().copied().fold(0.0, f64::max);
        let is_chosen = choice.irq_cpus.is_some();
        if busiest < crate::observe::cpu_load::BUSY_PERCENT && !is_chosen {
            calm += 1;
            let both: Vec<_> = settings(&opposite).intersection(&settings(&first)).cloned().collect();
            let what = said(&facts, &findings, &opposite);
            assert_eq!(both, [], "host {seed}: after {} {what}", strategy.name());
        }
        let real_time = findings
            .iter()
            .find(|finding| finding.rule == "realtime-everywhere" && finding.severity > Severity::Note);
        assert_eq!(real_time, None, "host {seed}: {}", strategy.name());
    }
    assert!(calm > HOSTS / 10, "{calm} of {HOSTS} hosts test little");
}
