//! The control plane: carries out what `fleet` decides.
//!
//! Nothing in here decides: a register keeps decisions, controllers publish them, agents put them into force.

pub mod audit;
pub mod identity;
pub mod register;

mod agent;
mod client;
mod controller;
mod controller_thread;
mod decisions;
mod liveness;
mod probe;
mod routers;
mod service;
mod wire;
mod words;

#[cfg(test)]
mod testing;

pub use agent::{
    AgentFigures, AgentProgram, AgentRouter, AgentServer, AgentSettings, ControllerChoice, HostProgram,
    HostUpgrade, MetricsPlace, ProcessLook, TuneSettings, UpgradeSettings, UpgradedKind, UpgradedMember,
    start_agent,
};
pub use client::{ControlAnswer, ControlClient, ControlFault, ControlPlace};
pub use controller::{ConsoleLinks, Controller, ControllerSettings, NoConsoleLink};
pub use controller_thread::{moment, run_controller, start_watch};
pub use decisions::{
    FleetDecisions, GENERATIONS_KEPT, HELD_MAX, NewGeneration, Publication, ReplacedChange, SharedRegister,
};
pub use identity::{authority, join_token};
pub use liveness::LivenessOutbox;
pub use liveness::relay::{RelaySettings, start_relay};
pub use probe::objective::{ObjectiveBoard, PrometheusPlace, start_objectives};
pub use probe::{ProbeResult, start_probes};
pub use routers::route_check::{CheckedRoutes, KEYS_SAMPLED, RouteDifference};
pub use service::access::Requester;
pub use service::access::may_read;
pub use service::authorise;
pub use service::pages::{AgentPages, ControllerPages, SharedFigures};
pub use service::questions::{
    ChangeQuestion, ChangeRequest, ControlQuestion, RolloutAct, ScaleQuestion, question,
};
pub use service::seats::AgentSeats;
pub use service::turn::*;
pub use service::{ControlService, ControllerMessage, SayLine};
pub use wire::{PeerPlace, refresh_certificates, shown_certificate};
