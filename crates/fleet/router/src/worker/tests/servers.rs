//! Conversations about servers: connections, names, datagrams, failures.

mod compression;
mod early;
mod health;
mod misbehaving;
mod names;
mod spool;
mod udp;
mod upkeep;

use super::*;
