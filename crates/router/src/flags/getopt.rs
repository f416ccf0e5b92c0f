//! Command lines beyond the table of flags, as mcrouter reads them: switches with a value (`--disable-tko-tracking=1`),
//! `--validate-config` without one, and names that are not known, which are a line and not an end.

use std::ffi::{OsStr, OsString};

use ::flags::{Effect, Kind};

use super::{RouteFlag, TABLE};

/// The words of a command line that the table can read, and lines for the operator about the others.
pub fn known(words: impl IntoIterator<Item = OsString>) -> (Vec<OsString>, Vec<String>) {
    let (mut kept, mut notes) = (Vec::new(), Vec::new());
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let named = named(&word);
        // The value of the flag may look like a flag.
        let mut next = named.takes_next.then(|| words.next()).flatten();
        match named.what {
            What::Keep if is_no_folder(&word, next.as_deref()) => {}
            What::Keep => {
                kept.push(word);
                kept.extend(next.take());
            }
            What::Replace(other) => kept.push(other),
            What::Drop => {}
            What::Note(note) => notes.push(note),
        }
    }
    (kept, notes)
}

/// `--stats-root=`: no folder, which is how mcrouter's command lines turn off what it would write.
fn is_no_folder(word: &OsStr, next: Option<&OsStr>) -> bool {
    let text = word.to_str().unwrap_or_default();
    text.ends_with("-root=") || text.ends_with("-root") && next.is_some_and(OsStr::is_empty)
}

/// What becomes of a word.
struct Named {
    what: What,
    /// The next word is its value.
    takes_next: bool,
}

enum What {
    Keep,
    Replace(OsString),
    Drop,
    Note(String),
}

impl From<What> for Named {
    fn from(what: What) -> Named {
        Named { what, takes_next: false }
    }
}

fn named(word: &OsStr) -> Named {
    let Some(text) = word.to_str() else { return What::Keep.into() };
    if let Some(rest) = text.strip_prefix("--").filter(|rest| !rest.is_empty()) {
        return match rest.split_once('=') {
            Some((name, value)) => long(name, Some(value)),
            None => long(rest, None),
        };
    }
    let Some(letter) = text.strip_prefix('-').and_then(|rest| rest.chars().next()) else {
        return What::Keep.into();
    };
    match TABLE.flags().find(|flag| flag.short == Some(letter)) {
        Some(flag) => {
            let takes_next = flag.kind.takes_value() && text.len() == 1 + letter.len_utf8();
            Named { what: effect(flag), takes_next }
        }
        None => unknown(format!("-{letter}")),
    }
}

fn long(name: &str, value: Option<&str>) -> Named {
    let beginning = || TABLE.flags().filter(|flag| flag.name.starts_with(name));
    let exact = TABLE.flags().find(|flag| flag.name == name);
    let Some(flag) = exact.or_else(|| beginning().next()) else { return unknown(format!("--{name}")) };
    if exact.is_none() && beginning().count() > 1 {
        // The table says which ones it may stand for.
        return What::Keep.into();
    }
    match (flag.kind, value) {
        (Kind::Switch, Some("0" | "false")) => What::Drop.into(),
        (Kind::Switch, Some("1" | "true")) if flag.effect == Effect::Works => {
            What::Replace(format!("--{}", flag.name).into()).into()
        }
        (Kind::OneOf(_), None) if flag.name == "validate-config" => {
            What::Replace("--validate-config=exit".into()).into()
        }
        (kind, value) => Named { what: effect(flag), takes_next: kind.takes_value() && value.is_none() },
    }
}

/// Without an effect, its value does not matter: it may be empty.
fn effect(flag: &RouteFlag) -> What {
    match flag.effect {
        Effect::Without(why) | Effect::Lacking(why) => {
            What::Note(format!("{} has no effect here: {why}", flag.label()))
        }
        Effect::Works | Effect::NotYet(_) => What::Keep,
    }
}

fn unknown(name: String) -> Named {
    What::Note(format!("unknown option `{name}`: ignored, as mcrouter does")).into()
}
