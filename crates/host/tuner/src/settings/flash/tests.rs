//! The profile on hosts with tiers on partitions, arrays, volumes and disks that turn.

use crate::observe::cpu_model::CpuModel;
use crate::observe::facts::{BlockDevice, Facts, Interrupt, Mount, Raid, Service, ServiceKind};
use crate::observe::shapes::{ENA, Shape};
use crate::settings::change::Change;
use crate::settings::profile::Profile;
use crate::settings::proposal::ProposedChanges;
use crate::settings::scope::Scope;
use os::CpuSet;

fn disk(name: &str) -> BlockDevice {
    BlockDevice {
        name: name.into(),
        scheduler: Some("mq-deadline".into()),
        schedulers: vec!["none".into(), "mq-deadline".into()],
        nomerges: Some(0),
        read_ahead_kb: Some(128),
        rq_affinity: Some(1),
        partitions: vec![format!("{name}p1")],
        ..BlockDevice::default()
    }
}

/// An array of these disks or partitions, without a choice of schedulers.
fn array(below: &[&str]) -> BlockDevice {
    BlockDevice {
        name: "md0".into(),
        nomerges: Some(0),
        read_ahead_kb: Some(1024),
        raid: Some(Raid { level: "raid0".into(), disks: 2, chunk_bytes: 512 << 10, degraded: 0 }),
        below: below.iter().map(|name| (*name).to_owned()).collect(),
        ..BlockDevice::default()
    }
}

/// Four CPUs, and these disks.
fn host(disks: Vec<BlockDevice>) -> Facts {
    let mut facts = Shape { cpus: 4, threads: 1, nodes: 1, queues: 1, irqs: ENA }.facts();
    facts.disks = disks;
    facts
}

/// A server with its tier at this path.
fn serving(mut facts: Facts, kind: ServiceKind, path: &str) -> Facts {
    facts.services.push(Service { pid: 7, kind, data: vec![path.into()], ..Service::default() });
    facts
}

fn mounted(mut facts: Facts, device: &str, path: &str) -> Facts {
    facts.mounts.push(Mount { device: device.into(), path: path.into(), ..Mount::default() });
    facts
}

/// With this number of managed queues of nvme0n1, each taken by the CPU of its number.
fn queues(mut facts: Facts, queues: u32) -> Facts {
    let interrupt = |queue: u32| Interrupt {
        irq: 100 + queue,
        device: Some("nvme0n1".into()),
        effective: CpuSet::from_iter([queue]),
        managed: true,
        ..Interrupt::default()
    };
    facts.interrupts = (0..queues).map(interrupt).collect();
    facts
}

fn proposed(facts: &Facts) -> ProposedChanges {
    proposed_for(facts, &[])
}

fn proposed_for(facts: &Facts, named_disks: &[String]) -> ProposedChanges {
    let model = CpuModel::of(facts);
    let scope = Scope { kinds: Profile::Flash.kinds(), named_disks, ..Scope::all(&model, &[]) };
    ProposedChanges::of(Profile::Flash.asked_by(), Profile::Flash.settings(), &scope)
}

/// The changes that are due: `nvme0n1 nomerges 2`.
#[track_caller]
fn check(facts: &Facts, wanted: &[&str]) {
    let due = proposed(facts).changes.into_iter().filter(Change::is_due);
    let said = due.map(|change| {
        let path = change.setting.to_string();
        let parts: Vec<&str> = path.split('/').collect();
        format!("{} {} {}", parts[3], parts[5], change.wanted)
    });
    assert_eq!(said.collect::<Vec<_>>(), wanted);
}

/// How often an advice begins with these words.
#[track_caller]
fn check_advice(facts: &Facts, beginning: &str, times: usize) {
    let advice = proposed(facts).advice;
    let found = advice.iter().filter(|advice| advice.starts_with(beginning)).count();
    assert_eq!(found, times, "{beginning}: {advice:?}");
}

#[test]
fn only_the_disk_of_the_tier_is_changed() {
    let disks = || host(vec![disk("nvme0n1"), disk("nvme1n1")]);
    let on_partition = serving(disks(), ServiceKind::Evenkeel, "/dev/nvme1n1p1");
    check(&on_partition, &["nvme1n1 scheduler none", "nvme1n1 nomerges 2"]);
    check_advice(&on_partition, "check that", 0);
    let on_mount = mounted(mounted(disks(), "/dev/nvme0n1p1", "/"), "/dev/nvme1n1p1", "/flash");
    let on_mount = serving(on_mount, ServiceKind::Evenkeel, "/flash/tier");
    check(&on_mount, &["nvme1n1 scheduler none", "nvme1n1 nomerges 2"]);
}

#[test]
fn without_a_server_all_disks_that_do_not_turn_are_meant_and_named() {
    let facts = host(vec![disk("nvme0n1"), BlockDevice { rotational: true, ..disk("sda") }]);
    check(&facts, &["nvme0n1 scheduler none", "nvme0n1 nomerges 2"]);
    check_advice(&facts, "check that nvme0n1 are for a flash tier: no server", 1);
    // A server of another kind, or one without a tier, has no say.
    let facts = serving(facts, ServiceKind::Mysql, "/dev/sda");
    check(&facts, &["nvme0n1 scheduler none", "nvme0n1 nomerges 2"]);
}

#[test]
fn the_disks_that_are_named_are_meant_whatever_servers_use() {
    let facts = host(vec![array(&["nvme0n1"]), disk("nvme0n1"), disk("nvme1n1"), disk("nvme2n1")]);
    let facts = serving(facts, ServiceKind::Evenkeel, "/dev/nvme2n1");
    let named = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let proposed = proposed_for(&facts, &names);
        let merges = proposed.changes.iter().map(|change| change.setting.to_string());
        let merges =
            merges.filter_map(|path| Some(path.strip_suffix("/queue/nomerges")?.replace("/sys/block/", "")));
        (
            merges.collect::<Vec<_>>().join(" "),
            proposed.refusals.first().map(|refusal| refusal.reason.clone()),
        )
    };
    assert_eq!(named(&["md0", "/dev/nvme1n1p1"]), ("nvme0n1 nvme1n1".into(), None));
    assert_eq!(named(&["sdz"]), (String::new(), Some("there is no such disk".into())));
}

#[test]
fn little_is_read_ahead_where_reads_go_through_the_page_cache() {
    let disks = || mounted(host(vec![disk("nvme0n1")]), "/dev/nvme0n1", "/flash");
    check(
        &serving(disks(), ServiceKind::Memcached, "/flash/tier"),
        &["nvme0n1 scheduler none", "nvme0n1 nomerges 2", "nvme0n1 read_ahead_kb 16"],
    );
    let mut small = serving(disks(), ServiceKind::Memcached, "/flash/tier");
    small.disks[0].read_ahead_kb = Some(8);
    check(&small, &["nvme0n1 scheduler none", "nvme0n1 nomerges 2"]);
}

#[test]
fn requests_are_settled_at_the_disks_below_an_array_and_reading_ahead_at_the_array() {
    let facts =
        host(vec![array(&["nvme0n1", "nvme1n1p1"]), disk("nvme0n1"), disk("nvme1n1"), disk("nvme2n1")]);
    let facts = serving(mounted(facts, "/dev/md0", "/flash"), ServiceKind::Memcached, "/flash/tier");
    check(
        &facts,
        &[
            "nvme0n1 scheduler none",
            "nvme1n1 scheduler none",
            "nvme0n1 nomerges 2",
            "nvme1n1 nomerges 2",
            "md0 read_ahead_kb 16",
        ],
    );
    check_advice(&facts, "make md0 anew", 0);
    let mut small = facts;
    small.disks[0].raid.as_mut().unwrap().chunk_bytes = 4 << 10;
    check_advice(&small, "make md0 anew with chunks of 64 KiB or more", 1);
}

#[test]
fn a_volume_is_found_by_its_name() {
    let volume = BlockDevice {
        name: "dm-0".into(),
        below: vec!["nvme0n1p1".into()],
        mapped: Some("data-flash".into()),
        ..BlockDevice::default()
    };
    let facts =
        mounted(host(vec![volume, disk("nvme0n1"), disk("nvme1n1")]), "/dev/mapper/data-flash", "/flash");
    check(
        &serving(facts, ServiceKind::Evenkeel, "/flash/tier"),
        &["nvme0n1 scheduler none", "nvme0n1 nomerges 2"],
    );
}

#[test]
fn a_tier_on_a_disk_that_turns_is_refused() {
    let facts = host(vec![BlockDevice { rotational: true, ..disk("sda") }, disk("nvme0n1")]);
    let facts = serving(facts, ServiceKind::Memcached, "/dev/sda");
    check(&facts, &[]);
    assert!(proposed(&facts).refusals.iter().all(|refusal| refusal.subject == "sda"));
    check(&host(vec![]), &[]);
    assert_eq!(proposed(&host(vec![])).refusals[0].reason, "there is none that does not turn");
}

#[test]
fn the_scheduler_of_other_disks_than_nvme_is_a_matter_of_judgement() {
    let facts = host(vec![disk("sda")]);
    check(&facts, &["sda nomerges 2"]);
    check_advice(&facts, "compare `none` with mq-deadline for sda", 1);
    check_advice(
        &host(vec![BlockDevice { scheduler: Some("bfq".into()), ..disk("sda") }]),
        "choose mq-deadline or none for sda, not bfq",
        1,
    );
    let none = host(vec![BlockDevice { scheduler: Some("none".into()), ..disk("sda") }]);
    check_advice(&none, "compare", 0);
}

#[test]
fn managed_interrupts_are_told_and_not_changed() {
    let facts = |count| queues(host(vec![disk("nvme0n1")]), count);
    check(&facts(4), &["nvme0n1 scheduler none", "nvme0n1 nomerges 2"]);
    check_advice(&facts(4), "leave the interrupts of nvme0n1 alone", 1);
    let compare = "let the server run on CPUs 0-1, which take the interrupts of nvme0n1, or compare queue/rq_affinity 2";
    check_advice(&facts(2), compare, 1);
    let mut completes_there = facts(2);
    completes_there.disks[0].rq_affinity = Some(2);
    check_advice(
        &completes_there,
        "let the server run on CPUs 0-1, which take the interrupts of nvme0n1: 2 queues",
        1,
    );
}

#[test]
fn polling_and_write_caches_are_told_and_not_changed() {
    let polled =
        BlockDevice { io_poll: Some(true), write_cache: Some("write back".into()), ..disk("nvme0n1") };
    let facts =
        host(vec![polled, BlockDevice { write_cache: Some("write through".into()), ..disk("nvme1n1") }]);
    check_advice(&facts, "take nvme.poll_queues out of the boot line, unless others poll nvme0n1:", 1);
    check_advice(&facts, "leave queue/write_cache of nvme0n1 at", 1);
}
