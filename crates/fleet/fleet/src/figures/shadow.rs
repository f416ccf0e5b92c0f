//! Shadows that routers compare: what each counts, what all have counted in the last minutes, and a condition that waits for it.
//!
//! ```text
//! router:     replies of a cluster and of its shadow ─► counts that begin anew with each configuration
//! agent:      the router's page ─► tally of each shadow, with the turn
//! controller: tally, and the one before ─► sums of all routers, by the minute ─► report, gate
//! ```
//!
//! What is not known stays unknown: a shadow of which no router has told anything has no sums, and not zeros.

mod book;
mod gate;
mod tally;
mod times;

pub use book::{ShadowBook, ShadowSums, ShadowWindow, WINDOW_MAX_S};
pub use gate::{GateState, SAMPLES_MIN, ShadowGate};
pub(crate) use tally::fit_shadows;
pub use tally::{SHADOWS_PER_TALLY_MAX, ShadowTally, limit_shadows};
pub use times::{ReplyTimes, time_bucket};
