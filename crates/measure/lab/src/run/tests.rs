//! Tests of run directories and of what is restored.

use super::*;
use crate::scratch::Scratch;
use tuner::apply::host::FileHost;
use tuner::apply::journal::{BootAndNamespace, Journal, Journals};
use tuner::apply::try_out;
use tuner::plan::change::{Change, Holds, Risk, Stage};
use tuner::plan::signal::ExpectedSignal;
use tuner::{Root, Setting};

#[test]
fn a_directory_is_one_word_for_the_shell() {
    assert!(is_one_word(Path::new("/srv/größe-1.run/a_b+c,d")).is_ok());
    for odd in ["/a b", "/a'b", "/a$b", "/a*", "/~/a#b", "/a{b}", "/a\tb", "/a;b"] {
        let error = is_one_word(Path::new(odd)).expect_err(odd).to_string();
        assert!(error.contains("choose another one with --out DIR"), "{error}");
    }
}

/// What a lab that was killed has left in this network namespace: a sysctl that it has changed from 1 to 2.
fn changed(root: &Path, place: &BootAndNamespace, sysctl: &str) -> Journal {
    let setting = Setting::sysctl(sysctl, Holds::Words);
    let file = root.join(setting.to_string().trim_start_matches('/'));
    std::fs::create_dir_all(file.parent().expect("a directory")).expect("made");
    std::fs::write(file, "1\n").expect("written");
    let journals = Journals::new(root.join(TUNE));
    let mut journal = journals.begin(place, 7, None).expect("a journal");
    let change = Change {
        stage: Stage::Sysctl,
        setting,
        now: "1".to_owned(),
        wanted: "2".to_owned(),
        why: String::new(),
        asked_by: "lab".to_owned(),
        risk: Risk::Moderate,
        signal: ExpectedSignal::default(),
    };
    try_out(&mut FileHost::new(Root::new(root)), &[change], &mut journal).expect("it is changed");
    journal
}

fn number(root: &Path, sysctl: &str) -> String {
    std::fs::read_to_string(root.join("proc/sys").join(sysctl)).expect("a number").trim().to_owned()
}

/// A captured host, which is its own state directory.
fn host(scratch: &Scratch) -> (Root, BootAndNamespace) {
    let boot = scratch.path().join("proc/sys/kernel/random");
    std::fs::create_dir_all(&boot).expect("made");
    std::fs::write(boot.join("boot_id"), "first\n").expect("written");
    let root = Root::new(scratch.path());
    let here = BootAndNamespace::of(&root).expect("this place");
    (root, here)
}

#[test]
fn one_thing_that_cannot_be_undone_keeps_the_rest_from_nothing() {
    let scratch = Scratch::new("run-restore");
    let state = scratch.path();
    let (root, here) = host(&scratch);
    drop(changed(state, &here, "kernel.one"));
    let elsewhere = BootAndNamespace { network: Some("net:[1]".to_owned()), ..here };
    let there = changed(state, &elsewhere, "kernel.other").path().to_owned();
    std::fs::create_dir_all(state.join("lab")).expect("a directory");
    std::fs::write(state.join("lab/odd.json"), "{}\n").expect("written");
    let (restored, is_all) = restore_host(&root, state, true);
    assert_eq!(restored, ["/proc/sys/kernel/one: as before"]);
    assert_eq!((number(state, "kernel/one").as_str(), number(state, "kernel/other").as_str()), ("1", "2"));
    let error = is_all.expect_err("two are left").to_string();
    let network = "settings of a run in the network namespace net:[1], which can only be put back in there";
    assert!(error.contains("odd.json") && error.contains(network), "{error}");
    assert!(error.contains(&format!("remove {}", there.display())) && there.exists(), "{error}");
}

#[test]
fn a_line_that_cannot_be_read_keeps_the_rest_from_nothing_and_its_file_for_people() {
    let scratch = Scratch::new("run-unread");
    let (root, here) = host(&scratch);
    let path = changed(scratch.path(), &here, "kernel.one").path().to_owned();
    let text = std::fs::read_to_string(&path).expect("a journal");
    std::fs::write(&path, format!("{text}unreadable\n")).expect("written");
    let (restored, is_all) = restore_host(&root, scratch.path(), true);
    assert_eq!(
        (restored, number(scratch.path(), "kernel/one").as_str()),
        (vec!["/proc/sys/kernel/one: as before".to_owned()], "1")
    );
    let error = is_all.expect_err("a line cannot be read").to_string();
    assert!(error.contains("in lines that cannot be read; what can be read is as before"), "{error}");
    assert!(path.exists());
}
