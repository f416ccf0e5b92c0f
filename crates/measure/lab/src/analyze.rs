//! Analysis of trials: records to comparisons. Pure; the unit is the trial, never one second of it.

pub mod against;
pub mod aims;
pub mod compare;
pub mod comparison;
pub mod effects;
pub mod efficiency;
pub mod verdict;
