//! Texts of sysctl.d, tmpfiles.d, udev rules and drop-ins, with the reason over each line.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::file::{Keep, PersistentFile};
use super::means::{Means, is_plain};
use crate::observe::facts::{BlockDevice, Facts, Nic, Service};
use crate::text::HEADER;
use os::CpuSet;

/// After the files of distributions, and before `99-sysctl.conf`, which is the administrator's own.
pub(crate) const SYSCTL: &str = "/etc/sysctl.d/90-evenkeel.conf";
pub(crate) const TMPFILES: &str = "/etc/tmpfiles.d/evenkeel.conf";
/// After `80-net-setup-link.rules`, which sets the number of queues.
pub(crate) const RULES: &str = "/etc/udev/rules.d/90-evenkeel.rules";

/// Permissions of files that every user may read.
pub(super) const MODE: u32 = 0o644;

/// The files of all settings that have a means of their own.
pub(super) fn files(kept: &[(&Keep, Means)], facts: &Facts) -> Vec<PersistentFile> {
    let (mut sysctls, mut tmpfiles, mut rules) = (Lines::default(), Lines::default(), Lines::default());
    let mut services: BTreeMap<u32, (&Keep, &Service, u64)> = BTreeMap::new();
    for (keep, means) in kept {
        let wanted = keep.wanted.trim();
        match means {
            Means::Sysctl { key } => sysctls.add(keep, &format!("{key} = {wanted}\n")),
            Means::TmpFile { path } => tmpfiles.add(keep, &format!("w {path} - - - - {wanted}\n")),
            Means::Interface { nic, file } => rules.add(keep, &interface(nic, facts, file, wanted)),
            Means::Disk { disk, file } => rules.add(keep, &self::disk(disk, file, wanted)),
            Means::Unit { service, priority } => {
                services.entry(service.pid).or_insert((keep, service, *priority));
            }
            // These have files of their own.
            Means::Link { .. } | Means::Boot(_) | Means::Implied => {}
        }
    }
    let file = |path: &str, why: &str, body: String| PersistentFile {
        path: path.to_owned(),
        text: format!("{HEADER}\n{body}"),
        mode: MODE,
        why: why.to_owned(),
    };
    let mut files = vec![
        file(SYSCTL, "kernel settings, read before services start", sysctls.text()),
        file(TMPFILES, "settings under /sys, written before services start", tmpfiles.text()),
        file(RULES, "what interfaces and disks get when they come", rules.text()),
    ];
    files.retain(|file| file.text.lines().count() > 1);
    for (keep, service, priority) in services.values() {
        let unit = service.unit.as_deref().expect("`means` has looked");
        let path = format!("/etc/systemd/system/{unit}.d/50-evenkeel.conf");
        files.push(file(
            &path,
            "how the service is scheduled from its start",
            drop_in(keep, service, *priority, facts),
        ));
    }
    files
}

/// Lines under comments with their reasons; those with the same reason together, in their original order.
#[derive(Default)]
struct Lines(Vec<(String, String)>);

impl Lines {
    fn add(&mut self, keep: &Keep, lines: &str) {
        let why = comment(keep);
        match self.0.iter_mut().find(|(known, _)| *known == why) {
            Some((_, under)) => under.push_str(lines),
            None => self.0.push((why, lines.to_owned())),
        }
    }

    fn text(self) -> String {
        self.0.into_iter().fold(String::new(), |text, (why, lines)| text + "\n" + &why + &lines)
    }
}

pub(super) fn comment(keep: &Keep) -> String {
    // A reason from a plan in a file could have several lines, and a backslash at its end would go on.
    let words: Vec<&str> =
        keep.why.split(|c: char| c.is_whitespace() || c.is_control() || c == '\\').collect();
    let why = words.join(" ");
    match (why.trim(), keep.asked_by.trim()) {
        ("", _) => "# Asked for without a reason.\n".to_owned(),
        (why, by) => format!("# {why} ({})\n", by.replace(|c: char| c.is_control() || c == '\\', " ")),
    }
}

/// One rule for the time when the interface appears, and for a queue another one, for queues that appear later. When
/// the interface appears, its directory still has the name that the kernel gave it, so the first cannot miss; the
/// second can, if the interface is renamed meanwhile, and then the first has done it.
fn interface(nic: &Nic, facts: &Facts, file: &str, wanted: &str) -> String {
    let (net, queues) = identity(nic, facts);
    let mut rules = format!("ACTION==\"add\", SUBSYSTEM==\"net\", {net}, ATTR{{{file}}}=\"{wanted}\"\n");
    if let Some((queue, file)) = file.strip_prefix("queues/").and_then(|rest| rest.split_once('/')) {
        let _ = writeln!(
            rules,
            "ACTION==\"add\", SUBSYSTEM==\"queues\", KERNEL==\"{queue}\", {queues}, ATTR{{{file}}}=\"{wanted}\""
        );
    }
    rules
}

/// By the bus address, which is independent of names; by the hardware address where interfaces share a bus address;
/// by name for interfaces that are made by name. For the interface itself, and for files below it.
fn identity(nic: &Nic, facts: &Facts) -> (String, String) {
    let is_alone =
        |bus: &&String| facts.nics.iter().filter(|other| other.bus.as_ref() == Some(*bus)).count() == 1;
    let mac = nic.mac.as_ref().filter(|mac| is_plain(mac));
    match (nic.bus.as_ref().filter(|bus| is_plain(bus)), mac) {
        (Some(bus), _) if is_alone(&bus) => {
            let by = format!("KERNELS==\"{bus}\"");
            (by.clone(), by)
        }
        (Some(_), Some(mac)) => {
            (format!("ATTR{{address}}==\"{mac}\""), format!("ATTRS{{address}}==\"{mac}\""))
        }
        _ => (format!("KERNEL==\"{}\"", nic.name), format!("KERNELS==\"{}\"", nic.name)),
    }
}

fn disk(disk: &BlockDevice, file: &str, wanted: &str) -> String {
    let by = match disk.identity.as_ref().filter(|(_, text)| is_plain(text)) {
        Some((file, text)) => format!("ATTR{{{file}}}==\"{text}\""),
        None => format!("KERNEL==\"{}\"", disk.name),
    };
    format!(
        "ACTION==\"add|change\", SUBSYSTEM==\"block\", ENV{{DEVTYPE}}==\"disk\", {by}, ATTR{{{file}}}=\"{wanted}\"\n"
    )
}

/// The policy was planned because the threads leave CPUs alone that take interrupts. That has to hold after the next
/// start, too: otherwise they starve them.
fn drop_in(keep: &Keep, service: &Service, priority: u64, facts: &Facts) -> String {
    let cpus = service.threads.iter().fold(CpuSet::new(), |cpus, thread| cpus.or(&thread.affinity));
    let mut text =
        format!("\n[Service]\n{}CPUSchedulingPolicy=fifo\nCPUSchedulingPriority={priority}\n", comment(keep));
    if !facts.online().without(&cpus).is_empty() {
        text += "# The other CPUs take interrupts, which these threads would starve.\n";
        let _ = writeln!(text, "CPUAffinity={cpus}");
    }
    text
}
