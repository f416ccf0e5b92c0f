//! The control plane: carries out what `fleet` decides.
//!
//! Nothing in here decides: a register keeps decisions, controllers publish them, agents put them into force.

mod router_client;
mod router_file;

pub use router_client::{RouterClient, RouterClientError};
pub use router_file::{RouterFile, RouterFileError};
