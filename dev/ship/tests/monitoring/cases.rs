//! Rules and their cases, as far as the tests read them: alerts with their texts, and which of them have a case.
//!
//! No parser of YAML: the two files keep to one form, a word and its value in a line, and what is not found fails a test.

use std::collections::BTreeSet;

/// An alert.
#[derive(Debug, Default)]
pub(super) struct Alert {
    pub(super) name: String,
    pub(super) severity: String,
    pub(super) summary: String,
    pub(super) description: String,
    pub(super) runbook_url: String,
}

/// The alerts of `rules.yaml`.
pub(super) fn alerts(rules: &str) -> Vec<Alert> {
    let mut alerts: Vec<Alert> = Vec::new();
    for line in rules.lines() {
        if let Some(name) = line.strip_prefix("      - alert: ") {
            alerts.push(Alert { name: name.to_owned(), ..Alert::default() });
        }
        let Some(alert) = alerts.last_mut() else { continue };
        let Some((word, value)) = line.trim_start().split_once(": ") else { continue };
        let field = match word {
            "severity" => &mut alert.severity,
            "summary" => &mut alert.summary,
            "description" => &mut alert.description,
            "runbook_url" => &mut alert.runbook_url,
            _ => continue,
        };
        *field = value.trim_matches('"').to_owned();
    }
    alerts
}

/// Alerts of which `rules.test.yaml` has a case.
#[derive(Debug, Default)]
pub(super) struct Cases {
    /// Those that fire in one.
    pub(super) fires: BTreeSet<String>,
    /// Those that do not fire in one.
    pub(super) is_quiet: BTreeSet<String>,
}

/// The cases of `rules.test.yaml`.
pub(super) fn cases(tests: &str) -> Cases {
    let mut cases = Cases::default();
    let mut asked = None;
    for line in tests.lines().map(str::trim_start) {
        if let Some(rest) = line.strip_prefix("- expr: ALERTS{alertname=\"") {
            asked = rest.split('"').next();
        } else if let Some(samples) = line.strip_prefix("exp_samples:") {
            let name = asked.take().expect("an expression before the samples").to_owned();
            if samples.trim() == "[]" {
                cases.is_quiet.insert(name)
            } else {
                cases.fires.insert(name)
            };
        }
    }
    cases
}

/// An expression of a dashboard with values in place of Grafana's variables.
pub(super) fn with_values(expression: &str, window: &str) -> String {
    let expression = expression.replace("$__rate_interval", window);
    ["$job", "$instance", "$pool"].iter().fold(expression, |text, variable| text.replace(variable, ".+"))
}

#[test]
fn alerts_and_cases_are_read() {
    let rules = "      - record: a\n      - alert: A\n        labels:\n          severity: critical\n        annotations:\n          \
        summary: \"x: y\"\n      - alert: B\n";
    let found = alerts(rules);
    assert_eq!((found[0].name.as_str(), found[0].severity.as_str()), ("A", "critical"));
    assert_eq!((found[0].summary.as_str(), found[1].summary.as_str()), ("x: y", ""));
    let tests = "- expr: ALERTS{alertname=\"A\", a=\"b\"}\n  exp_samples: []\n- expr: ALERTS{alertname=\"B\"}\n  exp_samples:\n";
    let found = cases(tests);
    assert!(found.is_quiet.contains("A") && found.is_quiet.len() == 1 && found.fires.contains("B"));
}
