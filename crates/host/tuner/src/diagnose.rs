//! Diagnosis: rules judge facts and counters, and each finding carries its evidence.
//!
//! Pure: from [`Facts`](crate::Facts) and a [`Series`](crate::Series) to [`Finding`]s. A rule names the settings that
//! remedy its findings; their values, and whether they are changed at all, are decided in `plan`.

pub mod finding;
pub mod rules;

pub use finding::{Evidence, Finding, RemedyStatus, Severity};
pub use rules::{explain, judge};
