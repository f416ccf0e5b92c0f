//! Conversations with the machine as text: commands and expected answers.
//!
//! ```text
//! # A comment.
//! $ evenkeel tune status        a command of busybox's shell, with the functions of `dev/vm/functions.sh`
//! >   | head -1                 its next line
//! Nothing is in force.          the answer, line by line without empty ones, standard error included
//! Nothing … force.              `…` stands for anything within a line
//! …                             alone: for any lines, or none
//! json /facts/cpus/1/node = 0   the whole answer is JSON, and this is in it; `name:eth0` in a path chooses the
//!                               member of a list with this name
//! [13]                          the status that it ends with, if it is not 0
//! ```

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

/// One file.
#[derive(Debug, PartialEq)]
pub(super) struct Conversation {
    pub(super) name: String,
    pub(super) steps: Vec<Step>,
}

/// One command, and what should come of it.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Step {
    /// Its line in the file.
    pub(super) line: usize,
    pub(super) command: String,
    pub(super) answer: Vec<String>,
    /// Paths into the answer, and their values.
    pub(super) json: Vec<(String, Value)>,
    pub(super) status: u8,
}

impl Conversation {
    pub(super) fn parse(name: &str, text: &str) -> Result<Conversation> {
        let mut steps: Vec<Step> = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let here = || format!("dev/vm/{name}.txt:{number}: {line:?}");
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(command) = line.strip_prefix("$ ") {
                steps.push(Step { line: number, command: command.to_owned(), ..Step::default() });
                continue;
            }
            let Some(step) = steps.last_mut() else { bail!("{}: an answer to nothing", here()) };
            if let Some(more) = line.strip_prefix("> ") {
                ensure!(step.answer.is_empty(), "{}: a command that goes on after its answer", here());
                step.command = format!("{}\n{more}", step.command);
            } else if let Some(expected) = line.strip_prefix("json ") {
                let (path, value) = expected.split_once(" = ").with_context(here)?;
                let value = serde_json::from_str(value).with_context(here)?;
                step.json.push((path.to_owned(), value));
            } else if let Some(status) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                step.status = status.parse().with_context(here)?;
            } else {
                step.answer.push(line.to_owned());
            }
        }
        Ok(Conversation { name: name.to_owned(), steps })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_has_a_command_an_answer_and_a_status() {
        let text = "# about\n$ one |\n> two\na …\n[13]\n\n$ three\njson /a/name:x/b = [1]\n";
        let [first, second] = Conversation::parse("x", text).unwrap().steps.try_into().unwrap();
        assert_eq!((first.line, first.command.as_str(), first.status), (2, "one |\ntwo", 13));
        assert_eq!(first.answer, ["a …"]);
        assert_eq!(second.json, [("/a/name:x/b".to_owned(), serde_json::json!([1]))]);
    }

    #[test]
    fn an_answer_to_nothing_is_refused() {
        let error = Conversation::parse("x", "hello\n").unwrap_err();
        assert_eq!(error.to_string(), "dev/vm/x.txt:1: \"hello\": an answer to nothing");
    }
}
