//! Analysis of trials: records to comparisons. Pure, and with the trial as the unit, never a second of it.

pub mod against;
pub mod compare;
pub mod comparison;
pub mod effects;
pub mod efficiency;
pub mod verdict;
