//! Lists that clients with auto-discovery are told.

mod cluster_files;
mod router_lists;

use super::*;
