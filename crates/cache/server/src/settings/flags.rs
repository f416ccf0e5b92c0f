//! The flags of `evenkeel serve`: memcached's, and a few of our own.
//!
//! There is one table, in a file per section; the crate `flags` parses it and prints its help. The command
//! line becomes [`LowArgs`], and [`Options`](crate::settings::options::Options) checks flags against each other.

use std::ffi::OsString;

mod listening;
mod low;
mod memory;
mod operations;
mod security;
mod threads;

#[cfg(test)]
mod tests;

pub use ::flags::{Effect, Error, Given, Kind};
use ::flags::{Section, Table};
pub use low::{Flag, LowArgs};

/// The table.
pub static TABLE: Table<LowArgs> = Table {
    verb: "serve",
    about: "Serve a cache; takes memcached's own flags",
    sections: &[
        Section { title: "Listening", flags: listening::FLAGS, options: listening::OPTIONS },
        Section { title: "Memory", flags: memory::FLAGS, options: memory::OPTIONS },
        Section { title: "Threads", flags: threads::FLAGS, options: &[] },
        Section { title: "Security", flags: security::FLAGS, options: security::OPTIONS },
        Section { title: "Operations", flags: operations::FLAGS, options: operations::OPTIONS },
    ],
    extended: Some(operations::EXTENDED),
};

/// Reads a command line, without the name of the program.
pub fn parse<T: Into<OsString> + Clone>(typed: impl IntoIterator<Item = T>) -> Result<LowArgs, Error> {
    TABLE.parse(typed)
}
