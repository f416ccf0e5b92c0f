//! Commands in the project's pages: those in fenced blocks and in code spans, split into words.
//!
//! A line is split as by a shell, as far as pages need it: quotes, comments, pipes and redirections. Variables and
//! placeholders stay as written.

use std::fs;
use std::path::{Path, PathBuf};

/// Pages at the root of the project with commands for readers. The changelog is not among them: it may name removed
/// ones.
const AT_THE_ROOT: [&str; 5] =
    ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "ROADMAP.md", "SECURITY.md"];

/// A program, and the words of which one follows its name in a command.
pub type ShownProgram<'a> = (&'a str, &'a [&'a str]);

/// A command in a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Typed {
    /// The page, from the root of the project.
    pub page: String,
    /// The line where it begins, counted from 1.
    pub line: usize,
    /// Whether it is in a sentence, which may name a command without its required arguments.
    pub is_mentioned: bool,
    /// The program's name without its directory, then the arguments.
    pub words: Vec<String>,
}

impl Typed {
    /// The words, with a space between them.
    pub fn text(&self) -> String {
        self.words.join(" ")
    }
}

/// Every page with its text, by its path from the root of the project.
///
/// # Panics
/// If one cannot be read.
pub fn all() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut paths: Vec<PathBuf> = AT_THE_ROOT.iter().map(|name| root.join(name)).collect();
    let mut folders = vec![root.join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("list a folder of pages") {
            let path = entry.expect("list a folder of pages").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                paths.push(path);
            }
        }
    }
    paths.sort();
    let read = |path: PathBuf| {
        let name = path.strip_prefix(&root).expect("pages lie below the root").display().to_string();
        (name, fs::read_to_string(&path).expect("read a page"))
    };
    paths.into_iter().map(read).collect()
}

/// The commands of a page that run one of these programs.
pub fn commands(page: &str, text: &str, programs: &[ShownProgram]) -> Vec<Typed> {
    let mut found = Vec::new();
    for Source { line, is_mentioned, text } in sources(text) {
        for segment in segments(&text) {
            collect(&segment, programs, &mut |words| {
                found.push(Typed { page: page.to_owned(), line, is_mentioned, words });
            });
        }
    }
    found
}

/// The commands of all pages that run a program of this workspace by `cargo run -p`: the program's name, then its arguments.
pub fn run_by_cargo(package: &str) -> Vec<Typed> {
    let typed = |(page, text): (String, String)| commands(&page, &text, &[("cargo", &["run"])]);
    let of_package = |mut typed: Typed| {
        let dashes = typed.words.iter().position(|word| word == "--").unwrap_or(typed.words.len());
        let (cargo, own) = typed.words.split_at(dashes);
        let is_it = cargo.windows(2).any(|two| ["-p", "--package"].contains(&&*two[0]) && two[1] == package);
        let own = own.iter().skip(1).cloned();
        typed.words = std::iter::once(package.to_owned()).chain(own).collect();
        is_it.then_some(typed)
    };
    all().into_iter().flat_map(typed).filter_map(of_package).collect()
}

/// The fenced blocks of a page, without their fences.
pub fn blocks(text: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut block: Option<String> = None;
    for line in text.lines() {
        match (line.trim_start().starts_with("```"), &mut block) {
            (true, Some(_)) => blocks.extend(block.take()),
            (true, None) => block = Some(String::new()),
            (false, Some(block)) => *block += &format!("{line}\n"),
            (false, None) => {}
        }
    }
    blocks
}

/// Text that may contain a command, and the line where it begins.
struct Source {
    line: usize,
    is_mentioned: bool,
    text: String,
}

/// Lines of fenced blocks, joined at a continuing backslash, and code spans.
fn sources(page: &str) -> Vec<Source> {
    let mut sources: Vec<Source> = Vec::new();
    let (mut is_inside, mut goes_on) = (false, false);
    for (number, line) in (1..).zip(page.lines()) {
        if line.trim_start().starts_with("```") {
            (is_inside, goes_on) = (!is_inside, false);
        } else if is_inside {
            // A command in a comment of a file is a command for readers, too.
            let line = line.trim_start().trim_start_matches("# ").trim();
            let part = line.strip_suffix('\\').unwrap_or(line);
            match sources.last_mut() {
                Some(source) if goes_on => source.text += part,
                _ => sources.push(Source { line: number, is_mentioned: false, text: part.to_owned() }),
            }
            goes_on = line.ends_with('\\');
        } else {
            let spans = line.split('`').skip(1).step_by(2);
            sources.extend(spans.map(|span| Source {
                line: number,
                is_mentioned: true,
                text: span.to_owned(),
            }));
        }
    }
    sources
}

/// The commands among these words, and those inside of a quoted word.
fn collect(words: &[String], programs: &[ShownProgram], found: &mut impl FnMut(Vec<String>)) {
    let is_typed = |pair: &[String]| {
        let name = pair[0].rsplit('/').next().unwrap_or_default();
        programs.iter().any(|(program, verbs)| *program == name && verbs.contains(&pair[1].as_str()))
    };
    let begins = words.windows(2).position(is_typed);
    if let Some(at) = begins {
        let program = words[at].rsplit('/').next().unwrap_or_default().to_owned();
        found([&[program], &words[at + 1..]].concat());
    }
    for word in words.iter().filter(|word| word.contains(' ')) {
        let inside = word.strip_prefix("$(").and_then(|word| word.strip_suffix(')')).unwrap_or(word);
        let segments = segments(inside);
        // A word that cannot be split any further contains no command.
        if !segments.iter().any(|segment| segment.contains(word)) {
            segments.iter().for_each(|segment| collect(segment, programs, found));
        }
    }
}

/// The simple commands of a line, each as words.
fn segments(line: &str) -> Vec<Vec<String>> {
    let mut segments = vec![Vec::new()];
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        match first {
            '#' => break,
            '|' | '&' | ';' => {
                segments.push(Vec::new());
                rest = &rest[1..];
            }
            first if first.is_whitespace() => rest = rest.trim_start(),
            _ => {
                let (word, behind) = word(rest);
                rest = behind;
                let words = segments.last_mut().expect("there is one from the start");
                let is_redirection = |word: &String| word.ends_with(['<', '>']);
                if words.last().is_some_and(is_redirection) {
                    words.pop();
                } else if !word.contains(">&") {
                    words.push(word);
                }
            }
        }
    }
    segments
}

/// The first word of a text, without its quotes, and what follows it.
fn word(text: &str) -> (String, &str) {
    let mut word = String::new();
    let mut quote = None;
    let mut substitutions = 0;
    for (at, letter) in text.char_indices() {
        let is_end =
            letter.is_whitespace() || matches!(letter, '|' | ';') || letter == '&' && !word.ends_with('>');
        match (quote, letter) {
            (Some(open), letter) if letter == open => quote = None,
            (None, '\'' | '"') => quote = Some(letter),
            (None, _) if is_end && substitutions == 0 => return (word, &text[at..]),
            (_, letter) => {
                substitutions += i32::from(letter == '(' && word.ends_with('$'));
                substitutions -= i32::from(letter == ')' && substitutions > 0);
                word.push(letter);
            }
        }
    }
    (word, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAMS: [ShownProgram; 2] =
        [("evenkeel", &["serve", "load", "tune"]), ("cargo", &["run", "xtask"])];

    #[track_caller]
    fn check(text: &str, wanted: &[&str]) {
        let found: Vec<String> = commands("page", text, &PROGRAMS).iter().map(Typed::text).collect();
        assert_eq!(found, wanted, "{text}");
    }

    #[track_caller]
    fn check_line(line: &str, wanted: &[&str]) {
        check(&format!("text\n```\n{line}\n```\n"), wanted);
    }

    #[test]
    fn comments_prompts_and_redirections_are_left_out() {
        check_line("$ evenkeel tune top  # live, and evenkeel tune check", &["evenkeel tune top"]);
        check_line("evenkeel load --rate 5 > a.txt 2>&1 & x=$!", &["evenkeel load --rate 5"]);
        check_line("evenkeel tune plan | grep '^Not' || true", &["evenkeel tune plan"]);
    }

    #[test]
    fn words_before_the_program_do_not_matter() {
        check_line("on_client taskset -c 0 evenkeel load", &["evenkeel load"]);
        check_line("ExecStart=/usr/bin/evenkeel tune watch", &["evenkeel tune watch"]);
        check_line("do if true; then evenkeel tune top; fi; done", &["evenkeel tune top"]);
        check_line("# evenkeel load \\\n#   --depth 1", &["evenkeel load --depth 1"]);
    }

    #[test]
    fn quoted_commands_are_found_too() {
        check_line(
            "evenkeel tune top --load 'ssh x evenkeel load'",
            &["evenkeel tune top --load ssh x evenkeel load", "evenkeel load"],
        );
        check_line("run = \"exec evenkeel load --json {output}\"", &["evenkeel load --json {output}"]);
        check_line("evenkeel load --p \"$(pidof a | tail)\" -x", &["evenkeel load --p $(pidof a | tail) -x"]);
    }

    #[test]
    fn output_of_a_program_is_not_a_command() {
        check_line("evenkeel 0.1.0 serves", &[]);
        check_line("  cause   evenkeel (PID 27) is stopped", &[]);
    }

    #[test]
    fn code_spans_count_and_prose_does_not() {
        check(
            "evenkeel serve is `cargo run -- serve`, or `evenkeel serve`.",
            &["cargo run -- serve", "evenkeel serve"],
        );
    }

    #[test]
    fn lines_are_counted_from_the_top_of_the_page() {
        let found = commands("page", "a\n```\nb\nevenkeel serve\n```\n`evenkeel load`\n", &PROGRAMS);
        assert_eq!(found.iter().map(|typed| typed.line).collect::<Vec<_>>(), [4, 6]);
    }
}
