//! The router: a proxy that takes mcrouter's configuration.
//!
//! The path of a request, with its functions:
//!
//! ```text
//!  net's worker      client_state.rs, worker/*.rs       plan.rs                 destination.rs         net's worker
//!  ────────────────────────────────────────────────────────────────────────────────────────────────────────────
//!  receive a batch ─►  RouteWorker::on_bytes ─► serve ─►  RoutePlan::step ─┬─► a server ─► send ─► turn.output
//!                        protocol::parse                                   │       an exchange in its queue
//!                        a slot in the client's window                     ├─► an answer
//!                                                                          └─► Flights (failover, copies)
//!  send a batch  ◄─  ClientWindow::answer  ◄─ deliver ◄─ Destination::read: the reply of the first exchange ◄─ receive
//! ```
//!
//! A destination is a server as one worker sees it: a connection, and the exchanges that wait for their replies there.
//! The bytes of a request are copied once, from the client's input to the destination's output, and those of a reply
//! once in the other direction; larger values are received into memory of their own and held.
//!
//! The router opens no socket and reads no clock: sockets are `net`'s, and time is an argument.

pub mod config;
pub mod flags;
pub mod hash;
pub mod sim;

mod answer;
mod buffer;
mod changes;
mod choices;
mod client;
mod client_state;
mod compression;
mod config_facts;
mod counted_pools;
mod destination;
mod flight;
mod health;
mod held_memory;
mod hot_cache;
mod hot_marks;
mod hot_samples;
mod key;
mod key_groups;
mod key_tracer;
mod md5;
mod metrics;
mod names;
mod node_id;
mod notices;
mod operation;
mod outcome;
mod plan;
mod plan_pools;
mod pool_notes;
mod report_desk;
mod report_facts;
mod reports;
mod request;
mod route_state;
mod routing_prefix;
mod service_texts;
mod shadow_counts;
mod shared;
mod slab;
mod spool;
mod stats;
mod token_bucket;
mod udp;
mod variables;
mod worker;

pub use changes::{ExptimeChange, KeyChange};
pub use compression::{Codec, Compression, DICTIONARY_LEN_MAX, Dictionary};
pub use config_facts::ConfigFacts;
pub use counted_pools::{CountedPool, CountedPools};
pub use health::{GuardLimits, Health, HealthChange, HealthRecovery, HealthSettings, PoolGuard};
pub use hot_cache::HotCacheSettings;
pub use key_tracer::KeyTracer;
pub use md5::md5_hex;
pub use metrics::{POOLS_SHOWN_MAX, SERVERS_SHOWN_MAX};
pub use names::{LookupKind, NameTable};
pub use notices::RouterNotice;
pub use operation::{Operation, OperationClass};
pub use outcome::Outcome;
pub use plan::{
    AddedLatency, BigValue, BroadcastPlace, Compound, CompoundKind, DestinationSpec, DeterministicOrder,
    FailoverErrors, FailoverOrder, FailoverSettings, FailureDomains, Fill, KeyPolicies, KeyPolicy, KeySplit,
    LogId, Migration, NegativeCache, Node, NodeId, Roots, RoutePlan, ServerId, ServerPlace, ShadowKeys,
    ShadowRule, SizeSplit, TotalLatency,
};
pub use plan_pools::{PlanPool, PlanPools};
pub use report_facts::{ConfigLoads, ProcessFacts, ReportFacts, StartupFacts};
pub use route_state::{FailoverLimit, Rates, RequestRate, StateId, StateSpec};
pub use routing_prefix::RoutingPrefix;
pub use shadow_counts::{LatencyHistogram, ShadowComparison, ShadowCounts, ShadowReport};
pub use shared::{RouterShared, Settings};
pub use spool::{
    RecordError, SpoolFormat, SpoolQueue, SpoolRecord, SpooledDelete, WaitingDelete, read_record,
    write_record,
};
pub use udp::UdpCounts;
pub use variables::{KeyRange, RuntimeVariable};
pub use worker::RouteWorker;

/// What `version` and `stats version` answer: the memcached whose protocol is spoken, in numbers, and nothing else.
/// libmemcached reads the first numbers, and takes a version of another form, or one that begins with 0, for a broken reply;
/// others read the last three.
pub const VERSION: &str = "1.6.45";

/// Our own version.
pub const EVENKEEL_VERSION: &str = env!("CARGO_PKG_VERSION");
