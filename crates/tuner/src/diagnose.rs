//! Diagnosis: rules judge facts and counters, and each finding carries its evidence.
//!
//! Pure: from [`Facts`](crate::Facts) and a [`Series`](crate::Series) to [`Finding`]s. Which setting remedies a
//! finding is decided in `plan`, not here.

pub mod finding;
pub mod masks;
pub mod rules;

pub use finding::{Evidence, Finding, RemedyStatus, Severity};
pub use rules::{explain, judge};
