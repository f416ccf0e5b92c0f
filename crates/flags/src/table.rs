//! The table: sections of flags and of sub-options.

use crate::value::{Given, Kind};

/// All flags of a server, which note down what was typed in a `T`.
#[derive(Debug)]
pub struct Table<T: 'static> {
    /// The verb of `evenkeel` that takes them.
    pub verb: &'static str,
    /// What the verb does, in a line.
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
    /// What stands for its value in the help; empty if it takes none.
    pub value: &'static str,
    /// Which texts it accepts.
    pub kind: Kind,
    /// What holds when it is not given, as one would type it.
    pub default: Option<&'static str>,
    /// One line for `-h`.
    pub doc: &'static str,
    /// Paragraphs for `--help` and the man page, after `doc`; may be empty.
    pub details: &'static str,
    /// Whether it does anything.
    pub effect: Effect,
    /// Notes down what was typed.
    pub set: Set<T>,
}

/// Notes down a value that the flag's kind has checked.
pub type Set<T> = fn(&mut T, Given<'_>);

/// What a command line is noted down in. Its default is what holds if nothing is typed.
pub trait Target: Default + 'static {
    /// Keeps a line for the operator: a flag was given that has no effect, and why it has none.
    fn note(&mut self, note: String);
}

/// What giving a flag leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// What its documentation says.
    Works,
    /// Nothing, because of this; command lines written for the other program keep working.
    Without(&'static str),
    /// A refusal to start: this is missing, and running without it would be another thing than was asked for.
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

    /// What messages call the flag that takes the sub-options.
    pub(crate) fn extended_label(&self) -> String {
        let flag = self.flags().find(|flag| Some(flag.name) == self.extended);
        flag.map_or_else(String::new, Flag::label)
    }

    /// What is typed for the help that lists everything.
    pub(crate) fn long_help(&self) -> String {
        format!("evenkeel {} --help", self.verb)
    }
}

impl<T> Flag<T> {
    /// What a message calls it: its letter where it has one.
    pub fn label(&self) -> String {
        self.short.map_or_else(|| format!("--{}", self.name), |letter| format!("-{letter}"))
    }

    /// The same flag with a value, for tables that are put together.
    #[must_use]
    pub const fn takes(self, value: &'static str, kind: Kind, default: &'static str) -> Self {
        let default = if default.is_empty() { None } else { Some(default) };
        Self { value, kind, default, ..self }
    }
}
