//! An agent with a tuner that a test plays: a shell script that hangs, floods, lies or is replaced.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use os::clock::pause;

use super::command::{CommandRuns, RunLimits};
use super::*;
use crate::service::turn::PlanWish;

const CHECK: &str =
    r#"{"window_s": 1.0, "findings": [], "gaps": [], "host": {"kernel": "6.1", "cpus": "0-3"}}"#;
const STATUS: &str = r#"{"plans": [], "overdue": [], "unread": [], "persists": {"files": []}}"#;
const PLAN: &str = r#"{"changes": [], "host": {"kernel": "6.1", "cpus": "0-3"}}"#;
/// The longest time for what takes moments.
const WITHIN: Duration = Duration::from_secs(60);

/// A folder with a script as the tuner.
struct Scene(PathBuf);

impl Scene {
    fn new(name: &str) -> Scene {
        let folder = std::env::temp_dir().join(format!("evenkeel-tuner-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        Scene(folder)
    }

    /// Puts a script in the tuner's place, as a package does: another file of the same name.
    fn put(&self, script: &str) -> PathBuf {
        let (path, new) = (self.0.join("tuner"), self.0.join("new"));
        fs::write(&new, format!("#!/bin/sh\ncd {}\n{script}\n", self.0.display())).expect("a file");
        fs::set_permissions(&new, Permissions::from_mode(0o755)).expect("permissions");
        fs::rename(&new, &path).expect("a file");
        path
    }

    /// A tuner that writes these texts.
    fn put_texts(&self, check: &str, status: &str, plan: &str) -> PathBuf {
        for (name, text) in [("check", check), ("status", status), ("plan", plan)] {
            fs::write(self.0.join(name), text).expect("a file");
        }
        self.put("echo \"$*\" >> log; cat \"$2\"")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.0.join("log")).unwrap_or_default()
    }

    fn settings(&self) -> TuneSettings {
        TuneSettings { check: true, plan: true, apply: false, binary: Some(self.0.join("tuner")), seconds: 1 }
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn limited(program: &Path, seconds: u64, output_len: usize) -> Result<String, String> {
    let limits =
        RunLimits { time: Duration::from_secs(seconds), output_len, is_nice: true, may_leave: false };
    CommandRuns::default()
        .run(program, &["tune", "check"], limits)
        .map(|ended| String::from_utf8_lossy(&ended.output).into_owned())
}

/// Waits until the file has a line, and returns it.
fn line_of(path: &Path) -> String {
    let watch = Stopwatch::start();
    loop {
        match fs::read_to_string(path) {
            Ok(text) if text.ends_with('\n') => return text.trim().to_owned(),
            _ => assert!(watch.passed() < WITHIN, "{} has no line", path.display()),
        }
        pause(Duration::from_millis(5));
    }
}

fn is_gone(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.is_empty() || stat.contains(") Z ")
}

#[track_caller]
fn ends(pid: &str) {
    let watch = Stopwatch::start();
    while !is_gone(pid) {
        assert!(watch.passed() < WITHIN, "process {pid} goes on");
        pause(Duration::from_millis(5));
    }
}

#[test]
fn a_tuner_that_hangs_is_ended_with_what_it_has_started() {
    let scene = Scene::new("hangs");
    let tuner = scene.put("sleep 1000 & echo $! > child; wait");
    assert_eq!(limited(&tuner, 1, 100), Err("tune check has not ended within 1 s, and was ended".to_owned()));
    ends(&line_of(&scene.0.join("child")));
}

#[test]
fn a_tuner_that_floods_is_ended_at_the_limit() {
    let scene = Scene::new("floods");
    let tuner = scene.put("echo $$ > pid; exec cat /dev/zero");
    let error = limited(&tuner, 600, 100_000).expect_err("it is ended");
    assert_eq!(error, "tune check wrote more than 100000 bytes");
    ends(&line_of(&scene.0.join("pid")));
    // Whoever has ended before it is seen is not believed either.
    let tuner = scene.put("head -c 100 /dev/zero");
    assert!(limited(&tuner, 600, 99).is_err());
    assert_eq!(limited(&tuner, 600, 100).expect("it is within the limit").len(), 100);
}

#[test]
fn a_process_that_a_tuner_leaves_behind_keeps_nobody_waiting() {
    let scene = Scene::new("leaves");
    // One that has not left the tuner's group when that ends is ended with it.
    let leaves =
        "setsid sh -c 'echo $$ > child; exec sleep 1000' & while [ ! -s child ]; do :; done; echo done";
    let tuner = scene.put(leaves);
    let error = limited(&tuner, 600, 100).expect_err("its output has no end");
    assert_eq!(error, "tune check has ended, and another process holds its output open");
    let child = line_of(&scene.0.join("child")).parse().ok().and_then(rustix::process::Pid::from_raw);
    rustix::process::kill_process(child.expect("a process"), rustix::process::Signal::KILL)
        .expect("it is ours");
}

#[test]
fn a_tuner_runs_at_the_lowest_priority_and_knows_its_parent() {
    let scene = Scene::new("nice");
    // Its priority is set a moment after its start.
    let tuner = scene.put("while [ $(nice) != 19 ]; do :; done; echo $(nice) $EVENKEEL_PARENT");
    assert_eq!(limited(&tuner, 600, 100), Ok(format!("19 {}\n", std::process::id())));
}

/// What a look and a plan say with a tuner that writes these texts.
#[track_caller]
fn check(texts: (&str, &str, &str), look: Result<(), &str>, plan: Result<(), &str>) {
    let scene = Scene::new("lies");
    scene.put_texts(texts.0, texts.1, texts.2);
    let mut runs = TunerRuns::new(&scene.settings());
    let judge = |found: Result<Found, String>, expected: Result<(), &str>| match (found, expected) {
        (Ok(_), Ok(())) => {}
        (Err(error), Err(expected)) => assert!(error.contains(expected), "{error}"),
        (found, expected) => panic!("{found:?}, and not {expected:?}"),
    };
    judge(runs.look(), look);
    judge(runs.plan(&PlanWish::Profile("memcached".to_owned())), plan);
}

#[test]
fn only_what_a_tuner_writes_counts_and_not_that_it_ended_with_0() {
    check((CHECK, STATUS, PLAN), Ok(()), Ok(()));
    check(
        ("", STATUS, "  \n"),
        Err("wrote nothing"),
        Err("`tune plan` ended with exit status: 0 and wrote nothing"),
    );
    let half = &CHECK[..CHECK.len() / 2];
    check(
        (half, STATUS, &PLAN[..20]),
        Err("understand `tune check`: EOF"),
        Err("understand `tune plan`: EOF"),
    );
    let (newer_check, newer_plan) = (r#"{"window_s": 1.0, "found": []}"#, r#"{"steps": []}"#);
    check(
        (newer_check, STATUS, newer_plan),
        Err("expected a list \"findings\""),
        Err("expected a list \"changes\""),
    );
    // A status that is of no use leaves the findings.
    check((CHECK, "half {", PLAN), Ok(()), Ok(()));
}

#[test]
fn a_status_that_is_not_known_is_not_taken_for_nothing_in_force() {
    let scene = Scene::new("status");
    scene.put_texts(CHECK, "{}", PLAN);
    let TuneBody::Check(check) = TunerRuns::new(&scene.settings()).look().expect("findings").body else {
        panic!("it is a check")
    };
    let why = check.state.unknown.expect("it is unknown");
    assert!(why.contains("`tune status`: expected a list \"plans\""), "{why}");
}

#[test]
fn a_tuner_that_fails_or_is_not_there_says_so() {
    let scene = Scene::new("fails");
    scene.put("echo first >&2; echo 'the last words' >&2; exit 71");
    let mut runs = TunerRuns::new(&scene.settings());
    assert_eq!(runs.look().expect_err("it fails"), "`tune check` ended with exit status: 71: the last words");
    fs::remove_file(scene.0.join("tuner")).expect("it is ours");
    let error = runs.look().expect_err("it is gone");
    assert!(error.starts_with("find ") && error.contains("No such file"), "{error}");
    fs::write(scene.0.join("tuner"), "no program").expect("a file");
    assert!(runs.look().expect_err("it is no program").starts_with("start "));
}

#[test]
fn a_tuner_that_is_replaced_while_it_runs_goes_on_and_the_next_run_is_of_the_new_one() {
    let scene = Scene::new("replaced");
    scene.put("echo > begun; while [ ! -e go ]; do :; done; echo '{\"changes\": [], \"host\": {\"kernel\": \"old\"}}'");
    let wish = PlanWish::Profile("memcached".to_owned());
    let kernel = |found: Result<Found, String>| found.expect("a plan").facts.expect("facts").kernel;
    let mut runs = TunerRuns::new(&scene.settings());
    let mut first = TunerRuns::new(&scene.settings());
    let before = std::thread::scope(|scope| {
        let run = scope.spawn(|| first.plan(&wish));
        line_of(&scene.0.join("begun"));
        scene.put("echo '{\"changes\": [], \"host\": {\"kernel\": \"new\"}}'");
        fs::write(scene.0.join("go"), "").expect("a file");
        run.join().expect("a run")
    });
    assert_eq!((kernel(before), kernel(runs.plan(&wish))), ("old".to_owned(), "new".to_owned()));
}

fn desk(settings: TuneSettings) -> TuningDesk {
    TuningDesk::start(&"h1".parse().expect("a name"), settings, None).expect("a thread")
}

fn ask(id: &str, what: TuneWhat) -> TuneAsk {
    TuneAsk { id: id.parse().expect("a name"), what }
}

fn plan(id: &str) -> TuneAsk {
    ask(id, TuneWhat::Plan(PlanWish::Profile("memcached".to_owned())))
}

/// Waits until the report is as it shall be.
#[track_caller]
fn until(desk: &mut TuningDesk, is_so: impl Fn(&TuneReport) -> bool) -> TuneReport {
    let watch = Stopwatch::start();
    loop {
        let (report, _) = desk.report();
        if is_so(&report) {
            return report;
        }
        assert!(watch.passed() < WITHIN, "{report:?}");
        pause(Duration::from_millis(5));
    }
}

#[test]
fn an_agent_answers_what_it_is_asked_once_and_sends_texts_only_if_they_are_lacked() {
    let scene = Scene::new("desk");
    scene.put_texts(CHECK, STATUS, PLAN);
    let mut desk = desk(scene.settings());
    let asks = vec![ask("look", TuneWhat::Check), plan("p1")];
    desk.on_orders(Some(TuneOrders { lacks: Vec::new(), asks: asks.clone() }));
    let report = until(&mut desk, |report| report.asked.len() == 1 && report.plans.len() == 1);
    assert!(matches!(report.check, TuneAnswer::Done { own: None, .. }), "{report:?}");
    assert!(
        matches!(report.plans[0].answer, TuneAnswer::Done { own: Some(_), .. }) && report.bodies.is_empty()
    );
    assert_eq!(report.named().count(), 4);
    let lacks: Vec<AnswerDigest> = report.named().cloned().collect();
    desk.on_orders(Some(TuneOrders { lacks, asks }));
    let (report, is_news) = desk.report();
    // The facts are the same text for both.
    assert!(is_news && report.bodies.len() == 4);
    let digests: Vec<AnswerDigest> =
        report.bodies.iter().map(|body| crate::service::turn::answer_digest(body.as_bytes())).collect();
    assert!(report.named().all(|named| digests.contains(named)));
    // A controller that has all says nothing, and the answers stay for others.
    desk.on_orders(None);
    let (report, is_news) = desk.report();
    assert!(!is_news && report.bodies.is_empty() && report.plans.len() == 1);
    assert_eq!(scene.log().lines().count(), 3, "one look, its status, and one plan: {}", scene.log());
}

#[test]
fn what_an_agent_may_not_do_is_an_answer_and_runs_nothing() {
    let scene = Scene::new("may-not");
    scene.put_texts(CHECK, STATUS, PLAN);
    let mut desk = desk(TuneSettings { check: false, plan: false, ..scene.settings() });
    desk.on_orders(Some(TuneOrders {
        lacks: Vec::new(),
        asks: vec![ask("look", TuneWhat::Check), plan("p1")],
    }));
    let report = until(&mut desk, |report| !report.plans.is_empty());
    assert_eq!((&report.check, &report.plans[0].answer), (&TuneAnswer::NotAllowed, &TuneAnswer::NotAllowed));
    assert_eq!(scene.log(), "");
}

#[test]
fn a_plan_that_fails_is_told_and_another_question_is_tried_anew() {
    let scene = Scene::new("anew");
    scene.put("exit 3");
    let mut desk = desk(scene.settings());
    desk.on_orders(Some(TuneOrders { lacks: Vec::new(), asks: vec![plan("p1")] }));
    let report = until(&mut desk, |report| !report.plans.is_empty());
    assert!(
        matches!(&report.plans[0].answer, TuneAnswer::Failed { why, .. } if why.contains("exit status: 3"))
    );
    scene.put_texts(CHECK, STATUS, PLAN);
    desk.on_orders(Some(TuneOrders { lacks: Vec::new(), asks: vec![plan("p1"), plan("p2")] }));
    let report = until(&mut desk, |report| report.plans.len() == 2);
    assert!(matches!(&report.plans[1].answer, TuneAnswer::Done { .. }), "{report:?}");
}

#[test]
fn of_many_questions_the_newest_answers_are_kept() {
    let scene = Scene::new("many");
    scene.put_texts(CHECK, STATUS, PLAN);
    let mut desk = desk(TuneSettings { plan: false, ..scene.settings() });
    for number in 0..3 * ASKS_MAX {
        let id = format!("p{number}");
        desk.on_orders(Some(TuneOrders { lacks: Vec::new(), asks: vec![plan(&id)] }));
        until(&mut desk, |report| report.plans.last().is_some_and(|plan| plan.ask.as_str() == id));
    }
    let (report, _) = desk.report();
    assert_eq!(report.plans.len(), ASKS_MAX);
}
