//! Pictures, each a pure function from figures to the text of an SVG.
//!
//! All have one width. Values that span more than a decade and a half have a logarithmic axis. No text lies on another.

pub(super) mod axis;
pub(super) mod canvas;
pub mod curves;
pub mod dots;
pub mod heat;
pub mod percentiles;
pub mod seconds;
pub mod trend;
pub mod weeks;

use crate::analyze::verdict::Verdict;

/// Colours of the page and of what is written on it.
const PAPER: &str = "#fdfdfc";
const INK: &str = "#24292e";
const DIM: &str = "#6b7280";
const RULE: &str = "#d8dbdf";

/// One colour for each series, which colour-blind people can distinguish, too (Okabe and Ito). After the last they begin
/// anew, and numbers distinguish them.
const SERIES: [&str; 8] =
    ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c8c8c", "#7a5cd6"];

fn color(series: usize) -> &'static str {
    SERIES[series % SERIES.len()]
}

/// Whether there are more series than colours distinguish: then they have numbers, too.
fn are_numbered(series: usize) -> bool {
    series > SERIES.len()
}

/// The colour of what became better or worse, differs, or shows nothing.
fn color_of(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => SERIES[2],
        Verdict::Worse => SERIES[5],
        Verdict::Different => SERIES[0],
        Verdict::Baseline => INK,
        _ => DIM,
    }
}

/// Letters of a name beside a plot; the tables have all of them.
const NAME_MAX: usize = 36;

/// A text cut to this many letters: of a longer one the beginning and the end, one of which mostly distinguishes it
/// from others.
fn short(text: &str, letters: usize) -> String {
    let count = text.chars().count();
    if count <= letters {
        return text.to_owned();
    }
    let (begin, end) = (letters / 2, (letters - 1) / 2);
    text.chars().take(begin).chain(['…']).chain(text.chars().skip(count - end)).collect()
}

/// Names such as `kernel=tuned, threads=16`, where all name the same factors: those, and the levels of each name.
fn levels<'n>(names: &[&'n str]) -> Option<(Vec<&'n str>, Vec<Vec<&'n str>>)> {
    let parts = |name: &&'n str| -> Option<(Vec<&'n str>, Vec<&'n str>)> {
        name.split(", ")
            .map(|part| part.split_once('='))
            .collect::<Option<Vec<_>>>()
            .map(|it| it.into_iter().unzip())
    };
    let (mut factors, levels): (Vec<_>, Vec<_>) =
        names.iter().map(parts).collect::<Option<Vec<_>>>()?.into_iter().unzip();
    factors.dedup();
    (factors.len() == 1).then(|| (factors.remove(0), levels))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_keeps_its_beginning_and_its_end() {
        assert_eq!(short("epoll", 5), "epoll");
        assert_eq!(short("größer als groß", 7), "grö…roß");
    }

    #[test]
    fn names_of_the_same_factors_have_columns() {
        let columns = |names: &[&str]| {
            levels(names).map(|(factors, rows)| (factors.join("|"), rows.concat().join("|")))
        };
        assert_eq!(columns(&["a=1, b=x,y", "a=2, b=z"]), Some(("a|b".to_owned(), "1|x,y|2|z".to_owned())));
        for others in [&["memcached", "evenkeel"][..], &["a=1", "b=1"], &["a=1, x", "a=1, x"], &[""], &[]] {
            assert_eq!(columns(others), None, "{others:?}");
        }
    }
}
