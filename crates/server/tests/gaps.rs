//! The README's list of what the server refuses: written from the tables of flags, so that it cannot go stale.

use std::collections::BTreeMap;
use std::path::Path;

use server::flags::{self, Flag, extended, help};
use server::options::Options;

const BEGIN: &str = "<!-- refused flags: EVENKEEL_TEST_WRITE=1 cargo test -p server --test gaps -->\n";
const END: &str = "<!-- end of the refused flags -->\n";
/// So many sub-options with the same beginning are named by it.
const TOGETHER_MIN: usize = 3;

/// A line for each reason, in the order of the help.
fn written() -> String {
    let mut lines = String::new();
    for (missing, flags) in help::not_yet() {
        lines += &line(missing, &names(&flags));
    }
    let binary = flags::parse(["-B", "binary"]).and_then(|low| Options::new(low, &|_| unreachable!()));
    if let Err(flags::Error::NotYet { flag, missing }) = binary {
        lines += &line(missing, &[format!("`{flag}`")]);
    }
    lines
}

fn line(missing: &str, names: &[String]) -> String {
    format!("* {}: {missing}.\n", names.join(", "))
}

/// As they are typed, sub-options behind the flags.
fn names(given: &[&'static Flag]) -> Vec<String> {
    let is_option = |flag: &&&Flag| extended::find(flag.name).is_some();
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

#[test]
fn the_readme_lists_what_the_server_refuses_and_nothing_else() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let page = std::fs::read_to_string(&path).expect("the README is there");
    let (before, rest) = page.split_once(BEGIN).expect("the list begins with its marker");
    let (list, after) = rest.split_once(END).expect("the list ends with its marker");
    let wanted = format!("\n{}\n", written());
    if std::env::var_os("EVENKEEL_TEST_WRITE").is_some() {
        std::fs::write(&path, [before, BEGIN, &wanted, END, after].concat())
            .expect("the README can be written");
        return;
    }
    assert_eq!(list, wanted, "write it anew: EVENKEEL_TEST_WRITE=1 cargo test -p server --test gaps");
}
