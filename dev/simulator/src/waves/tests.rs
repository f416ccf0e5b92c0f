//! Changes of hosts without and with planted bugs, and how often they are judged rightly.

use fleet::waves::WaveSettings;

use super::*;

/// Seeds of the default run with which nothing is found without a bug; the program's hunt plays more.
const SEEDS: u64 = 12;
/// A hunt that has found nothing ends here.
const SEEDS_MAX: u64 = 1_000;

#[test]
fn seeds_without_bugs_break_no_invariant() {
    for seed in 1..=SEEDS {
        let run = play_waves(seed, &[]);
        assert_eq!(run.violation, None, "seed {seed}");
    }
}

#[test]
fn equal_seeds_give_equal_histories() {
    assert_eq!(play_waves(3, &[]), play_waves(3, &[]));
}

/// The first seed that finds the bug finds nothing without it.
#[track_caller]
fn check_hunt(bug: WaveBug, invariants: &[&str]) {
    let found =
        (1..=SEEDS_MAX).find_map(|seed| play_waves(seed, &[bug]).violation.map(|found| (seed, found)));
    let (seed, found) = found.unwrap_or_else(|| panic!("{bug:?} is not found"));
    assert!(invariants.contains(&found.invariant), "{bug:?} with seed {seed}: {found:?}");
    assert_eq!(play_waves(seed, &[]).violation, None, "seed {seed}, without a bug");
}

#[test]
fn planted_bugs_are_found() {
    check_hunt(WaveBug::ClassUnseen, &["W9"]);
    check_hunt(WaveBug::FailureCounted, &["W2"]);
    check_hunt(WaveBug::LateCounted, &["W2"]);
    check_hunt(WaveBug::ControllerForgets, &["W3", "W7"]);
    check_hunt(WaveBug::StepsLost, &["W4"]);
    check_hunt(WaveBug::OverlapIgnored, &["W11"]);
    check_hunt(WaveBug::FrozenIgnored, &["W5"]);
    check_hunt(WaveBug::CompareLeftOut, &["W1"]);
    check_hunt(WaveBug::ToldBeforeWritten, &["W3"]);
    check_hunt(WaveBug::AwayIsAsBefore, &["W7", "W13"]);
    check_hunt(WaveBug::SilenceHidden, &["W2", "W13"]);
    check_hunt(WaveBug::RestartsHidden, &["W6", "W12"]);
    check_hunt(WaveBug::SignalsHidden, &["W10"]);
    check_hunt(WaveBug::LossUnseen, &["W12"]);
    check_hunt(WaveBug::SilentRouterCounted, &["W14"]);
    check_hunt(WaveBug::SweepAssumed, &["W15"]);
}

#[test]
fn a_tuning_of_hundreds_of_hosts_goes_through_and_a_cluster_is_resized_meanwhile() {
    let run = play_many(1, 300, PlantedEffect::default());
    assert_eq!((run.violation, run.end, run.resizes), (None, "done", 2));
    assert!(run.reached >= 290, "{} hosts had it", run.reached);
}

fn fleet(effect: PlantedEffect) -> TrialFleet {
    TrialFleet { clusters: 4, hosts: 60, classes: 2, sigma: 0.02, effect }
}

#[test]
fn a_change_that_does_nothing_goes_through_and_harm_is_stopped_in_the_canaries() {
    let settings = WaveSettings::default();
    let nothing = play_trials(&fleet(PlantedEffect::default()), &settings, 1, 40);
    assert!(nothing.halted <= 4 && nothing.better <= 4, "{nothing:?}");
    let harm = PlantedEffect { requests: 0.1, first_class_only: true, ..PlantedEffect::default() };
    let harm = play_trials(&fleet(harm), &settings, 1, 20);
    assert!(harm.in_canaries >= 19, "{harm:?}");
}
