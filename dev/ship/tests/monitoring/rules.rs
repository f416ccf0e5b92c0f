//! Rules: each alert says what to do and has cases, and promtool accepts all of it.

use std::collections::BTreeSet;
use std::process::Command;

use super::cases::{alerts, cases};
use super::{file, has};

/// The page with the runbook.
fn runbook() -> String {
    let path = checkout::workspace().join("docs/monitoring.md");
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn every_alert_says_what_to_do() {
    let alerts = alerts(&file("rules.yaml"));
    assert!(alerts.len() >= 16, "{} alerts", alerts.len());
    let page = runbook();
    for alert in &alerts {
        let name = &alert.name;
        assert!(name.starts_with("Evenkeel"), "{name}");
        assert!(
            ["critical", "warning"].contains(&alert.severity.as_str()),
            "{name}: severity {}",
            alert.severity
        );
        assert!(!alert.summary.is_empty() && alert.summary.contains("{{ "), "{name}: {}", alert.summary);
        assert!(alert.description.ends_with('.'), "{name}: {}", alert.description);
        assert_eq!(alert.runbook_url, format!("docs/monitoring.md#{}", name.to_lowercase()), "{name}");
        assert!(
            page.lines().any(|line| line == format!("### {name}")),
            "{name}: the runbook has no such section"
        );
    }
    let names: BTreeSet<&str> = alerts.iter().map(|alert| alert.name.as_str()).collect();
    assert_eq!(names.len(), alerts.len(), "two alerts have one name");
    let sections = page.lines().filter_map(|line| line.strip_prefix("### "));
    for section in sections {
        assert!(names.contains(section), "the runbook has {section}, and there is no such alert");
    }
}

#[test]
fn every_section_of_the_runbook_says_where_to_look_and_what_to_do() {
    let page = runbook();
    for section in page.split("\n### ").skip(1) {
        let name = section.lines().next().unwrap_or_default();
        assert!(section.contains("\nLook at:\n\n* ") && section.contains("\nDo:\n\n* "), "{name}");
    }
}

#[test]
fn the_runbook_counts_the_alerts_that_are_critical() {
    let alerts = alerts(&file("rules.yaml"));
    let critical = alerts.iter().filter(|alert| alert.severity == "critical").count();
    let counted = format!("| {critical} of {} |", alerts.len());
    assert!(runbook().contains(&counted), "it should say {counted}");
}

#[test]
fn every_alert_has_a_case_that_fires_and_one_that_does_not() {
    let cases = cases(&file("rules.test.yaml"));
    for alert in alerts(&file("rules.yaml")) {
        assert!(cases.fires.contains(&alert.name), "{} fires in no case", alert.name);
        assert!(cases.is_quiet.contains(&alert.name), "{} is quiet in no case", alert.name);
    }
}

/// Runs promtool in `deploy/monitoring`.
#[track_caller]
fn promtool(words: &[&str]) {
    if !has("promtool") {
        return;
    }
    let folder = checkout::workspace().join(ship::monitoring::FOLDER);
    let output = Command::new("promtool").args(words).current_dir(folder).output().expect("run promtool");
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", said(&output.stdout), said(&output.stderr));
}

#[test]
fn promtool_accepts_the_rules() {
    promtool(&["check", "rules", "rules.yaml"]);
}

#[test]
fn promtool_accepts_the_scrape_configuration() {
    promtool(&["check", "config", "prometheus.yaml"]);
}

#[test]
fn alerts_fire_where_they_should_and_nowhere_else() {
    promtool(&["test", "rules", "rules.test.yaml"]);
}
