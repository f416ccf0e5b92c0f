//! The control plane: carries out what `fleet` decides.
//!
//! Nothing in here decides: a register keeps decisions, controllers publish them, agents put them into force.

pub mod audit;
pub mod authorise;
pub mod authority;
pub mod identity;
pub mod join_token;
pub mod register;

mod access;
mod agent;
mod client;
mod controller;
mod controller_thread;
mod decisions;
mod liveness;
mod private_file;
mod probe;
mod questions;
mod relay;
mod route_check;
mod router_client;
mod router_file;
mod seats;
mod service;
mod turn;
mod wire;
mod words;

#[cfg(test)]
mod testing;

pub use access::Requester;
pub use agent::{AgentRouter, AgentServer, AgentSettings, ControllerChoice, ProcessLook, start_agent};
pub use client::{ControlAnswer, ControlClient, ControlFault, ControlPlace};
pub use controller::{Controller, ControllerSettings};
pub use controller_thread::{moment, run_controller, start_watch};
pub use decisions::{
    FleetDecisions, GENERATIONS_KEPT, HELD_MAX, NewGeneration, Publication, ReplacedChange, SharedRegister,
};
pub use liveness::LivenessOutbox;
pub use probe::{ProbeResult, start_probes};
pub use questions::{ChangeQuestion, ChangeRequest, ControlQuestion, RolloutAct, question};
pub use relay::{RelaySettings, start_relay};
pub use route_check::{CheckedRoutes, KEYS_SAMPLED, RouteDifference};
pub use seats::AgentSeats;
pub use service::{ControlService, ControllerMessage, SayLine};
pub use turn::*;
pub use wire::PeerPlace;
