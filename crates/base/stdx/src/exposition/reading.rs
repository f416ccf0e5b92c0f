//! A strict reader of Prometheus' text format: it refuses what a scraper would refuse, and what it would take and
//! misunderstand.

use std::collections::BTreeSet;

/// Names and values.
type Labels = Vec<(String, String)>;

/// A family that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct FamilyRead {
    /// Its name.
    pub name: String,
    /// The word of its `# TYPE`.
    pub kind: String,
    /// Its samples, in their order.
    pub samples: Vec<SampleRead>,
}

/// A sample that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct SampleRead {
    /// The name, in histograms with its suffix.
    pub name: String,
    /// The labels, in their order.
    pub labels: Vec<(String, String)>,
    /// The value.
    pub value: f64,
}

impl SampleRead {
    /// The value of a label.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(label, _)| label == name).map(|(_, value)| &**value)
    }
}

/// Reads all families. The error names the line and what is wrong with it.
pub fn read(text: &str) -> Result<Vec<FamilyRead>, String> {
    if !text.is_empty() && !text.ends_with('\n') {
        return Err("the last line does not end".into());
    }
    let mut families: Vec<FamilyRead> = Vec::new();
    // Not `lines`: a carriage return is a part of the line here.
    for line in text.split_terminator('\n') {
        read_line(line, &mut families).map_err(|problem| format!("{problem}: {line}"))?;
    }
    for family in &families {
        check(family).map_err(|problem| format!("{}: {problem}", family.name))?;
    }
    Ok(families)
}

fn read_line(line: &str, families: &mut Vec<FamilyRead>) -> Result<(), &'static str> {
    if let Some(rest) = line.strip_prefix("# HELP ") {
        let (name, help) = rest.split_once(' ').ok_or("a help without a text")?;
        if !is_name(name) || families.iter().any(|family| family.name == name) {
            return Err("not a name, or a family that was there before");
        }
        if help.is_empty() {
            return Err("a help without a text");
        }
        families.push(FamilyRead { name: name.into(), kind: String::new(), samples: Vec::new() });
        return Ok(());
    }
    let family = families.last_mut().ok_or("a line without a family")?;
    if let Some(rest) = line.strip_prefix("# TYPE ") {
        let kind = rest
            .strip_prefix(&*family.name)
            .and_then(|rest| rest.strip_prefix(' '))
            .ok_or("a type of another family")?;
        if !family.kind.is_empty() || !["counter", "gauge", "histogram"].contains(&kind) {
            return Err("a second type, or one that we do not use");
        }
        family.kind = kind.into();
        return Ok(());
    }
    if family.kind.is_empty() {
        return Err("a sample before its type");
    }
    let sample = read_sample(line)?;
    let suffix = sample.name.strip_prefix(&*family.name).ok_or("a sample of another family")?;
    let suffixes: &[&str] = if family.kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
    if !suffixes.contains(&suffix) {
        return Err("a sample of another family");
    }
    family.samples.push(sample);
    Ok(())
}

fn read_sample(line: &str) -> Result<SampleRead, &'static str> {
    let name_len = line.find(['{', ' ']).ok_or("a sample without a value")?;
    let (name, rest) = line.split_at(name_len);
    if !is_name(name) {
        return Err("not a name");
    }
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => read_labels(rest)?,
        None => (Vec::new(), rest),
    };
    let value = rest.strip_prefix(' ').ok_or("no space before the value")?;
    let value = value.parse().map_err(|_| "a value that is no number")?;
    Ok(SampleRead { name: name.into(), labels, value })
}

/// The labels behind the opening brace, and what follows the closing one.
fn read_labels(mut rest: &str) -> Result<(Labels, &str), &'static str> {
    let mut labels = Labels::new();
    loop {
        let (name, quoted) = rest.split_once("=\"").ok_or("a label without a value")?;
        if !is_name(name) || name.contains(':') || labels.iter().any(|(label, _)| label == name) {
            return Err("not the name of a label, or one twice");
        }
        let (value, after) = read_quoted(quoted)?;
        labels.push((name.into(), value));
        rest = match (after.strip_prefix(','), after.strip_prefix('}')) {
            (Some(next), _) => next,
            (_, Some(end)) => return Ok((labels, end)),
            _ => return Err("labels that do not end"),
        };
    }
}

/// A value up to its closing quote, and what follows that.
fn read_quoted(quoted: &str) -> Result<(String, &str), &'static str> {
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Ok((value, &quoted[at + 1..])),
            '\\' => value.push(match characters.next().map(|(_, escaped)| escaped) {
                Some('n') => '\n',
                Some(escaped @ ('\\' | '"')) => escaped,
                _ => return Err("an escape that there is not"),
            }),
            character => value.push(character),
        }
    }
    Err("a value without its closing quote")
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_' || letter == ':')
}

/// What concerns all samples of a family.
fn check(family: &FamilyRead) -> Result<(), String> {
    if family.kind.is_empty() {
        return Err("it has no type".into());
    }
    let mut seen = BTreeSet::new();
    for sample in &family.samples {
        if !seen.insert((&sample.name, &sample.labels)) {
            return Err(format!("the same sample twice: {:?}", sample.labels));
        }
        if family.kind != "gauge" && !(sample.value >= 0.0 && sample.value.is_finite()) {
            return Err(format!("a count of {}", sample.value));
        }
    }
    if family.kind == "histogram" { check_histogram(family) } else { Ok(()) }
}

/// Each histogram of the family: bounds and counts grow, and the last count is that of all.
fn check_histogram(family: &FamilyRead) -> Result<(), String> {
    let (mut bound, mut count) = (f64::NEG_INFINITY, 0.0);
    for sample in &family.samples {
        match sample.name.strip_prefix(&*family.name) {
            Some("_bucket") => {
                let le: f64 =
                    sample.label("le").and_then(|le| le.parse().ok()).ok_or("a bucket without its bound")?;
                if le <= bound || sample.value < count {
                    return Err(format!("bucket {le} is less than the one before"));
                }
                (bound, count) = (le, sample.value);
            }
            Some("_count") => {
                if bound != f64::INFINITY || sample.value != count {
                    return Err("the last bucket does not hold all".into());
                }
                (bound, count) = (f64::NEG_INFINITY, 0.0);
            }
            _ => {}
        }
    }
    if bound == f64::NEG_INFINITY { Ok(()) } else { Err("a histogram without its count".into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_refused(text: &str, problem: &str) {
        let found = read(text).expect_err("it is refused");
        assert!(found.contains(problem), "{found}");
    }

    #[test]
    fn what_a_scraper_would_refuse_is_refused() {
        let of = |samples: &str| format!("# HELP a b\n# TYPE a counter\n{samples}\n");
        assert!(read(&of("a 1")).is_ok());
        check_refused("# HELP a b\n# TYPE a counter\na 1", "the last line");
        check_refused("a 1\n", "without a family");
        check_refused("# HELP a b\na 1\n", "before its type");
        check_refused("# HELP a b\n# TYPE c counter\n", "another family");
        check_refused("# HELP a b\n# TYPE a summary\n", "second type");
        check_refused(&format!("{}{}", of("a 1"), of("a 2")), "was there before");
        check_refused(&of("a 1\na 1"), "twice");
        check_refused(&of("a{l=\"1\",l=\"2\"} 1"), "one twice");
        check_refused(&of("a{l=\"1\"}1"), "no space");
        check_refused(&of("a{l=\"1} 1"), "closing quote");
        check_refused(&of("a{l=\"\\q\"} 1"), "escape");
        check_refused(&of("a{1l=\"\"} 1"), "name of a label");
        check_refused(&of("a x"), "no number");
        check_refused(&of("a -1"), "a count of -1");
        check_refused(&of("a NaN"), "a count of NaN");
        check_refused(&of("b 1"), "another family");
    }

    #[test]
    fn histograms_are_cumulative_and_complete() {
        let of = |samples: &str| format!("# HELP a b\n# TYPE a histogram\n{samples}\n");
        let whole = "a_bucket{le=\"1\"} 2\na_bucket{le=\"+Inf\"} 3\na_sum 9\na_count 3";
        assert!(read(&of(whole)).is_ok());
        check_refused(&of(&whole.replace("} 3", "} 1")), "less than the one before");
        check_refused(&of(&whole.replace("count 3", "count 4")), "does not hold all");
        check_refused(&of(&whole.replace("+Inf", "2")), "does not hold all");
        check_refused(&of("a_bucket{le=\"1\"} 2"), "without its count");
        check_refused(&of("a_bucket 2"), "without its bound");
    }
}
