//! Scenarios have their figures, planted bugs are found, and nothing else is.

use super::*;

/// Seeds with which nothing is found without a bug; more have been played by hand.
const SEEDS: u64 = 30;
/// A hunt that has found nothing ends here.
const SEEDS_MAX: u64 = 1_000;

fn scenario(name: &str, shape: &FleetShape) -> FleetScenario {
    all(shape, 1).into_iter().find(|scenario| scenario.name == name).expect("a scenario of that name")
}

#[track_caller]
fn check(name: &str, shape: &FleetShape) {
    let scenario = scenario(name, shape);
    scenario.check(&scenario.play(1, &[])).unwrap_or_else(|error| panic!("{name}: {error}"));
}

#[test]
fn scenarios_have_their_figures() {
    let names = all(&FleetShape::small(), 1).into_iter().map(|scenario| scenario.name);
    // A day is for a smaller fleet.
    names.filter(|name| *name != "etcd-day-off").for_each(|name| check(name, &FleetShape::small()));
}

#[test]
fn a_day_without_a_register_changes_nothing() {
    check(
        "etcd-day-off",
        &FleetShape { clusters: 2, slots: 12, spares: 2, routers: 30, ..FleetShape::small() },
    );
}

#[test]
fn without_guard_and_second_observer_a_restart_of_agents_is_an_outage() {
    let slack = scenario("slack-2-22-22", &FleetShape::small());
    let run = slack.play(1, &[PlantedBug::GuardOff, PlantedBug::OneObserverSuffices]);
    assert!(run.replaced > 50 && run.database_max() > 5.0, "{} ×, {}", run.database_max(), run.replaced);
    assert!(run.violation.is_some());
}

#[test]
fn equal_seeds_give_equal_histories() {
    let slack = scenario("slack-2-22-22", &FleetShape { clusters: 3, ..FleetShape::small() });
    let run = |seed| slack.play(seed, &[]);
    assert_eq!(format!("{:?}", run(7)), format!("{:?}", run(7)));
    assert_ne!(run(7).refused + run(7).events, run(8).refused + run(8).events);
}

/// The bug breaks this invariant, or the scenario's figures if none is named, with each of three seeds.
#[track_caller]
fn check_found(bug: PlantedBug, name: &str, invariant: &str) {
    let scenario = scenario(name, &FleetShape { clusters: 4, routers: 100, ..FleetShape::small() });
    for seed in 1..=3 {
        let run = scenario.play(seed, &[bug]);
        let found = run.violation.as_ref().map(|violation| violation.invariant);
        assert_eq!(found, Some(invariant), "{bug:?} in {name}, seed {seed}: {:?}", run.violation);
    }
}

#[test]
fn random_faults_break_no_invariant() {
    for seed in 1..=SEEDS {
        for scenario in hunted(seed) {
            let run = scenario.play_until_found(seed, &[]);
            assert_eq!(run.violation, None, "{} with seed {seed}: {:?}", scenario.name, scenario.script);
        }
    }
}

#[test]
fn planted_bugs_are_found() {
    check_found(PlantedBug::LeaseExpiryReplaces, "silent-agents", "I6");
    check_found(PlantedBug::OneObserverSuffices, "silent-agents", "I6");
    check_found(PlantedBug::UnknownIsDead, "silent-agents", "I6");
    check_found(PlantedBug::BudgetIgnored, "operator", "I5");
    check_found(PlantedBug::QuarantineIgnored, "flapping-host", "I5");
    check_found(PlantedBug::ShortFailuresHidden, "flapping-member", "I19");
}

#[test]
fn a_guard_that_counts_the_fleet_only_is_found() {
    let shape = FleetShape { clusters: 30, slots: 24, routers: 300, ..FleetShape::small() };
    let scenario = scenario("cluster-loss", &shape);
    let run = scenario.play(1, &[PlantedBug::GuardCountsFleetOnly]);
    assert_eq!(run.violation.map(|violation| violation.invariant), Some("I5"));
}

/// The first seed with which a hunt finds the bug is within the seeds in which nothing is found without it.
#[track_caller]
fn check_hunt(bug: PlantedBug, invariant: &str) {
    let (seed, run) = hunt(bug, 1..=SEEDS_MAX).unwrap_or_else(|| panic!("{bug:?} is not found"));
    let found = run.violation.expect("it was found");
    assert_eq!(found.invariant, invariant, "{bug:?} with seed {seed}: {found}");
    for scenario in hunted(seed) {
        let run = scenario.play_until_found(seed, &[]);
        assert_eq!(run.violation, None, "{} with seed {seed}, without a bug", scenario.name);
    }
}

#[test]
fn a_hunt_finds_every_planted_bug_of_health() {
    check_hunt(PlantedBug::LeaseExpiryReplaces, "I6");
    check_hunt(PlantedBug::GuardCountsFleetOnly, "I5");
    check_hunt(PlantedBug::GuardOff, "I5");
    check_hunt(PlantedBug::OneObserverSuffices, "I6");
    check_hunt(PlantedBug::UnknownIsDead, "I6");
    check_hunt(PlantedBug::BudgetIgnored, "I5");
    check_hunt(PlantedBug::QuarantineIgnored, "I5");
    check_hunt(PlantedBug::FlushAssumed, "I7");
    check_hunt(PlantedBug::ShortFailuresHidden, "I19");
}

#[test]
fn a_hunt_finds_every_planted_bug_of_decisions() {
    check_hunt(PlantedBug::CompareLeftOut, "I1");
    check_hunt(PlantedBug::AckBeforeDisk, "I1");
    check_hunt(PlantedBug::OlderGenerationTaken, "I1");
    check_hunt(PlantedBug::CheckOmitted, "I2");
    check_hunt(PlantedBug::CrashTakenAsLoaded, "I3");
    check_hunt(PlantedBug::SlotsSorted, "I4");
    check_hunt(PlantedBug::SilentRouterLeft, "I8");
    check_hunt(PlantedBug::OldMemberStaysOpen, "I9");
    check_hunt(PlantedBug::TimeoutIsDone, "I10");
    check_hunt(PlantedBug::TurnsBringNoNews, "I11");
    check_hunt(PlantedBug::RetryBesideTurn, "I13");
    check_hunt(PlantedBug::AuditBeforeCommit, "I14");
}
