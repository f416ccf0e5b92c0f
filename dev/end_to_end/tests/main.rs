//! The built binary over real sockets, beside memcacheds, clients and networks.

mod advise;
mod client_pages;
mod clients;
mod console;
mod control_pages;
#[path = "../../../crates/cache/server/tests/conversation/mod.rs"]
#[allow(dead_code, reason = "shared with the tests of the server, which use more of it")]
mod conversation;
mod datagrams;
mod differential;
mod discovery;
mod figures;
mod flash;
mod fleet;
mod frames;
mod hostile;
mod listeners;
mod local_users;
mod metrics;
#[path = "../../../crates/cache/server/tests/packets/mod.rs"]
#[allow(dead_code, reason = "shared with the tests of the server, which use more of it")]
mod packets;
mod partitions;
mod placement;
mod refused;
mod reload;
mod replay;
mod resize;
mod restart;
mod route;
mod route_admin;
mod route_clients;
mod route_compression;
mod route_faults;
mod route_hot_values;
mod route_survival;
mod route_takeover;
mod route_tls;
mod route_transcripts;
mod route_udp;
mod shadows;
mod start_lines;
mod states;
mod survival;
mod takeover;
mod takeover_flash;
mod takeover_kills;
mod takeover_survival;
mod tls;
mod transcripts;
mod up;
mod upgrade;
mod waves;
