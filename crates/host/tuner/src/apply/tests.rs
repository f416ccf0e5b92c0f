//! A kernel in memory that refuses, hangs, forgets and lies where a test needs it.

use std::collections::BTreeMap;

use super::*;
use crate::apply::journal::{BootAndNamespace, Journals, PlanState};
use crate::apply::rollback::{StepOutcome, undo};
use crate::observe::shapes::Scratch;
use crate::plan::change::{Risk, Stage};
use os::CpuSet;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// Refuses.
    Errno(Errno),
    /// Takes the value, and then says that it failed.
    AfterAll(Errno),
    /// Says that it has taken the value, and has not.
    Ignored,
    /// Takes another value.
    Other,
}

#[derive(Clone)]
struct Kernel {
    values: BTreeMap<Setting, String>,
    fault: Option<(Setting, Fault)>,
    /// Count and effective affinity.
    interrupt: (u64, CpuSet),
    /// Added to the count by every look.
    interrupts_per_look: u64,
    writes: usize,
}

impl HostAccess for Kernel {
    fn read(&self, setting: &Setting) -> io::Result<String> {
        self.values.get(setting).cloned().ok_or(Errno::NOENT.into())
    }

    fn write(&mut self, setting: &Setting, text: &str) -> io::Result<()> {
        self.writes += 1;
        let value = self.values.get_mut(setting).ok_or(io::Error::from(Errno::NOENT))?;
        let taken = match setting {
            Setting::File { holds: crate::plan::change::Holds::Mask, .. } => {
                format!("{:0>8}\n", CpuSet::parse_mask(text).unwrap().mask())
            }
            Setting::File { holds: crate::plan::change::Holds::Choice, .. } => {
                value.replace(['[', ']'], "").replace(text.trim(), &format!("[{}]", text.trim()))
            }
            _ => format!("{}\n", text.trim()),
        };
        // A fault meets the plan's write, not the one that undoes it.
        match self.fault.clone().filter(|(faulty, _)| faulty == setting && text == wanted(setting)) {
            Some((_, Fault::Errno(errno))) => return Err(errno.into()),
            Some((_, Fault::AfterAll(errno))) => {
                *value = taken;
                return Err(errno.into());
            }
            Some((_, Fault::Ignored)) => {}
            Some((_, Fault::Other)) if value.contains('[') => *value = "always [madvise] never\n".into(),
            Some((_, Fault::Other)) => *value = "1\n".into(),
            None => *value = taken,
        }
        Ok(())
    }

    fn reset_by(&self, setting: &Setting) -> Vec<Setting> {
        assert!(!matches!(setting, Setting::Device { .. }), "there is a kernel with queues in queue_tests");
        Vec::new()
    }

    fn interrupt(&self, _irq: u32) -> io::Result<(u64, CpuSet)> {
        let looks = self.writes as u64 * self.interrupts_per_look;
        Ok((self.interrupt.0 + looks, self.interrupt.1.clone()))
    }

    fn others(&self, tid: u32) -> io::Result<Vec<u32>> {
        let tids = self.values.keys().filter_map(|setting| match setting {
            Setting::Thread { tid } => Some(*tid),
            _ => None,
        });
        Ok(tids.filter(|other| *other != tid).collect())
    }
}

/// Settings of every kind: before and wanted.
fn settings() -> Vec<(Setting, &'static str, &'static str)> {
    vec![
        (Setting::number("/sys/class/net/eth0/gro_flush_timeout"), "0\n", "50000"),
        (Setting::mask("/proc/irq/40/smp_affinity"), "0000000f\n", "2"),
        (Setting::mask("/sys/class/net/eth0/queues/rx-0/rps_cpus"), "00000000\n", "c"),
        (Setting::number("/sys/class/net/eth0/queues/rx-0/rps_flow_cnt"), "0\n", "4096"),
        (Setting::number("/proc/sys/net/core/somaxconn"), "128\n", "4096"),
        (Setting::choice("/sys/kernel/mm/transparent_hugepage/enabled"), "[always] madvise never\n", "never"),
    ]
}

fn wanted(setting: &Setting) -> &'static str {
    settings().into_iter().find(|(other, ..)| other == setting).unwrap().2
}

fn kernel() -> Kernel {
    Kernel {
        values: settings().into_iter().map(|(setting, now, _)| (setting, now.to_owned())).collect(),
        fault: None,
        interrupt: (7, CpuSet::first(1)),
        interrupts_per_look: 0,
        writes: 0,
    }
}

fn changes() -> Vec<Change> {
    let change = |(setting, now, wanted): (Setting, &str, &str)| Change {
        stage: Stage::Steering,
        setting,
        now: now.into(),
        wanted: wanted.into(),
        why: String::new(),
        asked_by: String::new(),
        risk: Risk::Low,
        signal: Default::default(),
    };
    settings().into_iter().map(change).collect()
}

fn begin(scratch: &Scratch) -> Journal {
    let place = BootAndNamespace { boot_id: "b".into(), network: None };
    Journals::new(scratch.path()).begin(&place, 0, None).unwrap()
}

#[test]
fn a_plan_is_applied_read_back_and_undone_to_the_bytes() {
    let scratch = Scratch::new("apply-all");
    let (mut kernel, mut journal) = (kernel(), begin(&scratch));
    let before = kernel.values.clone();
    let applied = apply(&mut kernel, &changes(), &mut journal).unwrap();
    assert_eq!((applied.done.len(), applied.left.len(), applied.pending), (6, 0, vec![40]));
    assert_eq!(journal.state(), PlanState::Applied);
    assert_eq!(kernel.values[&settings()[5].0], "always madvise [never]\n");

    let mut journal = Journal::open(journal.path()).unwrap().unwrap();
    let undone = undo(&mut kernel, &mut journal, "asked");
    assert!(undone.steps.iter().all(|(_, outcome)| *outcome == StepOutcome::Restored), "{undone:?}");
    assert_eq!((&kernel.values, journal.state()), (&before, PlanState::RolledBack));
    assert!(undo(&mut kernel, &mut journal, "again").steps.is_empty());
}

#[test]
fn whichever_step_fails_and_however_the_host_is_as_before() {
    use Errno as E;
    let errnos = [
        E::IO,
        E::NOSPC,
        E::OVERFLOW,
        E::INVAL,
        E::BUSY,
        E::ACCESS,
        E::PERM,
        E::NOENT,
        E::ROFS,
        E::TIMEDOUT,
        E::NODEV,
    ];
    let faults = errnos.into_iter().flat_map(|errno| [Fault::Errno(errno), Fault::AfterAll(errno)]);
    for fault in faults.chain([Fault::Ignored, Fault::Other]) {
        for (setting, ..) in settings() {
            let case = format!("{setting}: {fault:?}");
            let scratch = Scratch::new("apply-faults");
            let (mut kernel, mut journal) = (kernel(), begin(&scratch));
            let before = kernel.values.clone();
            kernel.fault = Some((setting.clone(), fault));
            let result = apply(&mut kernel, &changes(), &mut journal);
            let known = [Fault::Errno(E::IO), Fault::Errno(E::NOSPC)];
            if setting.irq().is_some() && known.contains(&fault) {
                let applied = result.unwrap();
                assert_eq!((applied.done.len(), &applied.left[0].0), (5, &setting), "{case}");
                assert_eq!(kernel.values[&setting], before[&setting], "{case}");
                undo(&mut kernel, &mut journal, "asked");
            } else {
                let failed = result.expect_err(&case);
                assert!(failed.undone.is_whole(), "{case}: {failed}");
                assert!(failed.to_string().ends_with("everything is as it was before"), "{failed}");
            }
            assert_eq!(kernel.values, before, "{case}");
            assert_eq!(
                Journal::open(journal.path()).unwrap().unwrap().state(),
                PlanState::RolledBack,
                "{case}"
            );
        }
    }
}

#[test]
fn a_crash_after_any_record_is_undone_from_the_journal_alone() {
    let scratch = Scratch::new("apply-crash");
    let (mut after, mut journal) = (kernel(), begin(&scratch));
    apply(&mut after, &changes(), &mut journal).unwrap();
    let text = std::fs::read_to_string(journal.path()).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    for count in 1..=lines.len() {
        std::fs::write(journal.path(), lines[..count].concat()).unwrap();
        let mut journal = Journal::open(journal.path()).unwrap().unwrap();
        let steps = journal.steps();
        // The last step that was announced may have been done, or not.
        for last_was_done in [false, true] {
            let mut host = kernel();
            for (index, step) in steps.iter().enumerate() {
                if last_was_done || index + 1 < steps.len() {
                    host.values.insert(step.setting.clone(), after.values[&step.setting].clone());
                }
            }
            std::fs::write(journal.path(), lines[..count].concat()).unwrap();
            journal = Journal::open(journal.path()).unwrap().unwrap();
            undo(&mut host, &mut journal, "crash");
            assert_eq!(host.values, kernel().values, "{count} lines");
        }
    }
}

#[test]
fn whenever_it_is_told_to_end_everything_is_as_before() {
    for asked_max in 0..=changes().len() + 1 {
        let scratch = Scratch::new("apply-stopped");
        let (mut kernel, mut journal) = (kernel(), begin(&scratch));
        let before = kernel.values.clone();
        let asked = std::cell::Cell::new(0);
        let stop = || asked.replace(asked.get() + 1) == asked_max;
        let applied = apply_then(&mut kernel, &changes(), &mut journal, &stop, || Ok(Vec::new()));
        // Before each step and before the end: then it is done.
        let is_done = asked_max > changes().len();
        assert_eq!(applied.is_ok(), is_done, "{asked_max}");
        assert_eq!(kernel.values == before, !is_done, "{asked_max}");
        let state = if is_done { PlanState::Applied } else { PlanState::RolledBack };
        assert_eq!(Journal::open(journal.path()).unwrap().unwrap().state(), state, "{asked_max}");
    }
}

#[test]
fn what_moved_since_it_was_planned_stops_the_plan() {
    let scratch = Scratch::new("apply-moved");
    let (mut kernel, mut journal) = (kernel(), begin(&scratch));
    kernel.values.insert(settings()[4].0.clone(), "1024\n".into());
    let before = kernel.values.clone();
    let failed = apply(&mut kernel, &changes(), &mut journal).unwrap_err();
    assert!(matches!(failed.error, StepError::Moved { .. }), "{failed}");
    assert_eq!(kernel.values, before);
}

#[test]
fn an_interrupt_that_keeps_coming_to_the_old_cpu_undoes_the_plan() {
    let scratch = Scratch::new("apply-irq");
    let (mut kernel, mut journal) = (kernel(), begin(&scratch));
    let before = kernel.values.clone();
    kernel.interrupts_per_look = 1;
    let failed = apply(&mut kernel, &changes(), &mut journal).unwrap_err();
    assert_eq!(
        failed.to_string(),
        "move interrupt 40: it should go to CPUs 1, but goes on coming to 0; everything is as it was before"
    );
    assert_eq!(kernel.values, before);
}

#[test]
fn what_somebody_else_changed_is_restored_and_named_and_what_is_gone_is_let_go() {
    let scratch = Scratch::new("apply-drift");
    let (mut kernel, mut journal) = (kernel(), begin(&scratch));
    apply(&mut kernel, &changes(), &mut journal).unwrap();
    kernel.values.insert(settings()[2].0.clone(), "0000000f\n".into());
    kernel.values.remove(&settings()[0].0);
    let undone = undo(&mut kernel, &mut journal, "asked").steps;
    assert_eq!(undone[3].1, StepOutcome::RestoredOver("0000000f".into()));
    assert_eq!(undone[5].1, StepOutcome::Vanished);
    assert_eq!(journal.state(), PlanState::RolledBack);
}

#[test]
fn threads_that_have_ended_are_left_and_those_that_have_inherited_are_undone() {
    let scratch = Scratch::new("apply-threads");
    let (mut kernel, mut journal) = (kernel(), begin(&scratch));
    let thread = |tid| Setting::Thread { tid };
    let change = |tid| Change {
        setting: thread(tid),
        now: "policy=0 started=50".into(),
        wanted: "policy=1 priority=1 started=50".into(),
        ..changes().remove(0)
    };
    let mut is = |tid, text: &str| kernel.values.insert(thread(tid), text.into());
    is(81, "policy=0 priority=0 nice=3 slice_ns=7 started=50 seen=90");
    let applied = apply(&mut kernel, &[change(81), change(82)], &mut journal).unwrap();
    assert_eq!(
        (applied.done, applied.left),
        (vec![thread(81)], vec![(thread(82), "it is not there any more".into())])
    );

    let mut is = |tid, text: &str| kernel.values.insert(thread(tid), text.into());
    is(90, "policy=1 priority=1 nice=3 slice_ns=0 started=95 seen=99");
    let others =
        [(91, "policy=1 priority=1 started=60 seen=99"), (92, "policy=1 priority=9 started=95 seen=99")];
    others.iter().for_each(|(tid, text)| drop(is(*tid, text)));
    let undone = undo(&mut kernel, &mut journal, "asked");
    assert_eq!(undone.steps, [(thread(81), StepOutcome::Restored), (thread(90), StepOutcome::Restored)]);
    assert_eq!(kernel.values[&thread(90)], "policy=0 priority=0 slice_ns=7\n");
    for (tid, text) in others {
        assert_eq!(kernel.values[&thread(tid)], text, "who has not inherited it keeps it");
    }
    assert_eq!(journal.state(), PlanState::RolledBack);
}

#[test]
fn many_settings_that_could_not_be_undone_are_one() {
    let step =
        |irq| (Setting::mask(format!("/proc/irq/{irq}/smp_affinity")), StepOutcome::Failed("refused".into()));
    let undone = RolledBack { steps: (0..64).map(step).collect(), unrecorded: None };
    let said = "not everything could be undone: /proc/irq/0/smp_affinity: refused (and 63 more like it)";
    assert_eq!(outcome(&undone), said);
}

/// Whether the system's own error is among the causes.
fn is_of_the_system(failed: &Failed) -> bool {
    let causes = std::iter::successors(failed.source(), |cause| (**cause).source());
    causes.into_iter().any(<dyn Error>::is::<io::Error>)
}

#[test]
fn what_the_system_has_refused_is_the_cause_of_a_plan_that_failed() {
    let scratch = Scratch::new("apply-cause");
    let mut kernel = kernel();
    kernel.fault = Some((settings()[2].0.clone(), Fault::Errno(Errno::INVAL)));
    let failed = apply(&mut kernel, &changes(), &mut begin(&scratch)).unwrap_err();
    assert!(is_of_the_system(&failed) && failed.to_string().ends_with("; everything is as it was before"));
    // The second part of a plan cannot be made.
    kernel.fault = None;
    let then = || Err(root::Root::new(scratch.path()).read("/").unwrap_err());
    let failed = apply_then(&mut kernel, &changes(), &mut begin(&scratch), &|| false, then).unwrap_err();
    assert!(is_of_the_system(&failed), "{failed}");
    // Somebody else has changed a setting, which is nobody's refusal.
    kernel.values.insert(settings()[2].0.clone(), "00000001\n".to_owned());
    let failed = apply(&mut kernel, &changes(), &mut begin(&scratch)).unwrap_err();
    assert!(!is_of_the_system(&failed), "{failed}");
}
