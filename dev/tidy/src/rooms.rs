//! Rooms: the modules of one folder below `src`, each a file or a folder, or both under one name.
//!
//! Roots and tests are no rooms.

use super::exceptions::{Exception, ROOMS, compare};
use std::collections::{BTreeMap, BTreeSet};

/// A list of more names is not read, but searched.
const ROOMS_MAX: usize = 15;

/// Files that are the folder's own.
const ROOTS: [&str; 3] = ["lib", "main", "mod"];

/// Violations in the files of the workspace, given by path and text.
pub(crate) fn check(files: &[(String, String)]) -> Vec<String> {
    check_folders(files.iter().map(|(path, _)| path.as_str()), &ROOMS)
}

fn check_folders<'p>(paths: impl Iterator<Item = &'p str>, exceptions: &[Exception]) -> Vec<String> {
    let mut folders: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for path in paths {
        let Some(source) = path.find("/src/").map(|at| at + "/src".len()) else { continue };
        let slashes = path.match_indices('/').map(|(at, _)| at).filter(|at| *at >= source);
        for at in slashes {
            let room = path[at + 1..].split('/').next().unwrap_or_default().trim_end_matches(".rs");
            if !ROOTS.contains(&room) && !is_of_tests(room) {
                folders.entry(&path[..at]).or_default().insert(room);
            }
        }
    }
    let found = folders.into_iter().map(|(folder, rooms)| (folder.to_owned(), rooms.len()));
    compare(found, "rooms", ROOMS_MAX, "group those that belong together", exceptions)
}

fn is_of_tests(room: &str) -> bool {
    room == "tests" || room.ends_with("_tests")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_rooms(folder: &str, rooms: &[&str], expected: &[&str]) {
        let others = (0..13).map(|at| format!("{folder}/r{at}.rs"));
        let paths: Vec<String> = others.chain(rooms.iter().map(|room| format!("{folder}/{room}"))).collect();
        assert_eq!(check_folders(paths.iter().map(String::as_str), &[]), expected);
    }

    #[test]
    fn a_file_and_its_folder_are_one_room() {
        let three = ["a.rs", "b/c.rs", "d.rs"];
        let refused = "16 rooms, more than 15; group those that belong together";
        check_rooms("crates/x/src", &three, &[&format!("crates/x/src: {refused}")]);
        check_rooms("crates/x/src/y/z", &three, &[&format!("crates/x/src/y/z: {refused}")]);
        check_rooms("crates/x/src", &["a.rs", "a/b.rs", "a/c.rs", "d.rs"], &[]);
    }

    #[test]
    fn roots_and_tests_are_no_rooms() {
        let none = ["lib.rs", "main.rs", "mod.rs", "tests.rs", "a_tests.rs", "tests/a.rs", "r1/tests.rs"];
        check_rooms("crates/x/src", &none, &[]);
        check_rooms("crates/x/tests", &["a.rs", "b.rs", "c.rs"], &[]);
    }
}
