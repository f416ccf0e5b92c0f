//! Types that all folders share: values of flags, each with its parser and its text; errors; times.
//!
//! Nothing here uses another folder, opens a socket or starts a thread. `clock` reads the clock for all.

pub(crate) mod arguments;
pub(crate) mod arrivals;
pub(crate) mod churn;
pub(crate) mod clock;
pub(crate) mod description;
pub(crate) mod error;
pub(crate) mod mix;
pub(crate) mod objective;
pub(crate) mod part;
pub(crate) mod popularity;
pub(crate) mod probes;
pub(crate) mod profiles;
pub(crate) mod sizes;
pub(crate) mod span;
pub(crate) mod ttl;
