use ratatui::Terminal;
use ratatui::backend::TestBackend;
use serde_json::json;

use super::*;

fn document(servers: usize) -> Value {
    let server = |number: usize| {
        let point = json!({"requests_per_s": 1000.0 * number as f64, "hit_ratio": 0.97, "memory_used_bytes": 50.0,
            "memory_limit_bytes": 200.0, "cpus": 1.5, "connections": 12.0, "scheduling_wait_share": 0.3, "age_s": 4});
        json!({"id": format!("m{number}"), "points": [point]})
    };
    json!({
        "servers": (1..=servers).map(server).collect::<Vec<Value>>(),
        "routers": [
            {"id": "r1", "points": [{"requests_per_s": 5000.0, "errors_per_s": 0.0, "age_s": 2}]},
            {"id": "r2", "points": [{"requests_per_s": 10.0, "errors_per_s": 3.0, "clients": 7.0, "age_s": 90}]},
        ],
        "levels": [
            {"view": "main", "pool": null, "requests_per_s": 5010.0, "availability_5min": 0.9995, "availability_1h": 1.0, "availability_24h": null},
            {"view": "main", "pool": "\u{1b}[2Jweb", "requests_per_s": 5010.0, "availability_5min": 0.5, "availability_1h": null, "availability_24h": null},
        ],
    })
}

#[test]
fn a_table_has_what_is_known_and_says_what_is_not() {
    let text = table(&document(2), 200);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "view/pool        reqs/s  good 5 min    good 1 h   good 24 h");
    assert!(
        lines[1].starts_with("main ") && lines[1].ends_with("99.9500 %  100.0000 %           –"),
        "{}",
        lines[1]
    );
    assert!(lines[2].contains("50.0000 %") && !text.contains('\u{1b}'), "{text}");
    let names: Vec<&str> = lines.iter().map(|line| line.split(' ').next().unwrap_or_default()).collect();
    assert_eq!(
        names[3..],
        ["", "router", "r2", "r1", "", "server", "m2", "m1"],
        "errors first, then requests"
    );
    assert!(
        lines[9].contains("97.00 %") && lines[9].contains("25 %") && lines[9].contains("150 %"),
        "{}",
        lines[9]
    );
    assert!(lines[5].contains('–') && lines[5].ends_with("90 s"), "{}", lines[5]);
}

#[test]
fn a_fleet_without_figures_says_so() {
    assert!(table(&json!({"servers": [], "routers": [], "levels": []}), 80).starts_with("no figures yet"));
    assert!(table(&json!({}), 80).starts_with("no figures yet"));
}

/// What a terminal of this size shows.
fn screen(seen: &FleetSeen, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    terminal.draw(|frame| draw(frame, seen)).expect("it is drawn");
    let cells = terminal.backend().buffer().content.clone();
    cells.chunks(width.into()).map(|row| row.iter().map(ratatui::buffer::Cell::symbol).collect()).collect()
}

#[test]
fn a_terminal_of_any_size_shows_what_fits() {
    let seen = FleetSeen {
        document: Some(Arc::new(document(1000))),
        trouble: Some("no controller answers".to_owned()),
    };
    for (width, height) in [(1, 1), (10, 3), (40, 10), (120, 40), (300, 5)] {
        screen(&seen, width, height);
    }
    let rows = screen(&seen, 120, 40);
    assert!(rows[0].contains("1000 servers, 2 routers"), "{}", rows[0]);
    assert!(rows[1].contains("no controller answers"));
    let all = rows.join("\n");
    assert!(all.contains("m1000 ") && all.contains("and 97") && all.contains("r2 "), "{all}");
    let rows = screen(&FleetSeen::default(), 80, 10);
    assert!(rows[0].contains("reading"), "{}", rows[0]);
}
