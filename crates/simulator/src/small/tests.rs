//! The small world without and with planted bugs.

use super::faults::{Scheduled, SmallFault};
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
    let script = script.iter().map(|(from_s, until_s, fault)| Scheduled {
        from_ms: from_s * 1000,
        until_ms: until_s * 1000,
        fault: *fault,
    });
    let run = play_script(1, script.collect());
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
    check_found(SmallBug::ServersSorted, 0..5, "I4");
    check_found(SmallBug::FlushAssumed, 865..866, "I7");
}
