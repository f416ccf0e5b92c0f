//! Routes that limit, delay or note requests.

pub(crate) mod latency_injection;
pub(crate) mod logging;
pub(crate) mod outstanding;
pub(crate) mod rate_limit;
