//! Other programs and files that set the same settings: they may undo a plan.

use super::process::Process;
use super::view::ProbeView;
use crate::observe::facts::{Agent, Irqbalance};
use crate::observe::irqbalance;

/// Programs by their process names, and the settings that each is known to change.
const PROGRAMS: &[(&str, &str)] = &[
    ("irqbalance", "interrupt affinities, every ten seconds"),
    ("tuned", "sysctls, governor, disks and affinities of its profile, at start and on changes of devices"),
    ("google_guest_agent", "queues and interrupt affinities of interfaces (google_set_multiqueue)"),
    ("GCEGuestAgent", "queues and interrupt affinities of interfaces (google_set_multiqueue)"),
    ("perftune.py", "interrupt affinities, RPS, RFS, XPS, disks"),
];

/// Files that act at boot or when a device appears.
const FILES: &[(&str, &str, &str)] = &[
    ("google_set_multiqueue", "/usr/bin/google_set_multiqueue", "queues, interrupt affinities and XPS"),
    (
        "amazon-ec2-net-utils",
        "/usr/lib/systemd/system/policy-routes@.service",
        "addresses, routes and configuration of interfaces",
    ),
    (
        "redpanda-tuner",
        "/usr/lib/systemd/system/redpanda-tuner.service",
        "interrupt affinities, RPS, RFS, XPS, disks, sysctls",
    ),
    (
        "scylla perftune",
        "/etc/scylla.d/perftune.yaml",
        "interrupt affinities, RPS, RFS, XPS, disks, clock source",
    ),
];

/// Directories and files where administrators keep scripts and rules for such settings; directories end with a slash.
const SCRIPTS: &[&str] = &[
    "/etc/rc.local",
    "/etc/rc.d/rc.local",
    "/etc/crontab",
    "/etc/cron.d/",
    "/etc/NetworkManager/dispatcher.d/",
    "/etc/network/if-up.d/",
    "/etc/systemd/system/",
    "/etc/udev/rules.d/",
];

/// Words that identify them.
const WORDS: [&str; 5] = ["smp_affinity", "rps_cpus", "rps_flow_cnt", "xps_cpus", "rps_sock_flow_entries"];

pub(super) fn agents(view: &ProbeView, processes: &[Process]) -> Vec<Agent> {
    let mut agents: Vec<Agent> = processes.iter().filter_map(running).collect();
    agents.extend(FILES.iter().filter(|(_, path, _)| view.root.exists(path)).map(|(name, _, sets)| Agent {
        name: (*name).to_owned(),
        pid: None,
        sets: (*sets).to_owned(),
    }));
    agents.extend(SCRIPTS.iter().flat_map(|place| files(view, place)).filter_map(|path| script(view, path)));
    agents
}

/// irqbalance's answers; a captured host has them in `irqbalance.json`.
pub(super) fn irqbalance(view: &ProbeView, agents: &[Agent]) -> Option<Irqbalance> {
    if !view.root.is_live() {
        return serde_json::from_str(&view.text("/irqbalance.json")?).ok();
    }
    let pid = agents.iter().find(|agent| agent.name == "irqbalance")?.pid?;
    match irqbalance::banned(pid) {
        Ok(banned) => Some(Irqbalance { pid, banned }),
        Err(error) => {
            view.note(format!("what irqbalance leaves alone is unknown: {error}"));
            None
        }
    }
}

fn running(process: &Process) -> Option<Agent> {
    let (name, sets) = PROGRAMS.iter().find(|(name, _)| process.is_called(name))?;
    Some(Agent { name: (*name).to_owned(), pid: Some(process.pid), sets: (*sets).to_owned() })
}

/// The file itself, or those in the directory.
fn files(view: &ProbeView, place: &str) -> Vec<String> {
    if !place.ends_with('/') {
        return vec![place.to_owned()];
    }
    let paths = view.names(place).into_iter().map(|name| format!("{place}{name}"));
    paths.filter(|path| view.root.path(path).is_file()).collect()
}

fn script(view: &ProbeView, path: String) -> Option<Agent> {
    let lines = view.lines(&path);
    // Files that this program keeps over a restart do not count.
    if lines.first().is_some_and(|line| line == crate::text::HEADER) {
        return None;
    }
    let acts = lines.iter().filter(|line| !line.trim_start().starts_with('#'));
    let text = acts.map(String::as_str).collect::<Vec<_>>().join("\n");
    let found: Vec<&str> = WORDS.into_iter().filter(|word| text.contains(word)).collect();
    (!found.is_empty()).then(|| Agent { name: path, pid: None, sets: found.join(", ") })
}
