//! Tuning of a fleet's hosts: what the tuner finds on each of them and would change, in short forms that are compared.
//!
//! ```text
//! JSON of `tune check`  ─► HostCheck ─┐
//! JSON of `tune plan`   ─► HostPlan ──┼─► in a scope, by kind of host ─► FindingRow, PlanGroup
//! what a host says of itself, HostFacts ┘
//! ```
//!
//! The tuner itself is not known here but by its JSON: it may be older or newer than this program.

pub mod standards;

mod answer;
mod check;
mod facts;
mod form;
mod groups;
mod json;
mod plan;
mod scope;
mod table;
mod wish;

pub use answer::{AnswerDigest, HostAnswer, NoAnswer};
pub use check::{
    CHECK_LEN_MAX, FindingLine, FindingSeverity, HostCheck, PlanInForce, ReadCheck, TuningState,
};
pub use facts::HostFacts;
pub use groups::{PlanGroup, PlannedHost, SimilarHosts, plan_groups};
pub use plan::{HostPlan, PLAN_LEN_MAX, PlanLine, PlanRefused, PlanStep, ReadPlan};
pub use scope::{HostPlace, HostScope, ScopeError};
pub use table::{CheckedHost, FindingRow, finding_rows};
pub use wish::PlanWish;
