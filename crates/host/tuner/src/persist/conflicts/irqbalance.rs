//! Environment files of irqbalance: whether they are read, and outdated numbers of interrupts.

use super::conflict::{Conflict, Kept, Winner};
use crate::observe::root::{Error, Root};
use crate::persist::boot::POLICY;
use crate::persist::ordered::acting;
use crate::persist::surroundings::{environment_files, irqbalance_unit};

/// The file that irqbalance reads itself, whatever the unit does.
const ITS_OWN: [&str; 4] =
    ["IRQBALANCE_ONESHOT", "IRQBALANCE_DEBUG", "IRQBALANCE_BANNED_CPUS", "IRQBALANCE_BANNED_CPULIST"];

pub(super) fn conflicts(root: &Root, kept: &Kept) -> Result<Vec<Conflict>, Error> {
    let mut found = Vec::new();
    let running =
        kept.facts.agents.iter().find(|agent| agent.name == "irqbalance").and_then(|agent| agent.pid);
    let unit = irqbalance_unit(root)?;
    if !kept.interrupts() || (running.is_none() && unit.is_none()) {
        return Ok(found);
    }
    if !kept.writes(POLICY) {
        found.push(Conflict {
            place: running.map_or("irqbalance".to_owned(), |pid| format!("irqbalance (PID {pid})")),
            sets: "interrupt affinities, every ten seconds".to_owned(),
            winner: Winner::Theirs,
            advice: "it moves them back: let it ban them by device (--policyscript)".to_owned(),
        });
    }
    let Some(unit) = unit else { return Ok(found) };
    for path in environment_files(&unit) {
        let text = root.read(&path)?.unwrap_or_default();
        for (line, words) in acting(&text) {
            let Some((name, value)) = words.split_once('=') else { continue };
            let (name, value) = (name.trim(), value.trim().trim_matches(['"', '\'']));
            let place = format!("{path}:{line}");
            let used =
                [format!("${name}"), format!("${{{name}}}")].iter().any(|used| unit.contains(used.as_str()));
            if !value.is_empty() && !used && !ITS_OWN.contains(&name) {
                found.push(Conflict {
                    place,
                    sets: words.to_owned(),
                    winner: Winner::Neither,
                    advice: "the unit does not use this variable: see `systemctl cat irqbalance`".to_owned(),
                });
            } else if value.contains("--banirq") || value.split_whitespace().any(|word| word == "-i") {
                found.push(Conflict {
                    place,
                    sets: words.to_owned(),
                    winner: Winner::Neither,
                    advice: "numbers of interrupts change with every start: take them out; the policy script identifies devices".to_owned(),
                });
            }
        }
    }
    Ok(found)
}
