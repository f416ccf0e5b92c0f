//! Command lines of servers that take the flags of another program: memcached's today.
//!
//! A server has one [`Table`], and everything comes from it: parsing, `--help`, the man page, shell completions, and the
//! tests that compare it with the other program's list. A flag never does nothing in silence: it works, or the help
//! lists it as accepted without effect, or the server refuses to start. Words are read as getopt_long reads them: any
//! unambiguous beginning of a long name, the last of several values, and a list of sub-options behind one flag.
//!
//! What is typed goes through two steps here: clap splits it into flags and texts ([`Table::command`]), the table turns
//! texts into values ([`Table::read`]). What these mean together is the server's business. No flag is named here.

mod command;
mod error;
mod help;
mod nearest;
mod read;
mod table;
mod value;

pub use error::Error;
pub use table::{Effect, Flag, Section, Set, Table, Target};
pub use value::{Expected, Given, Kind, show_size};
