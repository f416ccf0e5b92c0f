//! Findings as metrics, for node_exporter's textfile collector.

use std::collections::BTreeMap;

use crate::text::escaped;
use crate::{Finding, RemedyStatus, Series, Severity};

/// The text of a `.prom` file, with the time of the last reading.
pub fn prometheus(series: &Series, findings: &[Finding], unix_s: u64) -> String {
    let mut text = String::from(
        "# HELP evenkeel_tune_finding What `evenkeel tune check` found; 1 for each finding.\n\
         # TYPE evenkeel_tune_finding gauge\n",
    );
    // A sample may stand there only once.
    let mut samples: BTreeMap<String, usize> = BTreeMap::new();
    // Each by itself, as before they were merged: an alarm for a rule must not end because its cause is known.
    for (finding, cause) in crate::diagnose::rules::unfold(findings) {
        let fixable = finding.verdict == RemedyStatus::Fixable;
        let cause = cause.map_or(String::new(), |cause| format!(",cause=\"{}\"", escaped(cause)));
        let labels = format!(
            "rule=\"{}\",severity=\"{}\",subject=\"{}\",fixable=\"{fixable}\"{cause}",
            escaped(&finding.rule),
            finding.severity.word(),
            escaped(&finding.subject)
        );
        *samples.entry(labels).or_default() += 1;
    }
    for (labels, count) in samples {
        text += &format!("evenkeel_tune_finding{{{labels}}} {count}\n");
    }
    text +=
        "# HELP evenkeel_tune_findings How many findings there are.\n# TYPE evenkeel_tune_findings gauge\n";
    for severity in [Severity::Critical, Severity::Warning, Severity::Note] {
        let count = findings.iter().filter(|finding| finding.severity == severity).count();
        text += &format!("evenkeel_tune_findings{{severity=\"{}\"}} {count}\n", severity.word());
    }
    text += &format!(
        "# HELP evenkeel_tune_window_seconds Over how long counters were read.\n\
         # TYPE evenkeel_tune_window_seconds gauge\n\
         evenkeel_tune_window_seconds {}\n\
         # HELP evenkeel_tune_checked_timestamp_seconds When.\n\
         # TYPE evenkeel_tune_checked_timestamp_seconds gauge\n\
         evenkeel_tune_checked_timestamp_seconds {unix_s}\n",
        series.window_s()
    );
    text
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
    }
}
