//! The built binary over real sockets: how to start one, how to talk to it, how to hold it to the transcripts.
//!
//! The tests themselves are in `tests/`: `transcripts` (three servers, one text), `clients` (the programs in
//! `clients/`, which use the libraries people use), `reload` (what SIGHUP changes), `survival` (clients that
//! misbehave).
//!
//! A server here is a process and a port, nothing more: memcached, an old build and today's build all fit.

pub mod bystander;
pub mod clients;
pub mod clock;
pub mod honest;
pub mod hostile;
pub mod judge;
pub mod process;
pub mod server;
pub mod sockets;
pub mod subject;
