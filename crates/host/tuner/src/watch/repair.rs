//! Repair of drift: sets a plan's value again.
//!
//! The plan's journal gets a line before the write. The value from before the plan stays the one that rollback
//! restores; the drifted value is in that line, for users who miss it.

use super::desired_state::DesiredState;
use super::look::Found;
use crate::apply::host::HostAccess;
use crate::apply::journal::{Journal, JournalRecord};
use crate::apply::{StepError, refused, write};

/// Repairs are recorded in a journal of at most this length. Of a journal that is longer than 64 MiB the rest is not
/// read, and ten settings that are reset every five minutes make 80 MB a year. Rollback needs no record of a repair.
const RECORDED_LEN_MAX: u64 = 8 << 20;

/// Sets it again and reads it back; also a setting that reads right and has no effect. The caller has the lock, and
/// has read the journal and the desired state since it got it.
pub fn repair(
    host: &mut dyn HostAccess,
    journal: &mut Journal,
    desired: &DesiredState,
    seen: &Found,
) -> Result<(), StepError> {
    let (setting, wanted, step) = (&desired.setting, &desired.wanted, desired.step);
    let found = host.read(setting).map_err(|source| refused("read", setting, source))?;
    if setting.same(&found, wanted) && !matches!(seen, Found::Elsewhere(_)) {
        return Ok(());
    }
    let is_recorded = journal.len() < RECORDED_LEN_MAX;
    if is_recorded {
        journal.append(JournalRecord::Repair { step, found })?;
    }
    write(host, setting, wanted).map_err(|source| refused("write", setting, source))?;
    let found = host.read(setting).map_err(|source| refused("read", setting, source))?;
    if !setting.same(&found, wanted) {
        return Err(StepError::NotTaken { setting: setting.clone(), wanted: wanted.clone(), found });
    }
    if is_recorded {
        journal.append(JournalRecord::Done { step })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::host::FileHost;
    use crate::apply::journal::{BootAndNamespace, Journals, PlanState};
    use crate::apply::rollback::{StepOutcome, undo};
    use crate::observe::root::Root;
    use crate::observe::shapes::Scratch;
    use crate::plan::change::Setting;
    use crate::watch::desired_states;

    const BEFORE: &str = "00000000,00000000\n";
    const MASK: &str = "/sys/class/net/eth0/queues/rx-0/rps_cpus";

    fn mask_file(scratch: &Scratch) -> std::path::PathBuf {
        scratch.path().join(MASK.trim_start_matches('/'))
    }

    /// A plan in force that has set the mask to 3.
    fn applied(scratch: &Scratch) -> (Journals, FileHost) {
        std::fs::create_dir_all(mask_file(scratch).parent().unwrap()).unwrap();
        let journals = Journals::new(scratch.path().join("state"));
        let mut journal =
            journals.begin(&BootAndNamespace { boot_id: "b".into(), network: None }, 0, None).unwrap();
        let step = JournalRecord::Step {
            step: 0,
            setting: Setting::mask(MASK),
            before: BEFORE.into(),
            wanted: "3".into(),
            why: String::new(),
            asked_by: String::new(),
            interface: None,
            identity: None,
        };
        for record in
            [step, JournalRecord::Done { step: 0 }, JournalRecord::Applied, JournalRecord::Confirmed]
        {
            journal.append(record).unwrap();
        }
        (journals, FileHost::new(Root::new(scratch.path())))
    }

    #[test]
    fn a_journal_grows_by_repairs_up_to_a_limit_and_repairs_go_on() {
        let scratch = Scratch::new("watch-repair-limit");
        let (journals, mut host) = applied(&scratch);
        let mut journal = journals.all().unwrap().remove(0);
        let repairs = JournalRecord::Repair { step: 0, found: "x".repeat(RECORDED_LEN_MAX as usize) };
        journal.append(repairs).unwrap();
        let len = journal.len();
        let file = mask_file(&scratch);
        std::fs::write(&file, BEFORE).unwrap();
        let desired = desired_states(&journals.all().unwrap()).remove(0);
        repair(&mut host, &mut journal, &desired, &Found::Text("0".into())).unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "3");
        assert_eq!((journal.len(), std::fs::metadata(journal.path()).unwrap().len()), (len, len));
    }

    #[test]
    fn the_value_from_before_the_plan_stays_the_one_that_is_restored() {
        let scratch = Scratch::new("watch-repair");
        let file = mask_file(&scratch);
        let setting = Setting::mask(MASK);
        let (journals, mut host) = applied(&scratch);
        let mut journal = journals.all().unwrap().remove(0);
        // An administrator's value, found by the watch.
        std::fs::write(&file, "00000000,00000002\n").unwrap();
        let desired = desired_states(&journals.all().unwrap()).remove(0);
        repair(&mut host, &mut journal, &desired, &Found::Text("2".into())).unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "3");
        let mut journal = journals.all().unwrap().remove(0);
        assert_eq!(journal.state(), PlanState::Confirmed);
        // What holds is not written, unless it has no effect.
        let repairs = |journals: &Journals| {
            let text = std::fs::read_to_string(journals.all().unwrap()[0].path()).unwrap();
            text.matches("\"repair\"").count()
        };
        repair(&mut host, &mut journal, &desired, &Found::Text("2".into())).unwrap();
        assert_eq!(repairs(&journals), 1);
        repair(&mut host, &mut journal, &desired, &Found::Elsewhere("0".into())).unwrap();
        assert_eq!(repairs(&journals), 2);
        assert_eq!(desired_states(&[journal]), [desired], "what should be has not changed");
        journal = journals.all().unwrap().remove(0);
        let undone = undo(&mut host, &mut journal, "asked");
        assert_eq!(undone.steps, [(setting, StepOutcome::Restored)]);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), BEFORE);
    }
}
