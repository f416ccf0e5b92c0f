//! The machine's answers, compared with the expected ones.
//!
//! ```text
//! @ booted 6.21                  seconds since the kernel started
//! @ interrupts:12                a step's file and line
//! 8 of 8 changes are in force.
//! @ ended 0                      its status
//! ```

use super::conversation::{Conversation, Step};
use serde_json::Value;

/// Of an answer that was not expected; the whole is in the file of answers.
const SHOWN_LINES_MAX: usize = 40;

/// Seconds from the start of the kernel to the first command.
pub(super) fn booted_after_s(said: &str) -> Option<&str> {
    said.lines().find_map(|line| line.strip_prefix("@ booted "))
}

/// A step that ended otherwise than expected.
#[derive(Debug, PartialEq)]
pub(super) struct FailedStep {
    /// Its file and line.
    pub(super) name: String,
    /// The command, and what is wrong with its answer.
    pub(super) why: String,
}

/// Every step that ended otherwise.
pub(super) fn judge(conversation: &Conversation, said: &str) -> Vec<FailedStep> {
    let judged = |step: &Step| {
        let name = format!("{}:{}", conversation.name, step.line);
        let why = match answer(said, &name) {
            None => "has not been reached".to_owned(),
            Some((text, None)) => format!("has not ended; it said\n{}", indent(&text)),
            Some((text, Some(status))) => {
                format!("{}; it said\n{}", difference(step, &text, status)?, indent(&text))
            }
        };
        let why = format!("dev/vm/{name}: $ {}\n  {why}", step.command);
        Some(FailedStep { name, why })
    };
    conversation.steps.iter().filter_map(judged).collect()
}

/// The answer of a step, and its exit status.
fn answer(said: &str, name: &str) -> Option<(String, Option<u8>)> {
    let mut lines = said.lines().skip_while(|line| line.strip_prefix("@ ") != Some(name));
    lines.next()?;
    let mut text = String::new();
    for line in lines {
        if let Some(status) = line.strip_prefix("@ ended ") {
            return Some((text, status.parse().ok()));
        }
        text += line;
        text.push('\n');
    }
    Some((text, None))
}

fn difference(step: &Step, text: &str, status: u8) -> Option<String> {
    if status != step.status {
        return Some(format!("ended with {status} instead of {}", step.status));
    }
    if !step.json.is_empty() {
        let Ok(json) = serde_json::from_str::<Value>(text) else { return Some("is not JSON".to_owned()) };
        return step.json.iter().find_map(|(path, expected)| {
            let found = member(&json, path);
            (found != Some(expected)).then(|| {
                let found = found.map_or("nothing".to_owned(), Value::to_string);
                format!("has {found} at {path} instead of {expected}")
            })
        });
    }
    let expected: Vec<&str> = step.answer.iter().map(String::as_str).collect();
    let found: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    (!lines_match(&expected, &found)).then(|| format!("should say\n{}\n ", indent(&step.answer.join("\n"))))
}

/// The value at a path; `key:value` chooses the member of a list.
fn member<'v>(json: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('/').skip(1).try_fold(json, |json, word| match (json, word.split_once(':')) {
        (Value::Array(members), Some((key, value))) => {
            members.iter().find(|member| member.get(key).and_then(Value::as_str) == Some(value))
        }
        (Value::Array(members), None) => members.get(word.parse::<usize>().ok()?),
        _ => json.get(word),
    })
}

fn lines_match(expected: &[&str], found: &[&str]) -> bool {
    match (expected, found) {
        ([], []) => true,
        (["…", rest @ ..], _) => (0..=found.len()).any(|skipped| lines_match(rest, &found[skipped..])),
        ([first, rest @ ..], [line, others @ ..]) => line_matches(first, line) && lines_match(rest, others),
        _ => false,
    }
}

fn line_matches(expected: &str, line: &str) -> bool {
    match expected.split_once('…') {
        None => expected == line,
        Some((before, rest)) => line.strip_prefix(before).is_some_and(|line| {
            let ends = line.char_indices().map(|(at, _)| at).chain([line.len()]);
            ends.into_iter().any(|at| line_matches(rest, &line[at..]))
        }),
    }
}

/// The first lines of a text, for a message.
fn indent(text: &str) -> String {
    text.lines().take(SHOWN_LINES_MAX).map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(conversation: &str, said: &str, expected: &[&str]) {
        let conversation = Conversation::parse("x", conversation).unwrap();
        let found = judge(&conversation, said);
        assert_eq!(found.len(), expected.len(), "{found:#?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.why.contains(expected), "{}", found.why);
        }
    }

    #[test]
    fn lines_are_compared_and_dots_stand_for_anything() {
        check("$ a\none\n…\nt…e\n", "@ x:1\none\ntwo\nthree\n@ ended 0\n", &[]);
        check("$ a\none\n…\nt…e\n", "@ x:1\none\n\nthree\n@ ended 0\n", &[]);
        check("$ a\none\n", "@ x:1\none\ntwo\n@ ended 0\n", &["should say\n    one"]);
        check("$ a\none\ntwo\n", "@ x:1\none\n@ ended 0\n", &["should say"]);
    }

    #[test]
    fn the_status_counts_even_without_an_answer() {
        check("$ a\n[13]\n", "@ x:1\n@ ended 13\n", &[]);
        check("$ a\n", "@ x:1\n@ ended 13\n", &["ended with 13 instead of 0"]);
    }

    #[test]
    fn values_are_found_in_json() {
        let said = r#"@ x:1
{"a": [{"name": "one", "b": 1}, {"name": "two", "b": [2]}]}
@ ended 0"#;
        check("$ a\njson /a/name:two/b/0 = 2\njson /a/0/b = 1\n", said, &[]);
        check("$ a\njson /a/name:two/c = 2\n", said, &["has nothing at /a/name:two/c instead of 2"]);
    }

    #[test]
    fn a_step_that_is_missing_or_hangs_is_no_success() {
        check("$ a\n$ b\n", "@ x:1\nhm\n", &["has not ended", "x:2: $ b\n  has not been reached"]);
    }
}
