//! Replacements before a start, or by another controller: they count for the limits and for quarantine.

use fleet::health::Quarantined;

use super::*;

/// Far enough from zero for ages of more than an hour.
const BEGIN_MS: u64 = 20_000_000;

fn restart(stage: &mut Stage) {
    stage.seats = Arc::default();
    stage.controller = controller_at(&stage.register, &stage.seats, "c1", stage.now_ms, stage.unix_s);
}

/// A host goes, and the fleet has the time to do something about it.
fn lose(stage: &mut Stage, number: usize) {
    stage.agents[number - 1].is_gone = true;
    suspect(stage, &[&format!("10.0.0.{number}:11211")]);
    stage.rounds(60);
    suspect(stage, &[]);
}

/// A fleet with two slots, one of which may be replaced in an hour: m1 was lost, and m3 has its slot.
fn after_a_loss() -> Stage {
    let mut stage = Stage::running(6);
    stage.now_ms += BEGIN_MS;
    suspect(&mut stage, &[]);
    stage.rounds(70);
    lose(&mut stage, 1);
    assert_eq!(stage.slots(), "m3 m2");
    stage
}

/// Seconds after that loss a controller is started whose wall clock is off by some seconds, and m2 is lost.
fn lost_after_restart(passed_s: u64, clock_off_s: i64) -> Stage {
    let mut stage = after_a_loss();
    stage.now_ms += passed_s * 1000;
    stage.unix_s += passed_s.cast_signed() + clock_off_s;
    restart(&mut stage);
    stage.rounds(70);
    lose(&mut stage, 2);
    stage
}

#[track_caller]
fn check(passed_s: u64, clock_off_s: i64, is_remembered: bool) {
    let mut stage = lost_after_restart(passed_s, clock_off_s);
    let expected = if is_remembered { "m3 m2" } else { "m3 m4" };
    assert_eq!(stage.slots(), expected, "{passed_s} s, the clock off by {clock_off_s} s");
    let status = stage.text(ControlQuestion::Status);
    assert_eq!(status.contains("are the limit of fleet, and are used"), is_remembered, "{status}");
}

#[test]
fn a_restarted_controller_knows_the_replacements_of_the_last_hour() {
    check(0, 0, true);
    check(3_300, 0, true);
    check(4_000, 0, false);
}

#[test]
fn a_wall_clock_that_is_off_by_five_minutes_ends_the_hour_no_sooner_and_ten_minutes_later_at_most() {
    check(3_300, 300, true);
    check(3_300, -300, true);
    check(3_900, -300, true);
    check(4_300, -300, false);
}

#[test]
fn a_record_from_the_future_counts_as_made_now_and_goes_after_an_hour() {
    let mut stage = lost_after_restart(0, -86_400);
    assert_eq!(stage.slots(), "m3 m2");
    stage.now_ms += 3_600_000;
    suspect(&mut stage, &["10.0.0.2:11211"]);
    stage.rounds(130);
    assert_eq!(stage.slots(), "m3 m4");
    let all = decisions(&stage.register).replaced().expect("an answer");
    let numbers: Vec<u64> = all.keys().map(|number| number.0).collect();
    assert_eq!(numbers, [3], "that of generation 2 has gone with the next one");
}

#[test]
fn a_wall_clock_that_jumps_while_a_controller_runs_changes_nothing() {
    let mut stage = after_a_loss();
    stage.unix_s += 86_400;
    lose(&mut stage, 2);
    assert_eq!(stage.slots(), "m3 m2");
}

fn is_held(controller: &Controller, whose: &str) -> bool {
    controller.health.held().any(|(held, _)| held.to_string() == whose)
}

fn lose_again(controller: &mut Controller) {
    let (now, member, host) = (controller.now, "m1".parse(), "h1".parse());
    let (member, host) = (member.expect("a name"), host.expect("a name"));
    controller.health.note_loss(&member, &host, Now::at_ms(now.ms() + 61_000));
}

#[test]
fn a_member_that_was_lost_before_a_restart_and_is_lost_again_is_in_quarantine() {
    let mut stage = after_a_loss();
    restart(&mut stage);
    assert!(!is_held(&stage.controller, "member/m1"));
    lose_again(&mut stage.controller);
    assert!(is_held(&stage.controller, "member/m1") && is_held(&stage.controller, "host/h1"));
}

#[test]
fn who_was_released_begins_anew_after_a_restart_too() {
    let mut stage = after_a_loss();
    let host = Quarantined::Host("h1".parse().expect("a name"));
    assert_eq!(stage.controller.release_by_hand(&host).status, 200);
    restart(&mut stage);
    lose_again(&mut stage.controller);
    assert!(is_held(&stage.controller, "member/m1"), "it was not released itself");
    assert!(!is_held(&stage.controller, "host/h1"));
}

#[test]
fn a_controller_that_runs_beside_it_knows_what_the_other_one_has_replaced() {
    let mut stage = Stage::running(6);
    stage.now_ms += BEGIN_MS;
    let mut other = controller_at(&stage.register, &Arc::default(), "c2", stage.now_ms, stage.unix_s);
    suspect(&mut stage, &[]);
    stage.rounds(70);
    lose(&mut stage, 1);
    // It has observed nothing by itself, and reads this once and once more.
    for _ in 0..2 {
        (other.now, other.unix_s) = (Now::at_ms(stage.now_ms), stage.unix_s + 300);
        other.read();
    }
    assert!(!is_held(&other, "member/m1"));
    lose_again(&mut other);
    assert!(is_held(&other, "member/m1") && is_held(&other, "host/h1"));
}

#[test]
fn a_drain_is_no_replacement_that_the_limit_counts() {
    let mut stage = Stage::running(6);
    stage.now_ms += BEGIN_MS;
    suspect(&mut stage, &[]);
    stage.rounds(70);
    let member = "m1".parse().expect("a name");
    let drain = crate::questions::DrainQuestion { member, to: None, warm_up_s: 5 };
    assert_eq!(stage.apply(&ChangeQuestion::Drain(drain)).status, 200);
    stage.rounds(60);
    assert_eq!(stage.slots(), "m3 m2");
    assert_eq!(decisions(&stage.register).replaced().expect("an answer"), BTreeMap::new());
    // One member of two may be replaced in an hour, and is; the next one is not.
    lose(&mut stage, 2);
    assert_eq!(stage.slots(), "m3 m4");
    lose(&mut stage, 3);
    assert_eq!(stage.slots(), "m3 m4");
}
