//! Form of a plan: its changes without the names that only this host has, so that plans of different hosts can be compared.
//!
//! Two plans have the same form if they set the same values in the same places for the same reasons, from the same values before.
//!
//! | in a plan | in its form |
//! |---|---|
//! | the number of an interrupt | its place among the interrupts of the plan: `irq#1` |
//! | the name of an interface | its driver, its queues, and its place among the interfaces of the plan: `nic#1(ena×8)` |
//! | the name of a disk, the id of a thread or a process | their places: `disk#1`, `thread#1` |
//! | a directory of a control group with a random id | that without the id |
//! | where an interrupt was handled before, and what irqbalance left alone | `*`: irqbalance and chance decide it |
//! | lists and masks of CPUs | as they are, and beside them the layout of the host's CPUs: only on an equal one do they mean the same |

use std::fmt::Write;

use serde_json::Value;

use super::facts::HostFacts;
use super::json::text;

/// Hexadecimal digits in a row from which a name counts as a random id: those of containers have 64, of pods 32.
const RANDOM_DIGITS: usize = 12;

/// A setting of a plan without this host's names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FormedSetting {
    /// `/proc/irq/irq#1/smp_affinity`
    pub(super) name: String,
    /// Its value before, `*` if that is not compared.
    pub(super) now: String,
    /// Its value after.
    pub(super) wanted: String,
}

/// The names of a host that were replaced so far, each kind in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct HostNames<'f> {
    facts: Option<&'f HostFacts>,
    known: Vec<(&'static str, String)>,
    /// A setting names CPUs.
    has_cpus: bool,
}

impl<'f> HostNames<'f> {
    /// Of a host with these facts, in which its interfaces are described.
    pub(super) fn new(facts: Option<&'f HostFacts>) -> HostNames<'f> {
        HostNames { facts, known: Vec::new(), has_cpus: false }
    }

    /// All that were replaced, one after the other: with the form, they say what the plan does on this host.
    pub(super) fn text(&self) -> String {
        self.known.iter().fold(String::new(), |mut text, (kind, name)| {
            let _ = writeln!(text, "{kind} {name}");
            text
        })
    }

    /// The layout of the host's CPUs, if a setting so far names some.
    pub(super) fn layout(&self) -> Option<String> {
        let layout = |facts: &HostFacts| {
            format!("cpus {} on {} nodes, {} threads of a core", facts.cpus, facts.nodes, facts.threads)
        };
        self.has_cpus.then(|| self.facts.map_or("cpus unknown".to_owned(), layout))
    }

    /// The setting of a change, and its values.
    ///
    /// # Errors
    /// What is not as in a plan.
    pub(super) fn formed(&mut self, change: &Value) -> Result<FormedSetting, String> {
        let (now, wanted) =
            (text(change, "now")?.trim().to_owned(), text(change, "wanted")?.trim().to_owned());
        let setting = change["setting"].as_object().and_then(|setting| setting.iter().next());
        let Some((kind, about)) = setting else {
            return Err("expected an object \"setting\" with one field".to_owned());
        };
        let formed = |name, now, wanted| Ok(FormedSetting { name, now, wanted });
        match &**kind {
            "file" => {
                let path = text(about, "path")?;
                self.has_cpus |= about["holds"] == "mask";
                let is_affinity = path.starts_with("/proc/irq/");
                formed(self.path(path), if is_affinity { "*".to_owned() } else { now }, wanted)
            }
            "thread" => {
                let name = format!("scheduling of {}", self.place("thread", &about["tid"].to_string()));
                formed(name, without_moments(&now), without_moments(&wanted))
            }
            "device" => {
                formed(format!("{} of {}", word(&about["knob"]), self.nic(text(about, "nic")?)), now, wanted)
            }
            "interrupt" => {
                let (nic, handler) = (text(about, "nic")?, text(about, "handler")?);
                self.has_cpus = true;
                let name = format!("affinity of {} of {}", self.handler(nic, handler), self.nic(nic));
                formed(name, "*".to_owned(), wanted)
            }
            "napi" => {
                formed(format!("NAPI {} of {}", about["number"], self.nic(text(about, "nic")?)), now, wanted)
            }
            "irqbalance" => {
                let irqs: Vec<String> = wanted.split_whitespace().map(|irq| self.place("irq", irq)).collect();
                formed("interrupts that irqbalance leaves alone".to_owned(), "*".to_owned(), irqs.join(" "))
            }
            "listener" => {
                let name = format!("{} of {}", word(&about["limit"]), text(&about["socket"], "address")?);
                formed(name, now, wanted)
            }
            // Of a newer tuner: it is compared word by word, which keeps hosts apart rather than together.
            _ => formed(change["setting"].to_string(), now, wanted),
        }
    }

    /// A text for people without the names that were replaced, as far as they are whole words.
    pub(super) fn path(&mut self, path: &str) -> String {
        let parts: Vec<&str> = path.split('/').collect();
        match &parts[..] {
            ["", "proc", "irq", number, rest @ ..] if number.bytes().all(|byte| byte.is_ascii_digit()) => {
                format!("/proc/irq/{}/{}", self.place("irq", number), rest.join("/"))
            }
            ["", "sys", "class", "net", nic, rest @ ..] => {
                format!("/sys/class/net/{}/{}", self.nic(nic), rest.join("/"))
            }
            ["", "sys", "block", disk, rest @ ..] => {
                format!("/sys/block/{}/{}", self.place("disk", disk), rest.join("/"))
            }
            ["", "sys", "fs", "cgroup", rest @ ..] => {
                let rest: Vec<String> = rest.iter().map(|part| self.without_random(part)).collect();
                format!("/sys/fs/cgroup/{}", rest.join("/"))
            }
            _ => path.to_owned(),
        }
    }

    fn nic(&mut self, name: &str) -> String {
        let nic = self.facts.and_then(|facts| facts.nics.iter().find(|nic| nic.name == name));
        let place = self.place("nic", name);
        match nic {
            Some(nic) => format!("{place}({} ×{})", nic.driver.as_deref().unwrap_or("?"), nic.queues),
            None => place,
        }
    }

    /// `eth0-Tx-Rx-3` and `virtio0-input.3` without `eth0` and the number of the device.
    fn handler(&mut self, nic: &str, handler: &str) -> String {
        if let Some(rest) = handler.strip_prefix(nic) {
            return format!("nic{rest}");
        }
        match handler.split_once('-') {
            Some((device, rest)) if device.ends_with(|last: char| last.is_ascii_digit()) => {
                let kind = device.trim_end_matches(|last: char| last.is_ascii_digit());
                // Noted, so that the plan of a host whose devices have other numbers now is another one.
                self.place("device", device);
                format!("{kind}-{rest}")
            }
            _ => handler.to_owned(),
        }
    }

    fn without_random(&mut self, part: &str) -> String {
        let mut digits = 0;
        let is_random = part.bytes().any(|byte| {
            digits = if byte.is_ascii_hexdigit() || byte == b'-' || byte == b'_' { digits + 1 } else { 0 };
            digits >= RANDOM_DIGITS
        });
        // A word of letters such as `feedface-cafe` has no digit.
        match is_random && part.bytes().any(|byte| byte.is_ascii_digit()) {
            true => self.place("group", part),
            false => part.to_owned(),
        }
    }

    fn place(&mut self, kind: &'static str, name: &str) -> String {
        let of_kind = self.known.iter().filter(|(other, _)| *other == kind);
        let place = match of_kind.clone().position(|(_, other)| other == name) {
            Some(place) => place,
            None => {
                let place = of_kind.count();
                self.known.push((kind, name.to_owned()));
                place
            }
        };
        format!("{kind}#{}", place + 1)
    }
}

/// Scheduling without the moments at which a thread was started and seen.
fn without_moments(text: &str) -> String {
    let kept =
        text.split_whitespace().filter(|word| !word.starts_with("started=") && !word.starts_with("seen="));
    kept.collect::<Vec<_>>().join(" ")
}

fn word(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
