use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fleet::waves::{ChangeNumber, HostOrder};

use super::act::NoteKey;
use super::*;
use crate::agent::changes::actor::{ActPhase, ActState, HostActor};
use crate::agent::settings::UpgradedMember;
use crate::service::turn::{ChangeOrder, HostAct, ProcessReport};
use crate::wire::PeerPlace;

/// A host whose only server is this process: nothing on it can be reloaded.
fn host(name: &str) -> (PathBuf, HostUpgrade) {
    let folder = std::env::temp_dir().join(format!("evenkeel-upgrade-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("agent")).expect("a folder");
    for version in ["one", "two"] {
        fs::write(folder.join(version), format!("#!/bin/sh\necho evenkeel {version}\n")).expect("written");
        fs::set_permissions(folder.join(version), Permissions::from_mode(0o755)).expect("permissions");
    }
    symlink(folder.join("one"), folder.join("current")).expect("a link");
    let member = UpgradedMember {
        name: "server m1".to_owned(),
        kind: UpgradedKind::Server,
        place: PeerPlace { address: "127.0.0.1:1".to_owned(), tls: None },
        process: Arc::new(|| ProcessReport::Running { pid: std::process::id() }),
        reload: vec!["/bin/true".to_owned()],
    };
    let settings = UpgradeSettings {
        link: folder.join("current"),
        programs: folder.join("{version}").display().to_string(),
        within: Duration::from_secs(1),
        members: vec![member],
        others: Vec::new(),
        by_hand: Vec::new(),
        agent: None,
    };
    let upgrade = HostUpgrade::alone(settings, &folder.join("agent"), Arc::new(|_, _| ()));
    (folder, upgrade.expect("an agent"))
}

#[track_caller]
fn check_refused(name: &str, version: &str, change: impl FnOnce(&Path, &mut HostUpgrade), expected: &str) {
    let (folder, mut upgrade) = host(name);
    change(&folder, &mut upgrade);
    let error = upgrade.planned(version).expect_err("refused");
    assert!(error.contains(expected), "{error}");
    fs::remove_dir_all(&folder).expect("it is ours");
}

#[test]
fn what_a_host_cannot_have_is_refused_with_the_reason() {
    check_refused("other", "two", |_, _| (), "server m1 runs another program");
    check_refused("none", "three", |_, _| (), "three: No such file");
    for way_out in ["../two", "", ".", "a/b", "-x"] {
        check_refused("way-out", way_out, |_, _| (), "expected a version of letters");
    }
    let open = |folder: &Path, _: &mut HostUpgrade| {
        fs::set_permissions(folder.join("two"), Permissions::from_mode(0o757)).expect("permissions");
    };
    check_refused("open", "two", open, "two can be written by others");
    let no_program = |folder: &Path, _: &mut HostUpgrade| {
        fs::set_permissions(folder.join("two"), Permissions::from_mode(0o644)).expect("permissions");
    };
    check_refused("mode", "two", no_program, "is no program");
    let no_link = |folder: &Path, _: &mut HostUpgrade| {
        fs::remove_file(folder.join("current")).expect("it is there");
        fs::copy(folder.join("one"), folder.join("current")).expect("a copy");
    };
    check_refused("no-link", "two", no_link, "is no symbolic link");
    let without_reload = |_: &Path, upgrade: &mut HostUpgrade| {
        upgrade.settings.others.push(("server m2".to_owned(), "it has no reload".to_owned()));
    };
    check_refused("others", "two", without_reload, "server m2: it has no reload");
    let by_path = |_: &Path, upgrade: &mut HostUpgrade| {
        upgrade.settings.members[0].reload = vec!["systemctl".to_owned()];
    };
    let refused = "server m1: its reload: expected an absolute path, found systemctl";
    check_refused("by-path", "two", by_path, refused);
    let open_reload = |folder: &Path, upgrade: &mut HostUpgrade| {
        let reload = folder.join("reload");
        fs::write(&reload, "#!/bin/sh\n").expect("written");
        fs::set_permissions(&reload, Permissions::from_mode(0o777)).expect("permissions");
        upgrade.settings.members[0].reload = vec![reload.display().to_string()];
    };
    check_refused("open-reload", "two", open_reload, "reload can be written by others");
    let down = |_: &Path, upgrade: &mut HostUpgrade| {
        upgrade.settings.members[0].process = Arc::new(|| ProcessReport::Down);
    };
    check_refused("down", "two", down, "server m1 does not run");
}

#[test]
fn how_far_a_host_is_follows_from_its_link_and_its_processes() {
    let (folder, mut upgrade) = host("far");
    let own = PathBuf::from("/proc/self/exe").canonicalize().expect("this program");
    let digest = upgrade.digests.of(&fs::File::open(&own).expect("it"), &own).expect("a digest");
    let other = answer_digest(b"another program");
    let programs = |before: &AnswerDigest, after: &AnswerDigest| TwoPrograms {
        before: ProgramId { path: folder.join("one"), digest: before.clone() },
        after: ProgramId { path: folder.join("two"), digest: after.clone() },
        since: 0,
    };
    let (to_other, to_own) = (programs(&digest, &other), programs(&other, &digest));
    assert_eq!(upgrade.program(&to_other), Ok(HostProgram::Before));
    assert!(matches!(upgrade.program(&to_own), Ok(HostProgram::Between(_))), "the link is behind");
    ProgramLink::new(&folder.join("current"))
        .and_then(|link| link.point_to(&folder.join("two")))
        .expect("two");
    assert_eq!(upgrade.program(&to_own), Ok(HostProgram::After));
    assert!(matches!(upgrade.program(&to_other), Ok(HostProgram::Between(_))), "the process is behind");
    upgrade.settings.members[0].process = Arc::new(|| ProcessReport::Down);
    assert_eq!(upgrade.program(&to_other), Ok(HostProgram::After), "what starts it starts the new one");
    fs::remove_dir_all(&folder).expect("it is ours");
}

impl HostUpgrade {
    /// The digest of this process's program.
    fn program_of_test(&mut self) -> AnswerDigest {
        let own = PathBuf::from("/proc/self/exe").canonicalize().expect("this program");
        self.digests.of(&fs::File::open(&own).expect("it"), &own).expect("a digest")
    }
}

/// A host that has the program `two` by its link, and what is noted of it. Its server is this process, and gives no answer.
fn host_with_two(name: &str) -> (PathBuf, HostUpgrade, NoteKey) {
    let (folder, mut upgrade) = host(name);
    let own = PathBuf::from("/proc/self/exe").canonicalize().expect("this program");
    let digest = upgrade.digests.of(&fs::File::open(&own).expect("it"), &own).expect("a digest");
    let one = Program::open(&folder.join("one")).expect("a program");
    let before = upgrade.id(&one).expect("a digest");
    let after = ProgramId { path: folder.join("two"), digest };
    let programs = TwoPrograms { before, after, since: ticks_now() };
    ProgramLink::new(&folder.join("current"))
        .and_then(|link| link.point_to(&folder.join("two")))
        .expect("two");
    let key = upgrade.note_for_test(programs);
    (folder, upgrade, key)
}

#[test]
fn a_server_that_has_ended_since_is_no_proof_of_the_program() {
    let (folder, mut upgrade, key) = host_with_two("ended");
    let waiting = |state| matches!(state, Ok(ActState::There { attempt: 1, phase: ActPhase::Waiting(_) }));
    assert!(waiting(upgrade.look_at(&key)), "it runs");
    upgrade.settings.members[0].process = Arc::new(|| ProcessReport::Down);
    let there = ActState::There { attempt: 1, phase: ActPhase::Interrupted };
    assert_eq!(upgrade.look_at(&key), Ok(there));
    let error = upgrade.keep_it(&key).expect_err("it does not run");
    assert!(error.starts_with("server m1 does not run"), "{error}");
    let target = ProgramLink::new(&folder.join("current")).and_then(|link| link.target());
    assert_eq!(target, Ok(folder.join("one")), "what starts it next starts the old one");
    fs::remove_dir_all(&folder).expect("it is ours");
}

#[test]
fn a_host_keeps_a_version_when_its_agent_has_it_too_and_goes_back_with_it() {
    let (folder, mut upgrade, key) = host_with_two("agent");
    let digest = answer_digest(b"the program before");
    let agent =
        |digest: AnswerDigest| Some(Arc::new(AgentProgram::for_test(&folder.join("current"), digest)));
    let own = upgrade.program_of_test();
    let there = |phase| Ok(ActState::There { attempt: 1, phase });
    upgrade.settings.agent = agent(own.clone());
    upgrade.keep_with_agent_for_test(&key);
    assert_eq!(upgrade.look_at(&key), there(ActPhase::Kept), "its program is that of the change");
    let one = Program::open(&folder.join("one")).expect("a program");
    let before = upgrade.id(&one).expect("a digest").digest;
    upgrade.settings.agent = agent(before);
    assert_eq!(upgrade.look_at(&key), there(ActPhase::AtWork), "it is about to take it");
    // It does not understand the agent's file: it is a script that says its version, and runs as no agent.
    fs::write(
        folder.join("two"),
        "#!/bin/sh
exit 9
",
    )
    .expect("written");
    upgrade.renew_agent();
    assert_eq!(upgrade.look_at(&key), there(ActPhase::Interrupted));
    let order = ChangeOrder {
        order: HostOrder { change: ChangeNumber(1), version: 1, attempt: Some(1) },
        act: HostAct::Upgrade { version: "two".to_owned(), own: key.own.clone() },
        confirm_ms: 1000,
    };
    let why = upgrade.why_back(&order).expect("a reason");
    assert!(why.starts_with("its agent: ") && why.contains("two is another one now"), "{why}");
    upgrade.settings.agent = agent(digest);
    assert_eq!(upgrade.look_at(&key), there(ActPhase::Kept), "one by hand is left alone");
    upgrade.settings.agent = None;
    assert_eq!(upgrade.look_at(&key), there(ActPhase::Kept), "its file says no");
    fs::remove_dir_all(&folder).expect("it is ours");
}

#[test]
fn the_way_back_leads_to_the_program_from_before_or_nowhere() {
    let (folder, mut upgrade) = host("way-back");
    let open = Program::open(&folder.join("one")).expect("a program");
    let before = upgrade.id(&open).expect("a digest");
    let after = ProgramId { path: folder.join("two"), digest: answer_digest(b"two") };
    let programs = TwoPrograms { before, after, since: ticks_now() };
    let link = ProgramLink::new(&folder.join("current")).expect("a link");
    link.point_to(&folder.join("two")).expect("two");
    fs::write(folder.join("one"), "#!/bin/sh\necho something else\n").expect("written");
    let error = upgrade.go_back(&programs).expect_err("another program");
    assert!(error.contains("one is another one now"), "{error}");
    fs::remove_file(folder.join("one")).expect("it is ours");
    let error = upgrade.go_back(&programs).expect_err("no program");
    assert!(error.starts_with("the program from before: find "), "{error}");
    assert_eq!(link.target(), Ok(folder.join("two")), "the link is as it was");
    fs::remove_dir_all(&folder).expect("it is ours");
}

#[test]
fn a_host_that_has_the_version_without_a_note_is_not_as_before() {
    let (folder, mut upgrade, key) = host_with_two("unnoted");
    assert_eq!(upgrade.unnoted("two", &key), Ok(None), "there is a note");
    let order = ChangeOrder {
        order: HostOrder { change: ChangeNumber(1), version: 1, attempt: None },
        act: HostAct::Upgrade { version: "two".to_owned(), own: key.own.clone() },
        confirm_ms: 1000,
    };
    fs::remove_file(folder.join("agent/upgrades-of-the-host.json")).expect("it is there");
    let reason = format!(
        "the host has the version two, and no note of the one before; point {} to that and reload",
        folder.join("current").display()
    );
    assert_eq!(HostActor::go_back(&mut upgrade, &order, 1), Err(reason));
    // That of another change takes it back.
    let one = Program::open(&folder.join("one")).expect("a program");
    let before = upgrade.id(&one).expect("a digest");
    let after = ProgramId { path: folder.join("two"), digest: answer_digest(b"of another change") };
    let other = upgrade.note_for_test(TwoPrograms { before, after, since: 0 });
    assert_eq!(upgrade.unnoted("two", &key), Ok(None));
    assert!(upgrade.unnoted("one", &key).is_ok_and(|why| why.is_none()), "it has another version");
    assert!(key != other);
    fs::remove_dir_all(&folder).expect("it is ours");
}
