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

fn step(step: usize) -> JournalRecord {
    JournalRecord::Step {
        step,
        setting: crate::plan::change::Setting::number("/proc/sys/net/core/somaxconn"),
        before: "128\n".into(),
        wanted: "4096".into(),
        why: String::new(),
        asked_by: String::new(),
        interface: None,
        identity: None,
    }
}

/// The doubts of a directory, in the words that follow its path.
fn doubts(journals: &Journals, boot_id: &str) -> Vec<String> {
    let directory = format!("{}/", journals.directory.display());
    let doubts = journals.read().unwrap().doubts(&place(boot_id)).into_iter();
    doubts
        .map(|doubt| doubt.to_string().replace(&directory, "").split(';').next().unwrap().to_owned())
        .collect()
}

#[test]
fn whatever_cannot_be_read_is_named_and_keeps_no_journal_from_being_read() {
    let scratch = Scratch::new("journal-damaged");
    let journals = Journals::new(scratch.path());
    let path = |name: &str| scratch.path().join(name);
    let good = journals.begin(&place("a"), 7, None).unwrap();
    let begin = fs::read_to_string(good.path()).unwrap();
    fs::write(path("000002.jsonl"), format!("{begin}{{}}\n")).unwrap();
    fs::write(path("000003.jsonl"), b"\xff\xfe\n\0\n").unwrap();
    fs::create_dir(path("000004.jsonl")).unwrap();
    std::os::unix::fs::symlink(good.path(), path("000005.jsonl")).unwrap();
    let mode = rustix::fs::Mode::RUSR;
    rustix::fs::mknodat(rustix::fs::CWD, path("000006.jsonl"), rustix::fs::FileType::Fifo, mode, 0).unwrap();
    // A process that was killed while it began.
    fs::write(path("000007.jsonl"), &begin[..9]).unwrap();
    fs::write(path("000008.jsonl"), "").unwrap();
    // Emptied by somebody, since what is expected of its plan is kept later.
    fs::write(path("000009.jsonl"), "").unwrap();
    fs::write(path("000009.promise.json"), "{}").unwrap();
    let said = doubts(&journals, "a");
    let starts = [
        "000002.jsonl: line 2 cannot be read",
        "000003.jsonl: 2 lines cannot be read (1, 2)",
        "000004.jsonl: nothing in it can be read (read 000004.jsonl: it is no file of ours)",
        "000005.jsonl: nothing in it can be read (read 000005.jsonl: Too many levels of symbolic links",
        "000006.jsonl: nothing in it can be read (read 000006.jsonl: it is no file of ours)",
        "000009.jsonl: nothing in it can be read (read 000009.jsonl: it is empty)",
    ];
    assert_eq!(said.len(), starts.len(), "{said:?}");
    assert!(said.iter().zip(starts).all(|(said, start)| said.starts_with(start)), "{said:?}");
    let all = journals.all().unwrap();
    let names = all.iter().map(|journal| journal.path().file_name().unwrap().to_str().unwrap());
    assert_eq!(names.collect::<Vec<_>>(), ["000001.jsonl", "000002.jsonl", "000003.jsonl"]);
    // Its settings have ended with its boot; what does not say of which boot it is, may be of this one.
    assert!(doubts(&journals, "b")[0].starts_with("000003.jsonl"));
    assert!(journals.begin(&place("a"), 8, None).unwrap().path().ends_with("000010.jsonl"));
}

#[test]
fn a_doubt_stays_although_everything_that_can_be_read_is_undone() {
    let scratch = Scratch::new("journal-doubt");
    let journals = Journals::new(scratch.path());
    let mut journal = journals.begin(&place("a"), 7, None).unwrap();
    journal.append_all(vec![step(0), JournalRecord::Applied]).unwrap();
    journal.undone(&[0], Some("asked")).unwrap();
    let whole = fs::read_to_string(journal.path()).unwrap();
    let damaged = whole.replace("\"applied\"", "\"applaud\"");
    // Undone when everything could be read.
    fs::write(journal.path(), &damaged).unwrap();
    assert_eq!(doubts(&journals, "a"), [""; 0]);
    // Damaged before, and undone as far as it could be read.
    let (before, _) = damaged.split_once("{\"record\":\"undone\"").unwrap();
    fs::write(journal.path(), before).unwrap();
    let mut journal = journals.all().unwrap().remove(0);
    journal.undone(&[0], Some("asked")).unwrap();
    assert_eq!(journals.all().unwrap()[0].state(), PlanState::RolledBack);
    assert_eq!(doubts(&journals, "a"), ["000001.jsonl: line 4 cannot be read"]);
    assert_eq!(doubts(&journals, "b"), [""; 0]);
    // It is never removed.
    journals.prune(&place("b"), FINISHED_AGE_MAX_S + 1000).unwrap();
    assert!(journal.path().exists());
}

#[test]
fn a_line_that_is_gone_is_missed() {
    let scratch = Scratch::new("journal-missing");
    let journals = Journals::new(scratch.path());
    let mut journal = journals.begin(&place("a"), 7, None).unwrap();
    (0..3).for_each(|number| {
        journal.append_all(vec![step(number), JournalRecord::Done { step: number }]).unwrap()
    });
    let text = fs::read_to_string(journal.path()).unwrap();
    assert_eq!(doubts(&journals, "a"), [""; 0]);
    for number in 0..3 {
        let lines =
            text.split_inclusive('\n').filter(|line| !line.contains(&format!("\"step\",\"step\":{number},")));
        fs::write(journal.path(), lines.collect::<String>()).unwrap();
        assert_eq!(doubts(&journals, "a"), ["000001.jsonl: lines of it are missing"], "{number}");
    }
    let lines = text.split_inclusive('\n').filter(|line| !line.contains("\"begin\""));
    fs::write(journal.path(), lines.collect::<String>()).unwrap();
    assert_eq!(doubts(&journals, "b"), ["000001.jsonl: lines of it are missing"]);
}

#[test]
fn another_version_is_refused_unless_its_settings_have_ended_with_its_boot() {
    let scratch = Scratch::new("journal-version");
    let journals = Journals::new(scratch.path());
    let good = journals.begin(&place("a"), 7, None).unwrap();
    let old = "{\"record\":\"begin\",\"version\":1,\"place\":{\"boot_id\":\"a\",\"network\":null}}\n";
    let path = scratch.path().join("000002.jsonl");
    fs::write(&path, old).unwrap();
    let error = journals.read().unwrap().of_this_version(&place("a")).unwrap_err().to_string();
    let what = format!(
        "read {}: it is of format version 1, and this evenkeel reads version 2 alone",
        path.display()
    );
    assert_eq!(error, what);
    assert_eq!(journals.read().unwrap().doubts(&place("a")), [JournalDoubt::OtherVersion { error: what }]);
    let all = journals.read().unwrap().of_this_version(&place("b")).unwrap();
    assert_eq!(all.iter().map(Journal::path).collect::<Vec<_>>(), [good.path()]);
    assert_eq!(doubts(&journals, "b"), [""; 0]);
    fs::write(&path, "{\"record\":\"begin\",\"version\":9}\n").unwrap();
    assert!(journals.read().unwrap().of_this_version(&place("b")).is_err());
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
    let rolled_back = JournalRecord::RolledBack { why: String::new(), unread: None };
    let unfinished = finished("here", 0, &[]);
    let unconfirmed = finished("here", 0, &[JournalRecord::Applied]);
    let in_force = finished("here", 0, &[JournalRecord::Applied, JournalRecord::Confirmed]);
    let old = finished("here", 0, std::slice::from_ref(&rolled_back));
    let in_doubt = finished("here", 0, &[JournalRecord::RolledBack { why: String::new(), unread: Some(0) }]);
    let of_earlier_boot = finished("earlier", 0, &[JournalRecord::Applied]);
    let young: Vec<PathBuf> =
        (0..FINISHED_MAX + 3).map(|_| finished("here", now_s, std::slice::from_ref(&rolled_back))).collect();
    journals.prune(&place("here"), now_s).unwrap();
    assert!([unfinished, unconfirmed, in_force, in_doubt].iter().all(|path| path.exists()));
    assert!(!old.exists() && !of_earlier_boot.exists());
    assert_eq!(young.iter().filter(|path| path.exists()).count(), FINISHED_MAX);
    assert!(young.last().unwrap().exists());
}
