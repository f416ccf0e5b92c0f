use super::parse::sysctls;
use super::*;
use crate::observe::cpu_model::Choice;
use crate::observe::facts::{Agent, BlockDevice, Service, Thread};
use crate::observe::shapes::{ENA, Shape};
use crate::plan::change::{Holds, Stage};
use crate::plan::profile::Profile;
use crate::plan::strategy::Strategy;
use crate::plan::{self, PlanRequest, plan};
use crate::text::HEADER;

/// A made-up server: 8 CPUs, two queues, a memcached in its unit.
fn host() -> Facts {
    let mut facts = Shape { cpus: 8, threads: 1, nodes: 1, queues: 2, irqs: ENA }.facts();
    facts.kernel.version = (6, 12);
    facts.nics[0].bus = Some("0000:00:05.0".into());
    facts.nics[0].mac = Some("02:00:00:00:00:01".into());
    facts.nics[0].driver = Some("ena".into());
    facts.nics[0].defer_hard_irqs = Some(0);
    facts.nics[0].gro_flush_timeout_ns = Some(0);
    let sysctls =
        [("net.core.somaxconn", "128"), ("net.core.rps_sock_flow_entries", "0"), ("vm.swappiness", "60")];
    facts.sysctls = sysctls.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    facts.huge_pages.enabled = Some("always".into());
    facts.disks = vec![BlockDevice {
        name: "nvme0n1".into(),
        identity: Some(("wwid".into(), "eui.0025388b71b2f1c3".into())),
        scheduler: Some("mq-deadline".into()),
        schedulers: vec!["none".into(), "mq-deadline".into()],
        ..BlockDevice::default()
    }];
    let thread = Thread { tid: 812, affinity: (2..8).collect(), ..Thread::default() };
    facts.services = vec![Service {
        pid: 812,
        name: "memcached".into(),
        unit: Some("memcached.service".into()),
        threads: vec![thread],
        ..Service::default()
    }];
    facts
}

fn all() -> HostMeans {
    HostMeans {
        program: "/usr/bin/evenkeel".into(),
        systemd: true,
        udev: true,
        sysctl: true,
        irqbalance: Some("/usr/sbin/irqbalance --foreground $IRQBALANCE_ARGS".into()),
        policy: None,
        links: Vec::new(),
    }
}

fn keeps(facts: &Facts, strategy: Option<Strategy>, profile: Option<Profile>) -> Vec<Keep> {
    let asked = PlanRequest { strategy, profile, ..PlanRequest::default() };
    plan(facts, &asked).changes.iter().map(Keep::from).collect()
}

fn one(path: &str, wanted: &str) -> Keep {
    let setting = Setting::File { path: path.into(), holds: Holds::Words };
    Keep { setting, wanted: wanted.into(), why: "it helps".into(), asked_by: "somebody".into() }
}

/// The files of a strategy, with their texts from the third line on: behind the header and the empty line.
#[track_caller]
fn check(keeps: &[Keep], facts: &Facts, here: &HostMeans, wanted: &[(&str, &str)]) -> Persistence {
    let persistence = persistence(keeps, facts, here);
    reads_back(&persistence.files).unwrap();
    for (path, part) in wanted {
        let file = persistence.files.iter().find(|file| file.path == *path);
        let file = file.unwrap_or_else(|| panic!("{path} is not among {persistence:#?}"));
        assert!(file.text.contains(part), "{path}:\n{}\nshould have\n{part}", file.text);
    }
    persistence
}

#[test]
fn sysctls_have_their_reasons_over_them() {
    let facts = host();
    let persistence = check(
        &[one("/proc/sys/net/core/somaxconn", "4096"), one("/proc/sys/vm/swappiness", "1")],
        &facts,
        &all(),
        &[],
    );
    assert_eq!(persistence.left, []);
    let [file] = persistence.files.as_slice() else { panic!("{persistence:?}") };
    assert_eq!((file.path.as_str(), file.mode), ("/etc/sysctl.d/90-evenkeel.conf", 0o644));
    assert_eq!(
        file.text,
        format!("{HEADER}\n\n# it helps (somebody)\nnet.core.somaxconn = 4096\nvm.swappiness = 1\n")
    );
}

#[test]
fn queues_are_steered_when_the_interface_comes_and_when_a_queue_does() {
    let facts = host();
    let keeps = keeps(&facts, Some(Strategy::RpsRfs), None);
    check(
        &keeps,
        &facts,
        &all(),
        &[
            ("/etc/sysctl.d/90-evenkeel.conf", "net.core.rps_sock_flow_entries = 32768"),
            (
                "/etc/udev/rules.d/90-evenkeel.rules",
                "(rps-rfs)\nACTION==\"add\", SUBSYSTEM==\"net\", KERNELS==\"0000:00:05.0\", ATTR{queues/rx-0/rps_cpus}=\"fe\"\n\
             ACTION==\"add\", SUBSYSTEM==\"queues\", KERNEL==\"rx-0\", KERNELS==\"0000:00:05.0\", ATTR{rps_cpus}=\"fe\"\n",
            ),
        ],
    );
}

#[test]
fn interfaces_that_share_a_place_are_told_apart_and_those_without_one_go_by_name() {
    let mut facts = host();
    let mut other = facts.nics[0].clone();
    other.name = "eth1".into();
    facts.nics.push(other);
    let keep = [one("/sys/class/net/eth0/queues/tx-0/xps_cpus", "3")];
    check(
        &keep,
        &facts,
        &all(),
        &[(
            "/etc/udev/rules.d/90-evenkeel.rules",
            "SUBSYSTEM==\"queues\", KERNEL==\"tx-0\", ATTRS{address}==\"02:00:00:00:00:01\", ATTR{xps_cpus}=\"3\"",
        )],
    );
    facts.nics[0].bus = None;
    let keep = [one("/sys/class/net/eth0/gro_flush_timeout", "50000")];
    check(
        &keep,
        &facts,
        &all(),
        &[(
            "/etc/udev/rules.d/90-evenkeel.rules",
            "SUBSYSTEM==\"net\", KERNEL==\"eth0\", ATTR{gro_flush_timeout}=\"50000\"",
        )],
    );
}

#[test]
fn disks_are_known_by_what_they_say_of_themselves_and_memory_is_set_before_services() {
    let facts = host();
    let keeps = keeps(&facts, None, Some(Profile::Mysql));
    check(
        &keeps,
        &facts,
        &all(),
        &[
            (
                "/etc/udev/rules.d/90-evenkeel.rules",
                "ENV{DEVTYPE}==\"disk\", ATTR{wwid}==\"eui.0025388b71b2f1c3\", ATTR{queue/scheduler}=\"none\"",
            ),
            (
                "/etc/tmpfiles.d/evenkeel.conf",
                "w /sys/kernel/mm/transparent_hugepage/enabled - - - - never\n",
            ),
        ],
    );
}

#[test]
fn the_clock_source_is_set_before_services_start() {
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    check(
        &[one(path, "tsc")],
        &host(),
        &all(),
        &[("/etc/tmpfiles.d/evenkeel.conf", &format!("w {path} - - - - tsc\n"))],
    );
}

#[test]
fn interrupts_are_planned_anew_and_irqbalance_is_told_by_device() {
    let facts = host();
    let keeps = keeps(&facts, Some(Strategy::Spread), None);
    let persistence = check(
        &keeps,
        &facts,
        &all(),
        &[
            ("/etc/evenkeel/tune.json", "\"bus\": \"0000:00:05.0\""),
            (
                "/etc/systemd/system/evenkeel-tune.service",
                "ExecStart=/usr/bin/evenkeel tune apply --intent /etc/evenkeel/tune.json\n",
            ),
            ("/etc/systemd/system/multi-user.target.d/50-evenkeel.conf", "Wants=evenkeel-tune.service"),
            ("/etc/evenkeel/irqbalance-policy", "*/0000:00:05.0|*/0000:00:05.0/*) echo ban=true ;;"),
            (
                "/etc/systemd/system/irqbalance.service.d/50-evenkeel.conf",
                "ExecStart=\nExecStart=/usr/sbin/irqbalance --foreground $IRQBALANCE_ARGS --policyscript=/etc/evenkeel/irqbalance-policy\n",
            ),
        ],
    );
    assert_eq!(persistence.left, []);
    // No file may hold the number of an interrupt: it is another one's after the next start.
    for irq in &facts.interrupts {
        for file in &persistence.files {
            assert!(!file.text.contains(&format!(" {}", irq.irq)), "{}", file.text);
        }
    }
    let policy = persistence.files.iter().find(|file| file.path.ends_with("policy")).unwrap();
    assert_eq!(policy.mode, 0o755);
}

#[test]
fn a_policy_script_that_is_there_is_left_to_its_owner() {
    let facts = host();
    let keeps = keeps(&facts, Some(Strategy::Spread), None);
    let here = HostMeans { irqbalance: Some("/usr/sbin/irqbalance --policyscript=/x".into()), ..all() };
    let persistence = persistence(&keeps, &facts, &here);
    assert!(persistence.files.iter().all(|file| !file.path.contains("irqbalance")));
    assert!(persistence.left[0].reason.contains("has a policy script already"), "{:?}", persistence.left);
}

#[test]
fn an_intent_finds_the_interface_again_under_other_numbers_and_another_name() {
    let mut facts = host();
    let keeps = keeps(&facts, Some(Strategy::Spread), None);
    let persistence = persistence(&keeps, &facts, &all());
    let text = &persistence.files.iter().find(|file| file.path.ends_with("tune.json")).unwrap().text;
    let intent = intent::Intent::parse(text).unwrap();
    assert_eq!(intent.plan(&facts).changes.len(), keeps.len());
    facts.nics[0].name = "ens5".into();
    for irq in &mut facts.interrupts {
        irq.irq += 100;
        irq.device = Some("ens5".into());
        irq.name = irq.name.replace("eth0", "ens5");
    }
    let again = intent.plan(&facts);
    assert_eq!(again.changes.len(), keeps.len(), "{again:?}");
    assert!(again.changes.iter().all(|change| change.setting.irq() >= Some(140)));
    facts.nics[0].driver = Some("gve".into());
    let refused = intent.plan(&facts);
    assert_eq!(refused.changes, []);
    assert_eq!(
        refused.refusals[0].reason,
        "the interface at 0000:00:05.0 has the driver gve now, and had ena"
    );
    facts.nics.clear();
    assert_eq!(intent.plan(&facts).refusals[0].reason, "there is no interface at 0000:00:05.0");
    assert!(intent::Intent::parse(&text.replace("\"version\": 1", "\"version\": 9")).is_err());
}

#[test]
fn chosen_cpus_are_chosen_again_at_boot_and_no_others_if_they_are_gone() {
    let mut facts = host();
    let choice = Choice { irq_cpus: Some("6-7".parse().unwrap()), cpus: None };
    let asked = PlanRequest { strategy: Some(Strategy::Spread), choice, ..PlanRequest::default() };
    let keeps: Vec<Keep> = plan(&facts, &asked).changes.iter().map(Keep::from).collect();
    let persistence = check(&keeps, &facts, &all(), &[("/etc/evenkeel/tune.json", "\"irq_cpus\": \"6-7\"")]);
    let text = &persistence.files.iter().find(|file| file.path.ends_with("tune.json")).unwrap().text;
    let intent = intent::Intent::parse(text).unwrap();
    let affinities = |plan: &plan::Plan| {
        let of_irqs = plan.changes.iter().filter(|change| change.setting.irq().is_some());
        of_irqs.map(|change| change.wanted.clone()).collect::<Vec<_>>()
    };
    assert_eq!(affinities(&intent.plan(&facts)), ["40", "80"]);
    facts.cpus[7].online = false;
    let refused = intent.plan(&facts);
    assert_eq!(refused.changes, []);
    assert_eq!(refused.refusals[0].reason, "--irq-cpus names CPUs 7; those in use are 0-6");
}

#[test]
fn irqbalance_that_asks_the_script_keeps_nobody_from_placing_interrupts_at_boot() {
    let mut facts = host();
    let keeps = keeps(&facts, Some(Strategy::Spread), None);
    let planned = |here: &HostMeans, facts: &Facts| {
        let persistence = persistence(&keeps, facts, here);
        let text = &persistence.files.iter().find(|file| file.path.ends_with("tune.json")).unwrap().text;
        intent::Intent::parse(text).unwrap().plan(facts)
    };
    facts.agents = vec![Agent { name: "irqbalance".into(), pid: Some(7), ..Agent::default() }];
    let affinities =
        |plan: &plan::Plan| plan.changes.iter().filter(|change| change.stage == Stage::Affinity).count();
    let told = planned(&all(), &facts);
    assert_eq!((affinities(&told), told.changes.len()), (keeps.len(), keeps.len()), "{told:?}");
    // Otherwise it is banned first, or the strategy refuses.
    let untold = planned(&HostMeans { policy: Some("/etc/default/irqbalance".into()), ..all() }, &facts);
    assert!(affinities(&untold) == 0 || untold.changes.len() > affinities(&untold), "{untold:?}");
}

#[test]
fn queues_are_set_by_a_link_file() {
    let facts = host();
    let setting = Setting::Device { nic: "eth0".into(), knob: crate::observe::ethtool::Knob::Channels };
    let keep = Keep { setting, wanted: "combined=2".into(), why: String::new(), asked_by: "somebody".into() };
    let files = check(
        std::slice::from_ref(&keep),
        &facts,
        &all(),
        &[(
            "/etc/systemd/network/00-evenkeel-0000-00-05.0.link",
            "[Match]\n# Its place on the bus; what stands on it (VLAN, bond) has none.\nPath=*pci-0000:00:05.0\n",
        )],
    );
    assert_eq!((files.files.len(), files.left.len()), (1, 0));
    let others = ordered::Ordered {
        name: "10-x.link".into(),
        path: "/etc/systemd/network/10-x.link".into(),
        text: "[Match]\nHost=x".into(),
    };
    let left = persistence(&[keep], &facts, &HostMeans { links: vec![others], ..all() }).left;
    assert!(left[0].reason.contains("/etc/systemd/network/10-x.link may be meant for it"), "{left:?}");
}

#[test]
fn at_boot_queues_come_first_and_the_rest_is_planned_with_them() {
    let mut facts = host();
    let interrupts = facts.interrupts.len();
    (facts.nics[0].channels, facts.nics[0].channels_max) = (Some(2), Some(4));
    let asked = PlanRequest { strategy: Some(Strategy::Queues), whole: true, ..PlanRequest::default() };
    let keeps: Vec<Keep> = plan(&facts, &asked).changes.iter().map(Keep::from).collect();
    let intent = |here: &HostMeans| {
        let persistence = persistence(&keeps, &facts, here);
        let file = persistence.files.into_iter().find(|file| file.path.ends_with("tune.json"));
        intent::Intent::parse(&file.unwrap().text).unwrap()
    };
    let stages =
        |plan: plan::Plan| -> Vec<Stage> { plan.changes.iter().map(|change| change.stage).collect() };
    let alone = intent(&HostMeans { program: "/usr/bin/evenkeel".into(), ..HostMeans::default() });
    assert_eq!(stages(alone.plan(&facts)), [Stage::Queues]);
    assert_eq!(stages(alone.rest(&facts)), vec![Stage::Affinity; interrupts]);
    // A .link file makes the queues; if it has not, the interrupts that there are have their places all the same.
    let beside_a_link = intent(&all());
    assert_eq!(stages(beside_a_link.plan(&facts)), vec![Stage::Affinity; interrupts]);
}

#[test]
fn longer_rings_are_not_left_to_a_strategy_that_doubles_them() {
    let facts = host();
    let setting = Setting::Device { nic: "eth0".into(), knob: crate::observe::ethtool::Knob::Rings };
    let keep = Keep { setting, wanted: "rx=4096".into(), why: String::new(), asked_by: "rings".into() };
    let left = persistence(&[keep], &facts, &HostMeans::default()).left;
    assert!(left[0].reason.contains("call `ethtool -G eth0 rx 4096` at the start"), "{left:?}");
}

#[test]
fn real_time_is_a_drop_in_that_keeps_off_the_cpus_with_interrupts() {
    let mut facts = host();
    facts.interrupts.iter_mut().for_each(|irq| irq.affinity = [0, 1].into_iter().collect());
    let keeps = keeps(&facts, Some(Strategy::SchedFifo), None);
    assert_eq!(keeps.len(), 1);
    let persistence = check(
        &keeps,
        &facts,
        &all(),
        &[(
            "/etc/systemd/system/memcached.service.d/50-evenkeel.conf",
            "CPUSchedulingPolicy=fifo\nCPUSchedulingPriority=1\n# The other CPUs take interrupts, which these threads would starve.\nCPUAffinity=2-7\n",
        )],
    );
    assert_eq!(persistence.files.len(), 1);
    let mut more = facts.clone();
    more.services[0].threads.push(Thread { tid: 813, ..Thread::default() });
    let some = super::persistence(&keeps, &more, &all());
    assert_eq!(some.files, []);
    assert!(some.left[0].reason.contains("starts all threads of memcached alike"), "{some:?}");
    facts.services[0].unit = Some("session-1.scope".into());
    let persistence = super::persistence(&keeps, &facts, &all());
    assert_eq!((persistence.files.len(), persistence.left.len()), (0, 1));
}

#[test]
fn turns_are_given_again_whenever_the_service_starts() {
    let facts = host();
    let keeps = keeps(&facts, Some(Strategy::SchedSlice), None);
    check(
        &keeps,
        &facts,
        &all(),
        &[
            (
                "/etc/systemd/system/evenkeel-tune.service",
                "After=memcached.service\nPartOf=memcached.service\n",
            ),
            ("/etc/systemd/system/memcached.service.d/51-evenkeel.conf", "Wants=evenkeel-tune.service"),
            ("/etc/evenkeel/tune.json", "\"service\": \"memcached\""),
        ],
    );
}

#[test]
fn without_systemd_and_udev_the_intent_is_what_is_left() {
    let facts = host();
    let here = HostMeans { program: "/usr/bin/evenkeel".into(), ..HostMeans::default() };
    assert_eq!(here.gaps().len(), 3);
    for (strategy, profile, count) in [
        (Some(Strategy::RpsRfs), None, 5),
        (Some(Strategy::Defer50), None, 2),
        (None, Some(Profile::Redis), 3),
    ] {
        let keeps = keeps(&facts, strategy, profile);
        let persistence = persistence(&keeps, &facts, &here);
        let [file] = persistence.files.as_slice() else { panic!("{persistence:?}") };
        let planned = intent::Intent::parse(&file.text).unwrap().plan(&facts).changes;
        assert_eq!((keeps.len(), planned.len()), (count, count), "{strategy:?} {profile:?}");
        assert!(persistence.left[0].reason.contains("call `/usr/bin/evenkeel tune apply --intent"));
    }
}

#[test]
fn what_cannot_be_found_again_or_written_safely_is_left_and_named() {
    let facts = host();
    #[track_caller]
    fn check(facts: &Facts, keep: Keep, reason: &str) {
        let persistence = persistence(&[keep], facts, &all());
        assert!(persistence.files.is_empty(), "{persistence:?}");
        assert!(persistence.left[0].reason.contains(reason), "{:?}", persistence.left);
    }
    check(&facts, one("/proc/irq/40/smp_affinity", "1"), "use --strategy");
    check(&facts, one("/proc/irq/999/smp_affinity", "1"), "of no interface");
    check(&facts, one("/sys/class/net/eth9/gro_flush_timeout", "1"), "no interface eth9");
    check(&facts, one("/proc/sys/vm/swappiness", "1\nkernel.panic = 1"), "characters");
    check(&facts, one("/sys/class/net/eth0/x\"y", "1"), "characters");
    check(&facts, one("/sys/kernel/debug/x", "1"), "nothing is known");
}

#[test]
fn a_reason_cannot_break_out_of_its_comment() {
    let facts = host();
    let mut keep = one("/proc/sys/vm/swappiness", "1");
    keep.why = "so\nkernel.panic = 1 \\".into();
    let persistence = check(&[keep], &facts, &all(), &[]);
    assert_eq!(sysctls(&persistence.files[0].text).len(), 1, "{persistence:?}");
}

#[test]
fn what_a_program_asks_for_itself_is_left_to_its_flags() {
    let socket = crate::observe::listening::ListenerHandle {
        pid: 8,
        started: 1,
        inode: 2,
        address: "0.0.0.0:11211".into(),
    };
    let setting = Setting::Listener { socket, limit: crate::observe::listening::QueueLimit::Backlog };
    let keep =
        Keep { setting, wanted: "4096".into(), why: String::new(), asked_by: "profile generic".into() };
    let left = persistence(&[keep], &host(), &all()).left;
    assert!(left[0].reason.contains("whose own flag keeps it (memcached: -b"), "{left:?}");
}
