//! Host limits, changes that would help, and the way back.
//!
//! ```text
//! probe(root) ─► Facts ──────┐
//! read(root)  ─► Reading × n ┴─► rules ─► Findings ─► plan ─► [shown] ─► journal ─► apply ─► read back
//!                                                                           └─► rollback reads the journal only
//! ```
//!
//! Rules and plans are pure: what they know is in [`Facts`] and in the [`Reading`]s, both plain data, so a captured
//! host is a test fixture. The root of the file system is an argument everywhere. Nothing on the host is changed that
//! the journal does not hold yet. Going back, everything is restored first and recorded afterwards.

mod accept;
pub mod apply;
pub mod capture;
pub mod change;
pub mod cpu_model;
pub mod cpu_set;
pub mod ethtool;
pub mod facts;
pub mod finding;
pub mod host;
mod irq_name;
mod irqbalance;
pub mod journal;
pub mod listening;
pub mod masks;
pub mod measure;
mod mend;
pub mod metric;
pub mod my_cnf;
pub mod network_namespace;
pub mod obstacle;
pub mod outline;
pub mod persist;
pub mod plan;
pub mod probe;
pub mod profile;
pub mod promise;
pub mod read;
pub mod reading;
pub mod report;
pub mod rollback;
pub mod root;
pub mod rules;
pub mod saved;
pub mod scheduling;
pub mod script;
pub mod signal;
pub mod strategy;
pub mod tournament;
pub mod verification;
pub mod verify;
pub mod watch;

#[cfg(test)]
mod shapes;

pub use capture::Capture;
pub use change::{Change, Refusal, Setting};
pub use cpu_set::CpuSet;
pub use facts::Facts;
pub use finding::{Evidence, Finding, Severity, Verdict};
pub use probe::probe;
pub use read::read;
pub use reading::{Reading, Series};
pub use root::Root;
pub use rules::{explain, judge};
