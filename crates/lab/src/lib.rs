//! Experiments that survive noise.
//!
//! An [`Experiment`](experiment::Experiment) is a file with one question. Its trials run in random order and in turns,
//! each leaves a [`Record`](record::Record), and what records say is judged with the trial as the unit, never a second
//! of it. The [change points](change_point) of a history tell a regression from a noisy day.
//!
//! ```text
//! RUN/ ─► Results ─► compare ─► Comparison ─► report: text, tables, page ◄─ picture
//!                             └─► History ─► gate
//! ```

pub mod against;
pub mod change_point;
pub mod compare;
pub mod design;
pub mod experiment;
pub mod gate;
pub mod history;
pub mod picture;
pub mod quantity;
pub mod record;
pub mod report;
pub mod results;
mod student;
