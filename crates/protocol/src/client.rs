//! The client's side: replies in, command lines out.
//!
//! The mirror of [`crate::request`] and [`crate::reply`]. Here, too, nothing does I/O, and what a reply means to the
//! request that it answers is decided elsewhere.
//!
//! In reading order:
//! * [`parse`]: the head of one reply, without state; [`Line`] is what it can be;
//! * [`Returned`]: the facts behind a meta reply;
//! * [`Framer`]: the same from bytes cut anywhere, with bodies handed out as they arrive;
//! * [`command`]: request lines, appended to a buffer, with the [`Flag`]s of the meta commands.

pub mod command;
mod flag;
mod framer;
mod line;
mod reply;
mod returned;
mod written;

pub use flag::{Flag, Opaque};
pub use framer::{Framer, Piece};
pub use line::{ErrorKind, Line, Value};
pub use reply::{Broken, Parsed, parse};
pub use returned::{ReturnFlags, Returned, Ttl};

#[cfg(test)]
mod tests;
