use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use super::*;
use crate::service::turn::answer_digest;

/// A folder with the state of an agent, and two programs that cannot be started: their interpreter is not there.
struct Scene {
    folder: PathBuf,
    store: AgentStore,
    key: NoteKey,
    programs: TwoPrograms,
}

impl Scene {
    fn new(name: &str) -> Scene {
        let folder = std::env::temp_dir().join(format!("evenkeel-own-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        let store = AgentStore::open(&folder.join("agent")).expect("a folder");
        let program = |name: &str| {
            let (path, text) = (folder.join(name), format!("#!/nowhere/at/all\n{name}\n"));
            fs::write(&path, &text).expect("written");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("permissions");
            ProgramId { path, digest: answer_digest(text.as_bytes()) }
        };
        let programs = TwoPrograms { before: program("old"), after: program("new"), since: 0 };
        let key = NoteKey::for_test(1);
        Scene { folder, store, key, programs }
    }

    /// An agent that runs this program.
    fn agent(&self, runs: &ProgramId) -> AgentProgram {
        AgentProgram::for_test(&self.folder.join("current"), runs.digest.clone())
    }

    fn note(&self, phase: OwnPhase) {
        let TwoPrograms { before, after, .. } = self.programs.clone();
        UpgradeNotes::new(self.store.clone()).put_for_test(&self.key, &self.programs);
        OwnNote { key: self.key.clone(), before, after, phase }.keep(&self.store).expect("kept");
    }

    fn phase(&self) -> Option<OwnPhase> {
        OwnNote::load(&self.store).expect("read").map(|note| note.phase)
    }

    fn state(&self, agent: &AgentProgram) -> OwnState {
        agent.state(&self.store, &self.key, &self.programs).expect("it is known")
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn silent() -> SayLine {
    Arc::new(|_, _: &str| ())
}

#[test]
fn an_agent_goes_along_if_it_was_started_through_the_link() {
    let scene = Scene::new("along");
    let path = |name: &str| scene.folder.join(name);
    symlink(path("old"), path("current")).expect("a link");
    symlink("current", path("evenkeel")).expect("a link");
    symlink(path("old"), path("other")).expect("a link");
    symlink("loop", path("loop")).expect("a link");
    for (word, expected) in [
        ("current", true),
        ("evenkeel", true),
        ("agent/../current", true),
        ("old", false),
        ("other", false),
        ("loop", false),
        ("nothing", false),
    ] {
        assert_eq!(leads_through(&path(word), &path("current")), expected, "{word}");
    }
    assert!(!leads_through(Path::new("current"), &path("current")), "found by a search");
    let before = &scene.programs.before;
    let agent = scene.agent(before);
    assert_eq!(agent.goes_along(&path("current"), &before.digest), Ok(()));
    let error = agent.goes_along(&path("current"), &scene.programs.after.digest).expect_err("another one");
    assert!(error.starts_with("it runs another program ("), "{error}");
    let current = path("current");
    let words = [&*current, Path::new("agent"), Path::new("--join=t")];
    let joining = AgentProgram::with_for_test(&words, before.digest.clone());
    let error = joining.goes_along(&path("current"), &before.digest).expect_err("a token");
    assert!(error.contains("good for one start"), "{error}");
    let error = agent.goes_along(&path("other"), &before.digest).expect_err("another link");
    assert!(error.contains("which does not lead through"), "{error}");
}

#[test]
fn a_new_program_that_ends_again_and_again_is_given_back() {
    let scene = Scene::new("ends");
    scene.note(OwnPhase::Trying { starts: 0 });
    for start in 1..=STARTS_MAX {
        // Each is another process.
        let agent = scene.agent(&scene.programs.after);
        agent.go_on(&scene.store, &silent()).expect("it goes on");
        assert_eq!(scene.phase(), Some(OwnPhase::Trying { starts: start }));
        assert_eq!(scene.state(&agent), OwnState::Trying);
    }
    let agent = scene.agent(&scene.programs.after);
    let error = agent.go_on(&scene.store, &silent()).expect_err("the old one cannot be started");
    assert!(error.starts_with(&format!("start {}", scene.folder.join("old").display())), "{error}");
    let why = match scene.phase() {
        Some(OwnPhase::Failed { why }) => why,
        other => panic!("{other:?}"),
    };
    assert!(why.ends_with("it was started 3 times, and no controller has answered it"), "{why}");
    assert_eq!(scene.state(&agent), OwnState::Refused(why.clone()));
    // The old one, when it runs again.
    let agent = scene.agent(&scene.programs.before);
    agent.go_on(&scene.store, &silent()).expect("it goes on");
    assert_eq!(scene.state(&agent), OwnState::Refused(why));
}

#[test]
fn an_agent_goes_on_from_every_note_that_a_kill_may_leave() {
    let scene = Scene::new("kills");
    let after_start = |runs: &ProgramId, phase: OwnPhase| {
        scene.note(phase);
        let agent = scene.agent(runs);
        let went_on = agent.go_on(&scene.store, &silent());
        (went_on.is_ok(), scene.state(&agent), scene.phase().is_some())
    };
    let TwoPrograms { before, after, .. } = &scene.programs;
    let by_hand = ProgramId { path: "/other".into(), digest: answer_digest(b"by hand") };
    let trying = || OwnPhase::Trying { starts: 0 };
    let failed = || OwnPhase::Failed { why: "no".to_owned() };
    // Noted, and killed before the program was taken: its unit starts the new one, or a person the old one.
    assert_eq!(after_start(after, trying()), (true, OwnState::Trying, true));
    let again = OwnState::Refused("the agent was started again with the program from before".to_owned());
    assert_eq!(after_start(before, trying()), (true, again, true));
    // Given back, and its unit has started the new one once more: that tries the old one, which cannot be started here.
    assert_eq!(after_start(after, failed()), (false, OwnState::Refused("no".to_owned()), true));
    assert_eq!(after_start(before, failed()), (true, OwnState::Refused("no".to_owned()), true));
    // On the way back of the host.
    assert_eq!(after_start(before, OwnPhase::Back), (true, OwnState::Before, false));
    assert_eq!(after_start(after, OwnPhase::Back), (true, OwnState::After, false));
    for phase in [trying(), failed(), OwnPhase::Back] {
        assert_eq!(after_start(&by_hand, phase), (true, OwnState::Apart, false));
    }
    // The disk did not take why it was given back.
    scene.note(trying());
    assert!(matches!(scene.state(&scene.agent(before)), OwnState::Refused(_)));
    // The host has gone back since.
    scene.note(failed());
    UpgradeNotes::new(scene.store.clone()).forget(&scene.key).expect("forgotten");
    let agent = scene.agent(after);
    agent.go_on(&scene.store, &silent()).expect("it goes on");
    assert_eq!((scene.state(&agent), scene.phase()), (OwnState::After, None));
    // A note of another change says nothing.
    let (agent, other) = (scene.agent(before), NoteKey::for_test(2));
    assert_eq!(agent.state(&scene.store, &other, &scene.programs), Ok(OwnState::Before));
}

#[test]
fn what_keeps_an_agent_from_a_program_is_noted_and_nothing_is_tried_twice() {
    let scene = Scene::new("kept");
    let agent = scene.agent(&scene.programs.before);
    assert_eq!(scene.state(&agent), OwnState::Before);
    {
        let _child = agent.stay();
        agent.take(&scene.store, &scene.key, &scene.programs, &silent());
        assert_eq!(scene.phase(), None, "somebody has a child");
    }
    agent.take(&scene.store, &scene.key, &scene.programs, &silent());
    let OwnState::Refused(why) = scene.state(&agent) else { panic!("{:?}", scene.state(&agent)) };
    assert!(why.starts_with("the agent of ") && why.contains("/new"), "{why}");
    forget(&scene.store, &NoteKey::for_test(2)).expect("forgotten");
    assert!(scene.phase().is_some(), "that is another change");
    forget(&scene.store, &scene.key).expect("forgotten");
    fs::write(&scene.programs.after.path, "#!/bin/sh\nexit 0\n").expect("written");
    agent.take(&scene.store, &scene.key, &scene.programs, &silent());
    let OwnState::Refused(why) = scene.state(&agent) else { panic!("{:?}", scene.state(&agent)) };
    assert!(why.contains("new is another one now"), "{why}");
    let error = agent.give_back(&scene.store, &scene.key, &scene.programs).expect_err("it does not start");
    assert!(error.starts_with("start "), "{error}");
}

#[test]
fn a_new_program_is_proved_by_a_controller_that_answers() {
    let scene = Scene::new("proved");
    scene.note(OwnPhase::Trying { starts: 0 });
    let agent = Arc::new(scene.agent(&scene.programs.after));
    agent.go_on(&scene.store, &silent()).expect("it goes on");
    let figures = Arc::new(AgentFigures::new());
    let proof = (scene.store.clone(), Arc::clone(&figures));
    agent.prove(Duration::from_secs(3600), proof, silent()).expect("a thread");
    figures.note_turn(false);
    assert_eq!(scene.state(&agent), OwnState::Trying);
    figures.note_turn(true);
    let watch = Stopwatch::start();
    while scene.phase().is_some() {
        assert!(watch.passed() < Duration::from_secs(60), "{:?}", scene.phase());
        pause(LOOK_EVERY);
    }
    assert_eq!(scene.state(&agent), OwnState::After);
}

#[test]
fn a_new_program_that_no_controller_answers_is_given_back() {
    let scene = Scene::new("unheard");
    scene.note(OwnPhase::Trying { starts: 0 });
    let agent = Arc::new(scene.agent(&scene.programs.after));
    agent.go_on(&scene.store, &silent()).expect("it goes on");
    let proof = (scene.store.clone(), Arc::new(AgentFigures::new()));
    agent.prove(Duration::from_millis(1), proof, silent()).expect("a thread");
    let watch = Stopwatch::start();
    while !matches!(scene.phase(), Some(OwnPhase::Failed { .. })) {
        assert!(watch.passed() < Duration::from_secs(60), "{:?}", scene.phase());
        pause(LOOK_EVERY);
    }
    let OwnState::Refused(why) = scene.state(&agent) else { panic!("{:?}", scene.state(&agent)) };
    assert!(why.contains("no controller has answered it within"), "{why}");
}

#[test]
fn a_new_program_that_ends_with_a_failure_is_given_back_at_once() {
    let scene = Scene::new("failure");
    scene.note(OwnPhase::Trying { starts: 0 });
    let folder = scene.folder.join("agent");
    // Outside of a trial nothing is taken.
    scene.agent(&scene.programs.after).end_trial(&folder, &"no certificate", &silent());
    assert_eq!(scene.phase(), Some(OwnPhase::Trying { starts: 0 }));
    let agent = scene.agent(&scene.programs.after);
    agent.go_on(&scene.store, &silent()).expect("it goes on");
    agent.end_trial(&folder, &"no certificate", &silent());
    let OwnState::Refused(why) = scene.state(&agent) else { panic!("{:?}", scene.state(&agent)) };
    assert!(why.ends_with("it has ended: no certificate"), "{why}");
}
