//! Every decision of the control plane: which member has which slot, what routers read, who is dead, what goes out when.
//!
//! Nothing in here does I/O, reads a clock or draws a random number: time and seeds are arguments, and
//! every output is deterministic.

pub mod advise;
pub mod drain;
pub mod figures;
pub mod health;
pub mod probation;
pub mod resize;
pub mod rollout;
pub mod tuning;
pub mod waves;

mod adopt;
mod generation;
mod inventory;
mod names;
mod plan;
mod policy;

pub use adopt::{Adoption, AdoptionNames, adopt};
pub use generation::{
    ClusterRecord, FleetContent, Generation, GenerationOrigin, NUMBERS_LOST_MAX, SlotRecord, ViewRecord,
    goes_on_from, gone_back_to, is_forgotten, next_number, texts,
};
pub use inventory::{FleetMember, Inventory, MEMBERS_MAX};
pub use names::{
    ClusterName, GenerationNumber, HostId, MemberId, NameError, RouterId, TextDigest, TuneAskId, ViewName,
    ZoneName,
};
pub use plan::{
    Excluded, FleetPlan, FleetPlanInput, PlanError, Replacement, SlotChanges, TAKES_UNTUNED, UnfitMember,
    change_slots, mend_slots, plan,
};
pub use policy::{
    CLUSTERS_MAX, ClusterPolicy, FleetPolicy, GUTTER_EXPTIME_S_MAX, POLICY_LEN_MAX, RESIZE_WARM_UP_S,
    RESIZE_WARM_UP_S_MAX, SLOTS_MAX, ShadowPolicy, TuningPolicy, VIEWS_MAX, ViewPolicy,
    WARM_UP_EXPTIME_S_MAX, policy_with_slots, shadow_step,
};
