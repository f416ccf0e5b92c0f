//! A reader for the YAML of the chart: block mappings and sequences, scalars in one line, literal texts, `{}` and `[]`.
//!
//! What it does not know (anchors, tags, flow with contents, folded texts) is an error with its line, never another value.

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Map, Value};

/// The documents of a file, without empty ones.
///
/// # Errors
/// Names the line that is not understood.
pub fn documents(text: &str) -> Result<Vec<Value>> {
    let mut found = Vec::new();
    let mut begin = 0;
    let lines: Vec<&str> = text.lines().collect();
    let ends = (0..lines.len()).filter(|at| lines[*at] == "---").chain([lines.len()]);
    for end in ends {
        let mut reader =
            Reader { lines: lines[begin..end].iter().map(|line| (*line).to_owned()).collect(), at: 0 };
        let value = reader.block(0).with_context(|| format!("line {}", begin + reader.at + 1))?;
        let rest = reader.next_content();
        ensure!(rest.is_none(), "line {}: indentation that fits nothing above", begin + reader.at + 1);
        if !value.is_null() {
            found.push(value);
        }
        begin = end + 1;
    }
    Ok(found)
}

/// The only document of a file.
///
/// # Errors
/// As [`documents`], and if there are several or none.
pub fn document(text: &str) -> Result<Value> {
    let mut found = documents(text)?;
    ensure!(found.len() == 1, "expected one document, found {}", found.len());
    Ok(found.remove(0))
}

/// A key at the beginning of a line, and what follows it.
#[must_use]
pub fn key(content: &str) -> Option<(String, &str)> {
    let quote = content.chars().next().filter(|first| ['"', '\''].contains(first));
    if let Some(quote) = quote {
        let end = 1 + content[1..].find(quote)?;
        let rest = content[end + 1..].strip_prefix(':')?;
        return Some((content[1..end].to_owned(), rest.trim()));
    }
    if content.starts_with("- ") {
        return None;
    }
    let end = content.find(": ").or_else(|| content.strip_suffix(':').map(str::len))?;
    Some((content[..end].to_owned(), content[end + 1..].trim()))
}

struct Reader {
    lines: Vec<String>,
    at: usize,
}

impl Reader {
    /// Goes to the next line that is neither empty nor a comment: its indentation and its content.
    fn next_content(&mut self) -> Option<(usize, String)> {
        while let Some(line) = self.lines.get(self.at) {
            let content = line.trim();
            if !content.is_empty() && !content.starts_with('#') {
                return Some((line.len() - line.trim_start().len(), content.to_owned()));
            }
            self.at += 1;
        }
        None
    }

    /// The value that begins on the next line, if that is indented so far.
    fn block(&mut self, least: usize) -> Result<Value> {
        match self.next_content() {
            Some((indent, content)) if indent >= least => {
                if content == "-" || content.starts_with("- ") {
                    self.sequence(indent)
                } else if key(&content).is_some() {
                    self.mapping(indent)
                } else {
                    self.at += 1;
                    scalar(&content)
                }
            }
            _ => Ok(Value::Null),
        }
    }

    fn sequence(&mut self, indent: usize) -> Result<Value> {
        let mut values = Vec::new();
        while let Some((found, content)) = self.next_content() {
            if found != indent || !(content == "-" || content.starts_with("- ")) {
                break;
            }
            // Without its dash, the line is the beginning of a value that is indented further.
            self.lines[self.at].replace_range(indent..=indent, " ");
            values.push(match content.strip_prefix("- ").map(str::trim) {
                Some(text) if is_text_begin(text) => self.literal(indent, text)?,
                _ => self.block(indent + 1)?,
            });
        }
        Ok(Value::Array(values))
    }

    fn mapping(&mut self, indent: usize) -> Result<Value> {
        let mut values = Map::new();
        while let Some((found, content)) = self.next_content() {
            if found != indent {
                break;
            }
            let Some((key, rest)) = key(&content) else { break };
            let value = if is_text_begin(rest) {
                self.literal(indent, rest)?
            } else if rest.is_empty() || rest.starts_with('#') {
                self.at += 1;
                self.below(indent)?
            } else {
                self.at += 1;
                scalar(rest)?
            };
            ensure!(values.insert(key.clone(), value).is_none(), "the key {key} stands twice");
        }
        Ok(Value::Object(values))
    }

    /// The value of a key whose line ends behind it. A sequence may be indented as the key is.
    fn below(&mut self, indent: usize) -> Result<Value> {
        match self.next_content() {
            Some((found, content)) if found == indent && (content == "-" || content.starts_with("- ")) => {
                self.sequence(indent)
            }
            _ => self.block(indent + 1),
        }
    }

    /// A literal text, whose first line has the `|`.
    fn literal(&mut self, indent: usize, begin: &str) -> Result<Value> {
        let keeps_end = match begin {
            "|" => true,
            "|-" => false,
            other => bail!("expected | or |-, found {other}"),
        };
        self.at += 1;
        let own = |line: &String| line.len() - line.trim_start().len();
        let rest = &self.lines[self.at..];
        let ends = rest.iter().position(|line| !line.trim().is_empty() && own(line) <= indent);
        let lines = &rest[..ends.unwrap_or(rest.len())];
        let margin = lines.iter().find(|line| !line.trim().is_empty()).map_or(0, own);
        self.at += lines.len();
        let text =
            lines.iter().map(|line| line.get(margin..).unwrap_or_default()).collect::<Vec<_>>().join("\n");
        let text = text.trim_end_matches('\n').to_owned();
        Ok(Value::String(if keeps_end { text + "\n" } else { text }))
    }
}

fn is_text_begin(text: &str) -> bool {
    ["|", ">"].iter().any(|mark| text.starts_with(mark))
}

/// A scalar in one line.
fn scalar(text: &str) -> Result<Value> {
    if let Some(inner) = text.strip_prefix('\'') {
        let inner = inner.strip_suffix('\'').context("expected a quote at the end")?;
        return Ok(Value::String(inner.replace("''", "'")));
    }
    if text.starts_with('"') {
        // What Helm and we write with these quotes is JSON, too.
        return serde_json::from_str(text).with_context(|| format!("read {text}"));
    }
    let text = text.split(" #").next().unwrap_or(text).trim();
    ensure!(!text.starts_with(['&', '*', '!', '@', '`', '%']), "expected a plain value, found {text}");
    Ok(match text {
        "{}" => Value::Object(Map::new()),
        "[]" => Value::Array(Vec::new()),
        "null" | "~" => Value::Null,
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        _ if text.starts_with(['{', '[']) => bail!("expected a value in lines of its own, found {text}"),
        _ => number(text).unwrap_or_else(|| Value::String(text.to_owned())),
    })
}

/// A number, if it is one. A zero before others makes it octal, as in modes of files.
fn number(text: &str) -> Option<Value> {
    if !text.starts_with(|first: char| first.is_ascii_digit() || first == '-') {
        return None;
    }
    if let Some(octal) =
        text.strip_prefix('0').filter(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
    {
        return i64::from_str_radix(octal, 8).ok().map(Value::from);
    }
    text.parse::<i64>().ok().map(Value::from).or_else(|| text.parse::<f64>().ok().map(Value::from))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(text: &str, expected: &[Value]) {
        assert_eq!(documents(text).unwrap(), expected);
    }

    #[track_caller]
    fn check_refused(text: &str, expected: &str) {
        assert_eq!(format!("{:#}", documents(text).unwrap_err()), expected);
    }

    #[test]
    fn mappings_and_sequences_are_nested() {
        check(
            "a:\n  b: 1\n  c:\n  - x\n  - y: 2\n    z: '3'\n  d:\n    - - 1\n      - 2\ne: text  # note\n",
            &[json!({"a": {"b": 1, "c": ["x", {"y": 2, "z": "3"}], "d": [[1, 2]]}, "e": "text"})],
        );
    }

    #[test]
    fn scalars_have_their_types() {
        check(
            "- 0440\n- 1.5\n- true\n- null\n- \"a\\tb\"\n- it's\n- {}\n- []\n- -o x\n- 250m\n",
            &[json!([288, 1.5, true, null, "a\tb", "it's", {}, [], "-o x", "250m"])],
        );
    }

    #[test]
    fn literal_texts_keep_their_lines() {
        check(
            "data:\n  a: |\n    # one\n\n      two\n  b: |-\n    x: y\nc:\n  - |\n    z\n",
            &[json!({"data": {"a": "# one\n\n  two\n", "b": "x: y"}, "c": ["z\n"]})],
        );
    }

    #[test]
    fn documents_without_content_are_left_out() {
        check("---\n# nothing\n---\na: 1\n---\nb:\n", &[json!({"a": 1}), json!({"b": null})]);
    }

    #[test]
    fn a_key_may_be_quoted_and_have_colons() {
        check("'a: b': 1\n\"c\": 2\nd:e: 3\n", &[json!({"a: b": 1, "c": 2, "d:e": 3})]);
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        check_refused("a: 1\nb: &x 1\n", "line 3: expected a plain value, found &x 1");
        check_refused("a: [1, 2]\n", "line 2: expected a value in lines of its own, found [1, 2]");
        check_refused("a: >\n  b\n", "line 1: expected | or |-, found >");
        check_refused("a: 1\na: 2\n", "line 3: the key a stands twice");
        check_refused("a: 1\n  b: 2\n", "line 2: indentation that fits nothing above");
    }
}
