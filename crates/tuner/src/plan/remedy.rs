//! Remedies that one setting achieves.
//!
//! Pure, like [`strategy`](crate::plan::strategy) and [`profile`](crate::plan::profile), which have the reasons.

use crate::diagnose::finding::Finding;
use crate::diagnose::rules::{Remedy, clock_better};
use crate::observe::facts::{Disk, Facts};
use crate::plan::change::{Risk, Setting, Stage};
use crate::plan::profile::{
    DIRTY, DIRTY_BACKGROUND, HUGE_PAGES, Profile, SWAPPINESS, Sysctl, Want, scheduler, set,
};
use crate::plan::proposal::{ProposedChanges, Reason};
use crate::plan::signal::{ExpectedSignals, Figure, Moves};
use crate::plan::strategy::Strategy;

/// The kernel's default of `read_ahead_kb`.
const READ_AHEAD_KB: u32 = 128;
/// A longer backlog than this only delays packets that will be dropped: at 100,000 packets per second it holds a
/// third of a
/// second (proposal).
const BACKLOG_MAX: u64 = 32_768;

/// The strategy behind a remedy, if it is one.
pub(super) fn strategy(remedy: Remedy) -> Option<Strategy> {
    match remedy {
        Remedy::Queues => Some(Strategy::Queues),
        Remedy::Rings => Some(Strategy::Rings),
        Remedy::Spread => Some(Strategy::Spread),
        Remedy::Xps => Some(Strategy::Xps),
        Remedy::FewerInterrupts => Some(Strategy::Defer50),
        Remedy::Turns => Some(Strategy::SchedSlice),
        Remedy::Steering | Remedy::Resteering | Remedy::Flows => Some(Strategy::RpsRfs),
        _ => None,
    }
}

/// The profile behind a remedy, if it is one.
pub(super) fn profile(remedy: Remedy) -> Option<Profile> {
    match remedy {
        Remedy::Limits | Remedy::AcceptQueue => Some(Profile::Generic),
        Remedy::FastOpen => Some(Profile::Memcached),
        _ => None,
    }
}

pub(crate) fn swappiness(facts: &Facts) -> ProposedChanges {
    sysctls(facts, &[SWAPPINESS])
}

pub(crate) fn dirty_pages(facts: &Facts) -> ProposedChanges {
    sysctls(facts, &[DIRTY_BACKGROUND, DIRTY])
}

fn sysctls(facts: &Facts, wanted: &[Sysctl]) -> ProposedChanges {
    let mut proposed = ProposedChanges::default();
    wanted.iter().for_each(|sysctl| set(&mut proposed, facts, sysctl));
    proposed
}

/// Twice the backlog: if packets are still dropped then, bursts are not the cause.
pub(crate) fn backlog(facts: &Facts) -> ProposedChanges {
    const NAME: &str = "net.core.netdev_max_backlog";
    let mut proposed = ProposedChanges::default();
    match facts.sysctl(NAME) {
        Some(now) if now < BACKLOG_MAX => set(
            &mut proposed,
            facts,
            &Sysctl { name: NAME, want: Want::AtLeast((now * 2).min(BACKLOG_MAX)), reason: LONGER_BACKLOG },
        ),
        Some(now) => proposed.refuse(
            "kernel",
            format!("{NAME} is {now}: a longer queue would only delay packets, spread them over more CPUs"),
        ),
        None => proposed.refuse("kernel", format!("{NAME} cannot be read")),
    }
    proposed
}

/// Huge pages for programs that ask for them, and no pauses to make them for the others.
pub(crate) fn huge_pages(facts: &Facts) -> ProposedChanges {
    let mut proposed = ProposedChanges::default();
    for (name, now) in [("enabled", &facts.huge_pages.enabled), ("defrag", &facts.huge_pages.defrag)] {
        if let Some(now) = now.as_ref().filter(|now| *now == "always") {
            let setting = Setting::choice(format!("/sys/kernel/mm/transparent_hugepage/{name}"));
            proposed.propose(Stage::Memory, setting, now.clone(), "madvise".into(), HUGE_PAGES);
        }
    }
    proposed
}

pub(crate) fn io_scheduler(facts: &Facts, finding: &Finding) -> ProposedChanges {
    let mut proposed = ProposedChanges::default();
    disk(facts, finding).into_iter().for_each(|disk| scheduler(&mut proposed, disk));
    proposed
}

pub(crate) fn io_merges(facts: &Facts, finding: &Finding) -> ProposedChanges {
    let now = |disk: &Disk| disk.nomerges;
    of_disk(facts, finding, "nomerges", now, 2, NO_MERGES)
}

pub(crate) fn read_ahead(facts: &Facts, finding: &Finding) -> ProposedChanges {
    let now = |disk: &Disk| disk.read_ahead_kb;
    of_disk(facts, finding, "read_ahead_kb", now, READ_AHEAD_KB, LESS_AHEAD)
}

fn of_disk(
    facts: &Facts,
    finding: &Finding,
    name: &str,
    now: fn(&Disk) -> Option<u32>,
    wanted: u32,
    reason: Reason,
) -> ProposedChanges {
    let mut proposed = ProposedChanges::default();
    if let Some((disk, now)) = disk(facts, finding).and_then(|disk| Some((disk, now(disk)?))) {
        let setting = Setting::number(format!("/sys/block/{}/queue/{name}", disk.name));
        proposed.propose(Stage::Disk, setting, now.to_string(), wanted.to_string(), reason);
    }
    proposed
}

fn disk<'f>(facts: &'f Facts, finding: &Finding) -> Option<&'f Disk> {
    facts.disks.iter().find(|disk| disk.name == finding.subject)
}

pub(crate) fn clock(facts: &Facts) -> ProposedChanges {
    let mut proposed = ProposedChanges::default();
    if let (Some(now), Some(better)) = (&facts.clock_source.current, clock_better(&facts.clock_source)) {
        let setting = Setting::choice("/sys/devices/system/clocksource/clocksource0/current_clocksource");
        proposed.propose(Stage::Sysctl, setting, now.clone(), better.into(), FAST_CLOCK);
    }
    proposed
}

const LONGER_BACKLOG: Reason = Reason {
    why: "bursts of steered packets wait here for their CPU; what does not fit is dropped",
    risk: Risk::Low,
    signal: &[ExpectedSignals::words("softnet_stat dropped stands still")],
};
const NO_MERGES: Reason = Reason {
    why: "random requests have no neighbours, and the search for them costs CPU for each",
    risk: Risk::Low,
    signal: &[
        ExpectedSignals::figure(Figure::DiskWait, Moves::DoesNotRise),
        ExpectedSignals::words("CPU time per request falls"),
    ],
};
const LESS_AHEAD: Reason = Reason {
    why: "a database reads pages at random, and what is read ahead of them takes bandwidth and cache",
    risk: Risk::Moderate,
    signal: &[ExpectedSignals::figure(Figure::DiskWait, Moves::Falls)],
};
const FAST_CLOCK: Reason = Reason {
    why: "programs read this clock without a system call (vDSO)",
    risk: Risk::Moderate,
    signal: &[ExpectedSignals::words(
        "CPU time in the kernel falls, and the kernel's log does not call the clock unstable",
    )],
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose::finding::Severity;
    use crate::observe::shapes::{ENA, Shape};

    fn host() -> Facts {
        let mut facts = Facts::default();
        facts.sysctls.insert("net.core.netdev_max_backlog".into(), "1000".into());
        facts.huge_pages.enabled = Some("always".into());
        facts.huge_pages.defrag = Some("always".into());
        facts.clock_source.current = Some("xen".into());
        facts.clock_source.available = vec!["xen".into(), "tsc".into(), "hpet".into()];
        let disk = |name: &str| Disk {
            name: name.into(),
            nomerges: Some(0),
            read_ahead_kb: Some(4096),
            ..Disk::default()
        };
        facts.disks = vec![disk("sda"), disk("nvme0n1")];
        facts
    }

    fn about(subject: &str) -> Finding {
        Finding::about(Severity::Note, subject)
    }

    #[track_caller]
    fn check(proposed: ProposedChanges, wanted: &[&str]) {
        let said = proposed.changes.iter().map(|change| {
            let path = change.setting.to_string();
            let place: Vec<&str> = path.rsplit('/').take(3).collect();
            format!(
                "{} {} → {}",
                place.into_iter().rev().collect::<Vec<_>>().join("/"),
                change.now,
                change.wanted
            )
        });
        assert_eq!(said.collect::<Vec<_>>(), wanted);
    }

    #[test]
    fn one_setting_each() {
        check(backlog(&host()), &["net/core/netdev_max_backlog 1000 → 2000"]);
        check(
            huge_pages(&host()),
            &[
                "mm/transparent_hugepage/enabled always → madvise",
                "mm/transparent_hugepage/defrag always → madvise",
            ],
        );
        check(io_merges(&host(), &about("nvme0n1")), &["nvme0n1/queue/nomerges 0 → 2"]);
        check(read_ahead(&host(), &about("sda")), &["sda/queue/read_ahead_kb 4096 → 128"]);
        check(read_ahead(&host(), &about("sdz")), &[]);
        check(clock(&host()), &["clocksource/clocksource0/current_clocksource xen → tsc"]);
    }

    #[test]
    fn queues_say_what_they_cost() {
        let mut facts = host();
        facts.cpus = Shape { cpus: 4, threads: 1, nodes: 1, queues: 1, irqs: ENA }.facts().cpus;
        let proposed = backlog(&facts);
        let why = &proposed.changes[0].why;
        // 2,000 packets of 2,304 bytes for each of 4 CPUs.
        assert!(why.ends_with("; when full it takes up to 18 MiB of memory"), "{why}");
        facts.sysctls.insert("net.core.somaxconn".into(), "128".into());
        let proposed = Profile::Generic.limits(&facts);
        let whys = proposed.changes.iter().filter(|change| change.why.contains("up to 10 MiB of memory"));
        assert_eq!(whys.count(), 1, "{proposed:?}");
    }

    #[test]
    fn a_backlog_is_not_made_longer_without_end() {
        let mut facts = host();
        facts.sysctls.insert("net.core.netdev_max_backlog".into(), "32768".into());
        let proposed = backlog(&facts);
        assert_eq!((proposed.changes.len(), proposed.refusals.len()), (0, 1));
    }
}
