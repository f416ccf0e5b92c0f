//! The lists of refused flags: with reasons in docs/serve/compatibility.md, the names alone in the README.
//! Both are generated from the tables of flags.

use std::collections::BTreeMap;
use std::path::Path;

use server::flags::{self, Flag};

const BEGIN: &str = "<!-- refused flags: EVENKEEL_TEST_WRITE=1 cargo test -p server --test main gaps -->\n";
const END: &str = "<!-- end of the refused flags -->\n";
/// From this number on, sub-options with the same first word are abbreviated.
const TOGETHER_MIN: usize = 3;

/// Each reason with its flags, in the order of the help.
fn refused() -> Vec<(&'static str, Vec<String>)> {
    flags::TABLE.not_yet().into_iter().map(|(missing, flags)| (missing, names(&flags))).collect()
}

/// A line for each reason.
fn with_reasons() -> String {
    let line = |(missing, names): (&str, Vec<String>)| format!("* {}: {missing}.\n", names.join(", "));
    refused().into_iter().map(line).collect()
}

/// One sentence with all names, sub-options after the flags.
fn names_alone() -> String {
    let names: Vec<String> = refused().into_iter().flat_map(|(_, names)| names).collect();
    let (options, flags): (Vec<_>, Vec<_>) = names.into_iter().partition(|name| name.starts_with("`-o "));
    let all: Vec<String> = flags.into_iter().chain(options).collect();
    let all = all.join(", ");
    format!("The server refuses ([why](docs/serve/compatibility.md#refused-flags)) {all}.\n")
}

/// Names as on the command line, sub-options after the flags.
fn names(given: &[&'static Flag]) -> Vec<String> {
    let is_option = |flag: &&&Flag| flags::TABLE.option(flag.name).is_some();
    let mut names: Vec<String> =
        given.iter().filter(|flag| !is_option(flag)).map(|flag| format!("`{}`", flag.label())).collect();
    let beginning = |flag: &Flag| flag.name.split('_').next().unwrap_or_default();
    let mut beginnings: BTreeMap<&str, usize> = BTreeMap::new();
    given.iter().filter(is_option).for_each(|flag| *beginnings.entry(beginning(flag)).or_default() += 1);
    for flag in given.iter().filter(is_option) {
        let name = match beginnings[beginning(flag)] {
            TOGETHER_MIN.. => format!("`-o {}_…`", beginning(flag)),
            _ => format!("`-o {}`", flag.name),
        };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Checks that the part of a page between the markers is this list.
#[track_caller]
fn check(page: &str, list: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").join(page);
    let text = std::fs::read_to_string(&path).expect("the page is there");
    let (before, rest) = text.split_once(BEGIN).expect("the list begins with its marker");
    let (found, after) = rest.split_once(END).expect("the list ends with its marker");
    let wanted = format!("\n{list}\n");
    if std::env::var_os("EVENKEEL_TEST_WRITE").is_some() {
        std::fs::write(&path, [before, BEGIN, &wanted, END, after].concat())
            .expect("the page can be written");
        return;
    }
    assert_eq!(found, wanted, "write it anew: EVENKEEL_TEST_WRITE=1 cargo test -p server --test main gaps");
}

#[test]
fn compatibility_lists_every_refused_flag_with_its_reason() {
    check("docs/serve/compatibility.md", &with_reasons());
}

#[test]
fn the_readme_names_every_refused_flag() {
    check("README.md", &names_alone());
}
