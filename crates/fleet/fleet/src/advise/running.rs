//! Capacity that is left on hosts that run, and when the first of them is used up.
//!
//! ```text
//!  daily peaks ──► trend: level and growth, each with its interval ─┐
//!  use, limit, what an allowance of the cloud held back ────────────┴─► outlook: when it binds
//! ```

mod outlook;
mod state;
mod trend;

pub use outlook::{OUTLOOK_WEEKS_MAX, UseOutlook, outlook};
pub use state::{
    AllowanceMet, HOST_CPU_CEILING, HostUse, ResourceState, USE_HEADROOM, UseLimit, UsedResource,
};
pub use trend::{DayPeak, GrowthRange, NoTrend, TREND_DAYS_MIN, UseTrend, use_trend};
