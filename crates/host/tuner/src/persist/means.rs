//! Means of persistence for each setting. This is the only place that chooses it.

use std::collections::BTreeSet;

use super::file::Keep;
use super::intent::{IntentPart, NicIdentity};
use super::surroundings::HostMeans;
use crate::observe::cpu_model::Choice;
use crate::observe::ethtool::Knob;
use crate::observe::facts::{BlockDevice, Facts, Nic, Service};
use crate::observe::listening::QueueLimit;
use crate::observe::scheduling;
use crate::plan;
use crate::plan::change::{Setting, SettingValue, Stage};
use crate::plan::profile::Profile;

/// The means of a setting.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Means<'f> {
    /// A line in sysctl.d, read before any service starts.
    Sysctl {
        /// Its key in the file.
        key: String,
    },
    /// A line in tmpfiles.d: a file in /sys that exists from the start.
    TmpFile {
        /// The file.
        path: &'f str,
    },
    /// A udev rule, which acts when the interface or one of its queues appears.
    Interface {
        /// The interface.
        nic: &'f Nic,
        /// Relative to its directory: `queues/rx-0/rps_cpus`.
        file: &'f str,
    },
    /// A udev rule, which acts when the disk appears or changes.
    Disk {
        /// The disk.
        disk: &'f BlockDevice,
        /// Relative to its directory: `queue/scheduler`.
        file: &'f str,
    },
    /// A line in a `.link` file, which acts before the interface is set up.
    Link {
        /// The interface.
        nic: &'f Nic,
        /// The settings.
        knob: Knob,
    },
    /// A drop-in of the service's unit.
    Unit {
        /// The unit.
        service: &'f Service,
        /// Its real-time scheduling.
        priority: u64,
    },
    /// Planned anew at boot.
    Boot(IntentPart),
    /// Kept together with another setting.
    Implied,
}

/// The means for one setting, or the reason why there is none.
///
/// | setting | means | why this one |
/// |---|---|---|
/// | `/proc/sys` | sysctl.d | before services listen |
/// | `/sys/class/net/X` | udev | when the interface appears; also for queues that appear later |
/// | queues, rings, coalescing | `.link` | before the interface is set up, so before anything depends on them |
/// | `/sys/block/X` | udev | the same |
/// | `/sys/kernel/mm`, `/sys/devices/system` | tmpfiles.d | they exist from the start: before services |
/// | threads, real-time | drop-in | the program has it from its first instruction |
/// | threads, other | intent | systemd has no option for the length of a time slice |
/// | interrupts | intent | their numbers change with every start |
/// | listeners | none | the program's own flag |
///
/// Where the native means is missing, the intent is used.
pub(super) fn of<'f>(
    keep: &'f Keep,
    keeps: &[Keep],
    facts: &'f Facts,
    here: &HostMeans,
) -> Result<Means<'f>, String> {
    if !is_plain(&keep.wanted) {
        return Err("its value has characters that no configuration file holds safely".to_owned());
    }
    let path = match &keep.setting {
        Setting::File { path, .. } => path,
        Setting::Thread { tid } => return thread(keep, *tid, keeps, facts, here),
        Setting::Device { nic, knob } => return device(keep, nic, *knob, facts, here),
        Setting::Interrupt { nic, .. } => {
            let nic = facts.nic(nic).ok_or_else(|| format!("there is no interface {nic} now"))?;
            return boot(keep, Some(nic), None);
        }
        // Its list holds numbers; the policy script, which comes with placed interrupts, identifies devices.
        Setting::Irqbalance { .. } => return Ok(Means::Implied),
        Setting::Listener { limit, .. } => return Err(until_restart(*limit).to_owned()),
        // It goes with a cache that polls, which may start later than any unit of ours.
        Setting::Napi { .. } => return Err(AFTER_THE_CACHE.to_owned()),
    };
    file(keep, path, facts, here)
}

/// The means for a setting in a file.
fn file<'f>(keep: &Keep, path: &'f str, facts: &'f Facts, here: &HostMeans) -> Result<Means<'f>, String> {
    if !is_plain(path) {
        return Err("its path has characters that no configuration file holds safely".to_owned());
    }
    if let Some(name) = path.strip_prefix("/proc/sys/") {
        return if here.sysctl { Ok(Means::Sysctl { key: key(name) }) } else { boot(keep, None, None) };
    }
    if let Some((name, file)) = below(path, "/sys/class/net/") {
        let nic = facts.nic(name).ok_or_else(|| format!("there is no interface {name} now"))?;
        let native = Means::Interface { nic, file };
        return if here.udev { Ok(native) } else { boot(keep, Some(nic), None) };
    }
    if let Some((name, file)) = below(path, "/sys/block/") {
        let disk = facts.disks.iter().find(|disk| disk.name == name);
        let disk = disk.ok_or_else(|| format!("there is no disk {name} now"))?;
        return if here.udev { Ok(Means::Disk { disk, file }) } else { boot(keep, None, None) };
    }
    if ["/sys/kernel/mm/", "/sys/devices/system/"].iter().any(|start| path.starts_with(start)) {
        return if here.systemd { Ok(Means::TmpFile { path }) } else { boot(keep, None, None) };
    }
    match keep.setting.irq() {
        Some(number) => {
            let irq = facts.interrupts.iter().find(|irq| irq.irq == number);
            let nic = irq.and_then(|irq| facts.nic(irq.device.as_deref()?));
            let nic =
                nic.ok_or("it is of no interface that is there now, and its number means nothing then")?;
            boot(keep, Some(nic), None)
        }
        None => Err("nothing is known that keeps it".to_owned()),
    }
}

/// The means for a driver's setting.
fn device<'f>(
    keep: &Keep,
    nic: &str,
    knob: Knob,
    facts: &'f Facts,
    here: &HostMeans,
) -> Result<Means<'f>, String> {
    let nic = facts.nic(nic).ok_or_else(|| format!("there is no interface {nic} now"))?;
    match knob {
        knob if here.udev && here.systemd => Ok(Means::Link { nic, knob }),
        // The strategy asks for more with every call.
        Knob::Rings => Err(format!(
            "without systemd and udev no file sets it: call `ethtool -G {} {}` at the start",
            nic.name,
            keep.wanted.replace('=', " ")
        )),
        _ => boot(keep, Some(nic), None),
    }
}

/// No file keeps what is set by netlink.
const AFTER_THE_CACHE: &str = "no file keeps it: apply the strategy irq-suspend when the cache has started";

/// A program sets both when it begins to listen.
fn until_restart(limit: QueueLimit) -> &'static str {
    match limit {
        QueueLimit::Backlog => {
            "it ends with the program, whose own flag keeps it (memcached: -b, Redis: tcp-backlog)"
        }
        QueueLimit::FastOpen => {
            "it ends with the program; net.ipv4.tcp_fastopen = 1027 gives it to every one that listens later"
        }
    }
}

/// A unit can set the same real-time priority for all threads of a service.
fn thread<'f>(
    keep: &Keep,
    tid: u32,
    keeps: &[Keep],
    facts: &'f Facts,
    here: &HostMeans,
) -> Result<Means<'f>, String> {
    let has = |service: &&Service| service.threads.iter().any(|thread| thread.tid == tid);
    let service = facts.services.iter().find(has).ok_or("its program does not run any more")?;
    let Ok(SettingValue::Scheduling(wanted)) = keep.setting.value(&keep.wanted) else {
        return Err("its value cannot be understood".to_owned());
    };
    if wanted.get("policy") != Some(scheduling::FIFO.into()) {
        return boot(keep, None, Some(service));
    }
    let same = |tid: u32| {
        keeps.iter().any(|other| other.setting == Setting::Thread { tid } && other.wanted == keep.wanted)
    };
    let unit = service.unit.as_deref().unwrap_or_default();
    match wanted.get("priority") {
        _ if !here.systemd || !is_unit(unit) => {
            Err(format!("{} has no unit of systemd that could start it so", service.name))
        }
        _ if !service.threads.iter().all(|thread| same(thread.tid)) => {
            Err(format!("a unit starts all threads of {} alike, and this is for some of them", service.name))
        }
        Some(priority) => Ok(Means::Unit { service, priority }),
        None => Err("it names no priority".to_owned()),
    }
}

fn boot<'f>(keep: &Keep, nic: Option<&Nic>, service: Option<&Service>) -> Result<Means<'f>, String> {
    let profile = keep.asked_by.strip_prefix("profile ").and_then(Profile::named);
    let strategy = plan::strategy_behind(&keep.asked_by);
    let profile = profile.or_else(|| plan::profile_behind(&keep.asked_by));
    if strategy.is_none() && profile.is_none() {
        return Err(
            "no strategy or profile asked for it, from which it could be found again: use --strategy"
                .to_owned(),
        );
    }
    // Its server, which shows the disks, starts later: all disks would be meant.
    if profile == Some(Profile::Flash) && strategy.is_none() {
        return Err(
            "without udev, it would have to be asked for anew once the server of the tier runs".to_owned()
        );
    }
    let (_, choice) = Choice::split(&keep.asked_by);
    Ok(Means::Boot(IntentPart {
        strategy,
        choice,
        profile: if strategy.is_some() { None } else { profile },
        nic: nic.map(NicIdentity::of),
        service: service.map(|service| service.name.clone()),
        unit: service.and_then(|service| service.unit.clone()).filter(|unit| is_unit(unit)),
        stages: stages(&keep.setting),
    }))
}

/// Whether a drop-in can be written for it: scopes are made by programs, and have no files.
fn is_unit(unit: &str) -> bool {
    unit.ends_with(".service") && is_plain(unit) && !unit.contains([' ', '/'])
}

/// The changes of a strategy that bring a setting back. Interrupts are placed only where irqbalance leaves them
/// alone.
fn stages(setting: &Setting) -> BTreeSet<Stage> {
    match stage(setting) {
        Stage::Affinity => [Stage::Irqbalance, Stage::Affinity].into(),
        other => [other].into(),
    }
}

/// The stage of a setting.
fn stage(setting: &Setting) -> Stage {
    let path = match setting {
        Setting::File { path, .. } => path,
        Setting::Thread { .. } => return Stage::Scheduling,
        Setting::Interrupt { .. } => return Stage::Affinity,
        Setting::Irqbalance { .. } => return Stage::Irqbalance,
        Setting::Device { knob: Knob::Coalescing, .. } => return Stage::Coalescing,
        Setting::Device { .. } => return Stage::Queues,
        Setting::Listener { .. } => return Stage::Listener,
        Setting::Napi { .. } => return Stage::Coalescing,
    };
    const PLACES: [(&str, Stage); 5] = [
        ("/proc/irq/", Stage::Affinity),
        ("/proc/sys/net/core/rps_", Stage::Steering),
        ("/proc/sys/", Stage::Sysctl),
        ("/sys/block/", Stage::Disk),
        ("/sys/kernel/mm/", Stage::Memory),
    ];
    let place = PLACES.iter().find(|(start, _)| path.starts_with(start)).map(|(_, stage)| *stage);
    place.unwrap_or(if path.contains("/queues/") { Stage::Steering } else { Stage::Coalescing })
}

/// `net/core/somaxconn` with points, or with slashes where a name holds a point itself (sysctl.d(5)).
fn key(name: &str) -> String {
    if name.contains('.') { name.to_owned() } else { name.replace('/', ".") }
}

fn below<'p>(path: &'p str, directory: &str) -> Option<(&'p str, &'p str)> {
    path.strip_prefix(directory)?.split_once('/')
}

/// Whether a text means itself in sysctl.d, udev rules, tmpfiles.d and units alike: no quotes, no patterns, nothing that
/// is replaced, no line end.
pub(super) fn is_plain(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_graphic() && !"\"'\\$%*?[]|;#".contains(c) || c == ' ')
}
