//! The control plane: carries out what `fleet` decides.
//!
//! Nothing in here decides: a register keeps decisions, controllers publish them, agents put them into force.

pub mod register;
