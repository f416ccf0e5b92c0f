//! Findings as metrics, for node_exporter's textfile collector.

use std::collections::BTreeMap;

use stdx::exposition::{Exposition, FamilyKind};

use crate::{Finding, RemedyStatus, Series, Severity};

/// The text of a `.prom` file, with the time of the last reading.
pub fn prometheus(series: &Series, findings: &[Finding], unix_s: u64) -> String {
    let mut text = Exposition::default();
    let help = "What `evenkeel tune check` found; 1 for each finding.";
    let mut family = text.family("evenkeel_tune_finding", FamilyKind::Gauge, help);
    // Each by itself, as before they were merged: an alarm for a rule must not end because its cause is known.
    let found = crate::diagnose::rules::unfold(findings);
    // A sample may stand there only once.
    let mut samples: BTreeMap<Vec<(&str, &str)>, usize> = BTreeMap::new();
    for (finding, cause) in &found {
        let fixable = if finding.verdict == RemedyStatus::Fixable { "true" } else { "false" };
        let mut labels = vec![
            ("rule", &*finding.rule),
            ("severity", finding.severity.word()),
            ("subject", &*finding.subject),
            ("fixable", fixable),
        ];
        labels.extend(cause.as_ref().map(|cause| ("cause", &**cause)));
        *samples.entry(labels).or_default() += 1;
    }
    for (labels, count) in samples {
        family.sample(&labels, count);
    }
    let mut family = text.family("evenkeel_tune_findings", FamilyKind::Gauge, "How many findings there are.");
    for severity in [Severity::Critical, Severity::Warning, Severity::Note] {
        let count = findings.iter().filter(|finding| finding.severity == severity).count();
        family.sample(&[("severity", severity.word())], count);
    }
    let help = "Over how long counters were read.";
    text.single("evenkeel_tune_window_seconds", FamilyKind::Gauge, help, series.window_s());
    text.single("evenkeel_tune_checked_timestamp_seconds", FamilyKind::Gauge, "When.", unix_s);
    text.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reading;

    #[test]
    fn findings_become_samples_with_labels() {
        let series =
            Series::new(vec![Reading::default(), Reading { at_ms: 30_000, ..Reading::default() }]).unwrap();
        let finding = Finding::about(Severity::Warning, "a \"quoted\" name").not_here("no");
        let finding = Finding { rule: "swapping".into(), ..finding };
        let follows = Finding { rule: "memory-pressure".into(), ..Finding::about(Severity::Note, "memory") };
        let finding = Finding { consequences: vec![follows], ..finding };
        let text = prometheus(&series, &[finding.clone(), finding], 1_700_000_000);
        let has = |line: &str| assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        has(
            r#"evenkeel_tune_finding{rule="swapping",severity="warning",subject="a \"quoted\" name",fixable="false"} 2"#,
        );
        has(
            r#"evenkeel_tune_finding{rule="memory-pressure",severity="note",subject="memory",fixable="true",cause="swapping"} 2"#,
        );
        has(r#"evenkeel_tune_findings{severity="warning"} 2"#);
        has(r#"evenkeel_tune_findings{severity="note"} 0"#);
        has(r#"evenkeel_tune_findings{severity="critical"} 0"#);
        has("evenkeel_tune_window_seconds 30");
        has("evenkeel_tune_checked_timestamp_seconds 1700000000");
        stdx::exposition::read(&text).expect("it is as the format wants it");
    }
}
