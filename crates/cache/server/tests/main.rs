//! A server without sockets: replies to words, packets and datagrams.

mod binary;
mod conversation;
mod datagrams;
mod flash;
mod floods;
mod gaps;
mod hostile_keys;
mod idle;
mod meta_flags;
mod metrics;
mod packets;
mod random;
mod reports;
mod roles;
mod simulated;
mod stats;
mod transcripts;
mod uploads;
mod watchers;
mod world;
