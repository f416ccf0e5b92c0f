//! Programs that cargo makes of the files below `tests`, and files there that are in none of them.
//!
//! A crate has one, `tests/main.rs`, whose modules are the other files. Each more is linked by itself, and is for tests
//! that change or count something of their whole process.

use std::collections::{BTreeMap, BTreeSet};

/// In the manifest of a package that lists its programs. Otherwise cargo takes each file for one.
const LISTED: &str = "autotests = false";

/// Of all crates together.
const PROGRAMS_MAX: usize = 25;

/// Violations in the manifests and the Rust files of the workspace, given by path and text.
pub(crate) fn check(manifests: &[(String, String)], files: &[(String, String)]) -> Vec<String> {
    let (mut count, mut violations) = (0, Vec::new());
    for (manifest, text) in manifests {
        let Some(folder) = manifest.strip_suffix("Cargo.toml") else { continue };
        let files: BTreeMap<&str, &str> = files
            .iter()
            .filter_map(|(path, text)| Some((path.strip_prefix(folder)?, text.as_str())))
            .collect();
        let files = files.into_iter().filter(|(path, _)| path.starts_with("tests/")).collect();
        let roots = roots(text, &files);
        count += roots.len();
        if !text.contains(LISTED) {
            continue;
        }
        violations
            .extend(orphans(&roots, &files).map(|path| format!("{folder}{path}: no test has this file")));
    }
    if count > PROGRAMS_MAX {
        violations.push(format!(
            "{count} programs of tests, more than {PROGRAMS_MAX}: make them modules of their crate's `tests/main.rs`"
        ));
    }
    violations
}

/// The files that programs begin with.
fn roots<'f>(manifest: &str, files: &BTreeMap<&'f str, &'f str>) -> BTreeSet<&'f str> {
    let is_root = |path: &str| match manifest.contains(LISTED) {
        true => manifest.contains(&format!("path = \"{path}\"")),
        false => {
            path.matches('/').count() == 1 || path.ends_with("/main.rs") && path.matches('/').count() == 2
        }
    };
    files.keys().copied().filter(|path| is_root(path)).collect()
}

/// Files that neither begin a program nor are declared by the file above them.
fn orphans<'f>(roots: &BTreeSet<&str>, files: &BTreeMap<&'f str, &'f str>) -> impl Iterator<Item = &'f str> {
    files.keys().copied().filter(|path| {
        let (folder, name) = path.trim_end_matches(".rs").rsplit_once('/').unwrap_or(("", path));
        let (folder, name) =
            if name == "mod" { folder.rsplit_once('/').unwrap_or(("", folder)) } else { (folder, name) };
        let above = [format!("{folder}.rs"), format!("{folder}/mod.rs")];
        let beside = roots.iter().filter(|root| root.rsplit_once('/').is_some_and(|(of, _)| of == folder));
        let declares =
            |text: &&&str| text.lines().any(|line| line.trim_end().ends_with(&format!("mod {name};")));
        let texts =
            above.iter().map(String::as_str).chain(beside.copied()).filter_map(|path| files.get(path));
        !roots.contains(path) && texts.filter(declares).count() == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_files(manifest: &str, files: &[(&str, &str)], expected: &[&str]) {
        let owned = |path: &str, text: &str| (format!("c/{path}"), text.to_owned());
        let files: Vec<_> = files.iter().map(|(path, text)| owned(path, text)).collect();
        assert_eq!(check(&[owned("Cargo.toml", manifest)], &files), expected);
    }

    const TWO: &str =
        "autotests = false\n[[test]]\npath = \"tests/main.rs\"\n[[test]]\npath = \"tests/alone.rs\"";

    #[test]
    fn a_file_that_no_test_has_is_found() {
        let files = [
            ("tests/main.rs", "mod a;\npub(crate) mod d;"),
            ("tests/alone.rs", ""),
            ("tests/a.rs", "mod b;"),
            ("tests/a/b.rs", ""),
            ("tests/a/c.rs", ""),
            ("tests/d/mod.rs", ""),
            ("tests/e.rs", ""),
            ("src/f.rs", ""),
        ];
        let expected = ["c/tests/a/c.rs: no test has this file", "c/tests/e.rs: no test has this file"];
        check_files(TWO, &files, &expected);
        check_files("", &[("tests/e.rs", ""), ("tests/f/main.rs", "mod g;"), ("tests/f/g.rs", "")], &[]);
    }

    #[test]
    fn too_many_programs_are_refused() {
        let paths: Vec<String> = (0..26).map(|at| format!("tests/t{at}.rs")).collect();
        let files: Vec<(&str, &str)> = paths.iter().map(|path| (path.as_str(), "")).collect();
        check_files("", &files[..25], &[]);
        let refused =
            "26 programs of tests, more than 25: make them modules of their crate's `tests/main.rs`";
        check_files("", &files, &[refused]);
    }
}
