//! Change of one setting: old and new value, reason, and way back.
//!
//! Nothing is read or written here. Values are compared by their meaning, never as texts: the kernel writes `f` back
//! as `00000000,0000000f`, and a choice with brackets around the chosen word.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::observe::ethtool::{Knob, Parameters};
use crate::observe::listening::{ListenerHandle, QueueLimit};
use crate::observe::napi::InterruptDeferral;
use crate::observe::scheduling::Scheduling;
use crate::settings::signal::ExpectedSignal;
use os::CpuSet;

/// A setting of the host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Setting {
    /// A file under /proc or /sys.
    File {
        /// Absolute, on the host.
        path: String,
        /// The format of its text.
        holds: Holds,
    },
    /// A thread's scheduling; its value is a [`Scheduling`].
    Thread {
        /// Thread id.
        tid: u32,
    },
    /// A driver setting of ethtool; its value is [`Parameters`].
    Device {
        /// The interface.
        nic: String,
        /// The group of parameters.
        knob: Knob,
    },
    /// The affinity of an interrupt, by the name of its handler, which it keeps when a change of queues gives it
    /// another number.
    Interrupt {
        /// The interface.
        nic: String,
        /// `virtio0-input.3`
        handler: String,
    },
    /// When a NAPI interrupts; its value is an [`InterruptDeferral`].
    Napi {
        /// The interface.
        nic: String,
        /// The receive queue that it serves or, where the driver does not tell, its place among those of the interface.
        number: u32,
    },
    /// The interrupts that irqbalance leaves alone: `38 39`.
    Irqbalance {
        /// Its process id: another irqbalance has another list.
        pid: u32,
    },
    /// The limit of waiting connections of a running program's listener; its value is a number.
    Listener {
        /// The listener.
        socket: ListenerHandle,
        /// The queue.
        limit: QueueLimit,
    },
}

/// The formats of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Holds {
    /// CPUs as a mask: `00000000,0000000f`.
    Mask,
    /// One number.
    Number,
    /// One word of several, the chosen one in brackets: `[none] mq-deadline`.
    Choice,
    /// Words, however they are spaced: `4096 87380 6291456`.
    Words,
}

/// The parsed value of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingValue {
    /// Of a mask.
    Cpus(CpuSet),
    /// Of a number.
    Number(i64),
    /// Of choices and words, with one space between them.
    Words(String),
    /// Of a thread.
    Scheduling(Scheduling),
    /// Of a driver.
    Parameters(Parameters),
    /// Of a NAPI.
    Deferral(InterruptDeferral),
    /// Of irqbalance.
    Interrupts(BTreeSet<u32>),
}

/// A text that is not in the setting's format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("understand {setting}: expected {expected}, found {found:?}")]
pub struct Misunderstood {
    /// The setting.
    pub setting: String,
    /// The expected format, in words.
    pub expected: &'static str,
    /// The text.
    pub found: String,
}

/// The directory of interfaces.
const NICS: &str = "/sys/class/net/";

impl Setting {
    /// The interface that its name names.
    pub fn nic(&self) -> Option<&str> {
        match self {
            Setting::File { path, .. } => path.strip_prefix(NICS)?.split('/').next(),
            Setting::Interrupt { nic, .. } | Setting::Device { nic, .. } | Setting::Napi { nic, .. } => {
                Some(nic)
            }
            _ => None,
        }
    }

    /// The same of an interface with this name; others as they are.
    pub(crate) fn of_nic(mut self, name: &str) -> Setting {
        match &mut self {
            Setting::File { path, .. } => {
                let rest = path.strip_prefix(NICS).and_then(|path| path.split_once('/'));
                if let Some((_, rest)) = rest {
                    *path = format!("{NICS}{name}/{rest}");
                }
            }
            Setting::Interrupt { nic, .. } | Setting::Device { nic, .. } | Setting::Napi { nic, .. } => {
                name.clone_into(nic);
            }
            _ => {}
        }
        self
    }

    /// A CPU mask in a file.
    pub fn mask(path: impl Into<String>) -> Setting {
        Setting::File { path: path.into(), holds: Holds::Mask }
    }

    /// A number in a file.
    pub fn number(path: impl Into<String>) -> Setting {
        Setting::File { path: path.into(), holds: Holds::Number }
    }

    /// A choice in a file.
    pub fn choice(path: impl Into<String>) -> Setting {
        Setting::File { path: path.into(), holds: Holds::Choice }
    }

    /// The file of a sysctl: `net.core.somaxconn`.
    pub fn sysctl(name: &str, holds: Holds) -> Setting {
        Setting::File { path: format!("/proc/sys/{}", name.replace('.', "/")), holds }
    }

    /// The number of the interrupt whose affinity this is.
    pub fn irq(&self) -> Option<u32> {
        let Setting::File { path, .. } = self else { return None };
        path.strip_prefix("/proc/irq/")?.strip_suffix("/smp_affinity")?.parse().ok()
    }

    /// Whether it is the steering mask of a receive queue.
    pub(crate) fn is_receive_steering(&self) -> bool {
        matches!(self, Setting::File { path, .. } if path.ends_with("/rps_cpus"))
    }

    /// The parsed value of a text of this setting.
    pub fn value(&self, text: &str) -> Result<SettingValue, Misunderstood> {
        let wrong =
            |expected| Misunderstood { setting: self.to_string(), expected, found: text.trim().to_owned() };
        let words = || text.split_whitespace().collect::<Vec<_>>().join(" ");
        let number = || text.trim().parse().map(SettingValue::Number).map_err(|_| wrong("a number"));
        let mask = || CpuSet::parse_mask(text).map(SettingValue::Cpus).map_err(|_| wrong("a CPU mask"));
        let holds = match self {
            Setting::File { holds, .. } => holds,
            Setting::Thread { .. } => return text.parse().map(SettingValue::Scheduling).map_err(wrong),
            Setting::Device { knob, .. } => {
                return knob.parse(text).map(SettingValue::Parameters).map_err(wrong);
            }
            Setting::Interrupt { .. } => return mask(),
            Setting::Napi { .. } => return text.parse().map(SettingValue::Deferral).map_err(wrong),
            Setting::Listener { .. } => return number(),
            Setting::Irqbalance { .. } => {
                let irqs: Result<_, _> = text.split_whitespace().map(str::parse).collect();
                return irqs.map(SettingValue::Interrupts).map_err(|_| wrong("numbers of interrupts"));
            }
        };
        match holds {
            Holds::Mask => mask(),
            Holds::Number => number(),
            Holds::Choice => chosen(text)
                .map(|word| SettingValue::Words(word.to_owned()))
                .ok_or_else(|| wrong("one word, or one in brackets")),
            Holds::Words => Ok(SettingValue::Words(words())),
        }
    }

    /// Whether a text of this setting has the same value as `wanted`; for a thread or a driver, as far as `wanted`
    /// names parameters. A text that cannot be parsed equals only itself.
    pub fn same(&self, found: &str, wanted: &str) -> bool {
        match (self.value(found), self.value(wanted)) {
            (Ok(SettingValue::Scheduling(found)), Ok(SettingValue::Scheduling(wanted))) => {
                found.fulfils(&wanted)
            }
            (Ok(SettingValue::Parameters(found)), Ok(SettingValue::Parameters(wanted))) => {
                found.fulfils(&wanted)
            }
            (Ok(found), Ok(wanted)) => found == wanted,
            _ => found == wanted,
        }
    }

    /// The text to write to restore the setting to its state when it read `text`.
    pub fn written<'t>(&self, text: &'t str) -> &'t str {
        match self {
            Setting::File { holds: Holds::Choice, .. } => chosen(text).unwrap_or(text),
            _ => text,
        }
    }
}

/// The word in brackets, or the only word.
fn chosen(text: &str) -> Option<&str> {
    let text = text.trim();
    if let Some((_, rest)) = text.split_once('[') {
        return rest.split_once(']').map(|(word, _)| word);
    }
    (!text.is_empty() && !text.contains(char::is_whitespace)).then_some(text)
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Setting::File { path, .. } => f.write_str(path),
            Setting::Thread { tid } => write!(f, "scheduling of thread {tid}"),
            Setting::Device { nic, knob } => write!(f, "{} of {nic}", knob.name()),
            Setting::Interrupt { nic, handler } => write!(f, "affinity of {handler} of {nic}"),
            Setting::Napi { nic, number } => write!(f, "NAPI {number} of {nic}"),
            Setting::Irqbalance { pid } => write!(f, "interrupts that irqbalance ({pid}) leaves alone"),
            Setting::Listener { socket, limit } => write!(f, "{limit} of {socket}"),
        }
    }
}

/// Stages of a plan: interrupts before settings that depend on their CPUs, programs last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The number of queues of an interface, and their length: everything that depends on them is made anew.
    Queues,
    /// Other programs that move interrupts.
    Irqbalance,
    /// The deferral of interrupts.
    Coalescing,
    /// The CPUs of interrupts.
    Affinity,
    /// The CPUs that handle or send packets: RPS, RFS, XPS.
    Steering,
    /// Sysctls.
    Sysctl,
    /// Listeners of programs, which a sysctl may cut.
    Listener,
    /// Memory: huge pages.
    Memory,
    /// Disks.
    Disk,
    /// Threads of programs.
    Scheduling,
}

/// Risks. Every change here takes effect at once and is undone by writing the old value back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Risk {
    /// Only a limit is raised, or one queue is concerned.
    Low,
    /// It moves work or waiting to another CPU or time; under load the gain has to be shown.
    Moderate,
    /// The driver makes its queues anew: the link may go down for a moment.
    Blink,
    /// It can starve others on the host.
    High,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Its stage.
    pub stage: Stage,
    /// The setting.
    pub setting: Setting,
    /// Its value when the plan was made.
    pub now: String,
    /// The new value.
    pub wanted: String,
    /// The reason, in one sentence.
    pub why: String,
    /// The requester: the rule of a finding, a strategy, a profile.
    pub asked_by: String,
    /// The risk.
    pub risk: Risk,
    /// The figure that should move, and its direction.
    #[serde(default)]
    pub signal: ExpectedSignal,
}

impl Change {
    /// Whether the value changes.
    pub fn is_due(&self) -> bool {
        !self.setting.same(&self.now, &self.wanted)
    }

    /// The way back, in words.
    pub fn undo(&self) -> String {
        let now = self.shown(&self.now);
        match &self.setting {
            Setting::File { path, .. } => format!("write {now:?} to {path}"),
            Setting::Thread { tid } => format!("schedule thread {tid} as {now} again"),
            Setting::Device { nic, knob } => {
                let arguments = now.parse().map_or(now.clone(), |now: Parameters| now.arguments());
                format!("ethtool {} {nic} {arguments}", knob.option())
            }
            Setting::Interrupt { .. } => format!("write {:?} to its smp_affinity", now.trim()),
            Setting::Napi { .. } => format!("set {now} again, by netdev netlink (napi-set)"),
            Setting::Irqbalance { .. } => {
                let irqs = if now.trim().is_empty() { "none" } else { now.trim() };
                format!("tell irqbalance to leave alone: {irqs}")
            }
            Setting::Listener { limit: QueueLimit::Backlog, .. } => format!("listen(2) with {now} again"),
            Setting::Listener { limit: QueueLimit::FastOpen, .. } => {
                format!("set TCP_FASTOPEN to {now} again")
            }
        }
    }

    /// One of its two values for people: for a thread only the difference, without its start time.
    pub fn shown(&self, text: &str) -> String {
        let name = |word: &'_ str| word.split_once('=').map(|(name, _)| name.to_owned());
        let changes = |word: &&str| {
            let is_named = self.wanted.split_whitespace().any(|wanted| name(wanted) == name(word));
            is_named && !word.starts_with("started=")
        };
        match &self.setting {
            Setting::Thread { .. } => text.split_whitespace().filter(changes).collect::<Vec<_>>().join(" "),
            _ => self.setting.written(text).trim().to_owned(),
        }
    }
}

/// A request that is not planned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanRefusal {
    /// Its subject: `eth0`, `memcached (PID 812)`.
    pub subject: String,
    /// The requester.
    pub asked_by: String,
    /// The reason, and the alternative, in one sentence.
    pub reason: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(holds: Holds, found: &str, wanted: &str, same: bool) {
        let setting = Setting::File { path: "/sys/x".into(), holds };
        assert_eq!(setting.same(found, wanted), same, "{holds:?}: {found:?} and {wanted:?}");
    }

    #[test]
    fn values_are_compared_by_what_they_mean() {
        check(Holds::Mask, "f", "00000000,0000000f\n", true);
        check(Holds::Mask, "f", "7", false);
        check(Holds::Number, "50000", "50000\n", true);
        check(Holds::Number, "50000", "5000", false);
        check(Holds::Choice, "none", "[none] mq-deadline kyber\n", true);
        check(Holds::Choice, "none", "none [mq-deadline]", false);
        check(Holds::Choice, "madvise", "madvise\n", true);
        check(Holds::Words, "4096 87380 6291456", "4096\t87380\t6291456\n", true);
        check(Holds::Words, "4096 87380", "4096 87381", false);
    }

    #[test]
    fn a_text_without_meaning_is_like_itself_alone() {
        check(Holds::Mask, "none", "none", true);
        check(Holds::Number, "max", "1", false);
        let error = Setting::number("/sys/x").value("max\n").unwrap_err();
        assert_eq!(error.to_string(), "understand /sys/x: expected a number, found \"max\"");
    }

    #[test]
    fn a_choice_is_restored_by_its_word_and_everything_else_by_its_bytes() {
        let choice = Setting::choice("/sys/kernel/mm/transparent_hugepage/enabled");
        assert_eq!(choice.written("always [madvise] never\n"), "madvise");
        assert_eq!(Setting::mask("/sys/x").written("00,0f\n"), "00,0f\n");
    }

    #[test]
    fn drivers_are_compared_as_far_as_something_is_wanted_of_them() {
        let channels = Setting::Device { nic: "eth0".into(), knob: Knob::Channels };
        assert!(channels.same("combined=4 rx=0 tx=0", "combined=4"));
        assert!(!channels.same("combined=4", "combined=2"));
        assert!(channels.value("rx-usecs=5").is_err());
        let banned = Setting::Irqbalance { pid: 7 };
        assert!(banned.same("39 38", "38 39") && banned.same("", " ") && !banned.same("38", ""));
        assert!(banned.value("38,39").is_err());
    }

    #[test]
    fn of_a_thread_people_see_what_changes() {
        let change = Change {
            stage: Stage::Scheduling,
            setting: Setting::Thread { tid: 8 },
            now: "policy=0 priority=0 nice=0 slice_ns=2800000 started=9".into(),
            wanted: "policy=1 priority=1 started=9".into(),
            why: String::new(),
            asked_by: String::new(),
            risk: Risk::High,
            signal: Default::default(),
        };
        assert_eq!(change.shown(&change.wanted), "policy=1 priority=1");
        assert_eq!(change.undo(), "schedule thread 8 as policy=0 priority=0 again");
    }

    #[test]
    fn an_interrupts_affinity_is_known_by_its_path() {
        assert_eq!(Setting::mask("/proc/irq/38/smp_affinity").irq(), Some(38));
        assert_eq!(Setting::mask("/proc/irq/default_smp_affinity").irq(), None);
        assert_eq!(Setting::Thread { tid: 38 }.irq(), None);
    }

    #[test]
    fn listeners_come_after_the_sysctl_that_cuts_them_and_are_written_and_read_as_json() {
        assert!(Stage::Sysctl < Stage::Listener && Stage::Listener < Stage::Scheduling);
        let socket = ListenerHandle { pid: 812, started: 7, inode: 33, address: "[::]:11211".into() };
        let setting = Setting::Listener { socket, limit: QueueLimit::FastOpen };
        assert_eq!(setting.to_string(), "Fast Open queue of [::]:11211 (PID 812, socket 33)");
        assert!(setting.same("128", "128\n") && !setting.same("128", "4096"));
        let json = serde_json::to_string(&setting).unwrap();
        assert_eq!(serde_json::from_str::<Setting>(&json).unwrap(), setting, "{json}");
    }
}
