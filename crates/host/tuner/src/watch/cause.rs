//! Causes of drift: from changes since a setting last held, events meanwhile, and other programs that set the same.
//!
//! Pure. A write to /proc or /sys does not record its author, so most causes are inferred: each has a confidence and
//! its evidence, and "somebody" is an answer.

use serde::Serialize;

use super::event::KernelEvent;
use super::look::{Found, NicState, SettingReading, WatchSnapshot, is_affinity, nic_of};
use crate::apply::host::is_same;
use crate::observe::facts::Agent;
use crate::plan::change::Setting;
use os::CpuSet;

/// A driver continues for a while after its event of a change.
pub(super) const EVENT_LAG_MS: u64 = 5_000;

/// Causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The device or thread of the setting does not exist any more.
    Gone,
    /// The interrupt has another number now, and this number belongs to another one or to none.
    Renumbered,
    /// The interface was removed and made anew.
    Recreated,
    /// The driver has reset the device.
    DriverReset,
    /// The interface has more or fewer queues than before.
    QueuesChanged,
    /// CPUs came or went.
    Hotplug,
    /// The interface went down and up, or was reconfigured.
    Link,
    /// A program that is known to set such things.
    Agent,
    /// It has its earlier value again, without an event that explains it.
    Reset,
    /// It has a value of its own, without an event that explains it: a user or a program has chosen it.
    Somebody,
}

/// The confidence in a cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sure {
    /// The kernel reports it.
    Certain,
    /// It happened at that time, and has such effects.
    Likely,
    /// Nothing contradicts it.
    Guess,
}

/// A cause with its evidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Because {
    /// The cause.
    pub cause: Cause,
    /// Its confidence.
    pub sure: Sure,
    /// Its evidence, in words.
    pub evidence: Vec<String>,
    /// Programs that set the same here.
    pub suspects: Vec<String>,
}

/// The state when a setting last had its desired value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Held {
    /// The time.
    pub at_ms: u64,
    /// Identity of its interrupt or thread.
    pub identity: Option<String>,
    /// The interface that it belongs to.
    pub nic: Option<(String, NicState)>,
    /// CPUs in use; `None`: unknown.
    pub online: Option<CpuSet>,
}

impl Cause {
    /// Its name in metrics and JSON.
    pub fn word(self) -> &'static str {
        match self {
            Cause::Gone => "gone",
            Cause::Renumbered => "renumbered",
            Cause::Recreated => "recreated",
            Cause::DriverReset => "driver-reset",
            Cause::QueuesChanged => "queues-changed",
            Cause::Hotplug => "hotplug",
            Cause::Link => "link",
            Cause::Agent => "agent",
            Cause::Reset => "reset",
            Cause::Somebody => "somebody",
        }
    }
}

impl Held {
    /// The state in this look, in which the setting has its desired value.
    pub(super) fn now(at_ms: u64, seen: &SettingReading, look: &WatchSnapshot) -> Held {
        let nic = nic_of(&seen.desired.setting, &look.interrupts);
        let state = nic.and_then(|nic| Some((nic.to_owned(), look.nics.get(nic)?.clone())));
        Held { at_ms, identity: seen.identity.clone(), nic: state, online: look.online.clone() }
    }
}

/// Cause of a setting's drift. `events` are all that are remembered, with their times.
pub(super) fn because(
    seen: &SettingReading,
    held: Option<&Held>,
    events: &[(u64, KernelEvent)],
    now_ms: u64,
    look: &WatchSnapshot,
) -> Because {
    let since = held.map_or(0, |held| held.at_ms.saturating_sub(EVENT_LAG_MS));
    let context =
        DriftContext { seen, held, events: events.iter().filter(|(at, _)| *at >= since), now_ms, look };
    let told = context
        .clone()
        .other_interrupt()
        .or_else(|| context.clone().other_interface())
        .or_else(|| context.clone().gone())
        .or_else(|| context.clone().driver_reset())
        .or_else(|| context.clone().queues_changed())
        .or_else(|| context.clone().hotplug())
        .or_else(|| context.clone().link())
        .or_else(|| context.clone().agent());
    let (cause, sure, evidence) = told.unwrap_or_else(|| context.unexplained());
    let suspects = look.agents.iter().filter(|agent| sets(agent, &seen.desired.setting)).map(named);
    Because { cause, sure, evidence, suspects: suspects.collect() }
}

type Told = (Cause, Sure, Vec<String>);

/// The state of one setting that does not hold.
#[derive(Clone)]
struct DriftContext<'a, E> {
    seen: &'a SettingReading,
    held: Option<&'a Held>,
    events: E,
    now_ms: u64,
    look: &'a WatchSnapshot,
}

impl<'a, E: Iterator<Item = &'a (u64, KernelEvent)> + Clone> DriftContext<'a, E> {
    fn other_interrupt(self) -> Option<Told> {
        let setting = &self.seen.desired.setting;
        let was = self.seen.desired.identity.as_ref().or(self.held?.identity.as_ref())?;
        let is = &self.seen.identity;
        if is.as_ref().is_some_and(|is| is_same(was, is)) {
            return None;
        }
        let Some(irq) = setting.irq() else {
            let what = format!("{setting}: what had this number has ended");
            return Some((Cause::Gone, Sure::Certain, vec![what]));
        };
        let whose = match is {
            Some(other) => format!("interrupt {irq} was {was}, and is {other} now"),
            None => format!("interrupt {irq} was {was}, and belongs to no device now"),
        };
        let Some(new) = self.look.interrupts.iter().find(|interrupt| interrupt.name == *was) else {
            return Some((Cause::Gone, Sure::Certain, vec![whose]));
        };
        let moved = format!("{was} is interrupt {} now", new.irq);
        Some((Cause::Renumbered, Sure::Certain, vec![whose, moved]))
    }

    fn other_interface(self) -> Option<Told> {
        let (nic, was) = self.held?.nic.as_ref()?;
        let evidence = match self.look.nics.get(nic) {
            Some(is) if is.index == was.index => return None,
            Some(is) => format!("{nic} was interface {} and is {} now", was.index, is.index),
            None => return Some((Cause::Gone, Sure::Certain, vec![format!("there is no {nic} any more")])),
        };
        Some((Cause::Recreated, Sure::Certain, vec![evidence]))
    }

    fn gone(self) -> Option<Told> {
        if self.seen.found != Found::Gone {
            return None;
        }
        let queues = self.clone().queues_changed().map(|(_, _, evidence)| evidence);
        Some((Cause::Gone, Sure::Certain, queues.unwrap_or_default()))
    }

    fn driver_reset(self) -> Option<Told> {
        let (nic, was) = self.held?.nic.as_ref()?;
        let is = self.look.nics.get(nic)?;
        let counted = format!("{nic}'s driver counted {} resets before, and {} now", was.resets, is.resets);
        (is.resets != was.resets).then(|| (Cause::DriverReset, Sure::Certain, vec![counted]))
    }

    fn queues_changed(self) -> Option<Told> {
        let (nic, was) = self.held?.nic.as_ref()?;
        let is = self.look.nics.get(nic)?;
        let (rx, tx) = was.queues;
        let counted = format!(
            "{nic} had {rx} receive and {tx} transmit queues, and has {} and {} now",
            is.queues.0, is.queues.1
        );
        (is.queues != was.queues).then(|| (Cause::QueuesChanged, Sure::Likely, vec![counted]))
    }

    fn hotplug(self) -> Option<Told> {
        if !names_cpus(&self.seen.desired.setting) {
            return None;
        }
        let told = self.clone().events.filter_map(|(at, event)| match event {
            KernelEvent::Cpu { cpu, online } => {
                let what = if *online { "came into use" } else { "was taken out of use" };
                Some(format!("CPU {cpu} {what} {}", self.ago(*at)))
            }
            _ => None,
        });
        let mut evidence: Vec<String> = told.collect();
        let before = self.held.and_then(|held| held.online.as_ref());
        if let Some((before, now)) =
            before.zip(self.look.online.as_ref()).filter(|(before, now)| before != now)
        {
            evidence.push(format!("CPUs in use were {before} and are {now} now"));
        }
        (!evidence.is_empty()).then_some((Cause::Hotplug, Sure::Likely, evidence))
    }

    fn link(self) -> Option<Told> {
        let held = self.held.and_then(|held| held.nic.as_ref()).map(|(nic, _)| nic.as_str());
        let of_nic = held.or_else(|| nic_of(&self.seen.desired.setting, &self.look.interrupts))?;
        let mut sure = Sure::Guess;
        let told = self.clone().events.filter_map(|(at, event)| match event {
            KernelEvent::Link { nic, up: false, .. } if nic == of_nic => {
                sure = Sure::Likely;
                Some(format!("{nic} was without link {}", self.ago(*at)))
            }
            KernelEvent::Link { nic, .. } if nic == of_nic => {
                Some(format!("{nic} was configured or came up {}", self.ago(*at)))
            }
            KernelEvent::Device { name, subsystem, action } if name == of_nic => {
                Some(format!("{name}: {action} ({subsystem}) {}", self.ago(*at)))
            }
            _ => None,
        });
        let evidence: Vec<String> = told.collect();
        // An interface is configured for many reasons; few of them reset anything to a chosen value.
        let explains = !evidence.is_empty() && (sure == Sure::Likely || self.seen.reads_like_after_a_reset());
        explains.then_some((Cause::Link, sure, evidence))
    }

    fn agent(self) -> Option<Told> {
        if matches!(self.seen.found, Found::Elsewhere(_)) {
            return None;
        }
        let agents = self.look.agents.iter().filter(|agent| agent.pid.is_some());
        let agent = agents.into_iter().find(|agent| sets(agent, &self.seen.desired.setting))?;
        let runs = format!("{} runs, which sets {}", named(agent), agent.sets);
        Some((Cause::Agent, Sure::Likely, vec![runs]))
    }

    fn unexplained(self) -> Told {
        let when = match self.held {
            Some(held) => format!("it was as it should be {}", self.ago(held.at_ms)),
            None => "it was so already when watching began".to_owned(),
        };
        if matches!(self.seen.found, Found::Elsewhere(_)) {
            let what = "its affinity reads as it was set, and the device or the kernel does not follow it";
            return (Cause::Reset, Sure::Guess, vec![when, what.to_owned()]);
        }
        match self.seen.reads_like_after_a_reset() {
            true => (Cause::Reset, Sure::Guess, vec![when, "it reads as it did before it was set".into()]),
            false => (Cause::Somebody, Sure::Guess, vec![when]),
        }
    }

    fn ago(&self, at_ms: u64) -> String {
        format!("{} s ago", self.now_ms.saturating_sub(at_ms) / 1000)
    }
}

/// Whether the kernel changes it when CPUs come and go.
fn names_cpus(setting: &Setting) -> bool {
    let path = setting.to_string();
    is_affinity(setting)
        || path.ends_with("/rps_cpus")
        || path.ends_with("/xps_cpus")
        || path.starts_with("/sys/devices/system/cpu/")
}

/// Whether an agent is known to set such things.
fn sets(agent: &Agent, setting: &Setting) -> bool {
    let path = setting.to_string();
    let last = path.rsplit('/').next().unwrap_or_default();
    let words: &[&str] = match last {
        _ if is_affinity(setting) => &["affinities", "smp_affinity"],
        "rps_cpus" => &["RPS"],
        "rps_flow_cnt" | "rps_sock_flow_entries" => &["RFS"],
        "xps_cpus" | "xps_rxqs" => &["XPS"],
        "scaling_governor" => &["governor"],
        "current_clocksource" => &["clock source"],
        _ if matches!(setting, Setting::Device { .. }) => &["queues"],
        // A program that clears irqbalance's list moves interrupts by it.
        _ if matches!(setting, Setting::Irqbalance { .. }) => &["affinities"],
        _ if path.starts_with("/proc/sys/") => &["sysctls"],
        _ if path.starts_with("/sys/block/") => &["disks"],
        _ => &[],
    };
    // Scripts are recognised by the names of the files that they write to.
    agent.sets.split(", ").any(|set| set == last) || words.iter().any(|word| agent.sets.contains(word))
}

fn named(agent: &Agent) -> String {
    match agent.pid {
        Some(pid) => format!("{} (PID {pid})", agent.name),
        None => agent.name.clone(),
    }
}
