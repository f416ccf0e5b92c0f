//! The client's side: replies in, command lines out.
//!
//! The mirror of [`crate::request`] and [`crate::reply`]. Nothing here does I/O, either, and the caller decides what a
//! reply means for the request that it answers.
//!
//! In reading order:
//! * [`parse`]: the head of one reply, without state; [`Line`] lists the kinds;
//! * [`Returned`]: the facts in a meta reply;
//! * [`Framer`]: the same from bytes cut anywhere, with bodies handed out as they arrive;
//! * [`command`]: request lines, appended to a buffer, with the [`Flag`]s of the meta commands;
//! * [`packet`]: requests and heads of replies of the binary protocol, and [`PacketFramer`], its framer.

pub mod command;
mod flag;
mod framer;
mod line;
pub mod packet;
mod packet_framer;
mod reply;
mod returned;
mod written;

pub use flag::{Flag, Opaque};
pub use framer::{Framer, Piece};
pub use line::{ErrorKind, Line, Value};
pub use packet::ReplyPacket;
pub use packet_framer::{PacketFramer, PacketPiece};
pub use reply::{MalformedReply, Parsed, parse};
pub use returned::{ReturnFlags, Returned, Ttl};

#[cfg(test)]
mod tests;
