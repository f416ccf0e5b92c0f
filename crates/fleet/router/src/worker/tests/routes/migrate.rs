//! MigrateRoute: from a to b, by the time of day.

use super::config;
use super::play;
use crate::plan::hash::spooky32;

fn migration() -> String {
    config(
        r#"{"type": "MigrateRoute", "from": "PoolRoute|A", "to": "PoolRoute|B", "start_time": 1000, "interval": 100}"#,
    )
}

/// A request goes to this server only.
fn only(server: &str) -> String {
    format!(
        "> get k\n{server}> get k\n{server}< END\n< END\n> set k 0 0 1\\r\\nx\n{server}> set k 0 0 1\n{server}> x\n{server}< STORED\n< STORED\nnothing\n"
    )
}

fn delete_at_both(first: &str, second: &str, answer: &str) -> String {
    format!("> delete k\na> delete k\nb> delete k\nb< {second}\nnothing\na< {first}\n< {answer}\n")
}

#[test]
fn each_key_moves_at_its_own_time_and_deletes_go_to_both_meanwhile() {
    let move_s = 1000 + 100 + spooky32(b"k", 0) % 100;
    let (old, new) = (only("a"), only("b"));
    let worse = delete_at_both("DELETED", "NOT_FOUND", "NOT_FOUND");
    let failed = delete_at_both("SERVER_ERROR x", "DELETED", "SERVER_ERROR x");
    let (before, end) = (move_s - 1, 1200);
    play(
        &migration(),
        &format!(
            "clock 999
             {old}
             > delete k
             a> delete k
             a< DELETED
             < DELETED
             clock 1000
             {old}{worse}
             clock {before}
             {old}{failed}
             clock {move_s}
             {new}{worse}
             clock 1199
             {new}{worse}
             > md k O5
             a> md k O5
             b> md k O5
             a< NF O5
             b< HD O5
             < NF O5
             clock {end}
             {new}
             > delete k
             b> delete k
             b< DELETED
             < DELETED"
        ),
    );
}

#[test]
fn keys_of_one_line_stay_together_where_they_belong() {
    let moved = |key: &str| 1000 + 100 + spooky32(key.as_bytes(), 0) % 100;
    let keys: Vec<String> = (0..20).map(|number| format!("key:{number}")).collect();
    let now = 1150;
    let (new, old): (Vec<&String>, Vec<&String>) = keys.iter().partition(|key| moved(key) <= now);
    assert!(old.len() > 3 && new.len() > 3);
    let line = |keys: &[&String]| keys.iter().map(|key| key.as_str()).collect::<Vec<_>>().join(" ");
    play(
        &migration(),
        &format!(
            "clock {now}\n> get {}\na> get {}\nb> get {}\na< END\nb< END\n< END",
            keys.join(" "),
            line(&old),
            line(&new)
        ),
    );
}

#[test]
fn while_the_time_is_not_known_nothing_has_moved() {
    play(&migration(), &only("a"));
}

#[test]
fn a_request_ends_where_it_began_when_its_key_moves() {
    let move_s = 1000 + 100 + spooky32(b"k", 0) % 100;
    let before = move_s - 1;
    play(
        &migration(),
        &format!(
            "clock {before}
             > get k
             a> get k
             clock {move_s}
             > get k
             b> get k
             b< VALUE k 0 1\\r\\n2\\r\\nEND
             a< VALUE k 0 1\\r\\n1\\r\\nEND
             < VALUE k 0 1
             < 1
             < END
             < VALUE k 0 1
             < 2
             < END"
        ),
    );
}

#[test]
fn a_migration_stands_inside_of_other_routes() {
    let migrate = r#"{"type": "MigrateRoute", "from": "PoolRoute|A", "to": {"type": "WarmUpRoute", "cold": "PoolRoute|B",
        "warm": "PoolRoute|A", "exptime": 20000}, "start_time": 1000, "interval": 1}"#;
    let failover = format!(r#"{{"type": "FailoverRoute", "children": ["ErrorRoute|x", {migrate}]}}"#);
    for route in [migrate, &failover] {
        play(
            &config(&route.replace('\n', " ")),
            "clock 5000
             > get k
             b> get k
             b< END
             a> get k
             a< VALUE k 0 1\\r\\nx\\r\\nEND
             < VALUE k 0 1
             < x
             < END
             b> add k 0 20000 1
             b> x
             b< STORED",
        );
    }
}
