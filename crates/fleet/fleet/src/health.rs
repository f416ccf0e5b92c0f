//! Health of members: observations, verdicts, and what may be replaced.
//!
//! ```text
//! agents ──► agent_said ─┐
//! probes ──► probed      ├─► HealthWatch::decide ─► judge (the table) ─► LossGuard ─► HealthDecisions ─► the planner
//! routers ─► router_said ┘
//! ```
//!
//! Beside it: [`QuarantineBook`] (lost twice), [`check_headroom`] (voluntary changes), [`StaleMember`] (flushed before a slot),
//! [`WarmUp`] (its end). No I/O, no clock, no random numbers: equal calls give equal decisions.

mod budget;
mod decision;
mod flushed;
mod guard;
mod probers;
mod quarantine;
mod reason;
mod roster;
mod routers;
mod settings;
mod steadiness;
mod verdict;
mod warm_up;
mod watch;

pub use budget::{ColdSlots, HeadroomError, UnitShare, check_headroom};
pub use decision::{DECISIONS_MAX, GuardScope, HealthDecision, HealthDecisions};
pub use flushed::{EnteringMember, FlushedMember, StaleMember};
pub use probers::{PROBERS_MAX, ProbeOutcome};
pub use quarantine::{QuarantineBook, QuarantineError, Quarantined, RECORDS_MAX};
pub use roster::{CLUSTERS_MAX, MEMBERS_MAX, Roster, RosterError, SlotMember, ZONES_MAX};
pub use routers::{ROUTERS_MAX, TKO_PER_ROUTER_MAX, TkoReport, UNASKED_PER_ROUTER_MAX};
pub use settings::{GuardSettings, HealthThresholdError, HealthThresholds};
pub use verdict::{AgentSight, MemberVerdict, ProbeSight, RouterSight, Unmet, judge, unmet};
pub use warm_up::{HitCounts, WarmUp, WarmUpStep};
pub use watch::{HealthWatch, ProbeRound, ProberZones, ProcessSight, SlotReplacement, UnknownScope};
