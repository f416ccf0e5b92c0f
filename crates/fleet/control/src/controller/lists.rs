//! Lists for clients with auto-discovery: those of servers, by clusters, and those of routers.

pub(crate) mod cluster_files;
pub(crate) mod router_lists;
