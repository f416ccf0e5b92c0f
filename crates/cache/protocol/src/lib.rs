//! memcached's classic text protocol and its meta protocol as in version 1.6.45, for servers and for clients.
//!
//! Bytes in, requests out; facts in, bytes out. Nothing here does I/O, reads a clock or keeps state between requests,
//! and parsing allocates nothing: a request borrows from the input. Items, and whether a server allows a command, are
//! not part of this crate. State that follows from where input was cut is bounded ([`KeyRun`], [`client::Framer`],
//! [`udp::Parts`]).
//!
//! In reading order:
//! * [`request`]: the head of one request, [`request::parse`], and [`request::unfinished`] for long lines;
//! * [`key`]: keys, the keys of a `get` line, and the run of keys that is longer than a buffer;
//! * [`meta`]: the flags and keys of the meta commands;
//! * [`reply`]: every fixed line, and functions that write the other lines;
//! * [`client`]: the client's side: replies parsed, request lines written;
//! * [`udp`]: the frame of a datagram, and replies in several datagrams;
//! * [`auth`]: the login that `-Y` requires before any request;
//! * [`binary`]: the binary protocol, requests and replies;
//! * [`discovery`]: the list of a cluster's members, for clients with auto-discovery;
//! * [`number`], [`base64`], [`uri`]: the notations, exactly as lenient as memcached's;
//! * [`limits`]: every limit, with its name.

pub mod auth;
pub mod base64;
pub mod binary;
pub mod client;
pub mod discovery;
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
