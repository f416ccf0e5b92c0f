//! A shadow by the policy, whose replies differ: a router copies and compares, its agent tells, and people and gates see it.

use std::fs;
use std::time::Duration;

use end_to_end::clock;
use end_to_end::fleet::{DecisionStore, Fleet, HostKind};
use serde_json::Value;

const POLICY: &str = "fleet = \"prod\"\n[[cluster]]\nname = \"web\"\nslots = 2\nzones = [\"z1\", \"z2\"]\n\
                      [[cluster]]\nname = \"new\"\nslots = 1\nzones = [\"z3\"]\n\
                      [[shadow]]\nfrom = \"web\"\nto = \"new\"\ncompare = 1\n\
                      [[view]]\nname = \"main\"\nroutes = '{\"route\": \"web\"}'\n";
const KEYS: usize = 100;
/// Two turns of an agent, which are 20 s apart at most, and what a busy machine makes of it.
const TURNS_WITHIN: Duration = Duration::from_secs(180);

fn all_keys() -> String {
    (0..KEYS).map(|key| format!("k{key}")).collect::<Vec<_>>().join(" ")
}

fn set(fleet: &Fleet, key: usize, value: &str) {
    let request = format!("set k{key} 0 0 {}\r\n{value}\r\n", value.len());
    assert_eq!(fleet.ask_router(1, &request, "STORED"), "STORED", "{key}");
}

/// Whether the shadow's server has all keys.
fn has_copies(fleet: &Fleet) -> bool {
    fleet.ask_server(3, &format!("get {}\r\n", all_keys()), "END").matches("VALUE ").count() == KEYS
}

/// What is said of the shadow; `Null` while nothing is known.
fn found(fleet: &Fleet) -> Value {
    let text = fleet.control(&["shadow", "report", "new", "--json"]);
    let document: Value = serde_json::from_str(&text).expect("JSON");
    document["shadows"][0]["found"].clone()
}

#[test]
fn what_a_shadow_answers_otherwise_is_reported_and_keeps_a_gate_closed() {
    let mut fleet = Fleet::new(DecisionStore::Directory);
    fleet.controller(1, 1);
    for host in 1..=3 {
        fleet.host_with(host, HostKind { has_pages: true, ..HostKind::default() });
    }
    fleet.begin(POLICY);
    let report = fleet.control(&["shadow", "report"]);
    assert!(report.contains("web->new: new gets all of the requests of web more"), "{report}");
    (0..KEYS).for_each(|key| set(&fleet, key, "right"));
    fleet.until(has_copies);
    // At the shadow a tenth of the keys has another value, a tenth one of another size, and a tenth is missing.
    for key in 0..30 {
        let (request, last) = match key {
            0..10 => (format!("set k{key} 0 0 5\r\nwrong\r\n"), "STORED"),
            10..20 => (format!("set k{key} 0 0 3\r\nbad\r\n"), "STORED"),
            _ => (format!("delete k{key}\r\n"), "DELETED"),
        };
        assert_eq!(fleet.ask_server(3, &request, last), last);
    }
    let begun = clock::now();
    let seen = loop {
        for _ in 0..10 {
            let answer = fleet.ask_router(1, &format!("get {}\r\n", all_keys()), "END");
            assert_eq!(answer.matches(" right").count(), KEYS, "clients get what the cluster has");
        }
        let seen = found(&fleet);
        if seen["compared"].as_u64() >= Some(2000) {
            break seen;
        }
        assert!(begun.elapsed() < TURNS_WITHIN, "{seen:#} {}", fleet.control(&["shadow", "report"]));
        clock::pass(Duration::from_millis(200));
    };
    let count = |field: &str| seen[field].as_u64().expect("a count");
    let compared = count("compared");
    for field in ["other_values", "other_sizes", "other_outcomes"] {
        // The tenth, but for the sets and the ends of the interval.
        assert!(count(field) > compared / 20 && count(field) < compared / 5, "{field}: {seen}");
    }
    assert!(count("normal_hits") > count("shadow_hits"), "{seen}");
    let p50 = |side: &str| seen[side]["p50"].as_f64();
    assert!(p50("normal_us") > Some(0.0) && p50("shadow_us") > Some(0.0), "{seen}");
    let gate =
        |rest: &str| fleet.try_control(&["shadow", "gate", &format!("shadow:web->new,samples=1000{rest}")]);
    gate("").expect_err("the replies differ");
    let said = gate(",differ=0.5,slower=100").expect("it is fulfilled");
    assert!(said.starts_with("fulfilled: ") && said.contains("samples in the last 30 min differ"), "{said}");
    let picture = fleet.path("shadow.svg");
    fleet.control(&["shadow", "report", "--svg", &picture.display().to_string()]);
    assert!(fs::read_to_string(picture).expect("a picture").contains("web-&gt;new: "));
    // One that leaves its slot is told how; one that has none goes in one step, and comes back in one.
    let refused = fleet.try_control(&["members", "remove", "m1"]).expect_err("it has a slot");
    assert!(refused.contains("m1 has slot ") && refused.contains("control drain m1 --apply"), "{refused}");
    let add = ["members", "add", "m9", "--host", "h9", "--zone", "z1", "--address", "127.0.0.1:9"];
    let shown = fleet.control(&add);
    assert_eq!(
        shown,
        "m9 joins, on h9 at 127.0.0.1:9\nh9: the agent is not heard; members of the host get no slot until it is\n"
    );
    fleet.control(&[&add[..], &["--apply", "--why", "more"]].concat());
    assert!(fleet.status().contains("m9 "), "{}", fleet.status());
    fleet.control(&["members", "remove", "m9", "--apply", "--why", "it was a mistake"]);
    assert!(!fleet.status().contains("m9 "), "{}", fleet.status());
}
