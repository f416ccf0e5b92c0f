//! The files of dashboards: what the table makes, and a form that Grafana accepts.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use serde_json::Value;
use ship::monitoring::table::Query;
use ship::monitoring::{DASHBOARDS, files};

use super::{cases, has};

/// All expressions, with the page and the panel.
pub(super) fn queries() -> Vec<(String, &'static Query)> {
    let mut all = Vec::new();
    for dashboard in DASHBOARDS {
        for panel in dashboard.rows.iter().flat_map(|row| row.panels) {
            all.extend(
                panel.queries.iter().map(|query| (format!("{}, {}", dashboard.title, panel.title), query)),
            );
        }
    }
    all
}

#[test]
fn files_are_what_the_table_makes() {
    for (path, text) in files() {
        let place = checkout::workspace().join(&path);
        if std::env::var_os("EVENKEEL_TEST_WRITE").is_some() {
            fs::write(&place, &text).unwrap_or_else(|error| panic!("{}: {error}", place.display()));
        }
        let found = fs::read_to_string(&place).unwrap_or_default();
        let hint = "EVENKEEL_TEST_WRITE=1 cargo test -p ship --test main monitoring::dashboards";
        assert!(found == text, "{} is not what the table makes; write it anew: {hint}", path.display());
    }
}

/// Where a panel is on the page: x, y, width, height.
fn place(panel: &Value) -> [u64; 4] {
    ["x", "y", "w", "h"].map(|side| panel["gridPos"][side].as_u64().expect("a number"))
}

#[test]
fn panels_have_places_of_their_own() {
    for (path, text) in files() {
        let page: Value = serde_json::from_str(&text).expect("JSON");
        let panels = page["panels"].as_array().expect("panels");
        let ids: BTreeSet<u64> = panels.iter().filter_map(|panel| panel["id"].as_u64()).collect();
        assert_eq!(ids.len(), panels.len(), "{}: ids", path.display());
        for (at, one) in panels.iter().enumerate() {
            let [x, y, width, height] = place(one);
            assert!(x + width <= 24, "{}: {}", path.display(), one["title"]);
            for other in &panels[at + 1..] {
                let [other_x, other_y, other_width, other_height] = place(other);
                let is_beside = x + width <= other_x || other_x + other_width <= x;
                let is_below = y + height <= other_y || other_y + other_height <= y;
                assert!(is_beside || is_below, "{}: {} and {}", path.display(), one["title"], other["title"]);
            }
        }
    }
}

#[test]
fn pages_differ_in_their_names() {
    let names: BTreeSet<&str> = DASHBOARDS.iter().flat_map(|page| [page.name, page.title]).collect();
    assert_eq!(names.len(), 2 * DASHBOARDS.len());
}

#[test]
fn every_panel_says_what_to_look_for() {
    for dashboard in DASHBOARDS {
        for panel in dashboard.rows.iter().flat_map(|row| row.panels) {
            let at = format!("{}, {}", dashboard.title, panel.title);
            assert!(panel.says.ends_with('.') && panel.says.len() > 20, "{at}: {}", panel.says);
            assert!(!panel.queries.is_empty() && panel.queries.len() <= 26, "{at}");
            for query in panel.queries {
                assert!(!query.legend.is_empty(), "{at}: {}", query.text);
                let expression = query.expression();
                let left = ["SCOPE", "POOLS", "RATE"].iter().find(|word| expression.contains(*word));
                assert!(left.is_none(), "{at}: {expression}");
            }
        }
    }
}

/// The selectors from which Grafana offers values.
fn offers() -> Vec<String> {
    let mut selectors = Vec::new();
    for (_, text) in files() {
        let page: Value = serde_json::from_str(&text).expect("JSON");
        for variable in page["templating"]["list"].as_array().expect("variables") {
            let query =
                variable["query"]["query"].as_str().and_then(|text| text.strip_prefix("label_values("));
            selectors.extend(
                query.and_then(|text| text.rsplit_once(", ")).map(|(selector, _)| selector.to_owned()),
            );
        }
    }
    selectors
}

/// Each expression as a rule, so that promtool reads it.
#[test]
fn promtool_reads_every_expression() {
    if !has("promtool") {
        return;
    }
    let (queries, offers) = (queries(), offers());
    assert_eq!(offers.len(), 2 * DASHBOARDS.len() + 1, "jobs and instances of each, and pools");
    let mut text = "groups:\n  - name: dashboards\n    rules:\n".to_owned();
    let expressions = queries.iter().map(|(_, query)| query.expression()).chain(offers);
    for (number, expression) in expressions.enumerate() {
        let expression = cases::with_values(&expression, "5m");
        // A text in JSON is one in YAML, too.
        text += &format!("      - record: a:b:c{number}\n        expr: {}\n", Value::from(expression));
    }
    let path = checkout::target_directory().join("monitoring-expressions.yaml");
    fs::write(&path, text).expect("write the rules");
    let output = Command::new("promtool").args(["check", "rules"]).arg(&path).output().expect("run promtool");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
