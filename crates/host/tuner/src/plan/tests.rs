//! Plans from facts and findings, and their order.

use std::collections::BTreeMap;

use super::change::Setting;
use super::draft::{SPREAD_FIRST, move_interrupt};
use super::*;
use crate::diagnose::finding::{RemedyStatus, Severity};
use crate::observe::facts::{ListeningSocket, Service, Thread};
use crate::observe::shapes::{ENA, Shape};
use os::CpuSet;

const HOST: Shape = Shape { cpus: 32, threads: 1, nodes: 2, queues: 4, irqs: ENA };

fn finding(rule: &str, verdict: RemedyStatus) -> Finding {
    Finding {
        rule: rule.into(),
        severity: Severity::Warning,
        subject: "eth0".into(),
        cause: String::new(),
        effect: String::new(),
        verdict,
        evidence: Vec::new(),
        alike: Vec::new(),
        consequences: Vec::new(),
    }
}

#[track_caller]
fn check(findings: &[Finding], wanted: &[(&str, &str)]) {
    let plan = plan(&HOST.facts(), &PlanRequest { findings, ..PlanRequest::default() });
    let file = |change: &Change| change.setting.to_string().rsplit('/').next().unwrap().to_owned();
    let mut said: Vec<_> =
        plan.changes.iter().map(|change| (file(change), change.asked_by.clone())).collect();
    said.dedup();
    let wanted: Vec<_> = wanted.iter().map(|(file, by)| (file.to_string(), by.to_string())).collect();
    assert_eq!(said, wanted);
}

#[test]
fn findings_are_mended_in_the_order_of_stages() {
    check(
        &[finding("xps-missing", RemedyStatus::Fixable), finding("irqs-piled-up", RemedyStatus::Fixable)],
        &[("smp_affinity", "irqs-piled-up"), ("xps_cpus", "xps-missing")],
    );
}

/// Two queues of eight, a ring of 1,024 of 8,192.
fn with_queues_to_spare() -> Facts {
    let mut facts = Shape { cpus: 8, threads: 1, nodes: 1, queues: 2, irqs: ENA }.facts();
    let nic = &mut facts.nics[0];
    (nic.channels, nic.channels_max, nic.rx_ring) = (Some(2), Some(8), Some((1024, 8192)));
    facts.memory_bytes = 64 << 30;
    facts
}

fn settings(plan: &Plan) -> Vec<String> {
    plan.changes.iter().map(|change| format!("{} {}", change.setting, change.wanted)).collect()
}

#[test]
fn a_plan_with_other_queues_holds_them_alone_and_the_rest_follows_from_what_is_there_then() {
    let rules = ["queues-few", "xps-missing", "ring-overrun"];
    let findings = rules.map(|rule| finding(rule, RemedyStatus::Fixable));
    let facts = with_queues_to_spare();
    let first = plan(&facts, &PlanRequest { findings: &findings, ..PlanRequest::default() });
    assert_eq!(settings(&first), ["channels of eth0 combined=8", "rings of eth0 rx=4096"]);
    let text = serde_json::to_string(&first).unwrap();
    let first: Plan = serde_json::from_str(&text).unwrap();

    let mut facts = Shape { cpus: 8, threads: 1, nodes: 1, queues: 8, irqs: ENA }.facts();
    // The interface may still be down.
    (facts.nics[0].channels, facts.nics[0].channels_max, facts.nics[0].up) = (Some(8), Some(8), false);
    let then = rest(&facts, &first.then.unwrap());
    assert_eq!((then.changes.len(), then.then.is_none()), (16, true), "{:?}", settings(&then));
    assert_eq!(settings(&then)[3], "/proc/irq/43/smp_affinity 8");
    assert!(then.changes.iter().all(|change| change.stage != Stage::Queues) && then.refusals.is_empty());
    let whole = plan(
        &with_queues_to_spare(),
        &PlanRequest { findings: &findings, whole: true, ..PlanRequest::default() },
    );
    assert!(whole.then.is_none() && whole.changes.len() > 1, "what is to last is said as a whole");
}

#[test]
fn queues_without_load_and_rings_of_a_busy_cpu_are_left() {
    let facts = with_queues_to_spare();
    let planned = |finding: Finding, percent: u32| {
        let interrupts_percent = BTreeMap::from([(0, percent), (1, 0)]);
        let measured = Measured { interrupts_percent, ..Measured::default() };
        plan(&facts, &PlanRequest { findings: &[finding], measured, ..PlanRequest::default() })
    };
    let note = Finding { severity: Severity::Note, ..finding("queues-few", RemedyStatus::Fixable) };
    assert_eq!(planned(note, 0).refusals.len(), 1);
    let overrun = || finding("ring-overrun", RemedyStatus::Fixable);
    assert_eq!(settings(&planned(overrun(), 5)), ["rings of eth0 rx=4096"]);
    let busy = planned(overrun(), 70);
    assert_eq!((busy.changes.len(), busy.refusals[0].asked_by.as_str()), (0, "ring-overrun"));
    assert!(busy.refusals[0].reason.contains("(70 %)"), "{:?}", busy.refusals);
}

#[test]
fn who_asks_for_a_place_asks_irqbalance_to_respect_it() {
    let mut facts = HOST.facts();
    facts.irqbalance = Some(crate::observe::facts::Irqbalance { pid: 7, banned: [9].into() });
    let made =
        |findings: &[Finding]| plan(&facts, &PlanRequest { findings, ..PlanRequest::default() }).changes;
    let changes = made(&[
        finding("xps-missing", RemedyStatus::Fixable),
        finding("irqs-piled-up", RemedyStatus::Fixable),
    ]);
    let (told, by) = (&changes[0], changes[0].asked_by.as_str());
    assert_eq!((told.wanted.as_str(), by), ("9 40 41 42 43", "irqs-piled-up"));
    assert_eq!(changes[1].stage, Stage::Affinity);
    assert!(
        made(&[finding("xps-missing", RemedyStatus::Fixable)])
            .iter()
            .all(|change| change.stage == Stage::Steering)
    );
}

#[test]
fn where_interrupts_cannot_be_put_off_the_device_gathers_packets() {
    let mut facts = with_queues_to_spare();
    facts.nics[0].coalescing = Some(crate::observe::facts::Coalescing::default());
    let findings = [finding("interrupt-per-packet", RemedyStatus::Fixable)];
    let made = plan(&facts, &PlanRequest { findings: &findings, ..PlanRequest::default() });
    assert_eq!(settings(&made), ["coalescing of eth0 rx-usecs=50"]);
    assert_eq!(made.changes[0].asked_by, "coalesce");
    (facts.nics[0].defer_hard_irqs, facts.nics[0].gro_flush_timeout_ns) = (Some(0), Some(0));
    facts.kernel.version = (6, 1);
    let made = plan(&facts, &PlanRequest { findings: &findings, ..PlanRequest::default() });
    assert_eq!((made.changes.len(), made.changes[0].asked_by.as_str()), (2, "interrupt-per-packet"));
}

#[test]
fn what_cannot_be_mended_here_asks_for_nothing() {
    check(&[finding("xps-missing", RemedyStatus::NotHere { reason: String::new() })], &[]);
    check(&[finding("allowance-exceeded", RemedyStatus::Fixable)], &[]);
}

/// What a finding about a listener asks for, with live changes allowed.
#[track_caller]
fn check_listener(rule: &str, subject: &str, wanted: &[&str]) {
    let listener = |port: u16, backlog| ListeningSocket {
        address: format!("0.0.0.0:{port}"),
        port,
        inode: port.into(),
        backlog,
        pid: Some(8),
        started: Some(1),
        fast_open: Some(0),
        ..ListeningSocket::default()
    };
    let mut facts = HOST.facts();
    facts.kernel.version = (6, 1);
    facts.sysctls = ["net.core.somaxconn", "net.ipv4.tcp_max_syn_backlog", "net.ipv4.tcp_fastopen"]
        .map(|name| (name.to_owned(), "128".to_owned()))
        .into();
    facts.services = vec![Service { pid: 8, name: "memcached".into(), ..Service::default() }];
    facts.listeners = vec![listener(1, 128), listener(2, 128), listener(3, 4096)];
    let finding = Finding { subject: subject.into(), ..finding(rule, RemedyStatus::Fixable) };
    let plan = plan(&facts, &PlanRequest { findings: &[finding], live: true, ..PlanRequest::default() });
    let last = |change: &Change| change.setting.to_string().rsplit('/').next().unwrap().to_owned();
    let said = plan.changes.iter().map(last);
    let refused = plan.refusals.iter().map(|refusal| format!("no: {}", refusal.subject));
    assert_eq!(said.chain(refused).collect::<Vec<_>>(), wanted);
}

#[test]
fn a_listeners_queue_is_mended_after_the_limits_that_cut_it() {
    let limits = ["somaxconn", "tcp_max_syn_backlog"];
    let backlog = |port| format!("backlog of 0.0.0.0:{port} (PID 8, socket {port})");
    let (one, two) = (backlog(1), backlog(2));
    let wanted = [limits[0], limits[1], &one];
    check_listener("accept-overflow", "0.0.0.0:1", &wanted);
    check_listener("backlog-small", "0.0.0.0:1", &wanted);
    check_listener("accept-overflow", "accept queues", &[limits[0], limits[1], &one, &two]);
    check_listener("accept-overflow", "0.0.0.0:3", &[limits[0], limits[1], "no: 0.0.0.0:3"]);
}

#[test]
fn fast_open_is_allowed_on_the_host_and_then_asked_of_the_listener() {
    let queue = |port| format!("Fast Open queue of 0.0.0.0:{port} (PID 8, socket {port})");
    let (one, two, three) = (queue(1), queue(2), queue(3));
    check_listener("fast-open-off", "0.0.0.0:1", &["tcp_fastopen", &one]);
    check_listener("fast-open-off", "net.ipv4.tcp_fastopen", &["tcp_fastopen", &one, &two, &three]);
}

#[test]
fn who_is_named_is_meant_alone() {
    let mut facts = HOST.facts();
    facts.kernel.version = (6, 18);
    let service = |pid| Service {
        pid,
        name: "memcached".into(),
        threads: vec![Thread { tid: pid, ..Thread::default() }],
        ..Service::default()
    };
    facts.services = vec![service(7), service(8)];
    let threads = |asked: &PlanRequest| plan(&facts, asked).changes.into_iter().map(|change| change.setting);
    let slice = PlanRequest { strategy: Some(Strategy::SchedSlice), ..PlanRequest::default() };
    assert_eq!(threads(&slice).count(), 2);
    let wanted = [Setting::Thread { tid: 8 }];
    assert!(threads(&PlanRequest { pids: &[8], ..slice }).eq(wanted.clone()));
    let delayed =
        Finding { subject: "memcached (PID 8)".into(), ..finding("scheduling-delay", RemedyStatus::Fixable) };
    assert!(threads(&PlanRequest { findings: &[delayed], ..PlanRequest::default() }).eq(wanted));
}

#[test]
fn what_has_no_setting_is_said_in_words() {
    let findings =
        [finding("mount-options", RemedyStatus::Fixable), finding("agents", RemedyStatus::Fixable)];
    let advice = plan(&HOST.facts(), &PlanRequest { findings: &findings, ..PlanRequest::default() }).advice;
    assert_eq!(advice, ["mount-options (eth0): noatime in /etc/fstab, and fstrim.timer in place of discard"]);
}

#[test]
fn interrupts_are_spread_before_anybody_thinks_of_steering() {
    let findings =
        [finding("rps-missing", RemedyStatus::Fixable), finding("irqs-piled-up", RemedyStatus::Fixable)];
    let asked = PlanRequest { findings: &findings, ..PlanRequest::default() };
    let mut facts = HOST.facts();
    let first = plan(&facts, &asked);
    assert!(first.changes.iter().all(|change| change.setting.irq().is_some()), "{:?}", first.changes);
    assert_eq!(
        (first.refusals[0].subject.as_str(), first.refusals[0].reason.as_str()),
        ("eth0", SPREAD_FIRST)
    );

    first.changes.iter().for_each(|change| move_interrupt(&mut facts, change));
    let then = plan(&facts, &asked);
    let masks = then.changes.iter().filter(|change| change.setting.to_string().ends_with("rps_cpus"));
    assert!(masks.clone().count() == 4 && masks.clone().all(|change| change.wanted == "fff0"), "4-15");
}

#[test]
fn a_synthetic_interface_means_the_function_below() {
    let mut facts = HOST.facts();
    let synthetic = Nic { name: "eth9".into(), lower: vec!["eth0".into()], ..facts.nics[0].clone() };
    facts.nics.push(synthetic);
    let asked = PlanRequest { strategy: Some(Strategy::Xps), nic: Some("eth9"), ..PlanRequest::default() };
    let changes = plan(&facts, &asked).changes;
    assert!(changes.len() == 4 && changes.iter().all(|change| change.setting.to_string().contains("/eth0/")));
}

#[test]
fn what_is_found_on_one_interface_is_not_mended_on_another() {
    let findings = [finding("xps-missing", RemedyStatus::Fixable)];
    let mut facts = HOST.facts();
    facts.nics.push(Nic { name: "eth1".into(), ..facts.nics[0].clone() });
    let asked = |nic| PlanRequest { findings: &findings, nic: Some(nic), ..PlanRequest::default() };
    assert_eq!(plan(&facts, &asked("eth0")).changes.len(), 4);
    assert_eq!(plan(&facts, &asked("eth1")).changes, []);
}

#[test]
fn what_is_mounted_read_only_is_left_to_the_host() {
    let mut facts = HOST.facts();
    facts.read_only = vec!["/proc/sys".into(), "/sys".into(), "/proc/ir".into()];
    let asked = PlanRequest { strategy: Some(Strategy::Xps), ..PlanRequest::default() };
    let refused = plan(&facts, &asked);
    assert_eq!((refused.changes.len(), refused.refusals.len()), (0, 1));
    assert_eq!(refused.refusals[0].subject, "/sys");
    let asked = PlanRequest { strategy: Some(Strategy::Spread), ..PlanRequest::default() };
    assert_eq!(plan(&facts, &asked).changes.len(), 4, "/proc/irq is another place");
}

#[test]
fn what_is_so_already_is_left_out() {
    let asked = PlanRequest { strategy: Some(Strategy::Spread), ..PlanRequest::default() };
    let mut facts = HOST.facts();
    for _ in 0..4 {
        let before = plan(&facts, &asked).changes;
        let Some(first) = before.first() else { break };
        let irq = first.setting.irq().unwrap();
        let cpus = CpuSet::parse_mask(&first.wanted).unwrap();
        facts.interrupts.iter_mut().find(|other| other.irq == irq).unwrap().affinity = cpus;
        assert_eq!(plan(&facts, &asked).changes, before[1..]);
    }
    assert!(plan(&facts, &asked).changes.is_empty());
}

#[test]
fn a_vlan_on_a_bond_means_the_devices_below() {
    let mut facts = HOST.facts();
    let stacked = |name: &str, lower: &str| Nic {
        name: name.into(),
        up: true,
        lower: vec![lower.into()],
        ..Nic::default()
    };
    facts.nics.extend([stacked("bond0", "eth0"), stacked("bond0.7", "bond0"), stacked("br0", "gone")]);
    let named = |nic| {
        plan(
            &facts,
            &PlanRequest { strategy: Some(Strategy::Spread), nic: Some(nic), ..PlanRequest::default() },
        )
    };
    assert!(!named("eth0").changes.is_empty());
    assert_eq!(named("bond0.7"), named("eth0"));
    assert_eq!(named("br0").refusals[0].subject, "br0");
}

#[test]
fn an_interface_that_is_not_there_is_refused() {
    let asked = PlanRequest { strategy: Some(Strategy::Xps), nic: Some("eth9"), ..PlanRequest::default() };
    let plan = plan(&HOST.facts(), &asked);
    assert_eq!((plan.changes.len(), plan.refusals.len()), (0, 1));
}

/// The plan's changes, by the file's name, the value and the requester.
fn asked_of(plan: &Plan) -> Vec<String> {
    let name = |change: &Change| change.setting.to_string().rsplit('/').next().unwrap().to_owned();
    plan.changes
        .iter()
        .map(|change| format!("{} {} {}", name(change), change.wanted, change.asked_by))
        .collect()
}

#[test]
fn interrupts_are_kept_to_the_cpus_that_were_chosen_and_services_get_the_others() {
    let mut facts = Shape { cpus: 8, threads: 1, nodes: 1, queues: 2, irqs: ENA }.facts();
    let thread = |cpus: &str| Thread { affinity: cpus.parse().unwrap(), ..Thread::default() };
    let service = |cpus: &str| Service { pid: 7, threads: vec![thread(cpus)], ..Service::default() };
    facts.services = vec![Service { name: "memcached".into(), ..service("0-7") }];
    let choice = Choice { irq_cpus: Some("4-5".parse().unwrap()), cpus: Some("2-7".parse().unwrap()) };
    let asked = PlanRequest { strategy: Some(Strategy::Spread), choice, ..PlanRequest::default() };
    let made = plan(&facts, &asked);
    let by = "spread --irq-cpus 4-5 --cpus 2-7";
    assert_eq!(asked_of(&made), [format!("smp_affinity 10 {by}"), format!("smp_affinity 20 {by}")]);
    assert_eq!(strategy_behind(by), Some(Strategy::Spread));
    assert_eq!(
        made.advice,
        [
            "memcached (PID 7) may run on CPUs 4-5, which take all interrupts then: keep it to 2-3,6-7 (AllowedCPUs=)"
        ]
    );
    let json = serde_json::to_value(&made).unwrap();
    assert_eq!(json["service_cpus"], serde_json::json!({ "list": "2-3,6-7", "mask": "cc" }));
    made.changes.iter().for_each(|change| move_interrupt(&mut facts, change));
    facts.services = vec![service("2-3,6-7")];
    let again = plan(&facts, &asked);
    assert_eq!((again.changes.len(), again.advice.len(), again.service_cpus), (0, 0, made.service_cpus));
    let free = PlanRequest { choice: Choice::default(), ..asked };
    assert_eq!(plan(&facts, &free).service_cpus, None, "nothing was kept apart");
}

#[test]
fn cpus_where_interrupts_stay_are_not_left_to_services() {
    let facts = Shape { cpus: 8, threads: 1, nodes: 1, queues: 2, irqs: ENA }.facts();
    let left = |facts: &Facts, strategy, irq_cpus: Option<&str>, cpus: Option<&str>| {
        let set = |list: &str| list.parse().unwrap();
        let choice = Choice { irq_cpus: irq_cpus.map(set), cpus: cpus.map(set) };
        plan(facts, &PlanRequest { strategy: Some(strategy), choice, ..PlanRequest::default() })
            .service_cpus
            .unwrap()
            .list
    };
    assert_eq!(left(&facts, Strategy::RpsRfs, Some("4"), None).to_string(), "1-3,5-7", "none is moved");
    assert_eq!(left(&facts, Strategy::Spread, Some("4"), None).to_string(), "0-3,5-7", "all are moved");
    assert_eq!(left(&facts, Strategy::Xps, None, Some("0-3")).to_string(), "1-3");
    let mut moored = facts.clone();
    (moored.interrupts[1].managed, moored.read_only) = (true, vec!["/proc/irq/40".into()]);
    moored.interrupts[1].effective = "3".parse().unwrap();
    assert_eq!(left(&moored, Strategy::Spread, Some("4"), None).to_string(), "1-2,5-7", "none can be moved");
    let mut anywhere = facts;
    anywhere.interrupts.iter_mut().for_each(|irq| irq.effective = CpuSet::first(8));
    assert_eq!(left(&anywhere, Strategy::RpsRfs, Some("4"), None).to_string(), "0-3,5-7", "they take all");
}

#[test]
fn a_plan_steers_to_where_packets_were_not_measured_to_arrive() {
    let mut facts = Shape { cpus: 8, threads: 1, nodes: 1, queues: 1, irqs: ENA }.facts();
    facts.sysctls.insert("net.core.rps_sock_flow_entries".into(), "32768".into());
    let arrivals = BTreeMap::from([(crate::observe::shapes::IRQ_FIRST, CpuSet::from_iter([6]))]);
    let measured = Measured { arrivals, ..Measured::default() };
    let asked = PlanRequest { strategy: Some(Strategy::RpsRfs), ..PlanRequest::default() };
    assert_eq!(settings(&plan(&facts, &asked))[0], "/sys/class/net/eth0/queues/rx-0/rps_cpus fe");
    let asked = PlanRequest { measured, ..asked };
    assert_eq!(settings(&plan(&facts, &asked))[0], "/sys/class/net/eth0/queues/rx-0/rps_cpus bf");
}

#[test]
fn wrong_steering_is_put_right_where_there_is_a_right_one_and_switched_off_where_there_is_none() {
    let findings = [finding("rps-harmful", RemedyStatus::Fixable)];
    let masks = |shape: Shape, measured: Measured| {
        let mut facts = shape.facts();
        facts.nics[0]
            .rx
            .iter_mut()
            .for_each(|queue| queue.rps = facts.cpus.iter().map(|cpu| cpu.id).collect());
        let made = plan(&facts, &PlanRequest { findings: &findings, measured, ..PlanRequest::default() });
        made.changes.into_iter().map(|change| change.wanted).collect::<Vec<_>>()
    };
    let host = Shape { cpus: 8, threads: 1, nodes: 1, queues: 1, irqs: ENA };
    let busy = |percent| Measured {
        interrupts_percent: (0..8).map(|cpu| (cpu, percent)).collect(),
        ..Measured::default()
    };
    assert_eq!(masks(host, Measured::default()), ["fe"]);
    assert_eq!(masks(host, busy(4)), ["fe"], "32 % for one CPU");
    assert_eq!(masks(host, busy(2)), ["0"]);
    assert_eq!(masks(Shape { threads: 8, ..host }, busy(4)), ["0"]);
}

#[test]
fn what_needs_a_setting_that_cannot_be_changed_is_left_out_with_it() {
    let planned = |read_only: &str, strategy| {
        let mut facts = HOST.facts();
        facts.sysctls.insert("net.core.rps_sock_flow_entries".into(), "0".into());
        facts.read_only = vec![read_only.into()];
        let made = plan(&facts, &PlanRequest { strategy: Some(strategy), ..PlanRequest::default() });
        let reasons: Vec<String> = made.refusals.iter().map(|refusal| refusal.reason.clone()).collect();
        (settings(&made), reasons.join("; "))
    };
    // One half of RFS does nothing without the other one.
    let (changes, why) = planned("/proc/sys", Strategy::RpsRfs);
    assert!(changes.len() == 4 && changes.iter().all(|change| change.contains("rps_cpus")), "{changes:?}");
    assert!(why.contains("rps_flow_cnt needs /proc/sys/net/core/rps_sock_flow_entries"), "{why}");
    // Packets are steered around the CPU that gets all interrupts: these stay where they are.
    let (changes, why) = planned("/proc/irq", Strategy::Irq0Rps);
    let kept: Vec<_> = changes.iter().filter(|change| change.contains("/queues/")).collect();
    assert!(kept.is_empty() && why.contains("rps_cpus needs /proc/irq/"), "{changes:?} {why}");
}

#[test]
fn interrupts_are_spread_over_the_queues_that_there_are_before_more_are_added() {
    let mut facts = HOST.facts();
    (facts.nics[0].channels, facts.nics[0].channels_max) = (Some(4), Some(8));
    let few = finding("queues-few", RemedyStatus::Fixable);
    let queues = |findings: &[Finding]| {
        let made = plan(&facts, &PlanRequest { findings, ..PlanRequest::default() });
        (made.changes.iter().any(|change| change.stage == Stage::Queues), made)
    };
    assert!(queues(std::slice::from_ref(&few)).0);
    for first in ["irqs-piled-up", "irqs-misplaced"] {
        let (adds, made) = queues(&[few.clone(), finding(first, RemedyStatus::Fixable)]);
        assert!(!adds && made.changes.iter().all(|change| change.setting.irq().is_some()), "{made:?}");
        let why = made.refusals.iter().find(|refusal| refusal.asked_by == "queues-few");
        assert!(
            why.is_some_and(|why| why.reason.contains("spread over the present queues first")),
            "{made:?}"
        );
    }
}

#[test]
fn a_host_whose_interfaces_have_no_device_is_told_so() {
    let virtual_nic = |name: &str| Nic { name: name.into(), up: true, ..Nic::default() };
    let facts = Facts { nics: vec![virtual_nic("bond0"), virtual_nic("wg0")], ..HOST.facts() };
    for strategy in [None, Some(Strategy::Spread)] {
        let made = plan(&facts, &PlanRequest { strategy, ..PlanRequest::default() });
        let why = made.refusals.iter().map(|refusal| refusal.reason.as_str()).collect::<Vec<_>>();
        assert!(
            why.len() == 1 && why[0].starts_with("bond0, wg0 have no devices of their own here"),
            "{why:?}"
        );
    }
}
