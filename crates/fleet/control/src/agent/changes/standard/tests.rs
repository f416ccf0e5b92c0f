use super::*;

/// A second since 1970.
const NOON: u64 = 1_800_000_000;

fn own(digit: &str) -> AnswerDigest {
    digit.repeat(64).parse().expect("a digest")
}

fn order(name: &str, may_act: bool) -> Option<StandardOrder> {
    Some(StandardOrder { wish: PlanWish::Profile(name.to_owned()), may_act, confirm_ms: 1000 })
}

fn lacks(mark: &str) -> Result<StandardPlan, String> {
    let (mark, first) = (mark.to_owned(), "a is 1, and 2 is wanted".to_owned());
    Ok(StandardPlan::Lacks { settings: 1, first, own: own("a"), mark })
}

fn empty(mark: &str) -> Result<StandardPlan, String> {
    Ok(StandardPlan::Empty { mark: mark.to_owned() })
}

fn at(s: u64) -> Now {
    Now::at_ms(s * 1000)
}

fn standard() -> Standard {
    Standard::new(StandardRecord::default(), StandardRefusals::default())
}

fn plan(name: &str) -> StandardStep {
    StandardStep::Plan(PlanWish::Profile(name.to_owned()))
}

fn next(standard: &Standard, s: u64) -> StandardStep {
    standard.next(None, false, (at(s), NOON + s))
}

#[test]
fn nothing_is_done_before_a_controller_was_heard_and_a_plan_is_made_once_an_hour() {
    let mut standard = standard();
    assert_eq!((next(&standard, 0), standard.word(None, NOON)), (StandardStep::Rest, StandardWord::Unknown));
    standard.take(order("p", false), at(1));
    assert_eq!(next(&standard, 1), plan("p"));
    standard.planned(empty("1"), at(1));
    assert_eq!((next(&standard, 3600), standard.word(None, NOON)), (StandardStep::Rest, StandardWord::Meets));
    assert_eq!(next(&standard, 3601), plan("p"));
    standard.planned(empty("1"), at(3601));
    standard.plan_soon(at(3700));
    assert_eq!(next(&standard, 3700), plan("p"), "other CPUs");
    // While a change of the host is under way, a plan would say what will not stay.
    assert_eq!(standard.next(None, true, (at(3700), NOON)), StandardStep::Rest);
    // The policy has none any more.
    standard.take(None, at(3701));
    assert_eq!(
        (next(&standard, 9999), standard.word(None, NOON)),
        (StandardStep::Rest, StandardWord::Unknown)
    );
}

#[test]
fn it_begins_only_by_a_new_order_and_a_new_plan() {
    let mut standard = standard();
    standard.take(order("p", false), at(0));
    standard.planned(lacks("1"), at(0));
    assert_eq!(next(&standard, 1), StandardStep::Rest, "it may not");
    standard.take(order("p", true), at(100));
    assert_eq!(next(&standard, 100), plan("p"), "the plan is old");
    standard.planned(lacks("1"), at(100));
    assert_eq!(next(&standard, 160), StandardStep::Begin(own("a")));
    assert_eq!(next(&standard, 161), StandardStep::Rest, "no controller is heard any more");
    standard.take(order("p", true), at(170));
    assert_eq!(next(&standard, 170), plan("p"));
    standard.planned(lacks("1"), at(170));
    standard.take(order("p", false), at(171));
    assert_eq!(next(&standard, 171), StandardStep::Rest, "the host is frozen now");
}

#[test]
fn drift_is_what_the_host_had_with_the_same_tuner_and_no_change_since() {
    let is_drifted = |change: fn(&mut Standard)| {
        let mut standard = standard();
        standard.take(order("p", false), at(0));
        standard.planned(empty("1"), at(0));
        change(&mut standard);
        standard.planned(lacks("1"), at(10));
        // An agent that is started again has not forgotten it.
        let mut again = Standard::new(standard.record().clone(), StandardRefusals::default());
        again.take(standard.order.clone().map(|(order, _)| order), at(20));
        again.planned(lacks("1"), at(20));
        let word = standard.word(None, NOON);
        assert_eq!(word, again.word(None, NOON));
        matches!(word, StandardWord::Drifted { settings: 1, .. })
    };
    assert!(is_drifted(|_| {}));
    assert!(!is_drifted(|standard| standard.note_change(at(5))));
    assert!(!is_drifted(|standard| standard.take(order("q", false), at(5))));
    assert!(!is_drifted(|standard| standard.planned(lacks("2"), at(5))), "another version of the tuner");
}

#[test]
fn three_attempts_a_day_are_made_and_then_a_person_is_told() {
    let mut standard = standard();
    standard.take(order("p", true), at(0));
    for number in 1..=TRIES_MAX as u64 {
        standard.planned(lacks("1"), at(number));
        standard.take(order("p", true), at(number));
        assert_eq!(next(&standard, number), StandardStep::Begin(own("a")));
        let record = standard.begin(own("a"), NOON + number).expect("it is ordered");
        assert_eq!(
            record.order.order,
            HostOrder { change: ChangeNumber(number), version: 1, attempt: Some(1) }
        );
        assert_eq!(standard.word(None, NOON), StandardWord::Tuning);
    }
    standard.planned(lacks("1"), at(10));
    assert_eq!(next(&standard, 10), StandardStep::Rest);
    let reason = "it did not stay: a is 1, and 2 is wanted".to_owned();
    assert_eq!(standard.word(None, NOON + 10), StandardWord::SteppedAside { reason });
    // The record is what an agent has that is killed.
    let json = serde_json::to_value(standard.record()).expect("JSON");
    let record = serde_json::from_value(json).expect("a record");
    let mut again = Standard::new(record, StandardRefusals::default());
    again.take(order("p", true), at(20));
    again.planned(lacks("1"), at(20));
    assert_eq!(next(&again, 20), StandardStep::Rest);
    // A day later, or by another standard, it goes on.
    let later = NOON + DAY_S + 3;
    assert!(matches!(again.next(None, false, (at(20), later)), StandardStep::Begin(_)));
    again.take(order("q", true), at(21));
    again.planned(lacks("1"), at(21));
    assert_eq!(next(&again, 21), StandardStep::Begin(own("a")));
    assert_eq!(again.begin(own("a"), NOON).expect("it is ordered").order.order.change.0, 4, "numbers go on");
}

#[test]
fn what_the_agent_may_not_do_is_said_and_not_done() {
    let may_not = |plan: Option<&str>, act: Option<&str>| {
        let refusals = StandardRefusals { plan: plan.map(str::to_owned), act: act.map(str::to_owned) };
        let mut standard = Standard::new(StandardRecord::default(), refusals);
        standard.take(order("p", true), at(0));
        standard
    };
    let mut looks = may_not(None, Some("no"));
    looks.planned(lacks("1"), at(0));
    assert_eq!(next(&looks, 0), StandardStep::Rest);
    let reason = "no; it lacks 1 of its settings: a is 1, and 2 is wanted".to_owned();
    assert_eq!(looks.word(None, NOON), StandardWord::Refused { reason });
    looks.planned(empty("1"), at(1));
    assert_eq!(looks.word(None, NOON), StandardWord::Meets, "it was tuned by a change");
    let blind = may_not(Some("not root"), Some("not root"));
    assert_eq!(next(&blind, 0), StandardStep::Rest);
    assert_eq!(blind.word(None, NOON), StandardWord::Refused { reason: "not root".to_owned() });
}

#[test]
fn a_plan_that_fails_is_tried_again_after_pauses_that_grow() {
    let mut standard = standard();
    standard.take(order("p", true), at(0));
    let mut now = 0;
    for pause in [2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600] {
        assert_eq!(next(&standard, now), plan("p"));
        standard.planned(Err("there is no profile p".to_owned()), at(now));
        assert_eq!(next(&standard, now + pause - 1), StandardStep::Rest);
        now += pause;
    }
    let reason = "it is not known how far it has it: there is no profile p".to_owned();
    assert_eq!(standard.word(None, NOON), StandardWord::Refused { reason });
    standard.planned(empty("1"), at(now));
    standard.plan_soon(at(now));
    standard.planned(Err("busy".to_owned()), at(now));
    assert_eq!(next(&standard, now + 2), plan("p"), "one failure");
}

#[test]
fn a_pause_goes_on_when_a_controller_that_has_just_begun_knows_of_no_standard() {
    let mut standard = standard();
    standard.take(order("p", true), at(0));
    standard.planned(lacks("1"), at(0));
    standard.begin(own("a"), NOON).expect("it is ordered");
    standard.not_begun("it is busy".to_owned(), at(1));
    let refused = StandardWord::Refused { reason: "it is busy".to_owned() };
    let end = 1 + RETRY_AFTER.as_secs();
    for s in [2, 3] {
        standard.take(None, at(s));
        assert_eq!(
            (next(&standard, s), standard.word(None, NOON)),
            (StandardStep::Rest, StandardWord::Unknown)
        );
        standard.take(order("p", true), at(s));
        assert_eq!((next(&standard, s), standard.word(None, NOON)), (StandardStep::Rest, refused.clone()));
        standard.take(order("p", false), at(s));
        standard.take(order("p", true), at(s));
        assert_eq!(next(&standard, end - 1), StandardStep::Rest);
    }
    assert_eq!(next(&standard, end), plan("p"));
    // Another standard waits for nothing.
    standard.take(order("q", true), at(4));
    assert_eq!(next(&standard, 4), plan("q"));
}

#[test]
fn an_attempt_that_could_not_be_begun_is_none_of_the_three() {
    let mut standard = standard();
    let pause = RETRY_AFTER.as_secs();
    for count in 0..=TRIES_MAX as u64 {
        let s = count * pause;
        standard.take(order("p", true), at(s));
        standard.planned(lacks("1"), at(s));
        assert_eq!(next(&standard, s), StandardStep::Begin(own("a")), "after {count}");
        standard.begin(own("a"), NOON + s).expect("it is ordered");
        standard.not_begun("look how the host is: it is busy".to_owned(), at(s));
        let reason = "look how the host is: it is busy".to_owned();
        assert_eq!(standard.word(None, NOON + s), StandardWord::Refused { reason });
    }
}
