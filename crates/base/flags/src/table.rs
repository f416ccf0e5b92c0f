//! The table: sections of flags and of sub-options.

use crate::value::{Given, Kind};

/// All flags of a server, which store their values in a `T`.
#[derive(Debug)]
pub struct Table<T: 'static> {
    /// The verb of `evenkeel` that accepts them.
    pub verb: &'static str,
    /// A line about the verb.
    pub about: &'static str,
    /// In the order of the help.
    pub sections: &'static [Section<T>],
    /// The long name of the flag that takes a list of sub-options, if there is one.
    pub extended: Option<&'static str>,
}

/// Flags and sub-options that belong together.
#[derive(Debug)]
pub struct Section<T: 'static> {
    /// The title in the help.
    pub title: &'static str,
    /// In the order of the help.
    pub flags: &'static [Flag<T>],
    /// Likewise.
    pub options: &'static [Flag<T>],
}

/// One flag, or one sub-option.
#[derive(Debug)]
pub struct Flag<T: 'static> {
    /// The letter of the flag; sub-options and most flags of our own have none.
    pub short: Option<char>,
    /// The long name, or the name of the sub-option.
    pub name: &'static str,
    /// The placeholder of its value in the help; empty if it takes none.
    pub value: &'static str,
    /// The texts that it accepts.
    pub kind: Kind,
    /// The value if it is not given, as on a command line.
    pub default: Option<&'static str>,
    /// One line for `-h`.
    pub doc: &'static str,
    /// Paragraphs for `--help` and the man page, after `doc`; may be empty.
    pub details: &'static str,
    /// Whether it does anything.
    pub effect: Effect,
    /// Stores its value.
    pub set: Set<T>,
}

/// Stores a value that the flag's kind has checked.
pub type Set<T> = fn(&mut T, Given<'_>);

/// The values of a command line. The default is that of an empty command line.
pub trait Target: Default + 'static {
    /// Whether values are taken as the other program takes them: it reads a number up to the first other character, and ignores what
    /// follows options without a value, and words where no flag is. Start lines that have been in use for years rely on it.
    const LENIENT: bool = false;

    /// Keeps a line for the operator: a flag has no effect, and why.
    fn note(&mut self, note: String);

    /// Keeps a line that the operator should see without having asked for it.
    fn warn(&mut self, line: String) {
        self.note(line);
    }
}

/// The effect of a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The documented one.
    Works,
    /// Nothing, because of this; command lines written for the other program keep working.
    Without(&'static str),
    /// Nothing, because of this; command lines written for the other program keep working, and a line says at every start what they
    /// do not get.
    Lacking(&'static str),
    /// A refusal to start: this is missing, and a server without it would not do what was requested.
    NotYet(&'static str),
}

impl<T> Table<T> {
    /// Every flag, section by section.
    pub fn flags(&self) -> impl Iterator<Item = &'static Flag<T>> + use<T> {
        self.sections.iter().flat_map(|section| section.flags)
    }

    /// Every sub-option, section by section.
    pub fn options(&self) -> impl Iterator<Item = &'static Flag<T>> + use<T> {
        self.sections.iter().flat_map(|section| section.options)
    }

    /// The sub-option of this name; unlike flags, names of sub-options cannot be shortened.
    pub fn option(&self, name: &str) -> Option<&'static Flag<T>> {
        self.options().find(|option| option.name == name)
    }

    /// The name in messages of the flag that takes the sub-options.
    pub(crate) fn extended_label(&self) -> String {
        let flag = self.flags().find(|flag| Some(flag.name) == self.extended);
        flag.map_or_else(String::new, Flag::label)
    }

    /// The command for the help that lists everything.
    pub(crate) fn long_help(&self) -> String {
        format!("evenkeel {} --help", self.verb)
    }
}

impl<T> Flag<T> {
    /// Its name in messages: its letter if it has one.
    pub fn label(&self) -> String {
        self.short.map_or_else(|| format!("--{}", self.name), |letter| format!("-{letter}"))
    }

    /// The same flag with a value, for tables built in constants.
    #[must_use]
    pub const fn takes(self, value: &'static str, kind: Kind, default: &'static str) -> Self {
        let default = if default.is_empty() { None } else { Some(default) };
        Self { value, kind, default, ..self }
    }
}
