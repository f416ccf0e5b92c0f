//! Rules for one Rust file: its length, its names, no ignored tests.

/// Longer files contain a part that should be a file of its own.
const LINES_MAX: usize = 900;

/// Words that name nothing (ARCHITECTURE.md, "Names").
const EMPTY_WORDS: [&str; 9] =
    ["manager", "helper", "helpers", "util", "utils", "common", "misc", "core", "impl"];

/// As part of what a function does this one may mean something: core files, the cores of a machine.
const EMPTY_ONLY_AS_A_THING: &str = "core";

/// Keywords before a new name.
const DEFINITIONS: [&str; 8] = ["fn ", "struct ", "enum ", "trait ", "mod ", "type ", "const ", "static "];

/// Violations in a file, each as a sentence that begins with its place.
pub(crate) fn check(name: &str, text: &str) -> Vec<String> {
    let mut violations = Vec::new();
    let lines = text.lines().count();
    if lines > LINES_MAX {
        violations.push(format!("{name} has {lines} lines, more than {LINES_MAX}"));
    }
    let stem = name.rsplit('/').next().unwrap_or(name).trim_end_matches(".rs");
    violations.extend(empty_word(stem).map(|word| format!("{name}: `{word}` names nothing")));
    for (index, line) in text.lines().enumerate() {
        let place = format!("{name}:{}", index + 1);
        if let Some(defined) = defined_name(line) {
            let is_function = line.contains("fn ");
            let empty = empty_word(defined).filter(|word| !(is_function && *word == EMPTY_ONLY_AS_A_THING));
            violations.extend(empty.map(|word| format!("{place}: `{word}` in `{defined}` names nothing")));
            if is_function && defined.starts_with("process_") {
                violations.push(format!("{place}: `{defined}` does not say what is done"));
            }
        }
        if line.trim_start().starts_with("#[ignore") {
            violations.push(format!("{place}: a test that is ignored tests nothing"));
        }
    }
    violations
}

/// The name that a line gives to something, if it does.
fn defined_name(line: &str) -> Option<&str> {
    let code = line.trim_start();
    let start = DEFINITIONS.iter().find_map(|definition| {
        let at = code.find(definition)?;
        let before = code[..at].split_whitespace();
        let only_modifiers = before.into_iter().all(|word| {
            word.starts_with("pub")
                || ["unsafe", "async", "const", "extern", "\"C\"", "in", "super)"].contains(&word)
        });
        only_modifiers.then_some(at + definition.len())
    })?;
    let rest = &code[start..];
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    (end > 0).then_some(&rest[..end])
}

/// The first word of a name that has no meaning.
fn empty_word(name: &str) -> Option<&'static str> {
    words(name).into_iter().find_map(|word| EMPTY_WORDS.iter().find(|empty| **empty == word).copied())
}

/// `snake_case` and `CamelCase` as lower-case words.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for c in name.chars() {
        if c == '_' || c.is_uppercase() {
            words.push(String::new());
        }
        if c != '_' {
            words.last_mut().expect("never empty").extend(c.to_lowercase());
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn holds(name: &str, text: &str, expected: &[&str]) {
        assert_eq!(check(name, text), expected);
    }

    #[test]
    fn names_that_say_nothing_are_found_where_they_are_given() {
        holds(
            "a/b.rs",
            "pub(crate) struct ItemManager;",
            &["a/b.rs:1: `manager` in `ItemManager` names nothing"],
        );
        holds("a/utils.rs", "", &["a/utils.rs: `utils` names nothing"]);
        holds("b.rs", "    fn helper() {}", &["b.rs:1: `helper` in `helper` names nothing"]);
        holds(
            "b.rs",
            "pub fn process_request() {}",
            &["b.rs:1: `process_request` does not say what is done"],
        );
    }

    #[test]
    fn other_uses_of_the_words_are_fine() {
        holds("process.rs", "use core::fmt; // the manager of it\nimpl Score { fn score() {} }", &[]);
        holds(
            "b.rs",
            "let helper = \"fn helper\";\nconst fn small() {}\nmod processes;\nfn core_files() {}",
            &[],
        );
    }

    #[test]
    fn files_end_before_they_bore_and_tests_run() {
        holds("long.rs", &"\n".repeat(901), &["long.rs has 901 lines, more than 900"]);
        holds("b.rs", "    #[ignore = \"slow\"]", &["b.rs:1: a test that is ignored tests nothing"]);
    }
}
