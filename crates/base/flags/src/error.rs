//! Errors in command lines. The user can correct them, so the process ends with status 64.

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::nearest::nearest;
use crate::table::{Flag, Table, Target};
use crate::value::Expected;

/// An error in a command line.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not an error: help or the version was requested, and this is its text.
    #[error("{0}")]
    Asked(clap::Error),
    /// A flag that does not exist.
    #[error("unknown flag `{flag}`")]
    UnknownFlag {
        /// As typed.
        flag: String,
        /// The most similar name.
        nearest: Option<String>,
        /// The command that lists all.
        help: String,
    },
    /// A word where none belongs.
    #[error("unexpected argument `{argument}`")]
    Unexpected {
        /// As typed.
        argument: String,
        /// What is typed for a list of all flags.
        help: String,
    },
    /// The beginning of several flags.
    #[error("`{flag}` is short for {}", .names.join(" and for "))]
    Ambiguous {
        /// As typed.
        flag: String,
        /// The flags that it may stand for.
        names: Vec<String>,
    },
    /// A sub-option that does not exist.
    #[error("{flag} {name}: unknown option")]
    UnknownOption {
        /// The flag that takes the sub-options.
        flag: String,
        /// As typed.
        name: String,
        /// The most similar name.
        nearest: Option<&'static str>,
        /// The command that lists all.
        help: String,
    },
    /// A value that the flag does not accept.
    #[error("{flag}: expected {expected}, found {found}")]
    Value {
        /// The flag or sub-option.
        flag: String,
        /// What it accepts.
        expected: String,
        /// The value as typed, in backticks, or `nothing`.
        found: String,
    },
    /// Flags that contradict each other.
    #[error("{0}")]
    Together(String),
    /// A flag for a feature that is not implemented yet.
    #[error("{flag}: not supported yet")]
    NotYet {
        /// The flag or sub-option.
        flag: String,
        /// What is missing.
        missing: &'static str,
    },
    /// A file that a flag names cannot be used.
    #[error("{flag} {path}: {problem}")]
    File {
        /// The flag.
        flag: &'static str,
        /// The file.
        path: String,
        /// The error.
        problem: String,
    },
    /// Anything else that clap found.
    #[error("{0}")]
    Other(String),
}

impl Error {
    /// A hint that helps to correct it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::UnknownFlag { nearest: Some(nearest), .. } => Some(format!("did you mean `{nearest}`?")),
            Self::UnknownFlag { help, .. } | Self::Unexpected { help, .. } => {
                Some(format!("`{help}` lists the flags"))
            }
            Self::UnknownOption { nearest: Some(nearest), .. } => Some(format!("did you mean `{nearest}`?")),
            Self::UnknownOption { flag, help, .. } => Some(format!("`{help}` lists the options of {flag}")),
            Self::NotYet { missing, .. } => Some((*missing).to_owned()),
            _ => None,
        }
    }

    pub(crate) fn value(flag: impl Into<String>, expected: &Expected, found: Option<&str>) -> Self {
        Self::Value { flag: flag.into(), expected: expected.0.clone(), found: quoted(found) }
    }
}

fn quoted(found: Option<&str>) -> String {
    found.map_or("nothing".to_owned(), |found| format!("`{found}`"))
}

impl<T: Target> Table<T> {
    pub(crate) fn unknown_option(&self, name: &str) -> Error {
        let nearest = nearest(name, self.options().map(|option| option.name));
        Error::UnknownOption {
            flag: self.extended_label(),
            name: name.to_owned(),
            nearest,
            help: self.long_help(),
        }
    }

    /// Rewords clap's error: clap's own text comes with usage lines that hide the important sentence.
    pub fn refusal(&self, error: clap::Error) -> Error {
        let text = |kind| match error.get(kind) {
            Some(ContextValue::String(text)) => text.clone(),
            _ => String::new(),
        };
        let flag = self.shown(&text(ContextKind::InvalidArg));
        let found = text(ContextKind::InvalidValue);
        match error.kind() {
            _ if !error.use_stderr() => Error::Asked(error),
            ErrorKind::UnknownArgument if !flag.starts_with('-') => {
                Error::Unexpected { argument: flag, help: self.long_help() }
            }
            ErrorKind::UnknownArgument => match self.starting_with(&flag) {
                names if names.len() > 1 => Error::Ambiguous { flag, names },
                _ => Error::UnknownFlag { nearest: self.nearest_flag(&flag), flag, help: self.long_help() },
            },
            ErrorKind::InvalidValue => match (error.get(ContextKind::ValidValue), found) {
                (Some(ContextValue::Strings(words)), found) if !words.is_empty() && !found.is_empty() => {
                    let expected = format!("one of {}", words.join(", "));
                    Error::Value { flag, expected, found: quoted(Some(&found)) }
                }
                _ => Error::Value { flag, expected: "a value".to_owned(), found: quoted(None) },
            },
            ErrorKind::TooManyValues => {
                Error::Value { flag, expected: "no value".to_owned(), found: quoted(Some(&found)) }
            }
            _ => Error::Other(first_line(&error)),
        }
    }

    /// clap names a flag with its placeholder, `--port <num>`; this names it as other messages do.
    fn shown(&self, shown: &str) -> String {
        let bare = shown.split([' ', '=']).next().unwrap_or_default();
        let flag = self.flags().find(|flag| bare.strip_prefix("--") == Some(flag.name));
        flag.map_or(bare.to_owned(), Flag::label)
    }

    /// The long names with this prefix.
    fn starting_with(&self, typed: &str) -> Vec<String> {
        let Some(beginning) = typed.strip_prefix("--") else { return Vec::new() };
        let names = self.flags().map(|flag| flag.name).filter(|name| name.starts_with(beginning));
        names.map(|name| format!("--{name}")).collect()
    }

    fn nearest_flag(&self, typed: &str) -> Option<String> {
        let names = self.flags().map(|flag| flag.name);
        nearest(typed.strip_prefix("--")?, names).map(|name| format!("--{name}"))
    }
}

fn first_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}
