//! The load generator: gets and sets against any server that speaks memcached's protocols.
//!
//! In an *open loop* a schedule says when each request is to be sent, whatever the server does, and its latency counts
//! from there: a request that has to wait for a connection, because the server is slow, waits with its time running.
//! In a *closed loop* every connection keeps `depth` requests on their way and sends the next one when a reply
//! arrives, so a slow server is asked less often. Such a loop measures capacity and requests per CPU-second; its
//! latencies are those of a saturated server, and do not answer "how slow is it at rate X".
//!
//! ```text
//!   Arguments ─ Description     types      the requested run, as the flags describe it
//!        │
//!     RunPlan                   workload   after every check; items, requests, conversations that read replies, traces
//!        │
//!     run ─► LoadWorker, thread run        opens and closes the measured window; the search for the knee; the self test
//!        ▲     │ each turn
//!        │     ├─► Feed         pacing     which requests are due, and on which connection
//!        │     │    └ Composer  workload   the next command, its item, its bytes
//!        │     ├─► Engine       engine     one exchange with the kernel
//!        │     └─► Tally        measure    latencies and counts of answered requests; whether they can be believed (RunVerdict)
//!     RunMeasurements
//!        │
//!     Summary                   report     for people and programs; a Follower sees the seconds meanwhile
//! ```
//!
//! A folder uses only those below it: `types`, then `engine` and `measure`, `workload`, `pacing` and `report`, `run`, and
//! `agents`. With these, several machines make one load for a coordinator. [`self_test`] compares the whole with
//! theory. Built-in [`Workload`]s are in types/profiles.rs.
//!
//! Definitions: a request is *sent* at the CLOCK_MONOTONIC reading just before the system call that passes the
//! requests of a whole turn to the kernel, and *done* at the reading just after the call that returned its last
//! bytes. Requests of one turn share both readings, so waiting behind other connections of the same turn counts:
//! latencies are too long by at most one turn, never too short.
//!
//! Nothing here depends on a particular server: the wire protocol, as `protocol` reads and writes it, is all it
//! shares with `server`.

mod agents;
mod engine;
mod measure;
mod pacing;
mod report;
mod run;
mod types;
mod workload;

pub use agents::{agent, kubernetes_job, run_on_agents, search_on_agents};
pub use measure::failures::Failures;
pub use measure::latency::Latency;
pub use measure::verdict::{InvalidReason, RunVerdict};
pub use report::live::screen::{Screen, ScreenOutput, UserKey};
pub use report::summary::{
    Connects, CpuCost, Handshakes, Recorded, Second, Summary, WRONG_REPLIES, WaitsSummary,
};
pub use run::knee::{Knee, TryOutcome};
pub use run::self_test::self_test;
pub use run::{run, search};
pub use types::arguments::Arguments;
pub use types::churn::Storm;
pub use types::description::Description;
pub use types::description::server_processes::ServerProcesses;
pub use types::error::Error;
pub use types::profiles::Workload;
pub use types::span::Span;
pub use workload::trace::{TraceClass, read_trace};
