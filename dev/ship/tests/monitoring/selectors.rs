//! Selectors of an expression: the families that it asks for, each with its labels.
//!
//! An alert gives nothing on a healthy system, so what is asked there is whether its families and labels exist.

/// How names of ours, and of recording rules, begin.
const BEGINNINGS: [&str; 5] = ["evenkeel_", "memcached_", "mcrouter_", "pool:", "job:"];

/// The selectors of an expression, in their order.
pub(super) fn selectors(expression: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = expression;
    while let Some(start) = rest.find(|c: char| is_of_name(c) || c == '"') {
        rest = &rest[start..];
        if let Some(text) = rest.strip_prefix('"') {
            rest = text.split_once('"').map_or("", |(_, after)| after);
            continue;
        }
        let end = rest.find(|c: char| !is_of_name(c)).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        let labels = if after.starts_with('{') { labels(after) } else { "" };
        if name == "up" || BEGINNINGS.iter().any(|beginning| name.starts_with(beginning)) {
            found.push(format!("{name}{labels}"));
        }
        rest = &after[labels.len()..];
    }
    found
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == ':'
}

/// The labels at the beginning of a text, with their braces. A value may have a brace.
fn labels(text: &str) -> &str {
    let mut is_quoted = false;
    for (at, c) in text.char_indices() {
        match c {
            '"' => is_quoted = !is_quoted,
            '}' if !is_quoted => return &text[..=at],
            _ => {}
        }
    }
    text
}

#[test]
fn selectors_have_their_labels() {
    let check =
        |expression: &str, expected: &[&str]| assert_eq!(selectors(expression), expected, "{expression}");
    check("up{job=~\".*evenkeel.*\"} == 0", &["up{job=~\".*evenkeel.*\"}"]);
    check("sum by (job, pool) (rate(evenkeel_a_total{x!=\"}\"}[5m])) > 1", &["evenkeel_a_total{x!=\"}\"}"]);
    check("memcached_a / ignoring (up_to) job:evenkeel_b:rate5m", &["memcached_a", "job:evenkeel_b:rate5m"]);
    check("time() - x{y=\"evenkeel_no\"}", &[]);
}
