//! Routes that ask another child in place of the first.

pub(crate) mod failover;
pub(crate) mod fill;
pub(crate) mod miss_failover;
