//! The chart's values.yaml as a table: the comment above a key is what the documentation says of it.

use super::yaml;
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::fmt::Write as _;

/// A key with what is said of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its section: the last comment with an empty line behind it.
    pub section: String,
    /// The key, with those above it: `service.type`.
    pub key: String,
    /// The value that it has without another.
    pub default: String,
    /// The comment above it.
    pub meaning: String,
}

/// The rows of a file. A key without a comment is there for those below it, which have one each.
///
/// # Errors
/// Names a key without a comment and without others below it, and what [`yaml`] does not read.
pub fn rows(text: &str) -> Result<Vec<Row>> {
    let values = yaml::document(text)?;
    let (mut rows, mut section, mut comment) = (Vec::new(), String::new(), None::<String>);
    // Keys on the way to the line, each with its indentation.
    let mut path: Vec<(usize, String)> = Vec::new();
    // The indentation of a key that is described as a whole: those below it are a part of its value.
    let mut described = None;
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        if let Some(words) = line.trim().strip_prefix("# ") {
            comment = Some(words.to_owned());
            continue;
        }
        if line.is_empty() {
            section = comment.take().unwrap_or(section);
            continue;
        }
        if described.is_some_and(|above| indent > above) {
            continue;
        }
        described = None;
        let (name, rest) = yaml::key(line.trim()).with_context(|| format!("expected a key, found {line}"))?;
        path.retain(|(above, _)| *above < indent);
        path.push((indent, name));
        let names: Vec<&str> = path.iter().map(|(_, name)| name.as_str()).collect();
        let key = names.join(".");
        match comment.take() {
            Some(meaning) => {
                let value = names.iter().fold(&values, |value, name| &value[*name]);
                described = Some(indent);
                rows.push(Row { section: section.clone(), key, default: shown(value), meaning });
            }
            None => ensure!(rest.is_empty(), "{key} has no comment above it"),
        }
    }
    if rows.is_empty() {
        bail!("there are no keys with a comment");
    }
    Ok(rows)
}

/// A value in one line, as one types it.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) if text.is_empty() => "\"\"".to_owned(),
        Value::String(text) => text.clone(),
        Value::Object(map) if !map.is_empty() => {
            let parts: Vec<String> =
                map.iter().map(|(key, value)| format!("{key}: {}", shown(value))).collect();
            format!("{{{}}}", parts.join(", "))
        }
        Value::Array(list) if !list.is_empty() => {
            format!("[{}]", list.iter().map(shown).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// Tables in Markdown, one for each section.
#[must_use]
pub fn tables(rows: &[Row]) -> String {
    let mut text = String::new();
    let mut section = "";
    for row in rows {
        if row.section != section {
            section = &row.section;
            let _ = write!(text, "\n**{section}**\n\n| key | default | |\n|---|---|---|\n");
        }
        let cell = |words: &str| words.replace('|', "\\|");
        let _ = writeln!(text, "| `{}` | `{}` | {} |", row.key, cell(&row.default), cell(&row.meaning));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Values.\n\n# Pods\n\n# How many\ncount: 3\nservice:\n  # Its kind\n  type: A|B\n  ports:\n    # Its port\n    \
        main: 1\n# Asked often\nprobe:\n  path: /x\n  limits:\n    - 1\n    - a\n";

    #[test]
    fn a_comment_describes_the_key_below_it() {
        let rows = rows(TEXT).unwrap();
        let expected = "\n**Pods**\n\n| key | default | |\n|---|---|---|\n| `count` | `3` | How many |\n\
            | `service.type` | `A\\|B` | Its kind |\n| `service.ports.main` | `1` | Its port |\n\
            | `probe` | `{limits: [1, a], path: /x}` | Asked often |\n";
        assert_eq!(tables(&rows), expected);
    }

    #[test]
    fn a_key_without_a_comment_is_named() {
        let error = rows("# A\na: 1\nb:\n  c: 2\n").unwrap_err();
        assert_eq!(error.to_string(), "b.c has no comment above it");
    }
}
