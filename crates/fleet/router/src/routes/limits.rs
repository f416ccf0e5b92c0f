//! Routes that let requests wait or note them.

pub(crate) mod latency_injection;
pub(crate) mod logging;
pub(crate) mod outstanding;
