//! Forms of routes that choose one child, or are the end of the way.

pub(crate) mod blackhole;
pub(crate) mod dev_null;
pub(crate) mod error;
pub(crate) mod hash;
pub(crate) mod host_id;
pub(crate) mod null;
pub(crate) mod operation_selector;
pub(crate) mod pool;
pub(crate) mod pool_route;
pub(crate) mod prefix_selector;
pub(crate) mod random;
pub(crate) mod routing_group;
