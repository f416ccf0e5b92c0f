//! Controllers that are started again, or stand beside the one that has learnt something.

use fleet::health::Quarantined;

use super::*;
use crate::controller::log::LOG_LINES_MAX;
use crate::decisions::{CONDEMNED_MAX, HELD_MAX, HeldRecord};

fn host(number: usize) -> Quarantined {
    Quarantined::Host(format!("h{number}").parse().expect("a name"))
}

/// Who is in quarantine, as a controller says.
fn held(stage: &Stage) -> Vec<String> {
    stage.controller.health.held().map(|(whose, _)| whose.to_string()).collect()
}

/// A member of this host was lost and replaced at two different moments.
fn lose_twice(stage: &mut Stage, number: usize) {
    let (member, host) = (format!("x{number}"), format!("h{number}"));
    for at_ms in [stage.now_ms, stage.now_ms + 100_000] {
        let (member, host) = (member.parse().expect("a name"), host.parse().expect("a name"));
        stage.controller.health.note_loss(&member, &host, Now::at_ms(at_ms));
    }
}

fn scope(text: &str) -> FreezeScope {
    text.parse().expect("a scope")
}

fn restart(stage: &mut Stage) {
    stage.controller = controller(&stage.register, &stage.seats);
}

#[test]
fn a_restarted_controller_rolls_out_no_text_that_has_failed() {
    let mut stage = Stage::running(4);
    stage.agents.iter_mut().for_each(|agent| agent.fails_with = Some("10.0.0.3"));
    stage.apply(&replace("m1"));
    stage.rounds(8);
    assert_eq!((stage.slots().as_str(), stage.target()), ("m4 m2", 3), "on after a crash");
    restart(&mut stage);
    stage.rounds(3);
    let (member, by) = ("m4".parse().expect("a name"), Some("m3".parse().expect("a name")));
    let same = ChangeQuestion::Requests(vec![ChangeRequest::Replace { member, by, now: true }]);
    let error = stage.plan(&same);
    assert!(error["error"].as_str().expect("an error").contains("this very text has failed"), "{error}");
    // Whoever publishes it all the same: no router gets it.
    let failed = stage.controller.register.view().generations()[&GenerationNumber(2)].content.clone();
    let again = stage.controller.successor("another controller's".to_owned(), failed);
    assert!(matches!(stage.controller.publish(&again, None), Ok(crate::decisions::Publication::Done(_))));
    restart(&mut stage);
    // They would take it now.
    stage.agents.iter_mut().for_each(|agent| agent.fails_with = None);
    stage.rounds(5);
    assert!(stage.loaded().iter().all(|generation| *generation <= 3), "{:?}", stage.loaded());
}

#[test]
fn a_restarted_controller_gives_no_slot_to_who_is_in_quarantine() {
    let mut stage = Stage::running(6);
    lose_twice(&mut stage, 3);
    stage.rounds(1);
    assert_eq!(held(&stage), ["member/x3", "host/h3"]);
    restart(&mut stage);
    assert_eq!(held(&stage), ["member/x3", "host/h3"]);
    stage.rounds(3);
    let status = stage.text(ControlQuestion::Status);
    assert!(status.contains("in quarantine: host/h3 (it was lost twice within 2 min)"), "{status}");
    assert_eq!(stage.apply(&replace("m1")).status, 200);
    assert_eq!(stage.slots(), "m5 m2", "m3 would have been the first");
}

#[test]
fn a_person_holds_and_releases_for_all_controllers() {
    let mut stage = Stage::running(4);
    let mut other = controller(&stage.register, &Arc::new(AgentSeats::default()));
    let why = || "its disk is full of errors".to_owned();
    let text = stage.text(ControlQuestion::Freeze { scope: scope("host/h3"), why: why() });
    assert_eq!(text, "host/h3 is in quarantine\n");
    stage.text(ControlQuestion::Freeze { scope: scope("member/m4"), why: why() });
    other.read();
    let others: Vec<_> = other.health.held().map(|(whose, reason)| (whose.to_string(), reason)).collect();
    let disk = "its disk is full of errors";
    assert_eq!(others, [("member/m4".to_owned(), disk), ("host/h3".to_owned(), disk)]);
    let text = stage.text(ControlQuestion::Thaw { scope: scope("host/h3"), why: why() });
    assert_eq!(text, "host/h3 may take a slot again\n");
    other.read();
    assert_eq!(other.health.held().count(), 1);
    restart(&mut stage);
    assert_eq!(held(&stage), ["member/m4"]);
    let text = stage.text(ControlQuestion::Thaw { scope: scope("host/h3"), why: why() });
    assert_eq!(text, "host/h3 was not in quarantine\n");
}

#[test]
fn what_cannot_be_kept_is_kept_when_the_register_is_back() {
    let mut stage = Stage::running(4);
    lose_twice(&mut stage, 3);
    stage.controller.now = Now::at_ms(stage.now_ms);
    stage.register.add_fault(SimulatedFault::NotReached);
    stage.controller.keep_failures();
    let lines: Vec<String> = stage.controller.take_log_lines().collect();
    assert!(lines.len() == 1 && lines[0].starts_with("failures are not kept, and"), "{lines:?}");
    stage.register.add_fault(SimulatedFault::NotReached);
    stage.rounds(3);
    assert_eq!(stage.controller.take_log_lines().count(), 0, "once, not every second");
    restart(&mut stage);
    assert_eq!(held(&stage), ["member/x3", "host/h3"]);
}

#[test]
fn a_full_list_forgets_its_oldest_with_a_line() {
    let mut stage = Stage::running(2);
    let all = decisions(&stage.register);
    let reason = "a test".to_owned();
    let records: Vec<_> = (0..HELD_MAX)
        .map(|number| HeldRecord { whose: host(number + 100), reason: reason.clone() })
        .collect();
    assert_eq!(all.hold(&records).expect("an answer"), []);
    let texts: Vec<TextDigest> =
        (0..CONDEMNED_MAX).map(|number| format!("{number:032x}").parse().expect("a digest")).collect();
    assert_eq!(all.condemn(&texts).expect("an answer"), []);
    stage.controller.read();
    assert_eq!(stage.controller.take_log_lines().count(), 0);
    lose_twice(&mut stage, 3);
    stage.controller.failures.add(["f".repeat(32).parse().expect("a digest")]);
    stage.controller.keep_failures();
    let lines: Vec<String> = stage.controller.take_log_lines().collect();
    assert_eq!(lines.len(), 3, "a text, and a host for a member and its host: {lines:?}");
    assert!(lines[0].starts_with(&format!("text {:032x} has failed and is forgotten", 0)), "{}", lines[0]);
    assert!(lines[1].starts_with("host/h100 is out of quarantine (a test)"), "{}", lines[1]);
    assert_eq!((held(&stage).len(), all.quarantine().expect("an answer").len()), (HELD_MAX, HELD_MAX));
    stage.controller.read();
    stage.controller.keep_failures();
    assert_eq!(stage.controller.take_log_lines().count(), 0, "what was forgotten does not come back");
    let kept = all.condemned().expect("an answer");
    assert_eq!(
        (kept.len(), &kept[0], &kept[CONDEMNED_MAX - 1]),
        (CONDEMNED_MAX, &texts[1], &"f".repeat(32).parse().expect("a digest"))
    );
}

#[test]
fn lines_that_nobody_takes_are_lost_from_the_oldest_on() {
    let mut stage = Stage::new(1);
    for number in 0..LOG_LINES_MAX + 3 {
        stage.controller.log.add(number.to_string());
    }
    let lines: Vec<String> = stage.controller.take_log_lines().collect();
    assert_eq!((lines.len(), &*lines[0]), (LOG_LINES_MAX, "3"));
}
