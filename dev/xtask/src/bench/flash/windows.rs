//! Measured windows: which of them the load generator calls INVALID, and the comparison of the others.

use std::collections::BTreeMap;

use stdx::statistics::{median, median_interval};

/// A 99th percentile with flash may be so many times that without, or that of fio.
pub(super) const MUST_OF_LATENCY: f64 = 1.3;

/// The reasons for which a window is INVALID: none, if it is not.
pub(super) fn reasons(summary: &serde_json::Value) -> Vec<String> {
    let all = summary.pointer("/verdict/reasons").and_then(serde_json::Value::as_array);
    let names = all.into_iter().flatten().filter_map(|reason| reason["what"].as_str());
    names.map(str::to_owned).collect()
}

/// What follows the line of a window: nothing, or that it is INVALID.
pub(super) fn mark(reasons: &[String]) -> String {
    if reasons.is_empty() { String::new() } else { format!("  INVALID ({})", reasons.join(", ")) }
}

/// Counts windows and what made some of them INVALID.
#[derive(Default)]
pub(super) struct Verdicts {
    windows: usize,
    invalid: usize,
    reasons: BTreeMap<String, usize>,
}

impl Verdicts {
    pub(super) fn add(&mut self, reasons: &[String]) {
        self.windows += 1;
        self.invalid += usize::from(!reasons.is_empty());
        for reason in reasons {
            *self.reasons.entry(reason.clone()).or_default() += 1;
        }
    }

    /// A line about them if there are INVALID ones.
    pub(super) fn remark(&self) -> Option<String> {
        let reasons: Vec<String> =
            self.reasons.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
        (self.invalid > 0).then(|| {
            format!("{} of {} windows are INVALID: {}", self.invalid, self.windows, reasons.join(", "))
        })
    }
}

/// A 99th percentile of one window.
#[derive(Clone, Copy, Debug)]
pub(super) struct P99 {
    pub(super) us: f64,
    pub(super) is_valid: bool,
}

/// The median in microseconds: of the valid windows, or of all if none is valid.
pub(super) fn median_us(figures: &[P99]) -> f64 {
    let of = |all: bool| figures.iter().filter(move |figure| all || figure.is_valid).map(|figure| figure.us);
    let valid: Vec<f64> = of(false).collect();
    median(&if valid.is_empty() { of(true).collect() } else { valid })
}

/// The ratio of figures to those of the same rounds, and whether it is at most `must`; only of rounds with two valid windows,
/// if there are any.
pub(super) fn compared(figures: &[P99], base: &[P99], must: Option<f64>, seed: u64) -> String {
    let pairs = || figures.iter().zip(base);
    let ratio = |(figure, base): (&P99, &P99)| figure.us / base.us;
    let valid: Vec<f64> =
        pairs().filter(|(figure, base)| figure.is_valid && base.is_valid).map(ratio).collect();
    let count = valid.len();
    let ratios = if count == 0 { pairs().map(ratio).collect() } else { valid };
    let (low, high) = median_interval(&ratios, seed);
    let ratio = median(&ratios);
    let verdict = match must {
        None => String::new(),
        Some(must) if count == 0 => format!(", must be ≤ {must}: no verdict"),
        Some(must) if ratio <= must => format!(", must be ≤ {must}: met"),
        Some(must) => format!(", must be ≤ {must}: NOT MET"),
    };
    let rounds = match count {
        0 => ", every round INVALID".to_owned(),
        count if count < figures.len() => format!(", {count} valid rounds of {}", figures.len()),
        _ => String::new(),
    };
    format!("{ratio:.2} (95 %: {low:.2}–{high:.2}{rounds}){verdict}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(all: &[(f64, bool)]) -> Vec<P99> {
        all.iter().map(|&(us, is_valid)| P99 { us, is_valid }).collect()
    }

    #[test]
    fn only_rounds_with_two_valid_windows_are_compared() {
        let base = figures(&[(100.0, true), (100.0, true), (10.0, false)]);
        let busy = figures(&[(120.0, true), (900.0, false), (90.0, true)]);
        let text = compared(&busy, &base, Some(1.3), 1);
        assert_eq!(text, "1.20 (95 %: 1.20–1.20, 1 valid rounds of 3), must be ≤ 1.3: met");
        assert_eq!(median_us(&busy), 105.0);
    }

    #[test]
    fn without_a_valid_round_there_is_no_verdict() {
        let base = figures(&[(100.0, false), (100.0, true)]);
        let busy = figures(&[(120.0, true), (140.0, false)]);
        let text = compared(&busy, &base, Some(1.0), 1);
        assert!(text.ends_with("every round INVALID), must be ≤ 1: no verdict"), "{text}");
    }

    #[test]
    fn a_ratio_above_the_limit_is_not_met() {
        let text = compared(&figures(&[(131.0, true)]), &figures(&[(100.0, true)]), Some(1.3), 1);
        assert_eq!(text, "1.31 (95 %: 1.31–1.31), must be ≤ 1.3: NOT MET");
    }

    #[test]
    fn invalid_windows_are_counted_with_their_reasons() {
        let summary =
            serde_json::json!({"verdict": {"valid": false, "reasons": [{"what": "late", "why": ""}]}});
        let mut verdicts = Verdicts::default();
        verdicts.add(&reasons(&serde_json::json!({"verdict": {"valid": true, "reasons": []}})));
        assert_eq!(verdicts.remark(), None);
        verdicts.add(&reasons(&summary));
        assert_eq!(verdicts.remark().as_deref(), Some("1 of 2 windows are INVALID: late 1"));
    }
}
