use super::*;
use crate::observe::shapes::Scratch;
use crate::plan::change::Holds;

fn place() -> BootAndNamespace {
    BootAndNamespace { boot_id: "b".into(), network: None }
}

fn step(step: usize) -> JournalRecord {
    JournalRecord::Step {
        step,
        setting: Setting::number("/proc/sys/net/core/somaxconn"),
        before: "1\n".into(),
        wanted: "2".into(),
        why: "because".into(),
        asked_by: "xps".into(),
        interface: None,
        identity: None,
    }
}

#[test]
fn what_was_appended_is_read_again() {
    let scratch = Scratch::new("journal-again");
    let journals = Journals::new(scratch.path().join("a/b"));
    let mut journal = journals.begin(&place(), 7, Some(9)).unwrap();
    journal.append(step(0)).unwrap();
    journal.append(JournalRecord::Done { step: 0 }).unwrap();
    assert_eq!(journal.state(), PlanState::Unfinished);
    journal.append(JournalRecord::Applied).unwrap();
    let again = &journals.all().unwrap()[0];
    assert_eq!(
        (again.state(), again.confirm_by_ms(), again.place()),
        (PlanState::Applied, Some(9), Some(&place()))
    );
    assert_eq!(again.steps(), journal.steps());
    assert_eq!(again.steps()[0].before, "1\n");
    journals.begin(&place(), 8, None).unwrap();
    assert!(journals.all().unwrap()[1].path().ends_with("000002.jsonl"));
}

#[test]
fn a_journal_may_end_anywhere() {
    let scratch = Scratch::new("journal-torn");
    let journals = Journals::new(scratch.path());
    let mut journal = journals.begin(&place(), 7, None).unwrap();
    journal.append(step(0)).unwrap();
    let whole = std::fs::read(journal.path()).unwrap();
    let first = whole.iter().position(|byte| *byte == b'\n').unwrap();
    for len in 0..=whole.len() {
        std::fs::write(journal.path(), &whole[..len]).unwrap();
        let read = Journal::open(journal.path()).unwrap();
        // Without its end, a line counts all the same if it is whole.
        assert_eq!(read.is_some(), len >= first, "{len}");
        let Some(mut read) = read else { continue };
        assert_eq!(read.steps().len(), usize::from(len + 1 >= whole.len()), "{len}");
        read.append(JournalRecord::Applied).unwrap();
        let again = Journal::open(journal.path()).unwrap().unwrap();
        assert_eq!((again.state(), again.is_damaged()), (PlanState::Applied, false), "{len}");
        assert_eq!(again.steps().len(), read.steps().len(), "{len}");
    }
}

#[test]
fn what_a_failed_write_has_left_is_cut_before_the_next_one() {
    let scratch = Scratch::new("journal-failed");
    let journals = Journals::new(scratch.path());
    let mut journal = journals.begin(&place(), 7, None).unwrap();
    journal.append(step(0)).unwrap();
    // As if the disk had been full in the middle of the second of two lines.
    journal.file = Some(OpenOptions::new().write(true).open("/dev/full").unwrap());
    let error = journal.append(JournalRecord::Done { step: 0 }).unwrap_err().with_causes();
    assert!(error.starts_with("append to ") && error.contains("No space left"), "{error}");
    let mut file = OpenOptions::new().append(true).open(journal.path()).unwrap();
    let left_behind = lines(&[JournalRecord::Done { step: 0 }]) + "{\"reco";
    file.write_all(left_behind.as_bytes()).unwrap();
    journal.file = None;
    journal.append(JournalRecord::Applied).unwrap();
    let again = Journal::open(journal.path()).unwrap().unwrap();
    assert_eq!((again.state(), &again.records), (PlanState::Applied, &journal.records));
    assert_eq!(again.records.len(), 3);
}

/// A journal of a plan in force, and where it may keep what it cannot take.
fn with_spare(scratch: &Scratch) -> (Journals, Journal) {
    let spare = scratch.path().join("spare");
    let journals = Journals::new(scratch.path().join("state")).with_spare(spare);
    let mut journal = journals.begin(&place(), 7, None).unwrap();
    journal.append_all(vec![step(0), JournalRecord::Applied]).unwrap();
    (journals, journal)
}

/// As if the disk had been full: nothing, or something, of what is written is there.
fn fill(journal: &mut Journal, left_behind: &str) {
    journal.file = Some(OpenOptions::new().write(true).open("/dev/full").unwrap());
    let mut file = OpenOptions::new().append(true).open(journal.path()).unwrap();
    file.write_all(left_behind.as_bytes()).unwrap();
}

#[test]
fn what_a_journal_cannot_take_is_kept_until_it_can() {
    let whole = lines(&[JournalRecord::Applied]) + "{\"reco";
    for left_behind in ["", "{\"reco", &whole] {
        let scratch = Scratch::new("journal-spare");
        let (journals, mut journal) = with_spare(&scratch);
        fill(&mut journal, left_behind);
        journal.rolling_back("asked").unwrap();
        let mut again = journals.all().unwrap().remove(0);
        assert_eq!((again.state(), again.steps()[0].undone), (PlanState::Unfinished, false));
        assert!(again.spare_path().is_some_and(|path| path.exists()));
        // The way back goes on in another process, and can be recorded no more than before.
        again.file = Some(OpenOptions::new().write(true).open("/dev/full").unwrap());
        again.undone(&[0], Some("asked")).unwrap();
        let mut again = journals.all().unwrap().remove(0);
        assert_eq!((again.state(), again.steps()[0].undone), (PlanState::RolledBack, true));
        let spare = again.spare_path().unwrap();
        again.save();
        assert!(!spare.exists() && again.spare_path().is_none());
        let saved = Journal::open(journal.path()).unwrap().unwrap();
        assert_eq!((saved.state(), saved.is_torn), (PlanState::RolledBack, false), "{left_behind}");
        assert_eq!(saved.records, again.records);
    }
}

#[test]
fn spare_records_of_a_journal_that_has_become_another_one_count_no_longer() {
    let scratch = Scratch::new("journal-spare-old");
    let (journals, mut journal) = with_spare(&scratch);
    fill(&mut journal, "");
    journal.undone(&[0], Some("asked")).unwrap();
    let spare = journal.spare_path().unwrap();
    assert_eq!(journals.all().unwrap()[0].state(), PlanState::RolledBack);
    let text = std::fs::read(journal.path()).unwrap();
    let mut without = Journal::open(journal.path()).unwrap().unwrap();
    without.append(JournalRecord::Confirmed).unwrap();
    assert_eq!(journals.all().unwrap()[0].state(), PlanState::Confirmed);
    // Nor do those that others could have written.
    std::fs::write(journal.path(), text).unwrap();
    assert_eq!(journals.all().unwrap()[0].state(), PlanState::RolledBack);
    let directory = spare.parent().unwrap();
    std::fs::set_permissions(directory, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    assert_eq!(journals.all().unwrap()[0].state(), PlanState::Applied);
}

#[test]
fn a_reason_is_cut_to_what_there_is_room_for() {
    let scratch = Scratch::new("journal-reason");
    let mut journal = Journals::new(scratch.path()).begin(&place(), 7, None).unwrap();
    journal.append_all(vec![step(0), JournalRecord::Applied]).unwrap();
    let why = "\u{1}".repeat(2 * WHY_CHARS_MAX);
    let len = journal.len;
    journal.rolling_back(&why).unwrap();
    journal.undone(&[0], Some(&why)).unwrap();
    assert!(journal.len - len < END_ROOM && journal.state() == PlanState::RolledBack);
    assert_eq!(journal.undone_because().map(str::len), Some(WHY_CHARS_MAX));
}

/// What the records say, in whatever order they are and however often each is there.
#[track_caller]
fn check(records: &[JournalRecord], state: PlanState) {
    let scratch = Scratch::new("journal-order");
    let mut journal = Journals::new(scratch.path()).begin(&place(), 7, Some(9)).unwrap();
    journal.append_all(records.to_vec()).unwrap();
    let text = std::fs::read_to_string(journal.path()).unwrap();
    let forwards: Vec<&str> = text.split_inclusive('\n').collect();
    let backwards: Vec<&str> = forwards.iter().rev().copied().collect();
    for lines in [&forwards, &backwards, &[&forwards[..], &backwards].concat()] {
        std::fs::write(journal.path(), lines.concat()).unwrap();
        let read = Journal::open(journal.path()).unwrap().unwrap();
        assert_eq!((read.state(), read.confirm_by_ms()), (state, Some(9)), "{lines:?}");
        assert_eq!((read.steps(), read.is_damaged()), (journal.steps(), false), "{lines:?}");
    }
}

#[test]
fn the_order_of_lines_and_their_number_mean_nothing() {
    let (undone, why) = (JournalRecord::Undone { step: 0 }, String::new);
    let rolled_back = JournalRecord::RolledBack { why: why(), unread: None };
    let applied = [step(0), step(1), JournalRecord::Left { step: 1, why: why() }, JournalRecord::Applied];
    let check_with = |more: &[JournalRecord], state| check(&[&applied[..], more].concat(), state);
    check(&applied[..3], PlanState::Unfinished);
    check_with(&[], PlanState::Applied);
    check_with(&[JournalRecord::Confirmed], PlanState::Confirmed);
    check_with(&[JournalRecord::Confirmed, JournalRecord::RollingBack { why: why() }], PlanState::Unfinished);
    check_with(std::slice::from_ref(&undone), PlanState::Unfinished);
    check_with(&[undone, rolled_back], PlanState::RolledBack);
}

#[test]
fn whatever_line_of_a_confirmed_plan_cannot_be_read_it_stays_confirmed_and_of_its_boot() {
    let scratch = Scratch::new("journal-confirmed");
    let mut journal = Journals::new(scratch.path()).begin(&place(), 7, Some(9)).unwrap();
    journal.append_all(vec![step(0), JournalRecord::Applied]).unwrap();
    journal.confirm().unwrap();
    let text = std::fs::read_to_string(journal.path()).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    assert_eq!(lines.len(), 6);
    for index in 0..lines.len() {
        let mut damaged = lines.clone();
        damaged[index] = "\0\0\0\n";
        std::fs::write(journal.path(), damaged.concat()).unwrap();
        let read = Journal::open(journal.path()).unwrap().unwrap();
        assert_eq!((read.state(), read.place()), (PlanState::Confirmed, Some(&place())), "{index}");
        assert_eq!((read.confirm_by_ms(), read.unread()), (Some(9), &[index + 1][..]));
    }
}

#[test]
fn a_line_about_a_setting_that_no_plan_sets_counts_as_unread() {
    let scratch = Scratch::new("journal-foreign");
    let mut journal = Journals::new(scratch.path()).begin(&place(), 7, None).unwrap();
    let JournalRecord::Step { before, wanted, why, asked_by, .. } = step(1) else { panic!("it is a step") };
    let setting = Setting::File { path: "/proc/sys/kernel/core_pattern".into(), holds: Holds::Words };
    let kept =
        JournalRecord::Kept { step: 2, setting: setting.clone(), before: before.clone(), interface: None };
    let (interface, identity) = (None, None);
    let foreign =
        JournalRecord::Step { step: 1, setting, before, wanted, why, asked_by, interface, identity };
    journal.append_all(vec![step(0), foreign, kept]).unwrap();
    let read = Journal::open(journal.path()).unwrap().unwrap();
    assert_eq!((read.steps().len(), read.unread()), (1, &[4, 5][..]));
}

#[test]
fn a_step_number_beyond_all_others_is_no_panic() {
    let scratch = Scratch::new("journal-number");
    let mut journal = Journals::new(scratch.path()).begin(&place(), 7, None).unwrap();
    journal.append_all(vec![step(usize::MAX), JournalRecord::Undone { step: usize::MAX }]).unwrap();
    let read = Journal::open(journal.path()).unwrap().unwrap();
    assert_eq!((read.next_step(), read.is_damaged()), (usize::MAX, true));
}

#[test]
fn nothing_is_cut_from_a_damaged_file() {
    let scratch = Scratch::new("journal-uncut");
    let mut journal = Journals::new(scratch.path()).begin(&place(), 7, None).unwrap();
    journal.append(step(0)).unwrap();
    let whole = std::fs::read(journal.path()).unwrap();
    for damaged in [[&whole[..], b"\0\0\0"].concat(), [&whole[..whole.len() - 1], b"\x8a"].concat()] {
        std::fs::write(journal.path(), &damaged).unwrap();
        let mut read = Journal::open(journal.path()).unwrap().unwrap();
        assert_eq!((read.steps().len(), read.unread().len()), (1, 1));
        read.append(JournalRecord::Applied).unwrap();
        assert!(std::fs::read(journal.path()).unwrap().starts_with(&damaged));
        let again = Journal::open(journal.path()).unwrap().unwrap();
        assert_eq!(
            (again.state(), again.steps(), again.unread()),
            (PlanState::Applied, read.steps(), read.unread())
        );
    }
    // Of a file that is too long, nothing that is not read is cut either.
    let file = OpenOptions::new().write(true).open(journal.path()).unwrap();
    file.set_len(LEN_MAX + 7).unwrap();
    let mut read = Journal::open(journal.path()).unwrap().unwrap();
    assert!(read.steps().len() == 1 && read.is_damaged() && read.append(JournalRecord::Applied).is_err());
    assert_eq!(file.metadata().unwrap().len(), LEN_MAX + 7);
}
