//! Tuning of one host: the jobs of `evenkeel tune`, as functions with requests and outcomes.
//!
//! ```text
//! check       observe ─► Capture                            `tuner` finds what limits the host
//! plan        observe ─► Plan                               nothing is changed up to here
//! apply       enter (lock) ─► journal ─► watch over ─► changes ─► Outcome
//! confirm     enter ─► journal: confirmed
//! rollback    enter ─► journals, the newest first ─► Undone
//! status      journals, values, files ─► Status
//! persist     plans in force or asked for ─► files
//! verify      journals, observe, load ─► Verification
//! tournament  enter ─► (apply ─► load ─► undo) × rounds ─► Standings
//! watch       look ─► news ─► repair, until a signal comes
//! ```
//!
//! Clocks, signals, locks, commands and sockets are used here; `tuner` decides what they mean. No command line is read
//! and nothing is printed: outcomes are data, and messages of a running job are passed to functions of the caller
//! ([`JobNotice`], [`JobProgress`], [`watch::Complaint`]).

pub mod apply;
mod error;
mod in_force;
mod memcached;
pub mod observe;
pub mod persist;
pub mod plan;
mod progress;
mod rollback;
mod saved;
mod state;
pub mod status;
pub mod tournament;
pub mod verify;
pub mod watch;

pub use error::{Blame, Error};
pub use progress::{JobNotice, JobProgress};
pub use rollback::deadline::undo_at_deadline;
pub use rollback::{UndoWhich, Undoing, Undone, confirm, rollback};
pub use state::StateDirectory;
