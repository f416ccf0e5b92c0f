//! Names that a crate's root passes on and that nobody outside the crate uses.
//!
//! Such a name looks like a promise, and is none. Tests and examples of the crate, beside its `src`, are outside of it.

use super::code::{tokens, without_tests};
use super::exceptions::{REEXPORTS, compare};
use super::modules::Modules;
use std::collections::{BTreeMap, BTreeSet};

/// As many stay in the whole tree: most of them types of what a used function takes or returns, which nobody has to
/// write down.
const UNUSED_MAX: usize = 20;

/// Violations in the files of the workspace, given by path and text.
pub(crate) fn check(files: &[(String, String)]) -> Vec<String> {
    let unused = unused(files);
    let lists = unused.iter().filter(|(_, names)| !names.is_empty());
    let lists: Vec<String> =
        lists.map(|(package, names)| format!("{package}: {}", names.join(" "))).collect();
    let found = [("the whole tree".to_owned(), unused.values().map(Vec::len).sum())];
    let remedy = format!("keep them inside: {}", lists.join("; "));
    compare(found, "names that roots pass on and nobody else uses", UNUSED_MAX, &remedy, &REEXPORTS)
}

/// By package the names that only its own files have.
fn unused<'f>(files: &'f [(String, String)]) -> BTreeMap<&'f str, Vec<&'f str>> {
    let words: Vec<(&str, BTreeSet<&str>)> =
        files.iter().map(|(path, text)| (path.as_str(), tokens(text).into_iter().collect())).collect();
    let roots = files.iter().filter_map(|(path, text)| Some((path.strip_suffix("/src/lib.rs")?, text)));
    let unused_of = |(package, text): (&'f str, &'f String)| {
        let inside = format!("{package}/src/");
        let outside: Vec<&BTreeSet<&str>> =
            words.iter().filter(|(path, _)| !path.starts_with(&inside)).map(|(_, words)| words).collect();
        let is_used = |name: &&str| outside.iter().any(|words| words.contains(name));
        (package, passed_on(text).into_iter().filter(|name| !is_used(name)).collect())
    };
    roots.map(unused_of).collect()
}

/// The names that a root passes on from its own modules.
fn passed_on(root: &str) -> BTreeSet<&str> {
    let kept = without_tests(&tokens(root));
    Modules::passed_on(&kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_unused(root: &str, others: &[(&str, &str)], expected: &[&str]) {
        let files: Vec<(String, String)> = [("crates/x/src/lib.rs", root)]
            .into_iter()
            .chain(others.iter().copied())
            .map(|(path, text)| (path.to_owned(), text.to_owned()))
            .collect();
        assert_eq!(unused(&files)["crates/x"], expected);
    }

    #[test]
    fn names_that_nobody_outside_has_are_unused() {
        let root =
            "mod a; mod b; pub use a::{A, b::{B, c as C}}; pub use b::D; pub(crate) use b::E; use b::F;";
        check_unused(root, &[("crates/x/src/a.rs", "A B C D")], &["A", "B", "C", "D"]);
        check_unused(root, &[("crates/y/src/a.rs", "x::A; // B\n\"C\"")], &["B", "C", "D"]);
        check_unused(root, &[("crates/x/tests/a.rs", "use x::{A, B, D};")], &["C"]);
    }

    #[test]
    fn names_of_other_crates_do_not_count() {
        check_unused("pub use rustls; mod a; pub use rustls::server::Config; pub use a::*;", &[], &[]);
    }
}
