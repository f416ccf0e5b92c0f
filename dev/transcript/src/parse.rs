//! Parsing of a file into the steps of a conversation.

use crate::text::Text;
use std::fmt;

/// A memcached version, such as 1.6.45.
pub type Version = (u32, u32, u32);

/// One conversation.
#[derive(Debug, Clone)]
pub struct Transcript {
    /// The file's name without its ending.
    pub name: String,
    /// The server's flags, without its address.
    pub flags: Vec<String>,
    /// Whether real seconds pass in real runners.
    pub slow: bool,
    /// Its subject is missing in every version of memcached.
    pub evenkeel_only: bool,
    /// The steps, in order.
    pub steps: Vec<TranscriptStep>,
}

/// One step, and its place.
#[derive(Debug, Clone)]
pub struct TranscriptStep {
    /// The line in the file, from 1.
    pub line: usize,
    /// The first memcached that behaves like this; Evenkeel always must.
    pub since: Option<Version>,
    /// What happens in this step.
    pub action: Action,
}

/// Kinds of steps in a conversation.
#[derive(Debug, Clone)]
pub enum Action {
    /// The client sends.
    Send(usize, Text),
    /// The server answers.
    Expect(usize, ExpectedReply),
    /// The client closes its side.
    Close(usize),
    /// Seconds pass.
    Advance(u32),
}

/// The server's answer.
#[derive(Debug, Clone)]
pub enum ExpectedReply {
    /// These bytes, next.
    Next(Text),
    /// Each of these lines once, in any order, and then `end`.
    Among {
        /// The lines.
        lines: Vec<Text>,
        /// Whether no other line may be among them.
        exact: bool,
        /// The line that ends them.
        end: Text,
    },
    /// The end of the connection.
    Closed,
}

/// A line that is not part of a transcript.
#[derive(Debug, PartialEq, Eq)]
pub struct TranscriptError {
    name: String,
    line: usize,
    message: String,
}

impl fmt::Display for TranscriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.txt:{}: {}", self.name, self.line, self.message)
    }
}

impl std::error::Error for TranscriptError {}

impl Transcript {
    /// Reads a transcript; `name` is for messages.
    ///
    /// # Errors
    /// On the first line that is neither empty, a comment, nor a step.
    pub fn parse(name: &str, text: &str) -> Result<Transcript, TranscriptError> {
        let mut transcript = Transcript {
            name: name.to_owned(),
            flags: Vec::new(),
            slow: false,
            evenkeel_only: false,
            steps: Vec::new(),
        };
        let mut among: Option<Group> = None;
        let mut since = None;
        for (index, source) in text.lines().enumerate() {
            let line = index + 1;
            let error = |message: String| TranscriptError { name: name.to_owned(), line, message };
            if source.is_empty() {
                continue;
            }
            if let Some(comment) = source.strip_prefix('#') {
                transcript.directive(line, comment.trim(), &mut since).map_err(error)?;
                continue;
            }
            let step = parse_step(source).map_err(error)?;
            if let Some(action) = join(step, &mut among).map_err(error)? {
                transcript.steps.push(TranscriptStep { line, since, action });
            }
        }
        match among {
            Some(_) => Err(TranscriptError {
                name: name.to_owned(),
                line: text.lines().count(),
                message: "`<+` and `<=` need a `<` after them".to_owned(),
            }),
            None => Ok(transcript),
        }
    }

    /// The part that a memcached of this version supports; no steps if its subject is Evenkeel only.
    #[must_use]
    pub fn until(mut self, version: Version) -> Transcript {
        self.steps.retain(|step| !self.evenkeel_only && step.since.is_none_or(|since| version >= since));
        self
    }

    /// A comment whose first word is known is a directive.
    fn directive(&mut self, line: usize, comment: &str, since: &mut Option<Version>) -> Result<(), String> {
        let (word, rest) = comment.split_once(' ').unwrap_or((comment, ""));
        match word {
            "flags:" if self.steps.is_empty() && rest.starts_with('-') => {
                self.flags = rest.split_whitespace().map(flag).collect();
            }
            "flags:" => return Err("flags come before the first step, and begin with -".to_owned()),
            "since" => *since = Some(parse_version(rest).ok_or("since needs a version such as 1.6.45")?),
            "slow" if rest.is_empty() => self.slow = true,
            "evenkeel" if rest == "only" && self.steps.is_empty() => self.evenkeel_only = true,
            "evenkeel" if rest == "only" => {
                return Err(
                    "`evenkeel only` is about the whole file, and comes before the first step".to_owned()
                );
            }
            "advance" => {
                let seconds = rest.strip_suffix(" s").and_then(|seconds| seconds.parse().ok());
                let seconds = seconds.ok_or("advance needs seconds, such as `advance 2 s`")?;
                self.steps.push(TranscriptStep { line, since: *since, action: Action::Advance(seconds) });
            }
            _ => {}
        }
        Ok(())
    }
}

/// A word of the flags; `@name` is the path of a file in the directory of transcripts.
fn flag(word: &str) -> String {
    match word.strip_prefix('@') {
        Some(name) => crate::directory().join(name).display().to_string(),
        None => word.to_owned(),
    }
}

/// Reads `1.6.45`.
pub fn parse_version(text: &str) -> Option<Version> {
    let mut numbers = text.split('.').map(|number| number.parse().ok());
    let version = (numbers.next()??, numbers.next()??, numbers.next()??);
    numbers.next().is_none().then_some(version)
}

/// A line on its own, before `<+` lines are joined with the line that ends them.
enum Line {
    Whole(Action),
    Member { connection: usize, exact: bool, text: Text },
}

/// `<+` or `<=` lines that still wait for their end.
struct Group {
    connection: usize,
    exact: bool,
    lines: Vec<Text>,
}

fn parse_step(source: &str) -> Result<Line, String> {
    let digits = source.bytes().take_while(u8::is_ascii_digit).count();
    let connection =
        if digits == 0 { 0 } else { source[..digits].parse().map_err(|_| "too many connections")? };
    let rest = &source[digits..];
    let whole = match rest {
        ">close" => Action::Close(connection),
        "<closed" => Action::Expect(connection, ExpectedReply::Closed),
        // An empty line of the protocol need not end in an invisible space.
        ">" => Action::Send(connection, Text::parse("")?),
        "<" => Action::Expect(connection, ExpectedReply::Next(Text::parse("")?)),
        _ => match rest.split_at_checked(2) {
            Some(("> ", text)) => Action::Send(connection, Text::parse(text)?),
            Some(("< ", text)) => Action::Expect(connection, ExpectedReply::Next(Text::parse(text)?)),
            Some((mark @ ("<+" | "<="), text)) => {
                let text = Text::parse(text.strip_prefix(' ').ok_or("a space is missing")?)?;
                return Ok(Line::Member { connection, exact: mark == "<=", text });
            }
            _ => return Err("neither `>`, `<` nor `#`".to_owned()),
        },
    };
    Ok(Line::Whole(whole))
}

fn join(line: Line, among: &mut Option<Group>) -> Result<Option<Action>, String> {
    match (line, among.take()) {
        (Line::Whole(action), None) => Ok(Some(action)),
        (Line::Member { connection, exact, text }, None) => {
            *among = Some(Group { connection, exact, lines: vec![text] });
            Ok(None)
        }
        (Line::Member { connection, exact, text }, Some(mut group)) => {
            if (connection, exact) != (group.connection, group.exact) {
                return Err("`<+` and `<=` of one kind and one connection stay together".to_owned());
            }
            group.lines.push(text);
            *among = Some(group);
            Ok(None)
        }
        (Line::Whole(Action::Expect(connection, ExpectedReply::Next(end))), Some(group))
            if connection == group.connection =>
        {
            let expected = ExpectedReply::Among { lines: group.lines, exact: group.exact, end };
            Ok(Some(Action::Expect(connection, expected)))
        }
        _ => Err("`<+` and `<=` need a `<` after them".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let found = match Transcript::parse("t", text) {
            Err(error) => error.to_string(),
            Ok(t) => t.steps.iter().map(describe).collect::<Vec<_>>().join(" "),
        };
        assert_eq!(found, expected);
    }

    fn describe(step: &TranscriptStep) -> String {
        match &step.action {
            Action::Send(connection, text) => format!("{connection}>{}", text.source()),
            Action::Expect(connection, ExpectedReply::Next(text)) => {
                format!("{connection}<{}", text.source())
            }
            Action::Expect(connection, ExpectedReply::Closed) => format!("{connection}|"),
            Action::Expect(connection, ExpectedReply::Among { lines, exact, end }) => {
                format!("{connection}{}{}{}", if *exact { '=' } else { '+' }, lines.len(), end.source())
            }
            Action::Close(connection) => format!("{connection}x"),
            Action::Advance(seconds) => format!("@{seconds}"),
        }
    }

    #[test]
    fn each_kind_of_step_is_read() {
        check("> a\n< b\n\n# advance 2 s\n12> c\n12<closed\n>close", "0>a 0<b @2 12>c 12| 0x");
        check("<+ a\n<+ b\n< END", "0+2END");
        check("<= a\n< END", "0=1END");
        check(">\n<", "0> 0<");
    }

    #[test]
    fn a_line_that_is_not_a_step_is_refused_with_its_place() {
        check("> a\nb", "t.txt:2: neither `>`, `<` nor `#`");
        check("<+ a\n> b", "t.txt:2: `<+` and `<=` need a `<` after them");
        check("<+ a", "t.txt:1: `<+` and `<=` need a `<` after them");
        check("<+ a\n1< b", "t.txt:2: `<+` and `<=` need a `<` after them");
        check("# advance two", "t.txt:1: advance needs seconds, such as `advance 2 s`");
        check("> a\n# flags: -C", "t.txt:2: flags come before the first step, and begin with -");
        check("# flags: are numbers", "t.txt:1: flags come before the first step, and begin with -");
        check(
            "> a\n# evenkeel only",
            "t.txt:2: `evenkeel only` is about the whole file, and comes before the first step",
        );
        check("# since never", "t.txt:1: since needs a version such as 1.6.45");
    }

    #[test]
    fn the_directives_of_a_file_are_kept() {
        let t = Transcript::parse("t", "# flags: -I 2m -C\n# slow\n# slowly").expect("a transcript");
        assert_eq!(t.flags, ["-I", "2m", "-C"]);
        assert!(t.slow);
    }

    #[test]
    fn an_old_memcached_is_compared_with_its_own_steps_only() {
        let t = Transcript::parse("t", "> a\n# since 1.6.45\n> b\n# advance 1 s").expect("a transcript");
        assert_eq!(t.clone().until((1, 6, 45)).steps.len(), 3);
        assert_eq!(t.until((1, 6, 18)).steps.len(), 1);
    }

    #[test]
    fn no_memcached_is_compared_with_a_file_for_evenkeel_only() {
        let t = Transcript::parse("t", "# evenkeel only\n> a\n< b").expect("a transcript");
        assert_eq!((t.steps.len(), t.until((1, 6, 45)).steps.len()), (2, 0));
        let t = Transcript::parse("t", "# evenkeel only has this\n> a").expect("a transcript");
        assert_eq!(t.until((1, 6, 45)).steps.len(), 1, "a comment");
    }
}
