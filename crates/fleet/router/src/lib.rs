//! The router: a proxy that takes mcrouter's configuration.
//!
//! The path of a request, with its functions:
//!
//! ```text
//!  net's worker      worker/requests.rs, client/*.rs     plan.rs                 worker/servers/*.rs    net's worker
//!  ────────────────────────────────────────────────────────────────────────────────────────────────────────────
//!  receive a batch ─►  RouteWorker::on_bytes ─► serve ─►  RoutePlan::step ─┬─► a server ─► Servers::send ─► turn.output
//!                        protocol::parse                                   │       an exchange in its queue
//!                        Clients::slot_for: a slot in the window           ├─► an answer
//!                                                                          └─► Flights (failover, copies)
//!  send a batch  ◄─  Clients::answer  ◄─ RouteWorker::deliver ◄─ Servers::read: the reply of the first exchange ◄─ receive
//! ```
//!
//! [`RouteWorker`] passes between its parts, each of which owns its state: clients, servers, hot values, plans, flights. A part
//! returns what is to be done beyond it.
//!
//! A destination is a server as one worker sees it: a connection, and the exchanges that wait for their replies there.
//! The bytes of a request are copied once, from the client's input to the destination's output, and those of a reply
//! once in the other direction; larger values are received into memory of their own and held.
//!
//! The router opens no socket and reads no clock: sockets are `net`'s, and time is an argument.

pub mod config;
pub mod flags;
pub mod sim;

mod client;
mod flight;
mod hot;
mod message;
mod plan;
mod reports;
mod routes;
mod servers;
mod shared;
mod slab;
mod stats;
mod worker;

pub use message::operation::{Operation, OperationClass};
pub use message::outcome::Outcome;
pub use message::routing_prefix::RoutingPrefix;
pub use plan::config_facts::ConfigFacts;
pub use plan::hash;
pub use plan::hash::md5::md5_hex;
pub use plan::key_tracer::KeyTracer;
pub use plan::{RoutePlan, ServerPlace};
pub use reports::facts::{ProcessFacts, ReportFacts, StartupFacts};
pub use servers::compression::DICTIONARY_LEN_MAX;
pub use servers::health::{Health, HealthSettings};
pub use servers::names::LookupKind;
pub use servers::spool::{SpoolFormat, SpoolQueue, SpooledDelete, WaitingDelete, read_record, write_record};
pub use shared::{RouterShared, Settings, TlsInForce};
pub use stats::counted_pools::CountedPools;
pub use stats::shadow_counts::ShadowReport;
pub use worker::RouteWorker;

/// What a type of route consists of, for the examples of what does not compile.
#[doc(hidden)]
pub mod route_pieces {
    pub use crate::config::ConfigError;
    pub use crate::flight::reply::FlightReply;
    pub use crate::plan::NodeId;
    pub use crate::routes::form::{Compile, Fields, RouteDefinition, RouteForm};
    pub use crate::routes::route::{Decision, FirstStep, Opening, Route, Scene};
}

/// What `version` and `stats version` answer: the memcached whose protocol is spoken, in numbers, and nothing else.
/// libmemcached reads the first numbers, and takes a version of another form, or one that begins with 0, for a broken reply;
/// others read the last three.
pub const VERSION: &str = "1.6.45";

/// Our own version.
pub const EVENKEEL_VERSION: &str = env!("CARGO_PKG_VERSION");
