//! The flags of `evenkeel serve`: memcached's, and a few of our own.
//!
//! There is one table, in a file per section, and everything comes from it: parsing, `--help`, the man page, shell
//! completions, and the tests that compare it with memcached's list. A flag never does nothing in silence: it
//! works, or the help lists it as accepted without effect, or the server refuses to start.
//!
//! What is typed goes through three steps: clap splits it into flags and texts ([`command`]), the table turns
//! texts into values ([`LowArgs`]), and [`Options`](crate::options::Options) says what they mean together.

use std::ffi::OsString;

mod command;
mod error;
pub mod extended;
pub mod help;
mod listening;
mod low;
mod memory;
mod nearest;
mod operations;
mod security;
mod threads;
mod value;

#[cfg(test)]
mod tests;

pub use command::command;
pub use error::Error;
pub use low::LowArgs;
use value::Expected;
pub(crate) use value::show_size;
pub use value::{Given, Kind};

/// One flag, or one sub-option of `-o`.
#[derive(Debug)]
pub struct Flag {
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
    pub set: Set,
}

/// Notes down a value that the flag's kind has checked.
pub type Set = fn(&mut LowArgs, Given<'_>);

/// What giving a flag leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// What its documentation says.
    Works,
    /// Nothing, because of this; command lines written for memcached keep working.
    Without(&'static str),
    /// A refusal to start: this is missing, and running without it would be another thing than was asked for.
    NotYet(&'static str),
}

/// Flags that belong together.
#[derive(Debug)]
pub struct Section {
    /// The title in the help.
    pub title: &'static str,
    /// In the order of the help.
    pub flags: &'static [Flag],
}

/// The table.
pub const SECTIONS: &[Section] = &[
    Section { title: "Listening", flags: listening::FLAGS },
    Section { title: "Memory", flags: memory::FLAGS },
    Section { title: "Threads", flags: threads::FLAGS },
    Section { title: "Security", flags: security::FLAGS },
    Section { title: "Operations", flags: operations::FLAGS },
];

/// Every flag, section by section.
pub fn all() -> impl Iterator<Item = &'static Flag> {
    SECTIONS.iter().flat_map(|section| section.flags)
}

/// Reads a command line, without the name of the program.
pub fn parse<T: Into<OsString> + Clone>(typed: impl IntoIterator<Item = T>) -> Result<LowArgs, Error> {
    let command = command(help::COLUMNS_DEFAULT).no_binary_name(true);
    LowArgs::read(&command.try_get_matches_from(typed)?)
}
