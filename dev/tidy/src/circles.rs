//! Circles of files: those of one crate that depend on each other, directly or through others.
//!
//! To understand one file of a circle, one has to read all of it. Two or three may belong together; a larger circle
//! has no structure.

use super::modules::{ModulePath, Modules, packages_of};
use std::collections::{BTreeMap, BTreeSet};

/// At most this many files may be in one circle.
pub(super) const CIRCLE_MAX: usize = 3;

/// Violations in the files of the workspace, given by path and text.
pub(crate) fn check(files: &[(String, String)]) -> Vec<String> {
    packages_of(files).into_iter().flat_map(|(package, files)| check_package(package, files)).collect()
}

fn check_package(package: &str, files: Vec<(&str, &str)>) -> Vec<String> {
    let violation = |circle: &BTreeSet<ModulePath>| {
        let names: Vec<String> = circle.iter().map(name).collect();
        format!(
            "{package} has {} files that depend on each other in a circle, more than {CIRCLE_MAX}: {}",
            names.len(),
            names.join(", ")
        )
    };
    let modules = Modules::new(files);
    let circles = circles(&modules.dependencies());
    circles.iter().filter(|circle| circle.len() > CIRCLE_MAX).map(violation).collect()
}

fn name(path: &ModulePath) -> String {
    if path.is_empty() { "the root".to_owned() } else { path.join("::") }
}

/// The circles among files that depend on others, the largest first.
pub(super) fn circles(
    dependencies: &BTreeMap<&ModulePath, BTreeSet<ModulePath>>,
) -> Vec<BTreeSet<ModulePath>> {
    let reached: BTreeMap<&ModulePath, BTreeSet<&ModulePath>> =
        dependencies.keys().map(|from| (*from, reached_from(from, dependencies))).collect();
    let mut circles: Vec<BTreeSet<ModulePath>> = Vec::new();
    for (path, reaches) in &reached {
        if !circles.iter().any(|circle| circle.contains(*path)) {
            let with = reaches.iter().filter(|other| reached[*other].contains(path));
            circles.push(with.map(|path| (*path).clone()).collect());
        }
    }
    circles.retain(|circle| circle.len() > 1);
    circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    circles
}

/// The files that a file depends on, directly or through others; itself only in a circle.
fn reached_from<'m>(
    from: &ModulePath,
    dependencies: &'m BTreeMap<&ModulePath, BTreeSet<ModulePath>>,
) -> BTreeSet<&'m ModulePath> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&ModulePath> = dependencies[from].iter().collect();
    while let Some(path) = open.pop() {
        if reached.insert(path) {
            open.extend(&dependencies[path]);
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks modules a to e, of which each depends on those after its name.
    #[track_caller]
    fn check_edges(edges: &str, expected: &[&str]) {
        let mut files = vec![("lib.rs".to_owned(), "mod a; mod b; mod c; mod d; mod e;".to_owned())];
        for words in edges.split(", ") {
            let (from, to) = words.split_once(' ').unwrap_or((words, ""));
            let uses = to.split_whitespace().map(|to| format!("use crate::{to}::{};", to.to_uppercase()));
            let text = uses.chain([format!("pub struct {};", from.to_uppercase())]).collect();
            files.push((format!("{from}.rs"), text));
        }
        let files = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        let violations = check_package("crates/x", files);
        let circles: Vec<_> =
            violations.iter().map(|line| line.rsplit_once(": ").map_or("", |(_, end)| end)).collect();
        assert_eq!(circles, expected, "{violations:?}");
    }

    #[test]
    fn four_files_in_a_circle_are_too_many() {
        check_edges("a b, b c, c a d, d e, e", &[]);
        check_edges("a b c d e, b c d e, c d e, d e, e", &[]);
        check_edges("a b, b c, c d, d a e, e", &["a, b, c, d"]);
        check_edges("a b, b c, c d, d e, e a", &["a, b, c, d, e"]);
    }

    #[test]
    fn files_of_different_packages_are_separate() {
        let declared = "mod a; mod b; mod c; mod d;";
        let files = [
            ("crates/x/src/lib.rs", declared),
            ("crates/x/src/a.rs", "use crate::b::B;"),
            ("crates/x/src/b.rs", ""),
            ("crates/x/src/c.rs", "use crate::d::D;"),
            ("crates/x/src/d.rs", ""),
            ("crates/y/src/lib.rs", declared),
            ("crates/y/src/a.rs", ""),
            ("crates/y/src/b.rs", "use crate::c::C;"),
            ("crates/y/src/c.rs", ""),
            ("crates/y/src/d.rs", "use crate::a::A;"),
        ];
        let files = files.map(|(path, text)| (path.to_owned(), text.to_owned()));
        assert_eq!(check(&files), Vec::<String>::new());
    }
}
