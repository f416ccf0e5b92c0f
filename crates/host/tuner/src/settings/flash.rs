//! Disks of a flash tier (`-o ext_path`): scheduler, merging, reading ahead, and advice on what no setting changes.
//!
//! A tier reads single pages at random, and writes pieces of a megabyte or more. Its disks are those that carry the
//! files and devices of running servers, or those that were named; without such a server, those that do not turn. Of an array or a logical volume,
//! requests are settled at the disks below, and reading ahead at the device that files lie on.

use std::collections::BTreeSet;

use crate::observe::facts::{BlockDevice, Facts, ServiceKind};
use crate::settings::change::Risk;
use crate::settings::disks;
use crate::settings::proposal::{ProposedChanges, Reason};
use crate::settings::scope::Scope;
use crate::settings::signal::{ExpectedSignals, Figure, Moves};
use os::CpuSet;

/// Four pages: an item of some KiB that does not begin on a page, and no more (proposal).
const READ_AHEAD_KB: u32 = 16;
/// The power of two above the longest read of Evenkeel that is not of a large value alone, nine pages: so few reads
/// cross the end of a chunk.
const CHUNK_MIN_BYTES: u64 = 64 << 10;
/// Arrays of arrays and volumes on them; deeper ones do not occur, and a circle would not end.
const LAYERS_MAX: usize = 8;
/// `rq_affinity`: a request completes on the CPU that asked for it.
const ON_ASKING_CPU: u32 = 2;

const NO_MERGES: Reason = Reason {
    why: "a flash tier reads single pages at random, which have no neighbours, and writes long pieces: 2 leaves out the search that each request pays for (queue-sysfs.rst)",
    risk: Risk::Low,
    signal: &[
        ExpectedSignals::figure(Figure::DiskWait, Moves::DoesNotRise),
        ExpectedSignals::words("CPU time per request falls"),
    ],
};
const LITTLE_AHEAD: Reason = Reason {
    why: "memcached reads its tier through the page cache, and pages ahead of a random read take bandwidth and memory; direct reads (O_DIRECT, as Evenkeel's) know no reading ahead",
    risk: Risk::Moderate,
    signal: &[ExpectedSignals::figure(Figure::DiskWait, Moves::DoesNotRise)],
};

/// A flash tier's devices, each once.
struct Tier<'a> {
    /// Devices that the files lie on, or that were named.
    top: Vec<&'a BlockDevice>,
    /// Disks that take the requests: without a device below.
    disks: Vec<&'a BlockDevice>,
    /// Whether servers or the user named them.
    is_known: bool,
}

/// No I/O scheduler for NVMe; for others, advice where they have one that costs more.
pub(crate) fn scheduler(proposed: &mut ProposedChanges, scope: &Scope) {
    for disk in Tier::of(proposed, scope).disks {
        if disk.name.starts_with("nvme") {
            disks::take_scheduler(proposed, disk);
            continue;
        }
        let Some(now) = disk.scheduler.as_deref().filter(|now| *now != "none") else { continue };
        let name = &disk.name;
        proposed.advice.push(match now {
            "mq-deadline" => format!(
                "compare `none` with mq-deadline for {name}: it costs less CPU, but where the device has one queue, mq-deadline lets reads go before writes"
            ),
            _ => format!("choose mq-deadline or none for {name}, not {now}: it orders requests that have no better order"),
        });
    }
}

/// No search for neighbours of requests.
pub(crate) fn merges(proposed: &mut ProposedChanges, scope: &Scope) {
    let tier = Tier::of(proposed, scope);
    tier.disks.iter().for_each(|disk| disks::merge_nothing(proposed, disk, NO_MERGES));
}

/// Little reading ahead, where memcached reads through the page cache.
pub(crate) fn read_ahead(proposed: &mut ProposedChanges, scope: &Scope) {
    let facts = scope.facts();
    let buffered = of_services(scope, |kind| kind == ServiceKind::Memcached);
    let is_read_so = |disk: &BlockDevice| buffered.iter().any(|other| other.name == disk.name);
    let has_more = |disk: &BlockDevice| disk.read_ahead_kb.is_some_and(|now| now > READ_AHEAD_KB);
    let turns = |disk: &BlockDevice| leaves(facts, disk).iter().any(|leaf| leaf.rotational);
    for disk in Tier::of(proposed, scope).top {
        if is_read_so(disk) && has_more(disk) && !turns(disk) {
            disks::read_ahead(proposed, disk, READ_AHEAD_KB, LITTLE_AHEAD);
        }
    }
}

/// Advice on what no setting changes, or none that could be undone.
pub(crate) fn advice(proposed: &mut ProposedChanges, scope: &Scope) {
    let tier = Tier::of(proposed, scope);
    if !tier.is_known && !tier.disks.is_empty() {
        proposed.advice.push(format!(
            "check that {} are for a flash tier: no server with ext_path was seen, so these are all that do not turn",
            names(&tier.disks)
        ));
    }
    tier.top.iter().for_each(|disk| chunk(proposed, disk));
    tier.disks.iter().for_each(|disk| interrupts(proposed, scope.facts(), disk));
    let with =
        |is: fn(&BlockDevice) -> bool| tier.disks.iter().copied().filter(|disk| is(disk)).collect::<Vec<_>>();
    let polled = with(|disk| disk.io_poll == Some(true));
    if !polled.is_empty() {
        proposed.advice.push(format!(
            "take nvme.poll_queues out of the boot line, unless others poll {}: neither memcached nor Evenkeel does (queue/io_poll), and those queues serve nobody else",
            names(&polled)
        ));
    }
    let cached = with(|disk| disk.write_cache.as_deref() == Some("write back"));
    if !cached.is_empty() {
        proposed.advice.push(format!(
            "leave queue/write_cache of {} at `write back`: it is only what the kernel believes of the device (queue-sysfs.rst), and a cache has nothing that must outlive a power failure",
            names(&cached)
        ));
    }
}

/// A RAID 0 that splits a tier's reads.
fn chunk(proposed: &mut ProposedChanges, disk: &BlockDevice) {
    let Some(raid) = disk.raid.as_ref().filter(|raid| raid.level == "raid0") else { return };
    if (1..CHUNK_MIN_BYTES).contains(&raid.chunk_bytes) {
        proposed.advice.push(format!(
            "make {} anew with chunks of {} KiB or more when it is next empty, or give Evenkeel an ext_path on each disk: {} KiB split a read of 36 KiB, and cannot be changed under data",
            disk.name,
            CHUNK_MIN_BYTES >> 10,
            raid.chunk_bytes >> 10
        ));
    }
}

/// The interrupts of a disk's queues: most often the kernel's own business.
fn interrupts(proposed: &mut ProposedChanges, facts: &Facts, disk: &BlockDevice) {
    let managed: Vec<_> = facts.interrupts_of(&disk.name).filter(|interrupt| interrupt.managed).collect();
    if managed.is_empty() {
        return;
    }
    let (queues, cpus, name) = (managed.len(), facts.online().len(), &disk.name);
    if queues >= cpus {
        proposed.advice.push(format!(
            "leave the interrupts of {name} alone: the kernel manages them and refuses other CPUs (EIO), and with {queues} queues for {cpus} CPUs each read completes where it began"
        ));
        return;
    }
    let taken = managed.iter().fold(CpuSet::new(), |cpus, interrupt| cpus.or(&interrupt.effective));
    let compare = match disk.rq_affinity {
        Some(now) if now != ON_ASKING_CPU => {
            format!(
                ", or compare queue/rq_affinity 2 (now {now}), which completes reads on the CPU that asked"
            )
        }
        _ => String::new(),
    };
    proposed.advice.push(format!(
        "let the server run on CPUs {taken}, which take the interrupts of {name}{compare}: {queues} queues serve {cpus} CPUs, and the kernel manages them and refuses other CPUs (EIO)"
    ));
}

impl<'a> Tier<'a> {
    /// The tier's devices; those that turn are refused.
    fn of(proposed: &mut ProposedChanges, scope: &Scope<'a>) -> Tier<'a> {
        let facts = scope.facts();
        let known = match scope.named_disks {
            [] => of_services(scope, |_| true),
            names => named(proposed, facts, names),
        };
        let is_known = !known.is_empty() || !scope.named_disks.is_empty();
        let top = if is_known { known } else { scope.disks().filter(|disk| !disk.rotational).collect() };
        let mut disks: Vec<&BlockDevice> = Vec::new();
        for disk in top.iter().flat_map(|disk| leaves(facts, disk)) {
            if !disks.iter().any(|other| other.name == disk.name) {
                disks.push(disk);
            }
        }
        let (turning, disks): (Vec<_>, Vec<_>) = disks.into_iter().partition(|disk| disk.rotational);
        for disk in turning {
            proposed.refuse(&disk.name, "it turns: a flash tier on it would be slower than what it caches");
        }
        if disks.is_empty() && !is_known {
            proposed.refuse("disks", "there is none that does not turn");
        }
        Tier { top, disks, is_known }
    }
}

/// The devices of these names, which the user gave.
fn named<'a>(proposed: &mut ProposedChanges, facts: &'a Facts, names: &[String]) -> Vec<&'a BlockDevice> {
    let mut found = Vec::new();
    for name in names {
        let device = if name.starts_with("/dev/") { name.clone() } else { format!("/dev/{name}") };
        match facts.disk_of(&device) {
            Some(disk) => found.push(disk),
            None => proposed.refuse(name, "there is no such disk"),
        }
    }
    found
}

/// The devices that the files of these kinds of services lie on.
fn of_services<'a>(scope: &Scope<'a>, is_kind: impl Fn(ServiceKind) -> bool) -> Vec<&'a BlockDevice> {
    let facts = scope.facts();
    let is_meant =
        |kind: ServiceKind| is_kind(kind) && [ServiceKind::Memcached, ServiceKind::Evenkeel].contains(&kind);
    let services = facts.services.iter().filter(|service| is_meant(service.kind));
    let device = |path: &String| {
        let mounted = || facts.disk_of(&facts.mount_of(path)?.device);
        facts.disk_of(path).or_else(mounted)
    };
    let names: BTreeSet<&str> = services
        .flat_map(|service| &service.data)
        .filter_map(device)
        .map(|disk| disk.name.as_str())
        .collect();
    scope.disks().filter(|disk| names.contains(disk.name.as_str())).collect()
}

/// The disks that a device is made of in the end; itself, if there is nothing below.
fn leaves<'a>(facts: &'a Facts, disk: &'a BlockDevice) -> Vec<&'a BlockDevice> {
    let mut found = vec![disk];
    for _ in 0..LAYERS_MAX {
        let below = |disk: &&'a BlockDevice| -> Vec<&'a BlockDevice> {
            let known = disk.below.iter().filter_map(|name| facts.disk_of(&format!("/dev/{name}")));
            let known: Vec<_> = known.collect();
            if known.is_empty() { vec![*disk] } else { known }
        };
        found = found.iter().flat_map(below).collect();
    }
    found
}

fn names(disks: &[&BlockDevice]) -> String {
    disks.iter().map(|disk| disk.name.as_str()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
