//! Decisions in a simulated register, with answers that are lost and controllers that decide at the same time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::*;
use crate::register::{
    GrantedLease, LeaseAnswer, LeaseId, RangeAnswer, RegisterWatch, SimulatedFault, SimulatedRegister,
};

fn decisions(register: &SimulatedRegister) -> FleetDecisions {
    FleetDecisions::new(Arc::new(register.client()), &"f".parse().expect("a name"))
}

fn generation(number: u64, text: &str) -> NewGeneration {
    let json = format!("{{\"number\":{number},\"by\":\"{text}\"}}");
    let (json, texts) = (json.into(), vec![text.to_owned()]);
    NewGeneration {
        number: GenerationNumber(number),
        json,
        texts,
        lower: None,
        replaced: ReplacedChange::default(),
    }
}

#[track_caller]
fn publish(all: &FleetDecisions, new: &NewGeneration) -> Publication {
    all.publish(all.target().expect("an answer"), new).expect("an answer")
}

#[test]
fn a_generation_becomes_the_target_with_its_text() {
    let all = decisions(&SimulatedRegister::default());
    assert_eq!(all.target().expect("an answer"), None);
    let done = publish(&all, &generation(1, "{}"));
    assert_eq!(all.target().expect("an answer").map(Publication::Done), Some(done));
    assert_eq!(all.text(&sha256_hex("{}")).expect("an answer").as_deref(), Some("{}"));
    assert_eq!(all.generation(GenerationNumber(1)).expect("an answer"), Some(generation(1, "{}").json));
    assert_eq!(all.generation(GenerationNumber(2)).expect("an answer"), None);
}

#[test]
fn of_two_controllers_that_decide_at_the_same_time_one_is_overtaken() {
    let register = SimulatedRegister::default();
    let (one, other) = (decisions(&register), decisions(&register));
    let before = one.target().expect("an answer");
    assert!(matches!(one.publish(before, &generation(1, "one")), Ok(Publication::Done(_))));
    assert!(matches!(other.publish(before, &generation(1, "other")), Ok(Publication::Overtaken)));
    assert_eq!(other.generation(GenerationNumber(1)).expect("an answer"), Some(generation(1, "one").json));
}

/// A client whose call of this number (from 0) is carried out without an answer.
struct LosesAnswer {
    model: SimulatedRegister,
    left: AtomicUsize,
}

impl LosesAnswer {
    fn model(&self) -> &SimulatedRegister {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 0 {
            self.model.add_fault(SimulatedFault::AnswerLost);
        }
        &self.model
    }
}

impl Register for LosesAnswer {
    fn get(&self, key: &RegisterKey) -> Result<Option<RegisterEntry>, RegisterError> {
        self.model().get(key)
    }
    fn range(&self, prefix: &KeyPrefix) -> Result<RangeAnswer, RegisterError> {
        self.model().range(prefix)
    }
    fn put_if(&self, transaction: &Transaction) -> Result<TransactionOutcome, RegisterError> {
        self.model().put_if(transaction)
    }
    fn watch(&self, prefix: &KeyPrefix, after: Revision) -> Box<dyn RegisterWatch> {
        self.model.watch(prefix, after)
    }
    fn compact(&self, up_to: Revision) -> Result<(), RegisterError> {
        self.model().compact(up_to)
    }
    fn grant(&self, ttl: Duration) -> Result<GrantedLease, RegisterError> {
        self.model().grant(ttl)
    }
    fn keep_alive(&self, lease: LeaseId) -> Result<LeaseAnswer, RegisterError> {
        self.model().keep_alive(lease)
    }
    fn revoke(&self, lease: LeaseId) -> Result<(), RegisterError> {
        self.model().revoke(lease)
    }
}

#[test]
fn whichever_answer_is_lost_the_publication_is_done_or_failed_and_never_in_doubt() {
    // The text is looked for, written, and the generation is written.
    let outcomes = [0, 1, 2, 3].map(|lost| {
        let register = SimulatedRegister::default();
        let losing = LosesAnswer { model: register.client(), left: AtomicUsize::new(lost) };
        let all = FleetDecisions::new(Arc::new(losing), &"f".parse().expect("a name"));
        let outcome = all.publish(None, &generation(1, "{}")).map_err(|error| error.to_string());
        let target = decisions(&register).target().expect("an answer").map(Publication::Done);
        assert_eq!(target, outcome.clone().ok(), "the call {lost}");
        outcome.is_ok()
    });
    assert_eq!(outcomes, [false, true, true, true], "a read that fails is an error, a write is settled");
}

#[test]
fn old_generations_are_forgotten_and_the_last_ones_come_in_order() {
    let all = decisions(&SimulatedRegister::default());
    for number in 1..=GENERATIONS_KEPT + 5 {
        publish(&all, &generation(number, "{}"));
    }
    let numbers: Vec<u64> =
        all.generations().expect("an answer").iter().map(|(number, _)| number.0).collect();
    assert_eq!(numbers, (6..=GENERATIONS_KEPT + 5).collect::<Vec<u64>>());
}

#[test]
fn a_policy_is_replaced_only_by_who_has_read_it() {
    let register = SimulatedRegister::default();
    let (one, other) = (decisions(&register), decisions(&register));
    assert!(one.set_policy("a", Revision::ABSENT).expect("an answer"));
    let (text, revision) = other.policy().expect("an answer");
    assert_eq!(text.as_deref(), Some("a"));
    assert!(one.set_policy("b", revision).expect("an answer"));
    assert!(!other.set_policy("c", revision).expect("an answer"));
    assert_eq!(other.policy().expect("an answer").0.as_deref(), Some("b"));
}

#[test]
fn a_scope_is_frozen_for_a_reason_until_it_is_thawed() {
    let all = decisions(&SimulatedRegister::default());
    assert!(all.freeze("cluster-a", "half of it is silent").expect("an answer"));
    assert!(all.freeze("fleet", "change of the year").expect("an answer"));
    let frozen = all.frozen().expect("an answer");
    assert_eq!(frozen[0], ("cluster-a".to_owned(), "half of it is silent".to_owned()));
    assert!(all.thaw("cluster-a").expect("an answer") && !all.thaw("cluster-a").expect("an answer"));
    assert_eq!(all.frozen().expect("an answer").len(), 1);
}

fn held(host: &str, reason: &str) -> HeldRecord {
    HeldRecord {
        whose: fleet::health::Quarantined::Host(host.parse().expect("a name")),
        reason: reason.to_owned(),
    }
}

#[test]
fn failures_are_kept_in_the_order_in_which_they_came_and_once() {
    let register = SimulatedRegister::default();
    let (one, other) = (decisions(&register), decisions(&register));
    assert_eq!((one.condemned().expect("an answer"), one.quarantine().expect("an answer")), (vec![], vec![]));
    let texts: Vec<fleet::TextDigest> =
        ["b", "a"].iter().map(|letter| letter.repeat(32).parse().expect("a digest")).collect();
    one.condemn(&texts[..1]).expect("an answer");
    other.condemn(&texts).expect("an answer");
    assert_eq!(one.condemned().expect("an answer"), texts);
    one.hold(&[held("h2", "flaps"), held("h1", "flaps")]).expect("an answer");
    other.hold(&[held("h2", &"é".repeat(300))]).expect("an answer");
    assert_eq!(one.quarantine().expect("an answer"), [held("h2", &"é".repeat(250)), held("h1", "flaps")]);
    other.release(&held("h2", "").whose).expect("an answer");
    assert_eq!(one.quarantine().expect("an answer"), [held("h1", "flaps")]);
}

#[test]
fn a_list_whose_answer_is_lost_is_kept_once() {
    // The list is read, and written; then it is read again, because the write's answer was lost.
    for (lost, is_kept) in [(0, false), (1, true), (2, true)] {
        let register = SimulatedRegister::default();
        let losing = LosesAnswer { model: register.client(), left: AtomicUsize::new(lost) };
        let all = FleetDecisions::new(Arc::new(losing), &"f".parse().expect("a name"));
        assert_eq!(all.hold(&[held("h1", "flaps")]).is_ok(), is_kept, "the call {lost}");
        let kept = decisions(&register).quarantine().expect("an answer").len();
        assert_eq!(kept, usize::from(is_kept), "the call {lost}");
    }
}

#[test]
fn a_list_that_is_none_is_an_error_and_stays_as_it_is() {
    let register = SimulatedRegister::default();
    let key: RegisterKey = "/evenkeel/f/condemned".parse().expect("a key");
    let write = Transaction::if_revision(key.clone(), Revision::ABSENT).put(key.clone(), "[1]");
    assert!(matches!(register.put_if(&write), Ok(TransactionOutcome::Committed(_))));
    let all = decisions(&register);
    let error = all.condemn(&["a".repeat(32).parse().expect("a digest")]).expect_err("not understood");
    assert!(error.to_string().contains("/evenkeel/f/condemned is not a list"), "{error}");
    let value = register.get(&key).expect("an answer").expect("a value").value;
    assert_eq!(&*value, b"[1]");
}
