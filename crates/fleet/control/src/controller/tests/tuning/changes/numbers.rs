//! Numbers of changes that a register from a backup gives a second time.

use fleet::tuning::AnswerDigest;

use super::*;

fn another() -> AnswerDigest {
    "ab".repeat(32).parse().expect("a digest")
}

impl ChangingFleet {
    /// What a host says of a change that this register does not know, from now on.
    fn says(&mut self, at: usize, change: u64, own: Option<AnswerDigest>, word: HostWord) {
        self.other.insert(at, ChangeWord { change: ChangeNumber(change), own, word });
    }
}

/// A change of whose number one host has another one.
fn begun_twice(own: Option<AnswerDigest>) -> ChangingFleet {
    let mut fleet = ChangingFleet::new(24, 1.0);
    fleet.begin();
    // It was away when the number was chosen.
    fleet.says(0, 1, own, HostWord::Changed { attempt: 1 });
    fleet
}

#[test]
fn a_word_about_another_change_with_the_number_is_no_word_of_this_one() {
    let mut fleet = begun_twice(Some(another()));
    let done = fleet.until(1, &["done", "halted", "undone"]);
    let text = done["text"].as_str().expect("a text");
    // It was left out: all others have it, and it was never told.
    assert_eq!((&done["state"], fleet.changed(), fleet.orders[0].len()), (&json!("done"), 23, 0), "{text}");

    let mut fleet = begun_twice(Some(another()));
    fleet.turns(2);
    let status = fleet.status(1);
    let text = status["text"].as_str().expect("a text");
    assert!(text.contains("it has another change under the number 1"), "{text}");
    assert!(text.contains("as change-1-abababababab)"), "{text}");
    // Nobody waits for it when the others go back, and what it has is not theirs to take back.
    assert_eq!(fleet.steer(1, ChangeSteer::Undo).0, 200);
    fleet.until(1, &["undone"]);
}

#[test]
fn what_is_over_of_another_change_with_the_number_keeps_no_host_from_this_one() {
    for word in [HostWord::AsBefore, HostWord::Lapsed { attempt: 3 }] {
        let mut fleet = ChangingFleet::new(24, 1.0);
        fleet.begin();
        fleet.says(0, 1, Some(another()), word);
        let done = fleet.until(1, &["done", "halted", "undone"]);
        assert_eq!((&done["state"], fleet.changed()), (&json!("done"), 24), "{}", done["text"]);
    }
}

#[test]
fn a_new_change_has_a_number_above_all_that_hosts_tell_of() {
    let mut fleet = ChangingFleet::new(24, 1.0);
    fleet.says(0, 7, Some(another()), HostWord::AsBefore);
    // Nobody uses the numbers up.
    fleet.says(1, u64::MAX, Some(another()), HostWord::AsBefore);
    fleet.turns(1);
    let begun = fleet.begin();
    assert_eq!(begun["number"], 8, "{begun}");
}
