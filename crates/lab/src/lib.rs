//! Experiments that survive noise.
//!
//! So far: the change points of a history, which tell a regression from a noisy day.

pub mod change_point;
mod student;
