//! A conversation for each route, in files: `testdata/conversations/ROUTE.txt`, or `ROUTE-DETAIL.txt`.
//!
//! The first line says what it shows, behind `# `. A route in JSON follows, in which the pools A to D have one server each, a to
//! d; then an empty line, and the script, in the notation of the scripted conversations.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::config;
use super::play;
use crate::config::routes::route_names;

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/conversations");
    let entries = fs::read_dir(&folder).expect("the folder of conversations");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("a file").path()).collect();
    files.sort();
    files
}

/// The configuration and the script of a conversation.
fn read(file: &Path) -> (String, String) {
    let text = fs::read_to_string(file).expect("text");
    let (head, script) = text.split_once("\n\n").expect("an empty line behind the route");
    let (comment, route) = head.split_once('\n').expect("a comment and a route");
    assert!(comment.starts_with("# "), "{comment}");
    (config(&route.replace('\n', " ")), script.to_owned())
}

/// The configurations of all conversations, which have all types of routes.
pub(in crate::worker::tests) fn configs() -> Vec<String> {
    files().iter().map(|file| read(file).0).collect()
}

#[test]
fn every_route_does_what_its_conversation_says() {
    for file in files() {
        eprintln!("{}", file.display());
        let (config, script) = read(&file);
        play(&config, &script);
    }
}

#[test]
fn every_route_has_a_line_in_the_guide() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/route/guide.md");
    let guide = fs::read_to_string(guide).expect("the guide");
    let missing: Vec<&str> = route_names().into_iter().filter(|name| !guide.contains(name)).collect();
    assert!(missing.is_empty(), "docs/route/guide.md does not name {missing:?}");
}

#[test]
fn every_route_has_a_conversation() {
    let names = files().into_iter().map(|file| {
        let name = file.file_stem().expect("a name").to_string_lossy().into_owned();
        name.split('-').next().expect("a first word").to_owned()
    });
    let names: BTreeSet<String> = names.collect();
    // A pool is no route of its own.
    let expected: BTreeSet<String> =
        route_names().into_iter().filter(|name| *name != "Pool").map(str::to_owned).collect();
    let of = |names: &BTreeSet<String>, others: &BTreeSet<String>| -> Vec<String> {
        names.difference(others).cloned().collect()
    };
    assert_eq!(of(&expected, &names), [""; 0], "have no file testdata/conversations/TYPE.txt");
    assert_eq!(
        of(&names, &expected),
        [""; 0],
        "are in testdata/conversations, and no row of routes.rs names them"
    );
}
