//! Routers: what a configuration does with keys, the configuration file of a router, and the questions to one that runs.

pub(crate) mod pool_owners;
pub(crate) mod resize_check;
pub(crate) mod route_check;
pub(crate) mod router_client;
pub(crate) mod router_file;
