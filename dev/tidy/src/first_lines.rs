//! First lines of modules: a noun phrase with the field's noun, so that a list of them is an index.

/// Words that begin a question, not a name.
const QUESTION_WORDS: [&str; 14] = [
    "How", "What", "Whatever", "When", "Where", "Whether", "Which", "Who", "Whoever", "Whom", "Whose", "Why",
    "That", "If",
];

/// Violations in the first lines of the files, given by path and text.
pub(crate) fn check(files: &[(String, String)]) -> Vec<String> {
    let violation = |(path, text): &(String, String)| {
        let line = text.lines().find_map(|line| line.strip_prefix("//! "))?;
        QUESTION_WORDS.contains(&first_word(line)).then(|| format!("{path} begins with a question: {line}"))
    };
    files.iter().filter_map(violation).collect()
}

fn first_word(line: &str) -> &str {
    line.split(|c: char| !c.is_alphabetic()).next().unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_lines(lines: &[&str], expected: &[&str]) {
        let file = |(at, line): (usize, &&str)| (format!("crates/a/src/{at}.rs"), format!("{line}\n"));
        let files: Vec<_> = lines.iter().enumerate().map(file).collect();
        assert_eq!(check(&files), expected);
    }

    #[test]
    fn a_module_begins_with_a_noun() {
        check_lines(&["//! The index: shards of pages.", "//! Whole values.", "fn main() {}"], &[]);
        check_lines(
            &["//! Where items lie.", "//! Values.", "//! Who waits."],
            &[
                "crates/a/src/0.rs begins with a question: Where items lie.",
                "crates/a/src/2.rs begins with a question: Who waits.",
            ],
        );
    }
}
