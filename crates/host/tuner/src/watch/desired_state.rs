//! Desired state: the steps of the plans that are in force.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::apply::journal::{Journal, PlanState};
use crate::persist::HeldSetting;
use crate::plan::change::Setting;

/// One setting with its desired value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesiredState {
    /// The setting.
    pub setting: Setting,
    /// Its value, as it was written.
    pub wanted: String,
    /// Its earlier values, of every plan that set it: a reset brings back one of these.
    pub before: Vec<String>,
    /// The identity of its interrupt or thread; none where the setting's name is unique.
    pub identity: Option<String>,
    /// The journal of the plan; none: it is from the persistent files, and no plan of this start has it.
    pub journal: Option<PathBuf>,
    /// Its step there.
    pub step: usize,
}

/// From the journals, the oldest first: of two plans the later one decides. A plan that is being carried out or
/// undone does not count yet.
pub fn desired_states(journals: &[Journal]) -> Vec<DesiredState> {
    let mut befores: BTreeMap<Setting, Vec<String>> = BTreeMap::new();
    let mut states: Vec<DesiredState> = Vec::new();
    for journal in journals.iter().filter(|journal| is_in_force(journal)) {
        for step in journal.steps().into_iter().filter(|step| !step.left && !step.undone) {
            let before = befores.entry(step.setting.clone()).or_default();
            before.push(step.before);
            states.retain(|desired| desired.setting != step.setting);
            states.push(DesiredState {
                setting: step.setting,
                wanted: step.wanted,
                before: before.clone(),
                identity: step.identity,
                journal: Some(journal.path().to_owned()),
                step: step.number,
            });
        }
    }
    states
}

/// Adds the persistent settings; a plan of this start has precedence.
pub fn persisting(mut states: Vec<DesiredState>, held: Vec<HeldSetting>) -> Vec<DesiredState> {
    for HeldSetting { setting, wanted } in held {
        if !states.iter().any(|desired| desired.setting == setting) {
            states.push(DesiredState {
                setting,
                wanted,
                before: Vec::new(),
                identity: None,
                journal: None,
                step: 0,
            });
        }
    }
    states
}

fn is_in_force(journal: &Journal) -> bool {
    matches!(journal.state(), PlanState::Applied | PlanState::Confirmed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::journal::{BootAndNamespace, JournalRecord, Journals};
    use crate::observe::shapes::Scratch;

    const A: &str = "/proc/sys/net/core/busy_poll";
    const B: &str = "/proc/sys/net/core/busy_read";
    const C: &str = "/proc/sys/net/core/somaxconn";

    #[test]
    fn the_later_plan_decides_and_an_unfinished_one_says_nothing() {
        let scratch = Scratch::new("watch-holds");
        let journals = Journals::new(scratch.path());
        let place = BootAndNamespace { boot_id: "b".into(), network: None };
        let step = |step, path: &str, before: &str, wanted: &str| {
            let (before, wanted, why, asked_by) =
                (before.to_owned(), wanted.to_owned(), String::new(), String::new());
            JournalRecord::Step {
                step,
                setting: Setting::number(path),
                before,
                wanted,
                why,
                asked_by,
                interface: None,
                identity: None,
            }
        };
        let plans: [&[JournalRecord]; 3] = [
            &[step(0, A, "0\n", "1"), step(1, B, "0\n", "1"), JournalRecord::Applied],
            &[
                step(0, A, "1\n", "2"),
                step(1, C, "0\n", "1"),
                JournalRecord::Left { step: 1, why: "".into() },
                JournalRecord::Applied,
                JournalRecord::Confirmed,
            ],
            &[step(0, B, "1\n", "3")],
        ];
        for records in plans {
            let mut journal = journals.begin(&place, 0, None).unwrap();
            records.iter().for_each(|record| journal.append(record.clone()).unwrap());
        }
        let states = desired_states(&journals.all().unwrap());
        let said = states
            .iter()
            .map(|desired| format!("{}={} {:?}", desired.setting, desired.wanted, desired.before));
        assert_eq!(
            said.collect::<Vec<_>>(),
            [format!(r#"{B}=1 ["0\n"]"#), format!(r#"{A}=2 ["0\n", "1\n"]"#)]
        );
        let held = |path: &str| HeldSetting { setting: Setting::number(path), wanted: "9".into() };
        let all = persisting(states, vec![held(A), held("/d")]);
        let said = all
            .iter()
            .map(|desired| format!("{}={} {}", desired.setting, desired.wanted, desired.journal.is_some()));
        assert_eq!(
            said.collect::<Vec<_>>(),
            [format!("{B}=1 true"), format!("{A}=2 true"), "/d=9 false".to_owned()]
        );
    }
}
