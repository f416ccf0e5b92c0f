//! The small world: real routers, servers and controllers over a simulated network, and clients that check every answer.
//!
//! ```text
//! clients ──► RouteWorker (router) ──► server::Worker            net::sim::World: delays, partitions, resets
//!    │             ▲ reload                  ▲ flush_all
//!    │        agent's disk (torn, full)      │
//!    │             ▲ fleet::probation        │
//!    │           agents ◄── turns ──► control::Controller × 3 ──► SimulatedRegister
//!    └──► KeyHistory ──► judge: what may this answer be?
//! ```
//!
//! It is the counterpart of the fleet world: few hosts, but real bytes. What is simulated is what opens sockets, files or
//! threads: the network, the disks, the agents' rounds and the register. A run follows from its seed alone.

#[cfg(test)]
mod after_a_cut;
mod agents;
mod askers;
mod bug;
mod controllers;
mod disk;
mod faults;
mod history;
mod judge;
mod members;
mod route_log;
mod routers;
mod shape;
#[cfg(test)]
mod tests;
mod traffic;
mod world;

pub use bug::SmallBug;
pub use world::{SmallRun, SmallViolation, play};
