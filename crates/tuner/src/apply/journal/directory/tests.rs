use super::*;
use crate::observe::shapes::Scratch;

fn place(boot_id: &str) -> BootAndNamespace {
    BootAndNamespace { boot_id: boot_id.into(), network: None }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o777
}

#[test]
fn two_do_not_work_at_once_and_who_waits_is_told_for_whom() {
    let scratch = Scratch::new("journal-lock");
    let journals = Journals::new(scratch.path());
    let lock = journals.lock().unwrap();
    let error = journals.lock().unwrap_err().to_string();
    let itself = format!("another `evenkeel tune` is at work (PID {}: `", std::process::id());
    assert!(error.contains(&itself) && error.ends_with(" s ago)"), "{error}");
    assert_eq!(journals.holder().map(|holder| holder.pid), Some(std::process::id()));
    // A waiting process calls `stop` at each check.
    let looks = std::cell::Cell::new(0);
    let third = || looks.replace(looks.get() + 1) == 2;
    let error = journals.lock_within(Duration::from_secs(3600), &third).unwrap_err();
    assert!(
        error.to_string().ends_with("it was ended by a signal while it waited; nothing was changed"),
        "{error}"
    );
    drop(lock);
    assert!(matches!(journals.lock_within(Duration::ZERO, &|| true), Err(Error::Stopped { .. })));
    assert_eq!(journals.holder(), None);
    journals.lock().unwrap();
}

#[test]
fn the_directory_and_what_is_in_it_are_for_its_owner_alone() {
    let scratch = Scratch::new("journal-modes");
    let state = scratch.path().join("new/state");
    let journals = Journals::new(&state);
    drop(journals.lock().unwrap());
    let journal = journals.begin(&place("a"), 0, None).unwrap();
    assert_eq!((mode(&state), mode(&state.join(LOCK)), mode(journal.path())), (0o700, 0o600, 0o600));
    // As an earlier version has left it.
    fs::set_permissions(&state, Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(state.join(LOCK), Permissions::from_mode(0o644)).unwrap();
    drop(journals.lock().unwrap());
    assert_eq!((mode(&state), mode(&state.join(LOCK))), (0o700, 0o600));
}

#[test]
fn a_directory_that_others_may_write_to_or_that_is_for_other_things_is_refused_as_it_is() {
    let scratch = Scratch::new("journal-shared");
    let journals = Journals::new(scratch.path());
    let refused = |bits: u32| {
        fs::set_permissions(scratch.path(), Permissions::from_mode(bits)).unwrap();
        let error = journals.lock().unwrap_err().to_string();
        assert_eq!(mode(scratch.path()), bits & 0o777);
        error
    };
    assert!(refused(0o1777).contains("others may write there (mode 1777)"));
    fs::write(scratch.path().join("passwd"), "").unwrap();
    assert!(refused(0o755).contains("it is not for journals alone (passwd)"));
}

#[test]
fn whatever_is_no_journal_is_set_aside_and_its_number_is_not_given_again() {
    let scratch = Scratch::new("journal-damaged");
    let journals = Journals::new(scratch.path());
    let path = |name: &str| scratch.path().join(name);
    let good = journals.begin(&place("a"), 7, None).unwrap();
    let begin = fs::read_to_string(good.path()).unwrap();
    fs::write(path("000002.jsonl"), format!("{begin}{{}}\n")).unwrap();
    fs::write(path("000003.jsonl"), begin.replace("\"version\":1", "\"version\":2")).unwrap();
    fs::write(path("000004.jsonl"), b"\xff\xfe\n\0\n").unwrap();
    fs::create_dir(path("000005.jsonl")).unwrap();
    std::os::unix::fs::symlink(good.path(), path("000006.jsonl")).unwrap();
    let mode = rustix::fs::Mode::RUSR;
    rustix::fs::mknodat(rustix::fs::CWD, path("000007.jsonl"), rustix::fs::FileType::Fifo, mode, 0).unwrap();
    fs::write(path("000008.jsonl"), format!("{begin}{begin}")).unwrap();
    fs::write(path("000009.jsonl"), &begin[..9]).unwrap();
    let (found, damaged) = journals.read().unwrap();
    assert_eq!(found.iter().map(Journal::path).collect::<Vec<_>>(), [good.path()]);
    let said: Vec<String> = damaged.iter().map(|damaged| damaged.error.to_string()).collect();
    assert_eq!(said.len(), 7, "{said:?}");
    assert_eq!(said[0], format!("understand line 2 of {}", path("000002.jsonl").display()));
    assert!(said[1].ends_with("it is of version 2, this program supports 1"), "{said:?}");
    for damaged in &damaged {
        let aside = journals.set_aside(damaged).unwrap();
        assert!(aside.symlink_metadata().is_ok() && damaged.path.symlink_metadata().is_err(), "{damaged:?}");
    }
    let (found, damaged) = journals.read().unwrap();
    assert_eq!((found.len(), damaged.len()), (1, 0));
    assert!(journals.begin(&place("a"), 8, None).unwrap().path().ends_with("000010.jsonl"));
    assert_eq!(fs::read_to_string(path("000002.jsonl.damaged")).unwrap(), format!("{begin}{{}}\n"));
}

#[test]
fn only_journals_that_nobody_can_want_to_undo_are_pruned() {
    let scratch = Scratch::new("journal-prune");
    let journals = Journals::new(scratch.path());
    let now_s = FINISHED_AGE_MAX_S + 1000;
    let finished = |boot: &str, at_unix_s: u64, records: &[JournalRecord]| {
        let mut journal = journals.begin(&place(boot), at_unix_s, Some(1)).unwrap();
        journal.append_all(records.to_vec()).unwrap();
        journal.path().to_owned()
    };
    let rolled_back = JournalRecord::RolledBack { why: String::new() };
    let unfinished = finished("here", 0, &[]);
    let unconfirmed = finished("here", 0, &[JournalRecord::Applied]);
    let in_force = finished("here", 0, &[JournalRecord::Applied, JournalRecord::Confirmed]);
    let old = finished("here", 0, std::slice::from_ref(&rolled_back));
    let of_earlier_boot = finished("earlier", 0, &[JournalRecord::Applied]);
    let young: Vec<PathBuf> =
        (0..FINISHED_MAX + 3).map(|_| finished("here", now_s, std::slice::from_ref(&rolled_back))).collect();
    journals.prune(&place("here"), now_s).unwrap();
    assert!([unfinished, unconfirmed, in_force].iter().all(|path| path.exists()));
    assert!(!old.exists() && !of_earlier_boot.exists());
    assert_eq!(young.iter().filter(|path| path.exists()).count(), FINISHED_MAX);
    assert!(young.last().unwrap().exists());
}
