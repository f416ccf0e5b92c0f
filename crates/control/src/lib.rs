//! The control plane: carries out what `fleet` decides.
//!
//! Nothing in here decides: a register keeps decisions, controllers publish them, agents put them into force.

pub mod register;

mod client;
mod seats;
mod turn;

pub use client::{ControlAnswer, ControlClient, ControlFault, ControlPlace};
pub use seats::{AgentSeats, NoSeat, SEATS_MAX};
pub use turn::*;
