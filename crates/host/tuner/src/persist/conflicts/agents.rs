//! Programs and scripts that act on devices beside us, and other files that set the same values.

use super::conflict::{Conflict, Kept, Winner};
use crate::observe::facts::Agent;
use crate::observe::root::{Error, Root};
use crate::persist::ordered::{acting, ordered};
use crate::persist::surroundings::LINKS;

const RULES: [&str; 5] = [
    "/etc/udev/rules.d",
    "/run/udev/rules.d",
    "/usr/local/lib/udev/rules.d",
    "/usr/lib/udev/rules.d",
    "/lib/udev/rules.d",
];

const TMPFILES: [&str; 4] =
    ["/etc/tmpfiles.d", "/run/tmpfiles.d", "/usr/local/lib/tmpfiles.d", "/usr/lib/tmpfiles.d"];

/// Our rules' place in the order.
const OURS: &str = "90-evenkeel.rules";

/// Scripts that run at boot, where people write values into /sys.
const SCRIPTS: [&str; 2] = ["/etc/rc.local", "/etc/rc.d/rc.local"];

pub(super) fn conflicts(root: &Root, kept: &Kept) -> Result<Vec<Conflict>, Error> {
    let mut found = rules(root, kept)?;
    found.extend(links(root, kept)?);
    found.extend(memory(root, kept)?);
    if kept.network() {
        found.extend(agents(kept));
    }
    Ok(found)
}

/// Rules that assign one of our files. Whether they match our device, only udev can decide.
fn rules(root: &Root, kept: &Kept) -> Result<Vec<Conflict>, Error> {
    let mut files: Vec<&str> = kept.files().filter_map(|(path, _)| below_device(path)).collect();
    files.sort_unstable();
    files.dedup();
    let mut found = Vec::new();
    if files.is_empty() {
        return Ok(found);
    }
    for rules in ordered(root, &RULES, ".rules")? {
        for (line, words) in acting(&rules.text) {
            let assigns = |file: &&&str| {
                let name = file.rsplit('/').next().unwrap_or(file);
                // Not `==`, which compares.
                let (assignment, comparison) = (format!("{name}}}="), format!("{name}}}=="));
                let assigned = words.matches(&assignment).count() > words.matches(&comparison).count();
                assigned || (words.contains("RUN") && words.contains(name))
            };
            let Some(file) = files.iter().find(assigns) else { continue };
            let later = rules.name.as_str() > OURS;
            found.push(Conflict {
                place: format!("{}:{line}", rules.path),
                sets: (*file).to_owned(),
                winner: if later { Winner::Unsure } else { Winner::Ours },
                advice: if later {
                    format!("it comes after {OURS}; if it is for the same device, take it out or call it something below 90")
                } else {
                    format!("{OURS} comes after it, so its value lasts only until then")
                },
            });
        }
    }
    Ok(found)
}

/// `/sys/class/net/eth0/queues/rx-0/rps_cpus` → `queues/rx-0/rps_cpus`
fn below_device(path: &str) -> Option<&str> {
    let rest = path.strip_prefix("/sys/class/net/").or_else(|| path.strip_prefix("/sys/block/"))?;
    rest.split_once('/').map(|(_, file)| file)
}

fn links(root: &Root, kept: &Kept) -> Result<Vec<Conflict>, Error> {
    if !kept.files().any(|(path, _)| path.ends_with("/rps_cpus")) {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for link in ordered(root, &LINKS, ".link")? {
        for (line, words) in
            acting(&link.text).filter(|(_, words)| words.starts_with("ReceivePacketSteeringCPUMask="))
        {
            found.push(Conflict {
                place: format!("{}:{line}", link.path),
                sets: words.to_owned(),
                winner: Winner::Ours,
                advice: format!("{OURS} comes after it; take the line out to avoid confusion"),
            });
        }
    }
    Ok(found)
}

/// Other programs that choose the mode of huge pages.
fn memory(root: &Root, kept: &Kept) -> Result<Vec<Conflict>, Error> {
    let mut found = Vec::new();
    for (path, ours) in kept.files().filter(|(path, _)| path.starts_with("/sys/kernel/mm/")) {
        for file in ordered(root, &TMPFILES, ".conf")? {
            for (line, words) in acting(&file.text) {
                let fields: Vec<&str> = words.split_whitespace().collect();
                if fields.get(1) == Some(&path) && fields.last() != Some(&ours) {
                    let later = file.name.as_str() > "evenkeel.conf";
                    found.push(Conflict {
                        place: format!("{}:{line}", file.path),
                        sets: words.to_owned(),
                        winner: if later { Winner::Theirs } else { Winner::Ours },
                        advice: "take the line out, or keep its value".to_owned(),
                    });
                }
            }
        }
        for script in SCRIPTS {
            let text = root.read(script)?.unwrap_or_default();
            let name = path.trim_start_matches("/sys/kernel/mm/");
            found.extend(acting(&text).filter(|(_, words)| words.contains(name)).map(|(line, words)| {
                Conflict {
                    place: format!("{script}:{line}"),
                    sets: words.to_owned(),
                    winner: Winner::Theirs,
                    advice: "it runs after tmpfiles.d: take the line out, or keep its value".to_owned(),
                }
            }));
        }
    }
    Ok(found)
}

/// Programs that the probe has found: guest agents, other tuners, scripts of the administrator.
fn agents(kept: &Kept) -> Vec<Conflict> {
    // These have a check of their own, with their settings.
    let is_other = |name: &str| !["irqbalance", "tuned"].contains(&name) && !name.starts_with(RULES[0]);
    let others = kept.facts.agents.iter().filter(|agent| is_other(&agent.name));
    let conflict = |agent: &Agent| Conflict {
        place: match agent.pid {
            Some(pid) => format!("{} (PID {pid})", agent.name),
            None => agent.name.clone(),
        },
        sets: agent.sets.clone(),
        winner: if agent.name == "amazon-ec2-net-utils" { Winner::Ours } else { Winner::Unsure },
        advice: advice(&agent.name).to_owned(),
    };
    others.map(conflict).collect()
}

fn advice(name: &str) -> &'static str {
    match name {
        "google_set_multiqueue" | "google_guest_agent" | "GCEGuestAgent" => {
            "it runs when the guest agent starts: set `set_multiqueue = false` in /etc/default/instance_configs.cfg, section [InstanceSetup]"
        }
        "amazon-ec2-net-utils" => "it writes .network files in /run and leaves queues alone: nothing to do",
        "perftune.py" | "scylla perftune" | "redpanda-tuner" => {
            "two tuners undo each other: switch one of them off"
        }
        _ => "read it, and let only one of the two set this",
    }
}
