//! A cluster of real processes that grows and shrinks back: no deleted value comes back, and none that was replaced.

use std::time::Duration;

use end_to_end::clock;
use end_to_end::fleet::{DecisionStore, Fleet};

const HOSTS: usize = 6;
const POLICY: &str = "fleet = \"prod\"\n[[cluster]]\nname = \"web\"\nslots = 4\n[[view]]\nname = \"main\"\n\
                      routes = '{\"route\": \"PoolRoute|web\"}'\n";
/// Keys of each kind.
const KEYS: usize = 200;
/// Steps of one resize at most, five a second.
const STEPS_MAX: usize = 600;

#[track_caller]
fn set(fleet: &Fleet, router: usize, key: &str, value: &str) {
    let request = format!("set {key} 0 0 {}\r\n{value}\r\n", value.len());
    assert_eq!(fleet.ask_router(router, &request, "STORED"), "STORED", "{key}");
}

#[track_caller]
fn delete(fleet: &Fleet, router: usize, key: &str) {
    let deleted = fleet.ask_router(router, &format!("delete {key}\r\n"), "D");
    assert!(["DELETED", "NOT_FOUND"].contains(&&*deleted), "{key}: {deleted}");
}

/// The value of a key by a router, if it has one.
fn get(fleet: &Fleet, router: usize, key: &str) -> Option<String> {
    let found = fleet.ask_router(router, &format!("get {key}\r\n"), "END");
    found.strip_suffix(" END").map(|found| found.rsplit(' ').next().unwrap_or_default().to_owned())
}

/// A router for each step, and the one behind it.
fn routers(step: usize) -> (usize, usize) {
    (1 + step % HOSTS, 1 + (step + 1) % HOSTS)
}

/// Gives the cluster so many slots. Meanwhile keys are deleted by one router and asked for by others. Returns how many were deleted so far.
#[track_caller]
fn resize(fleet: &Fleet, slots: usize, mut deleted: usize) -> usize {
    let slots = slots.to_string();
    fleet.control(&["scale", "web", &slots, "--warm-up-s", "4", "--apply", "--why", "the load has changed"]);
    let done = format!("cluster web has {slots} slots");
    for step in 0..STEPS_MAX {
        let (by, other) = routers(step);
        if deleted < KEYS && step % 2 == 0 {
            let key = format!("gone{deleted}");
            delete(fleet, by, &key);
            assert_eq!(get(fleet, other, &key), None, "{key}: {}", fleet.status());
            deleted += 1;
        }
        // Keys that are asked for all the time are always found.
        let kept = format!("kept{}", step % 20);
        assert_eq!(get(fleet, other, &kept).as_deref(), Some("x"), "{kept}: {}", fleet.status());
        if fleet.status().contains(&done) && fleet.generation().is_some_and(|target| fleet.has_loaded(target))
        {
            return deleted;
        }
        clock::pass(Duration::from_millis(100));
    }
    panic!("it is not done: {}", fleet.status());
}

/// No router finds what was deleted or replaced.
#[track_caller]
fn check(fleet: &Fleet, deleted: usize) {
    for number in 0..KEYS {
        let (one, other) = routers(number);
        for router in [one, other] {
            if number < deleted {
                assert_eq!(get(fleet, router, &format!("gone{number}")), None, "gone{number}");
            }
            assert_eq!(get(fleet, router, &format!("back{number}")), None, "back{number} by router {router}");
            let changed = get(fleet, router, &format!("changed{number}"));
            assert_ne!(changed.as_deref(), Some("old"), "changed{number} by router {router}");
        }
    }
}

#[test]
fn a_cluster_that_grows_and_shrinks_back_finds_no_old_value() {
    let mut fleet = Fleet::new(DecisionStore::Directory);
    fleet.controller(1, 1);
    (1..=HOSTS).for_each(|host| fleet.host(host));
    fleet.begin(POLICY);
    let kinds = ["gone", "back", "changed"];
    (0..20).for_each(|key| set(&fleet, 1, &format!("kept{key}"), "x"));
    kinds.iter().for_each(|kind| (0..KEYS).for_each(|key| set(&fleet, 1, &format!("{kind}{key}"), "old")));
    let plan = fleet.control(&["scale", "web", "6"]);
    assert!(plan.contains("cluster web: grows from 4 to 6 slots, in phases"), "{plan}");
    assert!(plan.contains("sampled); deletes reach both"), "{plan}");

    let deleted = resize(&fleet, 6, 0);
    assert!((3..KEYS).contains(&deleted), "{deleted} keys were deleted while it grew");
    for number in 0..KEYS {
        delete(&fleet, 1 + number % HOSTS, &format!("back{number}"));
        set(&fleet, 1 + number % HOSTS, &format!("changed{number}"), "new");
    }
    check(&fleet, deleted);
    // Servers that have kept their slots still have what they had of the keys that moved: that must not come back.
    let held = |host: usize| {
        let has = |key: &usize| fleet.ask_server(host, &format!("get back{key}\r\n"), "END") != "END";
        (0..KEYS).filter(has).count()
    };
    let held: usize = (1..=HOSTS).map(held).sum();
    assert!(held > KEYS / 10, "{held} of {KEYS} deleted keys are on servers that nobody asks for them");

    let deleted = resize(&fleet, 4, deleted);
    check(&fleet, deleted);
    for key in 0..20 {
        assert_eq!(get(&fleet, 1 + key % HOSTS, &format!("kept{key}")).as_deref(), Some("x"), "kept{key}");
    }
    // Servers that have left are spares.
    let is_spare = |line: &str| line.contains(" spare ");
    fleet.until(|fleet| fleet.status().lines().filter(|line| is_spare(line)).count() == 2);
}
