use std::collections::BTreeMap;

use super::*;
use crate::apply::apply;
use crate::apply::journal::Journals;
use crate::observe::shapes::Scratch;
use crate::plan::change::{Change, Risk, Stage};
use os::CpuSet;

/// Numbers under names.
#[derive(Default)]
pub(super) struct Shelf {
    pub(super) values: BTreeMap<Setting, String>,
    /// This value is refused, this many times.
    refused: Option<(String, usize)>,
}

impl HostAccess for Shelf {
    fn read(&self, setting: &Setting) -> io::Result<String> {
        self.values.get(setting).cloned().ok_or(Errno::NOENT.into())
    }

    fn write(&mut self, setting: &Setting, text: &str) -> io::Result<()> {
        if let Some((refused, times @ 1..)) = &mut self.refused
            && refused.trim() == text.trim()
        {
            *times -= 1;
            return Err(Errno::INVAL.into());
        }
        self.values.insert(setting.clone(), text.to_owned());
        Ok(())
    }

    fn interrupt(&self, _irq: u32) -> io::Result<(u64, CpuSet)> {
        Ok((0, CpuSet::new()))
    }

    fn reset_by(&self, _setting: &Setting) -> Vec<Setting> {
        Vec::new()
    }
}

/// A setting whose name is short in these tests.
pub(super) fn setting(name: &str) -> Setting {
    Setting::number(format!("/sys/class/net/{name}/gro_flush_timeout"))
}

pub(super) fn change(name: &str, now: &str, wanted: &str) -> Change {
    Change {
        stage: Stage::Sysctl,
        setting: setting(name),
        now: now.into(),
        wanted: wanted.into(),
        why: String::new(),
        asked_by: String::new(),
        risk: Risk::Low,
        signal: Default::default(),
    }
}

pub(super) fn place() -> BootAndNamespace {
    BootAndNamespace { boot_id: "b".into(), network: None }
}

/// A host on which both plans are in force, the second one over the first, and what it is like: `a=3 b=2`.
fn stacked(scratch: &Scratch) -> (Shelf, Vec<Journal>) {
    let mut host = Shelf::default();
    for name in ["a", "b"] {
        host.values.insert(setting(name), "1".into());
    }
    let journals = Journals::new(scratch.path());
    for changes in [vec![change("a", "1", "2"), change("b", "1", "2")], vec![change("a", "2", "3")]] {
        let mut journal = journals.begin(&place(), 0, None).unwrap();
        apply(&mut host, &changes, &mut journal).unwrap();
    }
    assert_eq!(shown(&host), "a=3 b=2");
    (host, newest_first(scratch))
}

fn newest_first(scratch: &Scratch) -> Vec<Journal> {
    let mut journals = Journals::new(scratch.path()).all().unwrap();
    journals.reverse();
    journals
}

fn shown(host: &Shelf) -> String {
    let name = |setting: &Setting| setting.nic().expect("an interface").to_owned();
    let each: Vec<String> =
        host.values.iter().map(|(setting, value)| format!("{}={value}", name(setting))).collect();
    each.join(" ")
}

/// Restored by the first plan, and then by the second one, tried again, it would end as 2, which was never there before.
#[test]
fn what_the_later_plan_cannot_undo_is_left_by_the_earlier_one_too() {
    let scratch = Scratch::new("rollback-stacked");
    let (mut host, mut journals) = stacked(&scratch);
    host.refused = Some(("2".into(), 1));
    let mut said = Vec::new();
    undo_all(&mut host, &mut journals, "asked", LaterValues::Keep, |_, undone| {
        said.extend(undone.failures())
    });
    assert_eq!(shown(&host), "a=3 b=1");
    let said: Vec<&str> = said.iter().map(String::as_str).collect();
    let name = setting("a");
    assert_eq!(
        said,
        [
            format!("{name}: the kernel does not take this value"),
            format!("{name}: a later plan has set it, too, and could not be undone")
        ]
    );
    let mut journals = newest_first(&scratch);
    assert!(journals.iter().all(|journal| journal.state() == PlanState::Unfinished));
    undo_all(&mut host, &mut journals, "asked", LaterValues::Keep, |_, undone| assert!(undone.is_whole()));
    assert_eq!(shown(&host), "a=1 b=1");
    assert!(journals.iter().all(|journal| journal.state() == PlanState::RolledBack));
}

#[test]
fn everything_is_restored_also_if_nothing_can_be_recorded() {
    let scratch = Scratch::new("rollback-unrecorded");
    let (mut host, mut journals) = stacked(&scratch);
    let kept: Vec<String> =
        journals.iter().map(|journal| std::fs::read_to_string(journal.path()).unwrap()).collect();
    for journal in &journals {
        std::fs::remove_file(journal.path()).unwrap();
        std::fs::create_dir(journal.path()).unwrap();
    }
    let mut unrecorded = 0;
    undo_all(&mut host, &mut journals, "asked", LaterValues::Keep, |_, undone| {
        assert!(undone.is_whole());
        unrecorded += usize::from(undone.unrecorded.is_some());
    });
    assert_eq!((shown(&host).as_str(), unrecorded), ("a=1 b=1", 2));
    // It can be recorded later, by doing it again.
    for (journal, text) in journals.iter().zip(kept) {
        std::fs::remove_dir(journal.path()).unwrap();
        std::fs::write(journal.path(), text).unwrap();
    }
    let mut journals = newest_first(&scratch);
    undo_all(&mut host, &mut journals, "asked", LaterValues::Keep, |_, undone| {
        assert!(undone.unrecorded.is_none())
    });
    assert_eq!(shown(&host), "a=1 b=1");
    assert!(newest_first(&scratch).iter().all(|journal| journal.state() == PlanState::RolledBack));
}

#[test]
fn who_finds_an_undoing_that_was_killed_does_not_take_the_plan_for_one_in_force() {
    let scratch = Scratch::new("rollback-killed");
    let (mut host, mut journals) = stacked(&scratch);
    journals[0].rolling_back("asked").unwrap();
    assert_eq!(newest_first(&scratch)[0].state(), PlanState::Unfinished);
    // What is as before by then is left alone.
    host.values.insert(setting("a"), "2".into());
    let undone = undo(&mut host, &mut newest_first(&scratch)[0], "asked");
    assert_eq!(undone.steps, [(setting("a"), StepOutcome::AsBefore)]);
}

#[test]
fn a_plan_is_overdue_at_its_deadline_and_in_its_place_alone() {
    let scratch = Scratch::new("rollback-overdue");
    let mut journal = Journals::new(scratch.path()).begin(&place(), 0, Some(500)).unwrap();
    let elsewhere = BootAndNamespace { boot_id: "c".into(), network: None };
    let overdue = |journal: &Journal| {
        [(&place(), 499), (&place(), 500), (&elsewhere, 500)].map(|(here, at)| is_overdue(journal, here, at))
    };
    assert_eq!(overdue(&journal), [false, true, false]);
    journal.append(journal::JournalRecord::Applied).unwrap();
    assert_eq!(overdue(&journal), [false, true, false]);
    journal.append(journal::JournalRecord::Confirmed).unwrap();
    assert_eq!(overdue(&journal), [false; 3]);
}

#[test]
fn a_plan_of_another_network_namespace_is_overdue_there() {
    let scratch = Scratch::new("rollback-elsewhere");
    let of = |boot_id: &str, network: &str| BootAndNamespace {
        boot_id: boot_id.into(),
        network: Some(network.into()),
    };
    let mut journal = Journals::new(scratch.path()).begin(&of("b", "net:[1]"), 0, Some(500)).unwrap();
    let elsewhere = |journal: &Journal| {
        let places = [(of("b", "net:[2]"), 499), (of("b", "net:[2]"), 500), (of("b", "net:[1]"), 500)];
        let earlier = [(of("a", "net:[2]"), 500)];
        places
            .into_iter()
            .chain(earlier)
            .map(|(here, at)| overdue_elsewhere(journal, &here, at))
            .collect::<Vec<_>>()
    };
    assert_eq!(elsewhere(&journal), [None, Some("net:[1]".to_owned()), None, None]);
    journal.append(journal::JournalRecord::Confirmed).unwrap();
    assert_eq!(elsewhere(&journal), [None, None, None, None]);
}

#[test]
fn a_value_that_was_chosen_after_the_plan_stays_unless_it_is_to_be_overwritten() {
    let undone = |later: LaterValues, chosen: &str| {
        let scratch = Scratch::new("rollback-chosen");
        let (mut host, mut journals) = stacked(&scratch);
        host.values.insert(setting("a"), chosen.into());
        let mut steps = Vec::new();
        undo_all(&mut host, &mut journals, "asked", later, |_, undone| steps.extend(undone.steps.clone()));
        assert!(newest_first(&scratch).iter().all(|journal| journal.state() == PlanState::RolledBack));
        let of_a = steps.into_iter().filter(|(step, _)| *step == setting("a")).map(|(_, outcome)| outcome);
        (shown(&host), of_a.collect::<Vec<_>>())
    };
    let kept = |before: &str| StepOutcome::KeptLater { found: "9".into(), before: before.into() };
    assert_eq!(undone(LaterValues::Keep, "9"), ("a=9 b=1".into(), vec![kept("2"), kept("1")]));
    assert_eq!(
        undone(LaterValues::Overwrite, "9"),
        ("a=1 b=1".into(), vec![StepOutcome::RestoredOver("9".into()), StepOutcome::Restored])
    );
    // What is as planned, or as before, is nobody's choice.
    assert_eq!(undone(LaterValues::Keep, "3").0, "a=1 b=1");
    assert_eq!(undone(LaterValues::Keep, "2").0, "a=1 b=1");
}

#[test]
fn a_value_of_a_step_that_was_never_finished_is_not_taken_for_a_choice() {
    let scratch = Scratch::new("rollback-unfinished");
    let (mut host, journals) = (Shelf::default(), Journals::new(scratch.path()));
    host.values.insert(setting("a"), "7".into());
    let mut journal = journals.begin(&place(), 0, None).unwrap();
    let step = journal::JournalRecord::Step {
        step: 0,
        setting: setting("a"),
        before: "1".into(),
        wanted: "2".into(),
        why: String::new(),
        asked_by: String::new(),
        interface: None,
        identity: None,
    };
    journal.append(step).unwrap();
    undo_all(&mut host, &mut [journal], "asked", LaterValues::Keep, |_, undone| assert!(undone.is_whole()));
    assert_eq!(shown(&host), "a=1");
}
