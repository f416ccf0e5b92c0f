//! Boot unit, which plans the intent anew, the units that start it, and irqbalance's configuration.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::file::PersistentFile;
use super::intent::{Intent, IntentPart, NicIdentity};
use super::means::is_plain;
use super::surroundings::HostMeans;
use super::texts::MODE;
use crate::plan::change::{PlanRefusal, Stage};
use crate::text::HEADER;

/// The directory of our own files.
pub(super) const DIRECTORY: &str = "/etc/evenkeel";
pub(crate) const INTENT: &str = "/etc/evenkeel/tune.json";
pub(super) const POLICY: &str = "/etc/evenkeel/irqbalance-policy";
pub(super) const UNIT: &str = "/etc/systemd/system/evenkeel-tune.service";

/// The files that the intent needs; none without parts.
pub(super) fn files(
    parts: &[IntentPart],
    here: &HostMeans,
    left: &mut Vec<PlanRefusal>,
) -> Vec<PersistentFile> {
    if parts.is_empty() {
        return Vec::new();
    }
    let intent = |irqbalance_knows| {
        let why = "strategies that are planned anew at boot, since numbers of interrupts and threads change";
        file(INTENT, why, Intent::new(parts.to_vec(), irqbalance_knows).text(), MODE)
    };
    let mut leave = |subject: &str, reason: String| {
        left.push(PlanRefusal { subject: subject.to_owned(), asked_by: "persist".to_owned(), reason });
    };
    if !here.systemd {
        let line = format!("{} tune apply --intent {INTENT}", here.program);
        leave(INTENT, format!("there is no systemd here: call `{line}` from whatever starts this host"));
        return vec![intent(false)];
    }
    // A unit needs an absolute path, and quoting that is read the same by every version.
    if !is_plain(&here.program) || here.program.contains(' ') || !here.program.starts_with('/') {
        leave(UNIT, format!("a unit cannot start `{}`: install evenkeel under a plain path", here.program));
        return vec![intent(false)];
    }
    let mut files = units(parts, here);
    let placed = parts.iter().filter(|part| part.stages.contains(&Stage::Affinity));
    let nics: Vec<&NicIdentity> = placed.filter_map(|part| part.nic.as_ref()).collect();
    let start = here.irqbalance.as_deref().filter(|_| !nics.is_empty());
    let told = start.map(|start| irqbalance(start, here.policy.as_deref(), &nics));
    files.push(intent(matches!(told, Some(Ok(_)))));
    match told {
        Some(Ok((policy, drop_in))) => files.extend([
            file(POLICY, "makes irqbalance leave the interrupts of these devices alone", policy, 0o755),
            file(
                "/etc/systemd/system/irqbalance.service.d/50-evenkeel.conf",
                "lets irqbalance ask the policy script; its own options stay in force",
                drop_in,
                MODE,
            ),
        ]),
        Some(Err(reason)) => leave("irqbalance", reason),
        None => {}
    }
    files
}

fn file(path: &str, why: &str, text: String, mode: u32) -> PersistentFile {
    PersistentFile { path: path.to_owned(), text, mode, why: why.to_owned() }
}

/// The boot unit, and the drop-ins that start it.
fn units(parts: &[IntentPart], here: &HostMeans) -> Vec<PersistentFile> {
    let units: BTreeSet<&str> = parts.iter().filter_map(|part| part.unit.as_deref()).collect();
    let wants = |what: &str| format!("{HEADER}\n\n# {what}\n[Unit]\nWants=evenkeel-tune.service\n");
    let mut files = vec![
        file(UNIT, "carries the intent out at boot", unit(here, &units), MODE),
        file(
            "/etc/systemd/system/multi-user.target.d/50-evenkeel.conf",
            "starts evenkeel-tune.service at boot; no `systemctl enable` is needed",
            wants("Interrupts and threads get their places at every start."),
            MODE,
        ),
    ];
    for unit in units {
        // 50-evenkeel.conf has the service's scheduling.
        files.push(file(
            &format!("/etc/systemd/system/{unit}.d/51-evenkeel.conf"),
            "starts evenkeel-tune.service when the service starts",
            wants("Its threads get their turns again whenever it starts."),
            MODE,
        ));
    }
    files
}

fn unit(here: &HostMeans, units: &BTreeSet<&str>) -> String {
    let mut text = format!(
        "{HEADER}\n\n[Unit]\nDescription=Host settings that have to be planned anew at every start\n\
         Documentation=man:evenkeel-tune-persist(1)\n\
         # In a container they are the host's business.\nConditionVirtualization=!container\n\
         ConditionPathExists={INTENT}\n\
         # Drivers ask for interrupts when the interface is set up.\n\
         Wants=network-online.target\nAfter=network-online.target irqbalance.service\n"
    );
    for unit in units {
        let _ = write!(text, "# New threads after every start of it.\nAfter={unit}\nPartOf={unit}\n");
    }
    let _ = write!(
        text,
        "\n[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart={} tune apply --intent {INTENT}\n\
         # Nothing is undone when it stops.\n",
        here.program
    );
    text
}

/// The script and the drop-in. The script identifies devices, never numbers of interrupts: those may belong to other
/// devices after the next boot. `ExecStart=` is given anew with one more option, so the environment file's options
/// stay in force, whatever its variable is called.
fn irqbalance(start: &str, policy: Option<&str>, nics: &[&NicIdentity]) -> Result<(String, String), String> {
    if let Some(place) = policy.or(start.contains("policyscript").then_some("its unit")) {
        return Err(format!(
            "it has a policy script already ({place}): let that one print `ban=true` for the interface"
        ));
    }
    // It looks for interrupts in /sys/bus/pci/devices alone, and calls the script with such paths.
    let known =
        |device: &&&NicIdentity| device.bus.as_ref().is_some_and(|bus| is_plain(bus) && bus.contains(':'));
    let buses: Vec<&str> = nics.iter().filter(known).filter_map(|nic| nic.bus.as_deref()).collect();
    if buses.is_empty() {
        return Err("irqbalance supports devices on a PCI bus only, and the interface is on none: ban its interrupts by other means".to_owned());
    }
    let patterns: Vec<String> = buses.iter().map(|bus| format!("*/{bus}|*/{bus}/*")).collect();
    let policy = format!(
        "#!/bin/sh\n{HEADER}\n# irqbalance calls it with a device's path under /sys and the number of an interrupt.\n\
         case \"$1\" in\n{}) echo ban=true ;;\nesac\nexit 0\n",
        patterns.join("|")
    );
    let drop_in = format!(
        "{HEADER}\n\n[Service]\n# As in the unit, and one option more. Interrupts that evenkeel-tune.service has placed \
         are left there.\nExecStart=\nExecStart={start} --policyscript={POLICY}\n"
    );
    Ok((policy, drop_in))
}
