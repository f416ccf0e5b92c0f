//! Tests of the built binary over real sockets: starting a server, connections to it, comparison with the transcripts.
//!
//! The tests themselves are in `tests/`: `transcripts` (three servers, one text), `clients` (the programs in
//! `clients/`, which use common libraries), `reload` (SIGHUP), `survival` (clients that misbehave).
//!
//! A server here is only a process and a port: memcached, an old build and a new build can all be tested.

pub mod bystander;
pub mod clients;
pub mod clock;
pub mod fleet;
pub mod honest;
pub mod hostile;
pub mod judge;
pub mod network;
pub mod numbered;
pub mod open_loop;
pub mod process;
pub mod server;
pub mod sockets;
pub mod subject;
pub mod typed;
