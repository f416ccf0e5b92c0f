//! Tournament standings, for people: a table, and each ratio with its interval as a picture.

use super::paint::{TextStyle, Tint};
use crate::diagnose::rules::number;
use crate::verify::tournament::{ContestantVerdict, Standing};

/// The text beside the picture: the median, the ratio and its interval.
const BESIDE: usize = 46;
/// The picture, at least and at most.
const PICTURE: (usize, usize) = (20, 48);

/// A line for each strategy.
pub fn standings(standings: &[(String, Standing)], look: TextStyle) -> String {
    let names = standings.iter().map(|(name, _)| name.len()).max().unwrap_or(0).max("strategy".len());
    let width = look.columns.saturating_sub(names + BESIDE).clamp(PICTURE.0, PICTURE.1);
    let scale = Scale::of(standings);
    let heading =
        format!("{:names$}  {:>12}  {:>8}  {:^17}  {:>7}", "strategy", "median", "ratio", "95 %", "p");
    let mut text = format!("{}\n", look.paint.tinted(Tint::Bold, heading.trim_end()));
    for (name, standing) in standings {
        let median = number(standing.median);
        if standing.verdict == ContestantVerdict::Baseline {
            text += &format!("{name:names$}  {median:>12}  baseline\n");
            continue;
        }
        let interval = match standing.is_bounded() {
            true => format!("{:.3} … {:.3}", standing.ratio_low, standing.ratio_high),
            false => "too few rounds".to_owned(),
        };
        let ratio = standing.ratio;
        text += &format!(
            "{name:names$}  {median:>12}  {ratio:>8.3}  {interval:^17}  {:>7.4}  {}\n",
            standing.p,
            verdict(standing.verdict, look)
        );
    }
    text += "\n";
    for (name, standing) in
        standings.iter().filter(|(_, standing)| standing.verdict != ContestantVerdict::Baseline)
    {
        text += &format!("{name:names$}  [{}]\n", picture(standing, scale, width));
    }
    let (low, high) = (format!("{:.3}", scale.low.exp()), format!("{:.3}", scale.high.exp()));
    let room = width.saturating_sub(low.len() + high.len());
    text + &format!("{:names$}   {low}{}{high}   | is 1: as the baseline\n", "", " ".repeat(room))
}

fn verdict(verdict: ContestantVerdict, look: TextStyle) -> String {
    match verdict {
        ContestantVerdict::Baseline => "baseline".to_owned(),
        ContestantVerdict::Better => look.paint.tinted(Tint::Green, "better"),
        ContestantVerdict::Worse => look.paint.tinted(Tint::Red, "worse"),
        ContestantVerdict::NoDifferenceShown => "no difference shown".to_owned(),
    }
}

/// The values at the left and the right edge of the picture, as logarithms.
#[derive(Clone, Copy)]
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    /// All intervals and 1, and a little more.
    fn of(standings: &[(String, Standing)]) -> Scale {
        let ends = |(_, it): &(String, Standing)| match it.is_bounded() {
            true => (it.ratio_low.ln(), it.ratio_high.ln()),
            false => (it.ratio.ln(), it.ratio.ln()),
        };
        let low = standings.iter().map(|standing| ends(standing).0).fold(0.0, f64::min);
        let high = standings.iter().map(|standing| ends(standing).1).fold(0.0, f64::max);
        let margin = ((high - low) * 0.05).max(0.01);
        Scale { low: low - margin, high: high + margin }
    }

    fn column(self, ratio: f64, width: usize) -> usize {
        let place = (ratio.ln() - self.low) / (self.high - self.low) * (width - 1) as f64;
        (place.round() as usize).min(width - 1)
    }
}

/// `   <--o--->  |`: the interval, if there is one, the ratio in it, and where 1 is.
fn picture(standing: &Standing, scale: Scale, width: usize) -> String {
    let mut cells = vec![' '; width];
    let ends = [standing.ratio_low, standing.ratio_high].map(|ratio| scale.column(ratio, width));
    let [low, high] = if standing.is_bounded() { ends } else { [scale.column(standing.ratio, width); 2] };
    cells[low..=high].fill('-');
    cells[scale.column(1.0, width)] = '|';
    cells[low] = '<';
    cells[high] = '>';
    cells[scale.column(standing.ratio, width)] = 'o';
    cells.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::paint::Paint;

    #[test]
    fn each_ratio_stands_in_its_interval() {
        let standing = |median, ratio: f64, width: f64, p, verdict| Standing {
            median,
            ratio,
            ratio_low: ratio / width,
            ratio_high: ratio * width,
            p,
            verdict,
        };
        let all = [
            ("none".to_owned(), standing(1500.0, 1.0, 1.0, 1.0, ContestantVerdict::Baseline)),
            ("rps-rfs".to_owned(), standing(1200.0, 0.8, 1.1, 0.0039, ContestantVerdict::Better)),
            ("defer-50".to_owned(), standing(1501.5, 1.0, 1.2, 0.5, ContestantVerdict::NoDifferenceShown)),
            (
                "spread".to_owned(),
                standing(1600.0, 1.1, f64::INFINITY, 0.125, ContestantVerdict::NoDifferenceShown),
            ),
        ];
        let text = standings(&all, TextStyle { columns: 76, paint: Paint::Plain });
        let wanted = "\
strategy        median     ratio        95 %               p
none             1,500  baseline
rps-rfs          1,200     0.800    0.727 … 0.880     0.0039  better
defer-50         1,502     1.000    0.833 … 1.200     0.5000  no difference shown
spread           1,600     1.100   too few rounds     0.1250  no difference shown

rps-rfs   [ <---o-->    |        ]
defer-50  [      <------o------> ]
spread    [             |   o    ]
           0.709            1.230   | is 1: as the baseline
";
        assert_eq!(text, wanted, "{text}");
    }
}
