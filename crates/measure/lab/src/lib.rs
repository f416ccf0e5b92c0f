//! Performance lab: experiments whose verdicts survive noise, their trials, comparisons and history.
//!
//! An [`Experiment`](experiment::Experiment) is a file with one question. Its trials run in random order and in
//! turns, each writes a [`TrialRecord`](record::TrialRecord), and the records are judged with the trial as the unit, never one
//! second of it. The [change points](history::change_point) of a history tell a regression from a noisy day.
//!
//! ```text
//! experiment     the file; adapted: changes by the command line; design: cells, baselines; rounds: their number;
//!                matrix: their order; standing: which cells share a server that keeps running
//!      └─► run   for each turn of the matrix
//!           └─► trial   check, context: the state shared by its commands
//!                 settings, placement, trace   the host, and cleanup after a killed run (mounts, leftovers)
//!                 standing                     servers that keep running, side by side
//!                 subject, process, guest      servers and loads, virtual machines (guest::inside: the agent there)
//!                 sampler, tree                the host and the subject, second by second
//!                 parse                        results of the load
//!                 judge ─► record              figures and doubts; record::profile: functions by perf
//!
//! RUN/ ─► run::results ─► analyze: effects, efficiency, verdict ─► Comparison ─► report: text, tables, page ◄─ picture
//!                                                               └─► history ─► gate, commits
//!
//! a running service ─► weeks: by the day, before and after roll-outs ─► report::weeks
//! ```

pub mod analyze;
mod error;
pub mod experiment;
pub mod guest;
pub mod history;
pub mod record;
pub mod report;
pub mod run;
#[cfg(test)]
mod scratch;
mod trial;
pub mod weeks;

pub use error::Error;
pub use trial::halt::Halt;
