//! Aims in a report: a table, and a sentence that counts them.

use super::{ReportTable, span};
use crate::analyze::aims::{AimStanding, AimVerdict};
use crate::record::quantity::{number, title};

/// The table; none without aims.
pub(super) fn table(aims: &[AimStanding]) -> Option<ReportTable> {
    let row = |aim: &AimStanding| {
        let factor = |ratio: f64| format!("×{}", number(ratio));
        vec![
            aim.cell.clone(),
            title(&aim.metric),
            aim.must.words(),
            aim.ratio.map_or(String::new(), |ratio| factor(ratio.middle)),
            aim.ratio.map_or(String::new(), |ratio| span(ratio, factor)),
            aim.verdict.words().to_owned(),
        ]
    };
    let rows: Vec<Vec<String>> = aims.iter().map(row).collect();
    (!rows.is_empty()).then(|| ReportTable {
        title: "Aims: what the ratio to the baseline must be; open as long as the interval has both sides"
            .into(),
        header: vec!["cell", "metric", "must be", "is", "(95 %)", "aim"],
        rows,
    })
}

/// `Of 18 aims, 15 are met, 1 is not met and 2 are open.`
pub(super) fn sentence(aims: &[AimStanding]) -> Option<String> {
    let part = |verdict: AimVerdict| {
        let count = aims.iter().filter(|aim| aim.verdict == verdict).count();
        let is = if count == 1 { "is" } else { "are" };
        format!("{count} {is} {}", verdict.words())
    };
    let [met, not_met, open] = [AimVerdict::Met, AimVerdict::NotMet, AimVerdict::Open].map(part);
    let of = if aims.len() == 1 { "1 aim".to_owned() } else { format!("{} aims", aims.len()) };
    (!aims.is_empty()).then(|| format!("Of {of}, {met}, {not_met} and {open}."))
}
