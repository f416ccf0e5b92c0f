//! The load generator: gets and sets against any server that speaks memcached's protocols.
//!
//! In an *open loop* a schedule says when each request is to be sent, whatever the server does, and its latency counts
//! from there: a request that has to wait for a connection, because the server is slow, waits with its time running.
//! In a *closed loop* every connection keeps `depth` requests on their way and sends the next one when a reply
//! arrives, so a slow server is asked less often. Such a loop measures capacity and requests per CPU-second; its
//! latencies are those of a saturated server and no answer to "how slow is it at rate X".
//!
//! Modules in reading order: [`Arguments`] hold the [`Description`] of a run, which agents are told and
//! results have; a `Plan` is derived from it (plan.rs; workload.rs has the built-in ones); `run` starts workers, opens and closes the
//! measured window; a `Worker` alternates between one exchange with the kernel (engine) and the conversations that
//! read replies (reply.rs); `Feed` says what is sent when (schedule.rs) and the composer (compose.rs) which command (mix.rs), about
//! which key (popularity.rs), and writes it (request.rs), with the item's sizes (sizes.rs, law.rs) and value, as a trace says (trace.rs, replay.rs), or keeps them for one
//! (recording.rs); the [`Summary`] is what is left, and the [`Verdict`] whether to believe it.
//!
//! Several machines make one load as agents of a coordinator (agents.rs); whoever follows a run, on a terminal or on
//! another machine, is a `Follower`. [`self_test`] holds the whole to theory.
//!
//! What is measured, exactly: a request is *sent* at the CLOCK_MONOTONIC reading just before the system call that
//! hands the requests of a whole turn to the kernel, and *done* at the reading just after the call that returned its
//! last bytes. Requests of one turn share both readings, so waiting behind other connections of the same turn
//! counts: figures err on the long side, by at most one turn.
//!
//! Nothing here knows a particular server: the wire protocol is all it shares with `server`.

mod affinity;
mod agents;
mod arguments;
mod backlog;
mod churn;
mod clock;
mod compose;
mod connecting;
mod conversation;
mod cpu_time;
mod description;
mod engine;
mod error;
mod feed;
mod files;
mod follower;
mod hdr_log;
mod json;
mod keyspace;
mod law;
mod live;
mod mix;
mod outbox;
mod packed;
mod plan;
mod popularity;
mod recording;
mod replay;
mod reply;
mod request;
mod run;
mod schedule;
mod search;
mod seconds;
mod self_test;
mod shared;
mod silence;
mod sizes;
mod spans;
mod summary;
mod tally;
mod target;
mod tls;
mod trace;
mod ttl;
mod verdict;
mod waking;
mod worker;
mod workload;
mod zipf;

pub use affinity::CpuList;
pub use agents::{agent, kubernetes_job, run_on_agents, search_on_agents};
pub use arguments::Arguments;
pub use churn::Storm;
pub use description::{Description, EngineChoice, Protocol, Span};
pub use error::Error;
pub use mix::Mix;
pub use popularity::Popularity;
pub use run::{run, search};
pub use schedule::Arrivals;
pub use search::{Knee, Objective, Outcome, Try};
pub use self_test::{Quantile, SelfTest, self_test};
pub use sizes::Sizes;
pub use summary::{
    AgentSummary, CommandCount, Connects, CpuCost, ErrorLine, Handshakes, Latency, Probes, Recorded, Second,
    Summary, WaitsSummary,
};
pub use ttl::Ttls;
pub use verdict::{Reason, Verdict};
pub use workload::Workload;
