//! Simulated fleets: the decisions of crate `fleet` under faults, with requests as a fluid.
//!
//! ```text
//! scenario ──► FleetWorld ──► agents' turns, probes, routers' reports ──► ControllerGroup (fleet::health) ──► replacements
//!                  │                                                                                            │
//!                  └──► FluidLoad (warmth curves, capacities, databases) ◄──────────────────────────────────────┘
//!                  └──► InvariantChecker, Sample
//! ```
//!
//! Development only: nothing that is shipped depends on it. It opens no socket, reads no clock, and draws its random numbers
//! from one seed: equal seeds give equal histories.

mod bug;
mod checker;
mod controllers;
mod fault;
mod hosts;
mod load;
mod queue;
mod register;
pub mod scenario;
mod shape;
pub mod small;
pub mod waves;
pub mod world;

pub use bug::PlantedBug;
pub use shape::FleetShape;
