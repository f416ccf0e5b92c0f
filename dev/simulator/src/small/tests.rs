//! The small world without and with planted bugs.

use stdx::prng::Prng;

use super::faults::{RoutesText, Scheduled, SmallFault};
use super::world::play_script;
use super::*;

#[test]
fn seeds_without_bugs_break_no_invariant() {
    for seed in 0..8 {
        let run = play(seed, &[]);
        assert!(run.violation.is_none(), "{}", run.violation.expect("there is one"));
    }
}

/// Plays faults with their times in seconds, which break nothing. Returns how many members entered slots.
#[track_caller]
fn check(script: &[(u64, u64, SmallFault)]) -> u64 {
    let run = play_script(1, &[], scheduled(script));
    assert!(run.violation.is_none(), "{}", run.violation.expect("there is one"));
    run.entered
}

#[test]
fn a_host_that_is_cut_off_or_a_server_that_is_down_loses_its_slot() {
    assert_eq!(check(&[(64, 90, SmallFault::HostCutOff { server: 1 })]), 1);
    assert_eq!(check(&[(64, 90, SmallFault::ServerStops { server: 1 })]), 1);
}

#[test]
fn a_short_absence_replaces_nobody() {
    assert_eq!(check(&[(64, 66, SmallFault::HostCutOff { server: 1 })]), 0);
    assert_eq!(check(&[(64, 66, SmallFault::ServerStops { server: 1 })]), 0);
}

#[test]
fn routers_that_end_after_a_slot_change_do_not_give_the_slot_back() {
    let ends = |router: u64| (69 + 2 * router, 90, SmallFault::RouterEnds { router: router as usize });
    // It is back with its values before the slot could come back to it.
    let cut_off = (64, 73, SmallFault::HostCutOff { server: 1 });
    assert_eq!(check(&[cut_off, ends(0), ends(1), ends(2)]), 1);
}

/// Faults with their times in seconds.
fn scheduled(script: &[(u64, u64, SmallFault)]) -> Vec<Scheduled> {
    let one = |(from_s, until_s, fault): &(u64, u64, SmallFault)| {
        let (from_ms, until_ms) = (from_s * 1000, until_s * 1000);
        Scheduled { from_ms, until_ms, fault: *fault }
    };
    script.iter().map(one).collect()
}

/// With the bug these faults break the invariant in one of some seeds, and without it they break none.
#[track_caller]
fn check_broken(bug: SmallBug, script: &[(u64, u64, SmallFault)], seeds: u64, invariants: &[&str]) {
    let run = play_script(1, &[], scheduled(script));
    assert!(run.violation.is_none(), "{}", run.violation.expect("there is one"));
    let found = (1..=seeds).find_map(|seed| play_script(seed, &[bug], scheduled(script)).violation);
    let found = found.expect("a violation");
    assert!(invariants.contains(&found.violation.invariant), "{found}");
}

const LOST: (u64, u64, SmallFault) = (68, 106, SmallFault::HostCutOff { server: 1 });
const GOOD: SmallFault = SmallFault::RoutesChanged { kind: RoutesText::Good };
const DEADLY: SmallFault = SmallFault::RoutesChanged { kind: RoutesText::Deadly };

#[test]
fn a_lost_host_is_replaced_whatever_has_halted_a_rollout() {
    let halted = [(64, 106, GOOD), (66, 106, SmallFault::RolloutHalted), LOST];
    assert_eq!(check(&halted), 1);
    check_broken(SmallBug::HaltHoldsHealing, &halted, 1, &["I12"]);
    assert_eq!(check(&[(64, 106, SmallFault::FileEdited { router: 0 }), LOST]), 1);
    assert_eq!(check(&[(64, 106, DEADLY), (67, 106, SmallFault::FileEdited { router: 2 }), LOST]), 1);
}

#[test]
fn no_agent_stays_with_a_controller_that_is_without_its_register() {
    let cut = [(64, 90, SmallFault::RegisterCut { controller: Some(0) }), LOST];
    check_broken(SmallBug::AgentStays, &cut, 1, &["I15"]);
}

#[test]
fn a_member_that_is_replaced_by_hand_undoes_no_delete() {
    let replaced = |slot| (64 + 10 * slot as u64, 65, SmallFault::MemberReplaced { slot });
    check_broken(SmallBug::ReplacedAtOnce, &[replaced(0), replaced(1), replaced(2)], 30, &["I8", "I4"]);
}

const GROWS: SmallFault = SmallFault::Resized { slots: 5, at_once: false };
const GROWS_AT_ONCE: SmallFault = SmallFault::Resized { slots: 5, at_once: true };
const SHRINKS: SmallFault = SmallFault::Resized { slots: 4, at_once: false };

#[test]
fn a_cluster_that_grows_and_shrinks_undoes_no_delete() {
    let script = [(64, 65, GROWS), (84, 85, SHRINKS)];
    assert!(check(&script) > 0, "a member enters the slot that is added");
    // Clients change all keys so often that the phases of a growth leave no old value behind; one at once does.
    let at_once = [(64, 65, GROWS_AT_ONCE), (84, 85, SHRINKS)];
    check_broken(SmallBug::SweepAssumed, &at_once, 30, &["I8", "I4"]);
}

#[test]
fn a_resize_that_is_given_up_undoes_no_delete() {
    for again_s in [66, 70, 74, 78] {
        check(&[(64, 65, GROWS), (again_s, again_s + 1, SHRINKS)]);
    }
}

#[test]
fn a_server_that_can_be_reached_again_is_asked_again_within_a_bound() {
    // Long enough for the intervals of the bug to grow beyond the bound.
    let cut = [(64, 100, SmallFault::PathCut { router: 1, server: 2 })];
    check_broken(SmallBug::ProbesGrow, &cut, 10, &["I17"]);
}

#[test]
fn routes_that_have_failed_do_not_come_again_with_a_change_of_slots() {
    let script = [(64, 65, DEADLY), (80, 81, SmallFault::MemberReplaced { slot: 0 })];
    check_broken(SmallBug::SlotsBringRoutes, &script, 1, &["I16"]);
}

#[test]
fn a_host_that_is_lost_while_routes_go_out_brings_them_to_nobody() {
    let script = [(66, 106, GOOD), LOST];
    assert_eq!(check(&script), 1);
    check_broken(SmallBug::ReplacementBringsRoutes, &script, 3, &["I16"]);
    // Halted, lost twice, and with routes that end routers.
    assert_eq!(check(&[(66, 106, GOOD), (67, 106, SmallFault::RolloutHalted), LOST]), 1);
    check(&[(67, 106, DEADLY), LOST]);
    // With a spare for each of two.
    let seed = (1..).find(|seed| Prng::new(*seed).below(4) == 0).expect("one of four");
    let lost_twice = [(66, 106, GOOD), LOST, (70, 106, SmallFault::HostCutOff { server: 2 })];
    let run = play_script(seed, &[], scheduled(&lost_twice));
    assert!(run.violation.is_none(), "{}", run.violation.expect("there is one"));
    assert_eq!(run.entered, 2);
}

#[test]
fn equal_seeds_have_equal_histories() {
    let [one, other, third] = [7, 7, 8].map(|seed| play(seed, &[]).fingerprint);
    assert_eq!(one, other);
    assert_ne!(one, third);
}

/// Some seed of these finds the bug, by this invariant.
#[track_caller]
fn check_found(bug: SmallBug, seeds: std::ops::Range<u64>, invariant: &str) {
    let found = seeds.into_iter().find_map(|seed| play(seed, &[bug]).violation);
    let found = found.expect("a violation");
    assert_eq!(found.violation.invariant, invariant, "{found}");
    let lines = found.to_string();
    assert!(lines.starts_with(&format!("seed {}: {invariant} at ", found.seed)), "{lines}");
}

#[test]
fn planted_bugs_are_found() {
    check_found(SmallBug::DeleteErrorHidden, 0..5, "I8");
    check_found(SmallBug::OlderTextTaken, 0..5, "I1");
    check_found(SmallBug::WrittenInPlace, 0..5, "I2");
    // Without drains: their texts have routes in the place of servers, which sorting would break.
    check_found(SmallBug::ServersSorted, 1..4, "I4");
}

#[test]
fn a_flush_that_did_not_happen_is_found() {
    check_found(SmallBug::FlushAssumed, 865..866, "I7");
}
