//! Servers as a router sees them: names, health, connections, datagrams, spooled deletes.

pub(crate) mod compression;
pub(crate) mod destination;
pub(crate) mod health;
pub(crate) mod names;
pub(crate) mod spool;
pub(crate) mod udp;
