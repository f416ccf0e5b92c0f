//! First lines of modules: a noun phrase with the field's noun, so that a list of them is an index.

use std::collections::BTreeMap;

/// Words that begin a question, not a name.
const QUESTION_WORDS: [&str; 14] = [
    "How", "What", "Whatever", "When", "Where", "Whether", "Which", "Who", "Whoever", "Whom", "Whose", "Why",
    "That", "If",
];

/// Packages with first lines that begin so still, and how many. The numbers only go down.
const ABOVE: [(&str, usize); 0] = [];

/// Violations in the first lines of the files, given by path and text.
pub(crate) fn check(files: &[(String, String)]) -> Vec<String> {
    check_against(files, &ABOVE)
}

fn check_against(files: &[(String, String)], above: &[(&str, usize)]) -> Vec<String> {
    let mut packages: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (path, text) in files {
        if let Some(line) = text.lines().find_map(|line| line.strip_prefix("//! "))
            && QUESTION_WORDS.contains(&first_word(line))
        {
            packages.entry(package(path)).or_default().push(format!("{path} begins with a question: {line}"));
        }
    }
    let allowed =
        |package: &str| above.iter().find(|(name, _)| *name == package).map_or(0, |(_, count)| *count);
    let lower = above.iter().filter_map(|(package, allowed)| {
        let count = packages.get(package).map_or(0, Vec::len);
        (count < *allowed).then(|| {
            format!(
                "{package} has {count} modules that begin with a question, and may have {allowed}: lower the \
                 number in xtask/src/tidy/first_lines.rs"
            )
        })
    });
    let lower: Vec<String> = lower.collect();
    let questions = packages.iter().filter(|(package, lines)| lines.len() > allowed(package));
    questions.flat_map(|(_, lines)| lines.clone()).chain(lower).collect()
}

fn first_word(line: &str) -> &str {
    line.split(|c: char| !c.is_alphabetic()).next().unwrap_or(line)
}

/// The package of a file: the folder that holds `src`, `tests` or `examples`.
fn package(path: &str) -> &str {
    let parts: usize = if path.starts_with("crates/") || path.starts_with("tests/") { 2 } else { 1 };
    path.match_indices('/').nth(parts - 1).map_or(path, |(at, _)| &path[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_lines(lines: &[&str], allowed: usize, expected: &[&str]) {
        let file = |(at, line): (usize, &&str)| (format!("crates/a/src/{at}.rs"), format!("{line}\n"));
        let files: Vec<_> = lines.iter().enumerate().map(file).collect();
        let above = [("crates/a", allowed)];
        assert_eq!(check_against(&files, if allowed == 0 { &[] } else { &above }), expected);
    }

    #[test]
    fn a_module_begins_with_a_noun() {
        check_lines(&["//! The index: shards of pages.", "//! Whole values.", "fn main() {}"], 0, &[]);
        check_lines(
            &["//! Where items lie."],
            0,
            &["crates/a/src/0.rs begins with a question: Where items lie."],
        );
    }

    #[test]
    fn what_the_table_allows_only_goes_down() {
        let (what, who) = ("//! What there is.", "//! Who waits.");
        check_lines(&[what, who], 2, &[]);
        check_lines(
            &[what, who],
            1,
            &[
                "crates/a/src/0.rs begins with a question: What there is.",
                "crates/a/src/1.rs begins with a question: Who waits.",
            ],
        );
        check_lines(
            &[what],
            2,
            &["crates/a has 1 modules that begin with a question, and may have 2: lower the number in \
             xtask/src/tidy/first_lines.rs"],
        );
    }

    #[test]
    fn a_package_is_the_folder_of_its_manifest() {
        assert_eq!(package("crates/load/src/run/worker.rs"), "crates/load");
        assert_eq!(package("tests/end_to_end/tests/conversation/main.rs"), "tests/end_to_end");
        assert_eq!(package("xtask/src/main.rs"), "xtask");
        assert_eq!(package("fuzz/fuzz_targets/parse.rs"), "fuzz");
    }
}
