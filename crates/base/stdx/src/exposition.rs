//! Metrics as text: families of samples in Prometheus' text format 0.0.4.
//!
//! The format is a contract with programs of others, so [`read`] checks what [`Exposition`] writes as strictly as the
//! format is described (prometheus.io/docs/instrumenting/exposition_formats), for tests and for tools.

use std::fmt::{Display, Write};

mod reading;

pub use reading::{FamilyRead, SampleRead, read};

/// The kind of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FamilyKind {
    /// It only grows, until the process starts anew.
    Counter,
    /// It goes up and down.
    Gauge,
    /// Counts of observations up to certain values.
    Histogram,
}

impl FamilyKind {
    /// The word after `# TYPE`.
    pub fn word(self) -> &'static str {
        match self {
            FamilyKind::Counter => "counter",
            FamilyKind::Gauge => "gauge",
            FamilyKind::Histogram => "histogram",
        }
    }
}

/// A text in the making.
#[derive(Debug, Default)]
pub struct Exposition {
    text: String,
}

/// A family of which samples are being written.
pub struct Family<'t> {
    text: &'t mut String,
    name: &'t str,
}

impl Exposition {
    /// Begins a family. A name may come only once, and all its samples come here.
    pub fn family<'t>(&'t mut self, name: &'t str, kind: FamilyKind, help: &str) -> Family<'t> {
        let help = help.replace('\\', r"\\").replace('\n', r"\n");
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {}", kind.word());
        Family { text: &mut self.text, name }
    }

    /// A family with one sample, without labels.
    pub fn single(&mut self, name: &str, kind: FamilyKind, help: &str, value: impl Display) {
        self.family(name, kind, help).sample(&[], value);
    }

    /// The text.
    pub fn finish(self) -> String {
        self.text
    }
}

impl Family<'_> {
    /// Writes a sample. The same labels may come only once.
    pub fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.line("", labels, None, value);
    }

    /// Writes a histogram: cumulative counts with their upper bounds, which grow; the sum of all observations; and how many
    /// there were.
    pub fn histogram(
        &mut self,
        labels: &[(&str, &str)],
        buckets: impl IntoIterator<Item = (f64, u64)>,
        sum: f64,
        count: u64,
    ) {
        for (bound, at_most) in buckets {
            self.line("_bucket", labels, Some(&bound.to_string()), at_most);
        }
        self.line("_bucket", labels, Some("+Inf"), count);
        self.line("_sum", labels, None, sum);
        self.line("_count", labels, None, count);
    }

    fn line(&mut self, suffix: &str, labels: &[(&str, &str)], bound: Option<&str>, value: impl Display) {
        let _ = write!(self.text, "{}{suffix}", self.name);
        let bound = bound.map(|bound| ("le", bound));
        for (place, (label, value)) in labels.iter().copied().chain(bound).enumerate() {
            let before = if place == 0 { '{' } else { ',' };
            let _ = write!(self.text, "{before}{label}=\"{}\"", escaped(value));
        }
        let after = if labels.is_empty() && bound.is_none() { "" } else { "}" };
        let _ = writeln!(self.text, "{after} {value}");
    }
}

/// The value of a label: any text, in one line.
fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_written_as_prometheus_reads_them() {
        let mut text = Exposition::default();
        text.single("up", FamilyKind::Gauge, "Whether it runs.", 1);
        let mut family = text.family("hits_total", FamilyKind::Counter, "With a \\ and\na line.");
        family.sample(&[("key", "a\"b\\c\nd"), ("worker", "0")], 7);
        let mut family = text.family("seconds", FamilyKind::Histogram, "How long.");
        family.histogram(&[("class", "get")], [(0.001, 2), (0.5, 3)], 0.75, 4);
        let expected = r#"# HELP up Whether it runs.
# TYPE up gauge
up 1
# HELP hits_total With a \\ and\na line.
# TYPE hits_total counter
hits_total{key="a\"b\\c\nd",worker="0"} 7
# HELP seconds How long.
# TYPE seconds histogram
seconds_bucket{class="get",le="0.001"} 2
seconds_bucket{class="get",le="0.5"} 3
seconds_bucket{class="get",le="+Inf"} 4
seconds_sum{class="get"} 0.75
seconds_count{class="get"} 4
"#;
        assert_eq!(text.finish(), expected);
        let families = read(expected).expect("it is as the format wants it");
        assert_eq!(families.len(), 3);
        assert_eq!(families[1].samples[0].labels[0], ("key".to_owned(), "a\"b\\c\nd".to_owned()));
    }

    #[test]
    fn any_label_value_can_be_read_again() {
        let mut prng = crate::prng::Prng::new(7);
        for _ in 0..2000 {
            let pieces = ["\\", "\"", "\n", "n", "{", "}", ",", "=", " ", "#", "é", "\u{0}", "\r"];
            let value: String =
                (0..prng.below(8)).map(|_| pieces[prng.below(pieces.len() as u64) as usize]).collect();
            let mut text = Exposition::default();
            text.family("one", FamilyKind::Gauge, "x").sample(&[("label", &value)], 3);
            let text = text.finish();
            let read = read(&text).unwrap_or_else(|problem| panic!("{problem}: {text:?}"));
            assert_eq!(read[0].samples[0].labels[0].1, value);
        }
    }
}
