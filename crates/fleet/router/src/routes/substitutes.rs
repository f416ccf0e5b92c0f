//! Routes that ask another child in place of the first.

pub(crate) mod failover;
pub(crate) mod failover_with_exptime;
pub(crate) mod fill;
pub(crate) mod latest;
pub(crate) mod migrate;
pub(crate) mod miss_failover;
pub(crate) mod warm_up;
