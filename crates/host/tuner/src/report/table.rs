//! Findings and explanations as text.

use super::paint::{TextStyle, Tint};
use crate::diagnose::rules::Explanation;
use crate::text::wrap;
use crate::{Evidence, Finding, RemedyStatus, Severity};
use stdx::escape;

/// Findings, in their order, and the number of each severity.
pub fn findings(findings: &[Finding], look: TextStyle) -> String {
    if findings.is_empty() {
        return "Nothing was found that holds this host back.\n".to_owned();
    }
    let mut text: String = findings.iter().map(|finding| one(finding, look)).collect();
    let counted = [Severity::Critical, Severity::Warning, Severity::Note].map(|severity| {
        let count = findings.iter().filter(|finding| finding.severity == severity).count();
        format!(
            "{count} {}{}",
            severity.word(),
            if severity != Severity::Critical && count != 1 { "s" } else { "" }
        )
    });
    text += &format!("{}; `evenkeel tune explain RULE` explains one\n", counted.join(", "));
    text
}

fn one(finding: &Finding, look: TextStyle) -> String {
    let severity = look.paint.tinted(Tint::of(finding.severity), &format!("{:<8}", finding.severity.word()));
    let rule = look.paint.tinted(Tint::Bold, &finding.rule);
    let mut text = format!("{severity}  {rule}  {}\n", escape::line(&finding.subject));
    text += &wrap::hanging("  cause   ", &finding.cause, look.columns);
    let mut label = "  seen    ";
    for evidence in &finding.evidence {
        text += &wrap::hanging(label, &seen(evidence), look.columns);
        label = "          ";
    }
    text += &wrap::hanging("  effect  ", &finding.effect, look.columns);
    if let RemedyStatus::NotHere { reason } = &finding.verdict {
        let lines = wrap::hanging("  verdict ", &format!("cannot be fixed here: {reason}"), look.columns);
        text += &lines.replacen(
            "cannot be fixed here",
            &look.paint.tinted(Tint::Magenta, "cannot be fixed here"),
            1,
        );
    }
    if !finding.alike.is_empty() {
        text += &wrap::hanging("  also    ", &subjects(&finding.alike), look.columns);
    }
    let mut label = "  causes  ";
    for (consequence, _) in finding.consequences.iter().flat_map(Finding::unfolded) {
        let Finding { severity, rule, subject, cause, evidence, .. } = &consequence;
        text += &format!("{label}{}  {rule}  {}\n", severity.word(), escape::line(subject));
        label = "          ";
        let seen: Vec<String> =
            evidence.iter().map(|seen| format!("{}: {}", seen.what, seen.value)).collect();
        let seen = if seen.is_empty() { String::new() } else { format!(" ({})", seen.join("; ")) };
        text += &wrap::hanging(label, &format!("{cause}{seen}"), look.columns);
    }
    text + "\n"
}

/// A longer list of names is not readable.
const SUBJECTS_MAX: usize = 8;

fn subjects(findings: &[Finding]) -> String {
    let named: Vec<&str> =
        findings.iter().take(SUBJECTS_MAX).map(|finding| finding.subject.as_str()).collect();
    match findings.len().saturating_sub(SUBJECTS_MAX) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

/// `irq + softirq, CPU 0: 80 % (over 30 s; counts from 60 %)`
fn seen(evidence: &Evidence) -> String {
    let notes: Vec<String> = [
        evidence.window_s.map(|window_s| format!("over {window_s:.0} s")),
        evidence.threshold.as_ref().map(|threshold| format!("threshold {threshold}")),
    ]
    .into_iter()
    .flatten()
    .collect();
    let notes = if notes.is_empty() { String::new() } else { format!(" ({})", notes.join("; ")) };
    format!("{}: {}{notes}", evidence.what, evidence.value)
}

/// One rule, explained.
pub fn explanation(explanation: &Explanation, look: TextStyle) -> String {
    let mut text = format!("{}: {}\n\n", look.paint.tinted(Tint::Bold, explanation.rule), explanation.title);
    for (label, words) in [
        ("found when  ", explanation.evidence),
        ("meaning     ", explanation.meaning),
        ("remedy      ", explanation.remedy),
    ] {
        text += &wrap::hanging(label, words, look.columns);
    }
    text
}

/// All rules, a line each.
pub fn list<'e>(explanations: impl Iterator<Item = &'e Explanation> + Clone, look: TextStyle) -> String {
    let widest = explanations.clone().map(|explanation| explanation.rule.len()).max().unwrap_or(0);
    let line = |explanation: &Explanation| {
        wrap::hanging(&format!("{:<widest$}  ", explanation.rule), explanation.title, look.columns)
    };
    explanations.map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::paint::Paint;

    #[test]
    fn a_finding_says_what_was_seen_why_and_what_mending_brings() {
        let finding = Finding::about(Severity::Critical, "eth0")
            .cause("the instance's packet allowance is used up")
            .effect("no packet waits for the allowance")
            .not_here("spread the load or resize")
            .saw(Evidence::measured("pps_allowance_exceeded", "7 (0.2 /s)", 30.0).threshold("0"))
            .saw(Evidence::setting("driver", "ena"));
        let finding = Finding { rule: "allowance-exceeded".into(), ..finding };
        assert_eq!(
            findings(&[finding], TextStyle { columns: 60, paint: Paint::Plain }),
            "critical  allowance-exceeded  eth0
  cause   the instance's packet allowance is used up
  seen    pps_allowance_exceeded: 7 (0.2 /s) (over 30 s;
          threshold 0)
          driver: ena
  effect  no packet waits for the allowance
  verdict cannot be fixed here: spread the load or resize

1 critical, 0 warnings, 0 notes; `evenkeel tune explain RULE` explains one
"
        );
    }

    #[test]
    fn what_is_alike_and_what_follows_stands_below_the_cause() {
        let of = |rule: &str, subject: String| {
            let finding = Finding::about(Severity::Warning, subject).cause("threads wait");
            let finding = finding.effect("none waits").saw(Evidence::setting("waiting", "12 %"));
            Finding { rule: rule.into(), ..finding }
        };
        let server = |pid: u32| of("scheduling-delay", format!("memcached (PID {pid})"));
        let follows = Finding { alike: vec![server(8)], ..server(7) };
        let mut cause = of("cpu-throttled", "/a".into());
        cause.alike = (0..10).map(|i| of("cpu-throttled", format!("/b{i}"))).collect();
        cause.consequences = vec![follows];
        let shown = findings(&[cause], TextStyle { columns: 200, paint: Paint::Plain });
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(
            lines[4..],
            [
                "  also    /b0, /b1, /b2, /b3, /b4, /b5, /b6, /b7 and 2 more",
                "  causes  warning  scheduling-delay  memcached (PID 7)",
                "          threads wait (waiting: 12 %)",
                "          warning  scheduling-delay  memcached (PID 8)",
                "          threads wait (waiting: 12 %)",
                "",
                "0 critical, 1 warning, 0 notes; `evenkeel tune explain RULE` explains one",
            ]
        );
    }

    #[test]
    fn colours_are_for_terminals() {
        let finding = Finding::about(Severity::Note, "eth0");
        let shown = |paint| {
            findings(std::slice::from_ref(&finding), TextStyle { columns: 80, paint }).contains('\x1b')
        };
        assert_eq!((shown(Paint::Colours), shown(Paint::Plain)), (true, false));
    }
}
