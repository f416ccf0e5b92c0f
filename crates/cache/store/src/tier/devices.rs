//! Devices of a flash tier, each with what is known of it: how it fares, and how much may be written to it.

pub(super) mod health;
pub(super) mod pressure;
pub(super) mod write_budget;
