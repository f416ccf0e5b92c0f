//! Command lines beyond the table of flags, as mcrouter reads them: switches with a value (`--disable-tko-tracking=1`),
//! `--validate-config` without one, and names that are not known, which are a line and not an end.
//!
//! Whether an unknown option has a value is not known either: a word behind it that does not begin with `-` is taken for it.
//! No other argument can stand there, because the router takes none that is no flag.

use std::ffi::{OsStr, OsString};

use ::flags::{Effect, Kind};

use super::{RouteFlag, TABLE};

/// The words of a command line that the table can read, and lines for the operator about the others.
pub fn known(words: impl IntoIterator<Item = OsString>) -> (Vec<OsString>, Vec<String>) {
    let (mut kept, mut notes) = (Vec::new(), Vec::new());
    let mut words = words.into_iter().peekable();
    while let Some(word) = words.next() {
        let named = named(&word);
        let next = match named.next {
            Next::Other => None,
            // The value of the flag may look like a flag.
            Next::Value => words.next(),
            Next::PerhapsValue => words.next_if(|next| !next.as_encoded_bytes().starts_with(b"-")),
        };
        match named.what {
            What::Keep if is_no_folder(&word, next.as_deref()) => {}
            What::Keep => {
                kept.push(word);
                kept.extend(next);
            }
            What::Replace(other) => kept.push(other),
            What::Drop => {}
            What::Note(note) => notes.push(note),
            What::Unknown(name) => {
                let value = next.map(|value| format!(" with its value `{}`", value.display()));
                let value = value.unwrap_or_default();
                notes.push(format!("unknown option `{name}`: ignored{value}, as mcrouter does"));
            }
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
    next: Next,
}

enum What {
    Keep,
    Replace(OsString),
    Drop,
    Note(String),
    Unknown(String),
}

/// What the next word is.
enum Next {
    /// A word of its own.
    Other,
    /// The value of this one.
    Value,
    /// Its value, unless it looks like a flag.
    PerhapsValue,
}

impl From<What> for Named {
    fn from(what: What) -> Named {
        Named { what, next: Next::Other }
    }
}

impl Named {
    fn new(what: What, takes_next: bool) -> Named {
        Named { what, next: if takes_next { Next::Value } else { Next::Other } }
    }

    fn unknown(name: String, takes_next: bool) -> Named {
        Named { what: What::Unknown(name), next: if takes_next { Next::PerhapsValue } else { Next::Other } }
    }
}

fn named(word: &OsStr) -> Named {
    let Some(text) = word.to_str() else { return What::Keep.into() };
    if let Some(rest) = text.strip_prefix("--") {
        return match rest.split_once('=') {
            _ if rest.is_empty() => What::Keep.into(),
            Some((name, value)) => long(name, Some(value)),
            None => long(rest, None),
        };
    }
    let Some(letter) = text.strip_prefix('-').and_then(|rest| rest.chars().next()) else {
        return What::Keep.into();
    };
    let is_alone = text.len() == 1 + letter.len_utf8();
    match TABLE.flags().find(|flag| flag.short == Some(letter)) {
        Some(flag) => Named::new(effect(flag), flag.kind.takes_value() && is_alone),
        None => Named::unknown(format!("-{letter}"), is_alone),
    }
}

fn long(name: &str, value: Option<&str>) -> Named {
    let beginning = || TABLE.flags().filter(|flag| flag.name.starts_with(name));
    let exact = TABLE.flags().find(|flag| flag.name == name);
    let Some(flag) = exact.or_else(|| beginning().next()) else {
        return Named::unknown(format!("--{name}"), value.is_none());
    };
    if exact.is_none() && beginning().count() > 1 {
        // The table says which ones it may stand for.
        return What::Keep.into();
    }
    match (flag.kind, value.map(str::to_ascii_lowercase).as_deref()) {
        (Kind::Switch, Some("0" | "f" | "false" | "n" | "no" | "off")) => What::Drop.into(),
        (Kind::Switch, Some("1" | "t" | "true" | "y" | "yes" | "on")) if flag.effect == Effect::Works => {
            What::Replace(format!("--{}", flag.name).into()).into()
        }
        (Kind::OneOf(_), None) if flag.name == "validate-config" => {
            What::Replace("--validate-config=exit".into()).into()
        }
        (kind, value) => Named::new(effect(flag), kind.takes_value() && value.is_none()),
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
