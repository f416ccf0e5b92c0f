//! Doubts and remarks of trials, by their kind: how many trials have it, and the words of the first.

use stdx::words::counted;

use super::table::ReportTable;
use crate::analyze::comparison::{Comparison, Noted};

/// Trials that do not count.
pub fn left_out(comparison: &Comparison) -> Option<ReportTable> {
    by_kind("Left out", &comparison.left_out)
}

/// Trials that count, with a remark.
pub fn remarks(comparison: &Comparison) -> Option<ReportTable> {
    by_kind("Remarks on trials that count", &comparison.remarked)
}

/// A row for each kind, the most frequent first. A trial with several kinds is in several rows.
fn by_kind(title: &str, trials: &[Noted]) -> Option<ReportTable> {
    let mut kinds: Vec<(&str, Vec<(&Noted, &str)>)> = Vec::new();
    for (trial, note) in trials.iter().flat_map(|trial| trial.notes.iter().map(move |note| (trial, &**note)))
    {
        match kinds.iter_mut().find(|(other, _)| *other == kind(note)) {
            // A trial counts once, even if it has two notes of a kind.
            Some((_, own)) if own.last().is_some_and(|(last, _)| last.place == trial.place) => {}
            Some((_, own)) => own.push((trial, note)),
            None => kinds.push((kind(note), vec![(trial, note)])),
        }
    }
    kinds.sort_by_key(|(_, trials)| std::cmp::Reverse(trials.len()));
    let row = |(kind, trials): &(&str, Vec<(&Noted, &str)>)| {
        let mut cells: Vec<&str> = trials.iter().map(|(trial, _)| &*trial.cell).collect();
        cells.sort_unstable();
        cells.dedup();
        let (first, note) = trials[0];
        let words = note.strip_prefix(kind).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(note);
        vec![
            (*kind).to_owned(),
            trials.len().to_string(),
            counted(cells.len(), "cell"),
            format!("{:04}, {}: {words}", first.place, first.cell),
        ]
    };
    let rows: Vec<Vec<String>> = kinds.iter().map(row).collect();
    let title = format!("{title}: {}", counted(trials.len(), "trial"));
    (!rows.is_empty()).then(|| ReportTable { title, header: vec!["kind", "trials", "of", "the first"], rows })
}

/// The kind of a doubt or remark: the word before its first colon.
pub fn kind(note: &str) -> &str {
    note.split_once(": ").map_or(note, |(kind, _)| kind)
}
