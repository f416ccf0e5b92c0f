//! A picture of means: one bar for each server or policy.

use std::fmt::Write as _;

/// Bars of how often `first` misses for each miss of another: shorter ones are better for it.
pub(crate) fn bars(first: &str, means: &[(&str, f64)]) -> String {
    let height = 60 + 26 * means.len();
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 640 {height}\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <text x=\"10\" y=\"22\">Misses of {} for each miss of another, in the same bytes (geometric mean)</text>\n",
        escaped(first)
    );
    for (number, (name, mean)) in means.iter().enumerate() {
        let (y, width) = (40 + 26 * number, mean.clamp(0.0, 2.0) * 220.0);
        let _ = writeln!(
            svg,
            "<text x=\"120\" y=\"{}\" text-anchor=\"end\">{}</text><rect x=\"130\" y=\"{y}\" width=\"{width:.0}\" \
             height=\"18\" fill=\"{}\"/><text x=\"{:.0}\" y=\"{}\">{mean:.3}</text>",
            y + 14,
            escaped(name),
            if *mean <= 1.0 { "#4878a8" } else { "#b0583c" },
            width + 136.0,
            y + 14,
        );
    }
    svg + "</svg>\n"
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_bar_with_its_number() {
        let svg = bars("a<b", &[("a<b", 1.0), ("LRU", 0.9)]);
        assert_eq!(svg.matches("<rect").count(), 2);
        assert!(svg.contains("0.900") && svg.contains("a&lt;b"));
    }
}
