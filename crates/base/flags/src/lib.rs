//! Command lines of servers that take the flags of another program: memcached's today.
//!
//! A server has one [`Table`], and everything follows from it: parsing, `--help`, the man page, shell completions, and
//! the tests that compare it with the other program's list. No flag is ignored silently: it works, or the help lists it
//! as accepted without effect, or the server refuses to start. Arguments are parsed as by getopt_long: any unambiguous
//! prefix of a long name, the last of several values, and a list of sub-options after one flag.
//!
//! A command line is parsed in two steps: clap splits it into flags and texts ([`Table::command`]), the table turns
//! texts into values ([`Table::read`]). The server checks the combination of values. No flag is named here.

mod command;
mod error;
mod help;
mod lenient;
mod nearest;
mod read;
mod table;
mod value;

pub use error::Error;
pub use nearest::nearest;
pub use table::{Effect, Flag, Section, Set, Table, Target};
pub use value::{Given, Kind, SizeShare, show_size};
