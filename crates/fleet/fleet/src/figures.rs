//! Figures of members: what agents count of servers and routers, and what controllers make of it for half an hour, and for a day.
//!
//! ```text
//! agent:      a reading of a server or router ─► tally: counters that only grow, and gauges ─► the turn
//! controller: tally, and the one before ─► rates ─► point, 32 bytes ─► the member's last 120
//!                                       └─► requests and errors of pools, by the minute ─► availability
//! ```
//!
//! Counters travel, and not rates: a turn that is lost loses nothing. What is not known stays unknown, and is never zero: it is left out
//! in a tally and in JSON, and a point has a mark for it. A counter that goes back, or a rate that nothing has, is unknown.
//!
//! Nothing of this is in the register: a controller that is started again begins without.

pub mod shadow;

mod book;
mod code;
mod levels;
mod point;
mod rates;
mod tally;

pub use book::{ClusterCounts, FigureBook, MemberPoints, ShadowCompared};
pub use code::FigureCode;
pub use levels::{LEVELS_MAX, LevelRow, MINUTES_KEPT};
pub use point::{FigurePoint, POINTS_KEPT, RouterRates, ServerRates};
pub use rates::HeardTurn;
pub use tally::{
    MemberTally, POOL_NAME_LEN_MAX, POOLS_PER_TALLY_MAX, PoolTally, RouterPageTally, RouterTally,
    ServerPageTally,
};
