//! The binary protocol: packets of a header, extras, a key and a value, in both directions.
//!
//! Layout: memcached's `protocol_binary.h`. All numbers are big-endian. A reply repeats its request's opcode and
//! opaque. A quiet request gets a reply only where that is not the usual one: `getq` of an item that is there, any
//! error of the others.
//!
//! * [`parse`]: the head of one request; its value is not read here;
//! * [`reply`]: the packets of replies;
//! * [`ReplyStatus`]: statuses, and the text that an error has.

mod header;
mod opcode;
pub mod reply;
mod request;
pub mod sasl;
mod status;

pub use header::{HEADER_LEN, REPLY_MAGIC, REQUEST_MAGIC, ReplyTo};
pub use opcode::Opcode;
pub use request::{BinaryCommand, BinaryParsed, BinaryRequest, BinaryStore, parse};
pub use status::ReplyStatus;

#[cfg(any(test, feature = "fuzz"))]
pub mod check;

#[cfg(test)]
mod tests;
