//! Commands in the project's pages, checked against the command line: a flag that was renamed fails here.
//!
//! The commands of `cargo xtask` are checked in its own crate. Commands that are also run: `tests/pages.rs`,
//! `tests/howto.rs`.

use std::ffi::OsString;
use std::path::Path;

use clap::error::ErrorKind;
use server::flags;
use server::options::Options;
use transcript::pages::{self, ShownProgram, Typed};

use super::command;

const PROGRAMS: [ShownProgram; 2] = [
    (
        "evenkeel",
        &[
            "up",
            "serve",
            "route",
            "replay",
            "control",
            "agent",
            "kube",
            "top",
            "load",
            "tune",
            "lab",
            "advise",
            "man",
            "completions",
        ],
    ),
    ("cargo", &["run", "test", "xtask", "build", "bench"]),
];

/// Placeholders in pages, each with a value that is accepted.
const PLACEHOLDERS: [(&str, &str); 11] = [
    ("$NAME", "c1"),
    ("$NUMBER", "1"),
    ("$ADDRESS", "10.0.0.1"),
    ("$ZONE", "a"),
    ("PID", "1"),
    ("$server", "1"),
    ("$small", "1"),
    ("$(pidof evenkeel)", "1"),
    ("{port}", "11211"),
    ("{pids}", "12,34"),
    ("$strategy", "none"),
];

/// Texts that begin like a command and are not one: the page, the words, the reason.
const NOT_TYPED: [(&str, &str, &str); 1] =
    [("docs/tune/watch.md", "evenkeel tune has set", "the description of a unit of systemd")];

#[test]
fn every_command_of_the_pages_is_accepted() {
    let pages = pages::all();
    let typed: Vec<Typed> =
        pages.iter().flat_map(|(page, text)| pages::commands(page, text, &PROGRAMS)).collect();
    let is_listed = |typed: &Typed| {
        NOT_TYPED.iter().any(|(page, text, _)| (*page, *text) == (typed.page.as_str(), typed.text().as_str()))
    };
    let refused: Vec<String> = typed
        .iter()
        .filter(|typed| !is_listed(typed))
        .filter_map(|typed| {
            let why = accept(typed).err()?;
            Some(format!("{}:{}: `{}`: {why}", typed.page, typed.line, typed.text()))
        })
        .collect();
    assert!(refused.is_empty(), "{}", refused.join("\n"));
    for (page, text, _) in NOT_TYPED {
        assert!(
            typed.iter().any(|typed| typed.page == page && typed.text() == text),
            "{page} has no `{text}`"
        );
    }
    // Without this, a page whose commands are not found would pass.
    let of = |page: &str| typed.iter().filter(|typed| typed.page == page).count();
    assert!(of("README.md") >= 7 && of("docs/load/guide.md") >= 9, "commands are missed");
}

/// The pages of one folder may be listed by a page of that folder instead.
#[test]
fn every_page_is_listed() {
    let pages = pages::all();
    let text = |name: &str| &pages.iter().find(|(page, _)| page == name).expect(name).1;
    let is_listed = |page: &str| {
        let (folder, file) = page.rsplit_once('/').unwrap_or(("", page));
        let in_folder = format!("{folder}/README.md");
        pages.iter().any(|(page, _)| *page == in_folder) && text(&in_folder).contains(&format!("]({file}"))
            || text("docs/README.md").contains(&format!("]({}", page.trim_start_matches("docs/")))
    };
    let unlisted: Vec<&str> = pages
        .iter()
        .map(|(page, _)| page.as_str())
        .filter(|page| page.starts_with("docs/") && !page.starts_with("docs/decisions/"))
        .filter(|page| *page != "docs/README.md" && !is_listed(page))
        .collect();
    assert!(unlisted.is_empty(), "docs/README.md does not list {unlisted:?}");
}

/// Checks that the command line accepts these words.
fn accept(typed: &Typed) -> Result<(), String> {
    match typed.words[0].as_str() {
        "cargo" => of_cargo(&typed.words),
        _ => ours(&typed.words, typed.is_mentioned),
    }
}

/// A command of the binary. One that is only mentioned may lack required arguments, and words that `…` stands for.
fn ours(words: &[String], is_mentioned: bool) -> Result<(), String> {
    let is_left_out = |word: &&String| is_mentioned && *word == "…";
    let words: Vec<String> =
        words.iter().filter(|word| !is_left_out(word)).map(|word| filled_in(word)).collect();
    let mut words: Vec<OsString> = words.into_iter().map(Into::into).collect();
    let last = words.last().and_then(|word| word.to_str()).map(str::to_owned);
    if words.get(1).is_some_and(|verb| verb == "route") {
        words = crate::route::words(&words).0;
    }
    let matches = match command(80).try_get_matches_from(&words) {
        Ok(matches) => matches,
        Err(error) if !error.use_stderr() => return Ok(()), // --help
        Err(error) if is_mentioned && is_lack(error.kind(), last.as_ref()) => return Ok(()),
        Err(error) => return Err(error.to_string().lines().next().unwrap_or_default().to_owned()),
    };
    let checked = match matches.subcommand() {
        Some(("serve", matches)) => {
            flags::TABLE.read(matches).and_then(|low| Options::new(low, &|_| Ok(String::new()))).map(drop)
        }
        // One that is mentioned may lack a port.
        Some(("route", matches)) if !is_mentioned => {
            router::flags::TABLE.read(matches).and_then(|options| options.check(1)).map(drop)
        }
        // For all other verbs, clap checks every value, too.
        _ => Ok(()),
    };
    checked.map_err(|error| error.to_string())
}

/// Whether the only error is a missing argument after this last word.
fn is_lack(kind: ErrorKind, last: Option<&String>) -> bool {
    use ErrorKind::{
        DisplayHelpOnMissingArgumentOrSubcommand, InvalidValue, MissingRequiredArgument, MissingSubcommand,
    };
    match kind {
        DisplayHelpOnMissingArgumentOrSubcommand | MissingRequiredArgument | MissingSubcommand => true,
        InvalidValue => last.is_some_and(|word| word.starts_with("--")),
        _ => false,
    }
}

fn filled_in(word: &str) -> String {
    PLACEHOLDERS.iter().fold(word.to_owned(), |word, (placeholder, value)| word.replace(placeholder, value))
}

/// A command of cargo: its packages, tests and examples must exist, and the command line of `cargo run` must be
/// accepted.
fn of_cargo(words: &[String]) -> Result<(), String> {
    let (before, behind) = match words.iter().position(|word| word == "--") {
        Some(at) => (&words[..at], &words[at + 1..]),
        None => (words, &[][..]),
    };
    let value = |names: [&str; 2]| {
        before.windows(2).find(|pair| names.contains(&pair[0].as_str())).map(|pair| pair[1].as_str())
    };
    let package = value(["-p", "--package"]);
    let folder = package.map(folder_of).unwrap_or_default();
    for (flag, place) in [("--test", "tests"), ("--example", "examples")] {
        if let (Some(name), Some(folder)) = (value([flag, flag]), &folder) {
            let place = folder.join(place).join(name);
            if !place.with_extension("rs").exists() && !place.join("main.rs").exists() {
                return Err(format!("there is no {}", place.display()));
            }
        }
    }
    match (words[1].as_str(), package, &folder) {
        (_, Some(package), None) => Err(format!("there is no package {package}")),
        ("run", None, _) if behind.is_empty() => Err("cargo run without a verb".to_owned()),
        ("run", None, _) => ours(&[&["evenkeel".to_owned()], behind].concat(), false),
        _ => Ok(()),
    }
}

/// The folder of a package of this workspace.
fn folder_of(package: &str) -> Option<std::path::PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    ["crates/base", "crates/cache", "crates/fleet", "crates/host", "crates/measure", "crates", "dev"]
        .map(|place| root.join(place).join(package))
        .into_iter()
        .find(|folder| folder.join("Cargo.toml").is_file())
}
