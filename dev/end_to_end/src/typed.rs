//! The commands of a page as somebody types them: the hosts of each, and what the page shows of its output.

use std::fs;
use std::path::Path;

/// What the page leaves out: part of a line, or lines.
const LEFT_OUT: char = '\u{2026}';

/// A command of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypedCommand {
    /// The hosts of its prompt, `h1 h2$ `; none for `$ `.
    pub hosts: Vec<String>,
    /// What is typed, with all of its lines.
    pub text: String,
    /// What the page shows of its output.
    pub shown: Vec<String>,
}

/// The commands in the fenced blocks of a page below this heading, or of the whole page.
///
/// # Panics
/// If the page cannot be read, or has none.
pub fn commands_of(page: &str, heading: Option<&str>) -> Vec<TypedCommand> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
    let text = fs::read_to_string(&path).expect("a page");
    let part = match heading {
        None => &*text,
        Some(heading) => {
            let behind = text.split_once(&format!("\n{heading}\n")).expect("the heading").1;
            let level = format!("\n{} ", heading.split(' ').next().expect("marks of a heading"));
            let end = [behind.find(&level), behind.find("\n## ")].into_iter().flatten().min();
            &behind[..end.unwrap_or(behind.len())]
        }
    };
    let commands = typed(part);
    assert!(!commands.is_empty(), "{page} has no commands");
    commands
}

fn typed(page: &str) -> Vec<TypedCommand> {
    let mut commands: Vec<TypedCommand> = Vec::new();
    let (mut is_inside, mut is_typing) = (false, false);
    for line in page.lines() {
        if line.starts_with("```") {
            (is_inside, is_typing) = (!is_inside, false);
        } else if is_inside && is_typing {
            let command = &mut commands.last_mut().expect("it has begun").text;
            *command += &format!("\n{line}");
            is_typing = goes_on(command);
        } else if let Some((hosts, command)) =
            line.split_once("$ ").filter(|(hosts, _)| is_inside && are_hosts(hosts))
        {
            let hosts = hosts.split(' ').filter(|host| !host.is_empty()).map(str::to_owned).collect();
            commands.push(TypedCommand { hosts, text: command.to_owned(), shown: Vec::new() });
            is_typing = goes_on(command);
        } else if is_inside && let Some(command) = commands.last_mut() {
            command.shown.push(line.to_owned());
        }
    }
    commands
}

/// Whether a prompt may begin so: names of hosts, or nothing.
fn are_hosts(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b' ')
}

fn goes_on(command: &str) -> bool {
    command.ends_with('\\') || command.contains("<<END") && !command.ends_with("\nEND")
}

impl TypedCommand {
    /// The first line of the page that the output lacks, or has not in this order.
    pub fn missing(&self, output: &str) -> Option<&str> {
        let mut lines = output.lines();
        let mut shown = self.shown.iter().filter(|line| line.trim() != LEFT_OUT.to_string());
        shown.find(|line| !lines.any(|found| matches(line, found))).map(String::as_str)
    }
}

/// Whether an output's line is what a page shows, where that may leave parts out.
fn matches(shown: &str, found: &str) -> bool {
    let parts: Vec<&str> = shown.trim_end().split(LEFT_OUT).collect();
    let (first, last) = (parts[0], parts[parts.len() - 1]);
    let Some(mut rest) = found.trim_end().strip_prefix(first) else { return false };
    if parts.len() == 1 {
        return rest.is_empty();
    }
    for part in &parts[1..parts.len() - 1] {
        let Some((_, behind)) = rest.split_once(part) else { return false };
        rest = behind;
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_their_hosts_lines_and_output() {
        let page = "text\n```\nh1 h2$ cat > a <<END\nx\nEND\n$ b \\\n  c\nfirst\n  sec\u{2026}d\n```\n$ no command\n";
        let commands = typed(page);
        let of = |at: usize| (commands[at].hosts.join(" "), &*commands[at].text, commands[at].shown.len());
        assert_eq!(of(0), ("h1 h2".to_owned(), "cat > a <<END\nx\nEND", 0));
        assert_eq!(of(1), (String::new(), "b \\\n  c", 2));
        assert_eq!(commands.len(), 2);
        assert_eq!(commands[1].missing("zero\nfirst\n  second\n"), None);
        assert_eq!(commands[1].missing("  second\nfirst\n"), Some("  sec\u{2026}d"));
        assert_eq!(commands[1].missing("first\n  seconds\n"), Some("  sec\u{2026}d"));
    }
}
