//! The control plane: carries out what `fleet` decides.
//!
//! Nothing in here decides: a register keeps decisions, controllers publish them, agents put them into force.

pub mod audit;
pub mod authorise;
pub mod authority;
pub mod identity;
pub mod join_token;

mod private_file;

#[cfg(test)]
mod testing;
