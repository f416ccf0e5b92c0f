//! Look at all watched settings: their readings, and the state that these may depend on.
//!
//! Reads and does not judge. The result is plain data, so that a test can write down any look.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use rustix::io::Errno;

use super::desired_state::DesiredState;
use crate::apply::host::{HostAccess, is_same};
use crate::apply::{has_moved, meaning};
use crate::observe::ethtool::{self, DriverParameters};
use crate::observe::facts::{Agent, Interrupt};
use crate::observe::probe;
use crate::observe::root::Root;
use crate::plan::change::Setting;
use os::CpuSet;

/// Counters of drivers that count resets and what leads to them: ENA, gVNIC, and others' watchdogs.
const RESETS: [&str; 4] = ["total_resets", "reset_cnt", "wd_expired", "tx_timeout"];

/// Settings of interfaces that are 0 until they are set.
const ZERO_BY_DEFAULT: [&str; 4] =
    ["/rps_cpus", "/rps_flow_cnt", "/napi_defer_hard_irqs", "/gro_flush_timeout"];

/// The state of a host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WatchSnapshot {
    /// All that is watched.
    pub seen: Vec<SettingReading>,
    /// Interfaces that watched settings belong to.
    pub nics: BTreeMap<String, NicState>,
    /// Interrupts of interfaces and disks, if an interrupt is watched.
    pub interrupts: Vec<Interrupt>,
    /// CPUs in use.
    pub online: Option<CpuSet>,
    /// Programs and files that set the same, if a setting has drifted.
    pub agents: Vec<Agent>,
    /// The count of an interrupt when it was first seen with its affinity; it has to follow from then on.
    pub came: BTreeMap<u32, u64>,
}

/// One watched setting.
#[derive(Clone, Debug, PartialEq)]
pub struct SettingReading {
    /// The desired value.
    pub desired: DesiredState,
    /// The reading.
    pub found: Found,
    /// Identity of its interrupt or thread now.
    pub identity: Option<String>,
    /// The kernel's default, where known.
    pub default: Option<String>,
}

/// The reading of a setting.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    /// This text.
    Text(String),
    /// An interrupt with the desired affinity that still arrives on these CPUs.
    Elsewhere(String),
    /// It does not exist.
    Gone,
    /// It could not be read, for this reason.
    Unreadable(String),
}

/// The identity of an interface between its removals.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NicState {
    /// The kernel's number; another number means another interface.
    pub index: u32,
    /// Receive and transmit queues.
    pub queues: (usize, usize),
    /// Its driver's reset counters.
    pub resets: u64,
}

impl SettingReading {
    /// Whether it has its desired value.
    pub fn holds(&self) -> bool {
        let is_the_same = match (&self.desired.identity, &self.identity) {
            (Some(expected), Some(identity)) => is_same(expected, identity),
            _ => true,
        };
        // An interrupt that arrives elsewhere has no text that equals the desired one.
        is_the_same && self.text().is_some_and(|text| self.desired.setting.same(text, &self.desired.wanted))
    }

    /// Its text, if it can be read.
    pub fn text(&self) -> Option<&str> {
        match &self.found {
            Found::Text(text) => Some(text),
            Found::Elsewhere(_) | Found::Gone | Found::Unreadable(_) => None,
        }
    }

    /// Whether it has its earlier value, or the kernel's default.
    pub fn reads_like_after_a_reset(&self) -> bool {
        let like = |value: &String| self.text().is_some_and(|text| self.desired.setting.same(text, value));
        self.desired.before.iter().any(like) || self.default.as_ref().is_some_and(like)
    }
}

/// Looks. `came` is from the look before: an interrupt moves when it arrives the next time, so two looks are
/// necessary to see that it does not.
pub fn look(
    root: &Root,
    host: &dyn HostAccess,
    desired: &[DesiredState],
    came: &BTreeMap<u32, u64>,
) -> WatchSnapshot {
    let mut seen: Vec<SettingReading> = desired.iter().map(|desired| seen(root, host, desired)).collect();
    let came =
        seen.iter_mut().filter(|seen| seen.holds()).filter_map(|seen| followed(host, seen, came)).collect();
    let watches_interrupts = desired.iter().any(|desired| is_affinity(&desired.setting));
    let interrupts = if watches_interrupts { probe::interrupts(root) } else { Vec::new() };
    let nics: BTreeSet<String> = desired
        .iter()
        .filter_map(|desired| nic_of(&desired.setting, &interrupts))
        .map(str::to_owned)
        .collect();
    let agents = if seen.iter().all(SettingReading::holds) { Vec::new() } else { probe::agents(root) };
    let online = root.read("/sys/devices/system/cpu/online").ok().flatten();
    WatchSnapshot {
        nics: states(root, &nics),
        interrupts,
        online: online.and_then(|list| CpuSet::parse_list(&list).ok()),
        agents,
        came,
        seen,
    }
}

/// Judges where an interrupt arrives, and returns the count from which on to judge it the next time.
fn followed(
    host: &dyn HostAccess,
    seen: &mut SettingReading,
    came: &BTreeMap<u32, u64>,
) -> Option<(u32, u64)> {
    let irq = seen.desired.setting.irq()?;
    let (now, effective) = host.interrupt(irq).ok()?;
    let Some(then) = came.get(&irq).copied() else { return Some((irq, now)) };
    match has_moved(host, irq, Some(then), &seen.desired.wanted) {
        Ok(true) => Some((irq, now)),
        Ok(false) => Some((irq, then)),
        Err(_) => {
            seen.found = Found::Elsewhere(effective.to_string());
            Some((irq, then))
        }
    }
}

fn seen(root: &Root, host: &dyn HostAccess, desired: &DesiredState) -> SettingReading {
    let setting = &desired.setting;
    let found = match host.read(setting) {
        Ok(text) => Found::Text(text),
        Err(error) if is_gone(&error) => Found::Gone,
        Err(error) => Found::Unreadable(meaning(setting, &error)),
    };
    SettingReading {
        desired: desired.clone(),
        found,
        identity: host.identity(setting),
        default: default(root, setting),
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::NODEV | Errno::SRCH))
}

fn default(root: &Root, setting: &Setting) -> Option<String> {
    if is_affinity(setting) {
        return root.read("/proc/irq/default_smp_affinity").ok().flatten();
    }
    let path = setting.to_string();
    let is_zero = path.starts_with(NICS) && ZERO_BY_DEFAULT.iter().any(|name| path.ends_with(name));
    is_zero.then(|| "0".to_owned())
}

const NICS: &str = "/sys/class/net/";

/// Whether it is the affinity of an interrupt.
pub(super) fn is_affinity(setting: &Setting) -> bool {
    setting.irq().is_some() || matches!(setting, Setting::Interrupt { .. })
}

/// The interface that a setting belongs to.
pub(super) fn nic_of<'a>(setting: &'a Setting, interrupts: &'a [Interrupt]) -> Option<&'a str> {
    if let Some(irq) = setting.irq() {
        return interrupts.iter().find(|interrupt| interrupt.irq == irq)?.device.as_deref();
    }
    setting.nic()
}

fn states(root: &Root, nics: &BTreeSet<String>) -> BTreeMap<String, NicState> {
    let names: Vec<&str> = nics.iter().map(String::as_str).collect();
    // A captured host without ethtool.json, or one without permission: then resets cannot be counted.
    let mut drivers = ethtool::drivers(root, &names).unwrap_or_default();
    let states = names.into_iter().filter_map(|name| {
        let index = root.value(&format!("{NICS}{name}/ifindex"), "a number").ok().flatten()?;
        let queues = root.names(&format!("{NICS}{name}/queues")).unwrap_or_default();
        let count = |prefix: &str| queues.iter().filter(|queue| queue.starts_with(prefix)).count();
        let driver: DriverParameters = drivers.remove(name).unwrap_or_default();
        let resets = RESETS.iter().filter_map(|counter| driver.statistics.get(*counter)).sum();
        Some((name.to_owned(), NicState { index, queues: (count("rx-"), count("tx-")), resets }))
    });
    states.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::host::FileHost;
    use crate::observe::shapes::Scratch;

    #[test]
    fn an_interrupt_that_goes_on_coming_elsewhere_is_seen_when_it_has_come_again() {
        let scratch = Scratch::new("watch-elsewhere");
        let write = |path: &str, text: &str| {
            let path = scratch.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let comes = |count: &str, cpu: &str| {
            write("sys/kernel/irq/38/per_cpu_count", count);
            write("proc/irq/38/effective_affinity", cpu);
        };
        write("proc/irq/38/smp_affinity", "8\n");
        let root = Root::new(scratch.path());
        let desired = DesiredState {
            setting: Setting::mask("/proc/irq/38/smp_affinity"),
            wanted: "8".into(),
            before: vec!["f\n".into()],
            identity: None,
            journal: Some("000001.jsonl".into()),
            step: 0,
        };
        let mut came = BTreeMap::new();
        let mut found = || {
            let look = look(&root, &FileHost::new(root.clone()), std::slice::from_ref(&desired), &came);
            came = look.came;
            look.seen[0].found.clone()
        };
        let text = Found::Text("8\n".into());
        comes("10,0,0,5\n", "1\n");
        assert_eq!(found(), text, "nothing is known yet");
        comes("11,0,0,5\n", "1\n");
        assert_eq!(found(), text, "it may have been on its way");
        comes("18,0,0,5\n", "1\n");
        assert_eq!(found(), Found::Elsewhere("0".into()));
        assert_eq!(found(), Found::Elsewhere("0".into()), "also while it does not come");
        comes("18,0,0,6\n", "8\n");
        assert_eq!(found(), text);
        comes("19,0,0,6\n", "1\n");
        assert_eq!(found(), text, "it was where it should be: its count begins anew");
        write("proc/irq/38/smp_affinity", "f\n");
        comes("29,0,0,6\n", "1\n");
        assert_eq!(found(), Found::Text("f\n".into()));
        write("proc/irq/38/smp_affinity", "8\n");
        assert_eq!(found(), text, "it was set again, and has not come since");
    }
}
