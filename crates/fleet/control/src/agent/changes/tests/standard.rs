//! The standard of a host, with the fake tuner: its profile `standard` plans nothing while one setting, which all attempts set, is `new`.

use super::*;

/// The value of the setting, for the standard.
fn value(scene: &Scene) -> String {
    fs::read_to_string(scene.0.join("setting-standard"))
        .map_or("old".to_owned(), |text| text.trim().to_owned())
}

fn wants(name: &str, may_act: bool) -> Option<StandardOrder> {
    Some(StandardOrder { wish: PlanWish::Profile(name.to_owned()), may_act, confirm_ms: LONG })
}

fn lacks() -> StandardWord {
    StandardWord::Lacks {
        settings: 1,
        first: "/proc/sys/net/core/somaxconn is 128, and 4096 is wanted".to_owned(),
    }
}

fn drifted() -> StandardWord {
    let StandardWord::Lacks { settings, first } = lacks() else { panic!("it lacks something") };
    StandardWord::Drifted { settings, first }
}

impl Turns {
    fn standard(&mut self) -> StandardWord {
        self.desk.report(&mut self.report);
        self.report.standard.clone().expect("it says something").word
    }

    fn turn_with(&mut self, changes: &[ChangeOrder], standard: &Option<StandardOrder>) {
        let turn = self.ask();
        self.desk.on_orders(changes.to_vec(), standard.clone(), turn);
    }

    /// Takes turns until the host says this of its standard.
    #[track_caller]
    fn until_standard(&mut self, standard: &Option<StandardOrder>, expected: &StandardWord) {
        self.until_word(&[], standard, |word| word == expected);
    }

    #[track_caller]
    fn until_word(
        &mut self,
        changes: &[ChangeOrder],
        standard: &Option<StandardOrder>,
        is_so: impl Fn(&StandardWord) -> bool,
    ) {
        let watch = Stopwatch::start();
        loop {
            self.turn_with(changes, standard);
            let found = self.standard();
            if is_so(&found) {
                return;
            }
            assert!(watch.passed() < WITHIN, "{found:?}");
            pause(Duration::from_millis(5));
        }
    }
}

#[test]
fn a_host_is_tuned_when_it_may_and_keeps_it_when_a_controller_is_heard_afterwards() {
    let scene = Scene::new("standard");
    let mut turns = scene.desk();
    assert_eq!(turns.standard(), StandardWord::Unknown);
    turns.until_standard(&wants("standard", false), &lacks());
    pause(Duration::from_millis(200));
    assert_eq!((scene.runs("apply"), value(&scene).as_str()), (0, "old"), "it may not");
    // The answer to this turn is made before the host is tuned.
    let early = turns.ask();
    turns.turn_with(&[], &wants("standard", true));
    while value(&scene) == "old" {
        pause(Duration::from_millis(5));
    }
    turns.desk.on_orders(Vec::new(), wants("standard", true), early);
    pause(Duration::from_millis(200));
    assert_eq!((scene.runs("confirm"), turns.standard()), (0, StandardWord::Tuning));
    turns.until_standard(&wants("standard", false), &StandardWord::Meets);
    assert_eq!((scene.runs("apply"), scene.runs("confirm")), (1, 1), "{}", scene.log());
    assert!(turns.words().is_empty(), "it is no change of a controller's");
    // Another agent finds it so, and that it has drifted when it has.
    let mut turns = scene.desk();
    turns.until_standard(&wants("standard", false), &StandardWord::Meets);
    scene.put("setting-standard", "old");
    let mut turns = scene.desk();
    turns.until_standard(&wants("standard", false), &drifted());
    turns.until_standard(&wants("standard", true), &StandardWord::Meets);
    assert_eq!((value(&scene).as_str(), scene.runs("apply")), ("new", 2));
}

#[test]
fn a_standard_that_does_not_stay_is_left_after_three_attempts() {
    let scene = Scene::new("standard-aside");
    let mut turns = scene.desk();
    for attempt in 1..=3 {
        turns.until_standard(&wants("standard", true), &StandardWord::Meets);
        assert_eq!(scene.runs("apply"), attempt);
        scene.put("setting-standard", "old");
        turns = scene.desk();
    }
    let is_aside = |word: &StandardWord| matches!(word, StandardWord::SteppedAside { reason } if reason.starts_with("it did not stay: /proc/sys"));
    turns.until_word(&[], &wants("standard", true), is_aside);
    pause(Duration::from_millis(200));
    assert_eq!(scene.runs("apply"), 3);
    // What worked against it is over.
    scene.put("setting-standard", "new");
    scene.desk().until_standard(&wants("standard", true), &StandardWord::Meets);
}

#[test]
fn a_standard_and_a_change_are_never_under_way_together() {
    let scene = Scene::new("standard-change");
    let mut turns = scene.desk();
    let on = order(1, 1, Some(1), LONG);
    // A change that waits for its controller.
    scene.put("do-confirm", "refuse 'confirm: it is busy'");
    turns.turn_until(std::slice::from_ref(&on), &[(1, HostWord::Trying { attempt: 1 })]);
    for _ in 0..40 {
        turns.turn_with(std::slice::from_ref(&on), &wants("standard", true));
        pause(Duration::from_millis(10));
    }
    assert_eq!((scene.runs("apply"), scene.runs("plan")), (1, 1), "{}", scene.log());
    scene.remove("do-confirm");
    let is_met = |word: &StandardWord| *word == StandardWord::Meets;
    turns.until_word(std::slice::from_ref(&on), &wants("standard", true), is_met);
    assert_eq!((scene.value(1), value(&scene).as_str(), scene.runs("apply")), ("new".to_owned(), "new", 2));
    // A host that was changed by a change has not drifted.
    scene.put("setting-standard", "old");
    let is_lacking = |word: &StandardWord| *word == lacks();
    let changes = [on, order(2, 1, Some(1), LONG)];
    turns.until_word(&changes, &wants("standard", false), is_lacking);
}

#[test]
fn a_change_that_is_under_way_and_that_no_controller_knows_is_said_to_be_in_the_way() {
    let scene = Scene::new("standard-in-the-way");
    let mut turns = scene.desk();
    let on = order(1, 1, Some(1), LONG);
    scene.put("do-confirm", "refuse 'confirm: it is busy'");
    turns.turn_until(std::slice::from_ref(&on), &[(1, HostWord::Trying { attempt: 1 })]);
    let is_aside = |word: &StandardWord| matches!(word, StandardWord::SteppedAside { reason } if reason.starts_with("change 1 of the host is in the way: "));
    turns.until_word(&[], &wants("standard", true), is_aside);
    let is_unknown = |word: &StandardWord| *word == StandardWord::Unknown;
    turns.until_word(std::slice::from_ref(&on), &wants("standard", true), is_unknown);
    assert_eq!((scene.runs("apply"), value(&scene).as_str()), (1, "old"), "{}", scene.log());
}

#[test]
fn an_attempt_at_another_standard_goes_back_and_a_kept_one_stays() {
    let scene = Scene::new("standard-other");
    let mut turns = scene.desk();
    scene.put("do-confirm", "refuse 'confirm: it is busy'");
    let is_tuning = |word: &StandardWord| *word == StandardWord::Tuning;
    turns.until_word(&[], &wants("standard", true), is_tuning);
    while value(&scene) == "old" {
        pause(Duration::from_millis(5));
    }
    // A controller that has just begun may say so, so it ends nothing. It is not the one that is waited for either.
    turns.until_standard(&None, &StandardWord::Unknown);
    for _ in 0..20 {
        turns.turn_with(&[], &None);
        pause(Duration::from_millis(10));
    }
    assert_eq!((value(&scene).as_str(), scene.runs("rollback")), ("new", 0), "{}", scene.log());
    while value(&scene) == "new" {
        turns.turn_with(&[], &wants("standard-2", false));
        pause(Duration::from_millis(5));
    }
    scene.remove("do-confirm");
    turns.until_standard(&wants("standard", true), &StandardWord::Meets);
    for other in [None, wants("standard-2", false)] {
        turns.turn_with(&[], &other);
        pause(Duration::from_millis(200));
        turns.until_standard(&wants("standard", false), &StandardWord::Meets);
    }
    assert_eq!((value(&scene).as_str(), scene.runs("rollback")), ("new", 1), "{}", scene.log());
}

#[test]
fn what_a_person_has_taken_back_is_not_done_again() {
    let scene = Scene::new("standard-by-hand");
    scene.desk().until_standard(&wants("standard", true), &StandardWord::Meets);
    let log = scene.log();
    let label = log.lines().find_map(|line| line.strip_prefix("apply ")).expect("it was applied");
    let label = format!("--label={label}");
    let ended = std::process::Command::new(scene.0.join("tuner")).args(["tune", "rollback", &label]).status();
    assert!(ended.is_ok_and(|status| status.success()));
    let reason = "it was taken back on the host, and not by the host's agent".to_owned();
    let mut turns = scene.desk();
    turns.until_standard(&wants("standard", true), &StandardWord::SteppedAside { reason });
    pause(Duration::from_millis(200));
    assert_eq!((value(&scene).as_str(), scene.runs("apply")), ("old", 1));
    // Also not by a controller that knows of no standard when it begins.
    turns.until_standard(&None, &StandardWord::Unknown);
    let is_aside = |word: &StandardWord| matches!(word, StandardWord::SteppedAside { .. });
    turns.until_word(&[], &wants("standard", true), is_aside);
    pause(Duration::from_millis(200));
    assert_eq!((value(&scene).as_str(), scene.runs("apply")), ("old", 1));
    // Until a person puts it there again, or the standard is another one.
    scene.put("setting-standard", "new");
    scene.desk().until_standard(&wants("standard", true), &StandardWord::Meets);
    // What was taken back is forgotten a moment after that is said.
    pause(Duration::from_millis(500));
    scene.put("setting-standard", "old");
    scene.desk().until_standard(&wants("standard", true), &StandardWord::Meets);
    assert_eq!(scene.runs("apply"), 2);
}

#[test]
fn a_tuner_that_fails_is_said_and_not_called_again_at_once() {
    let scene = Scene::new("standard-fails");
    let mut turns = scene.desk();
    scene.put("do-apply", "kill -9 $$");
    let reason = "`tune apply` ended with signal: 9 (SIGKILL)".to_owned();
    turns.until_standard(&wants("standard", true), &StandardWord::Refused { reason });
    pause(Duration::from_millis(200));
    assert_eq!((value(&scene).as_str(), scene.runs("apply")), ("old", 1), "{}", scene.log());
    scene.put("do-plan", "refuse 'use profile standard: there is none'");
    let reason = "it is not known how far it has it: `tune plan` ended with exit status: 1: evenkeel: tune: failed to use profile standard: there is none";
    let refused = StandardWord::Refused { reason: reason.to_owned() };
    turns.until_standard(&wants("unheard-of", true), &refused);
}

#[test]
fn no_controller_orders_what_an_agent_makes_itself() {
    let scene = Scene::new("standard-ordered");
    let mut turns = scene.desk();
    let act = HostAct::Standard { wish: PlanWish::Profile("standard".to_owned()), own: own() };
    turns.turn(&[ChangeOrder { act, ..order(1, 1, Some(1), LONG) }]);
    pause(Duration::from_millis(200));
    assert_eq!((scene.runs("apply"), scene.runs("status")), (0, 0), "{}", scene.log());
}
