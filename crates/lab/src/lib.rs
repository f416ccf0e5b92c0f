//! Experiments that survive noise.
//!
//! An [`Experiment`](experiment::Experiment) is a file with one question. Its trials run in random order and in turns,
//! each leaves a [`Record`](record::Record), and what records say is judged with the trial as the unit, never a second
//! of it. The [change points](change_point) of a history tell a regression from a noisy day.
//!
//! ```text
//! experiment ─► rounds: how many it takes
//!            ─► matrix: cells, turns
//!                 └─► run ─► trial (for each turn)
//!                              knobs, placement, trace   the host, and what has to be undone (mounts, leftovers)
//!                              subject, process, guest   servers and loads, virtual machines (inside: what is done there)
//!                              sampler, tree             the host and the subject, second by second
//!                              parse                     what the load says
//!                              judge ─► record           figures and doubts
//!                              profile                   functions by perf, in a trial of its own
//!
//! RUN/ ─► Results ─► compare ─► Comparison ─► report: text, tables, page ◄─ picture
//!                             └─► History ─► gate, commits
//! ```

pub mod against;
mod autoregression;
pub mod change_point;
pub mod commits;
pub mod compare;
pub mod definition;
pub mod design;
mod difference;
pub mod effects;
pub mod efficiency;
mod error;
pub mod experiment;
pub mod gate;
mod guest;
pub mod history;
pub mod inside;
mod judge;
mod knobs;
mod leftovers;
pub mod matrix;
mod mounts;
pub mod parse;
pub mod picture;
mod placement;
mod process;
pub mod profile;
mod program;
pub mod quantity;
pub mod record;
pub mod report;
pub mod results;
pub mod rounds;
pub mod run;
mod sampler;
#[cfg(test)]
mod scratch;
mod student;
mod subject;
mod trace;
mod tree;
mod trial;
pub mod words;

pub use error::Error;
pub use process::{Halt, Hands};
