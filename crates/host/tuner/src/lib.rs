//! Host limits, changes that would help, and the way back.
//!
//! ```text
//! observe   probe(root) ─► Facts ──────┐
//!           read(root)  ─► Reading × n ┤
//! settings  a function each: Scope ─► ProposedChanges; strategies, profiles: lists of these functions
//! diagnose                             └─► rules, a list of settings as the remedy ─► Findings ─┐
//! plan      findings, strategy, profile propose ─► ordered, merged, refused ─► changes ─► [shown]
//! apply                                                                       └─► journal ─► host ─► read back
//!                                                                                    └─► rollback reads the journal only
//! persist   steps in force ─► files that keep them over a restart
//! verify    steps in force, expected effects, captures before and after ─► verdict; tournaments of strategies
//! watch     steps in force, what they read now ─► drift and its cause ─► repair
//! report    findings, verdicts, standings ─► text for people, metrics for programs
//! ```
//!
//! Folders use only those above them in this picture. Rules and plans are pure: their input is [`Facts`] and
//! [`Reading`]s, both plain data, so a captured host is a test fixture. The root of the file system is an argument
//! everywhere. Nothing on the host is changed that the journal does not hold yet. Going back, everything is restored
//! first and recorded afterwards.

pub mod apply;
pub mod diagnose;
pub mod observe;
pub mod persist;
pub mod plan;
pub mod report;
mod settings;
mod text;
pub mod verify;
pub mod watch;

pub(crate) use diagnose::Evidence;
pub use diagnose::{Finding, RemedyStatus, Severity, explain, judge};
pub use observe::capture::Capture;
pub use observe::facts::Facts;
pub use observe::probe::probe;
pub use observe::read::read;
pub use observe::reading::{Reading, Series};
pub use observe::root::Root;
pub use plan::change::{Change, PlanRefusal, Setting};
