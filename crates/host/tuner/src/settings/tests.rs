//! Settings one by one, as findings ask for them.

use super::change::Change;
use super::proposal::{Propose, ProposedChanges};
use super::scope::{FindingSubject, Scope};
use super::{clock, disks, memory, sysctls};
use crate::observe::cpu_model::CpuModel;
use crate::observe::facts::{BlockDevice, Facts};
use crate::observe::shapes::{ENA, Shape};

fn host() -> Facts {
    let mut facts = Facts::default();
    facts.sysctls.insert("net.core.netdev_max_backlog".into(), "1000".into());
    facts.huge_pages.enabled = Some("always".into());
    facts.huge_pages.defrag = Some("always".into());
    facts.clock_source.current = Some("xen".into());
    facts.clock_source.available = vec!["xen".into(), "tsc".into(), "hpet".into()];
    let disk = |name: &str| BlockDevice {
        name: name.into(),
        nomerges: Some(0),
        read_ahead_kb: Some(4096),
        ..BlockDevice::default()
    };
    facts.disks = vec![disk("sda"), disk("nvme0n1")];
    facts
}

fn proposed(facts: &Facts, subject: &str, settings: &[Propose]) -> ProposedChanges {
    let model = CpuModel::of(facts);
    let finding = Some(FindingSubject { name: subject, is_note: false });
    ProposedChanges::of("", settings, &Scope { finding, ..Scope::all(&model, &[]) })
}

#[track_caller]
fn check(subject: &str, settings: &[Propose], wanted: &[&str]) {
    let said = |change: &Change| {
        let path = change.setting.to_string();
        let place: Vec<&str> = path.rsplit('/').take(3).collect();
        let place = place.into_iter().rev().collect::<Vec<_>>().join("/");
        format!("{place} {} → {}", change.now, change.wanted)
    };
    let proposed = proposed(&host(), subject, settings);
    assert_eq!(proposed.changes.iter().map(said).collect::<Vec<_>>(), wanted);
}

#[test]
fn one_setting_each() {
    check("kernel", &[sysctls::netdev_backlog], &["net/core/netdev_max_backlog 1000 → 2000"]);
    check(
        "memory",
        &[memory::huge_pages_on_request, memory::compaction_on_request],
        &[
            "mm/transparent_hugepage/enabled always → madvise",
            "mm/transparent_hugepage/defrag always → madvise",
        ],
    );
    check("nvme0n1", &[disks::no_merges], &["nvme0n1/queue/nomerges 0 → 2"]);
    check("sda", &[disks::less_read_ahead], &["sda/queue/read_ahead_kb 4096 → 128"]);
    check("sdz", &[disks::less_read_ahead], &[]);
    check("clock source", &[clock::fast], &["clocksource/clocksource0/current_clocksource xen → tsc"]);
}

#[test]
fn queues_say_what_they_cost() {
    let mut facts = host();
    facts.cpus = Shape { cpus: 4, threads: 1, nodes: 1, queues: 1, irqs: ENA }.facts().cpus;
    let why = &proposed(&facts, "kernel", &[sysctls::netdev_backlog]).changes[0].why;
    // 2,000 packets of 2,304 bytes for each of 4 CPUs.
    assert!(why.ends_with("; when full it takes up to 18 MiB of memory"), "{why}");
    facts.sysctls.insert("net.core.somaxconn".into(), "128".into());
    let proposed = proposed(&facts, "net.core.somaxconn", &[sysctls::accept_queues]);
    let whys = proposed.changes.iter().filter(|change| change.why.contains("up to 10 MiB of memory"));
    assert_eq!(whys.count(), 1, "{proposed:?}");
}

#[test]
fn a_backlog_is_not_made_longer_without_end() {
    let mut facts = host();
    facts.sysctls.insert("net.core.netdev_max_backlog".into(), "32768".into());
    let proposed = proposed(&facts, "kernel", &[sysctls::netdev_backlog]);
    assert_eq!((proposed.changes.len(), proposed.refusals.len()), (0, 1));
}
