//! Tests of run directories and of what is restored.

use super::*;
use crate::scratch::Scratch;
use tuner::apply::host::FileHost;
use tuner::apply::journal::{BootAndNamespace, Journal, Journals};
use tuner::apply::try_out;
use tuner::plan::change::{Change, Risk, Stage};
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

/// What a lab that was killed has left in this network namespace: a file that it has changed from 1 to 2.
fn changed(state: &Path, place: &BootAndNamespace, file: &Path) -> Journal {
    std::fs::write(file, "1\n").expect("written");
    let journals = Journals::new(state.join(TUNE));
    let mut journal = journals.begin(place, 7, None).expect("a journal");
    let change = Change {
        stage: Stage::Sysctl,
        setting: Setting::number(file.to_str().expect("text")),
        now: "1".to_owned(),
        wanted: "2".to_owned(),
        why: String::new(),
        asked_by: "lab".to_owned(),
        risk: Risk::Moderate,
        signal: ExpectedSignal::default(),
    };
    try_out(&mut FileHost::new(Root::new("/")), &[change], &mut journal).expect("it is changed");
    journal
}

fn number(file: &Path) -> String {
    std::fs::read_to_string(file).expect("a number").trim().to_owned()
}

#[test]
fn one_thing_that_cannot_be_undone_keeps_the_rest_from_nothing() {
    let scratch = Scratch::new("run-restore");
    let state = scratch.path();
    let here = BootAndNamespace::of(&Root::new("/")).expect("this place");
    let (file, other) = (state.join("file"), state.join("other"));
    drop(changed(state, &here, &file));
    let elsewhere = BootAndNamespace { network: Some("net:[1]".to_owned()), ..here };
    let there = changed(state, &elsewhere, &other).path().to_owned();
    std::fs::create_dir_all(state.join("lab")).expect("a directory");
    std::fs::write(state.join("lab/odd.json"), "{}\n").expect("written");
    let (restored, is_all) = restore(state, true);
    assert_eq!(restored, [format!("{}: as before", file.display())]);
    assert_eq!((number(&file).as_str(), number(&other).as_str()), ("1", "2"));
    let error = is_all.expect_err("two are left").to_string();
    let network = "settings of a run in the network namespace net:[1], which can only be put back in there";
    assert!(error.contains("odd.json") && error.contains(network), "{error}");
    assert!(error.contains(&format!("remove {}", there.display())) && there.exists(), "{error}");
}
