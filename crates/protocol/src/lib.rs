//! memcached's classic text protocol and its meta protocol, as 1.6.45 speaks them: both sides of it.
//!
//! Bytes in, requests out; facts in, bytes out. Nothing here does I/O, knows the time or keeps state between
//! requests, and parsing allocates nothing: a request borrows from the input. What an item is, and whether a
//! command is allowed on this server, is decided elsewhere. State that follows from where input was
//! cut is bounded ([`KeyRun`], [`client::Framer`], [`udp::Parts`]).
//!
//! In reading order:
//! * [`request`]: the head of one request, [`request::parse`], and [`request::unfinished`] for long lines;
//! * [`key`]: keys, the keys of a `get` line, and the run of keys that is longer than a buffer;
//! * [`meta`]: the flags and keys of the meta commands;
//! * [`reply`]: every fixed line, and the functions that write the others;
//! * [`client`]: the same from the other end: replies parsed, request lines written;
//! * [`udp`]: the frame of a datagram, and replies of several;
//! * [`auth`]: the login that `-Y` asks for, before any request;
//! * [`binary`]: the error that a client of the binary protocol is told;
//! * [`number`], [`base64`], [`uri`]: the notations, exactly as lenient as memcached's;
//! * [`limits`]: every limit by its name.

pub mod auth;
pub mod base64;
pub mod binary;
pub mod client;
pub mod key;
pub mod limits;
pub mod meta;
pub mod number;
pub mod reply;
pub mod request;
pub mod udp;
pub mod uri;
pub mod words;

pub use key::{Key, KeyError, KeyRun, Keys};
pub use meta::{MetaFlags, MetaKey};
pub use request::{Parsed, Request, parse};

#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
