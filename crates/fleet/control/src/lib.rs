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

pub use identity::{authority, join_token};
pub use service::authorise;

pub use agent::{
    AgentError, AgentRouter, AgentServer, AgentSettings, ControllerChoice, ProcessLook, start_agent,
};
pub use client::{ControlAnswer, ControlClient, ControlFault, ControlPlace};
pub use controller::{Controller, ControllerError, ControllerSettings, MemberState};
pub use controller_thread::{moment, run_controller, start_watch};
pub use decisions::{
    CONDEMNED_MAX, FleetDecisions, GENERATIONS_KEPT, GONE_MAX, GoneHost, HELD_MAX, HeldRecord, ListScope,
    ListedRouter, NewGeneration, Publication, REPLACED_GONE_MAX, REPLACED_KEPT, REPLACED_SLOTS_MAX,
    ReplacedChange, ReplacedRecord, RolloutWord, RouterList, SharedRegister, TargetRecord, sha256_hex,
};
pub use liveness::relay::{RelaySettings, start_relay};
pub use liveness::{LivenessOutbox, LivenessReport, ProbeDigest, TURNS_PER_MESSAGE};
pub use probe::{ProbeList, ProbeResult, ProbeSink, ProbeTarget, start_probes};
pub use routers::route_check::{CheckedRoutes, KEYS_SAMPLED, RouteDifference};
pub use routers::router_client::{RouterClient, RouterClientError};
pub use routers::router_file::{RouterFile, RouterFileError};
pub use service::access::{Requester, verb_of};
pub use service::questions::{
    AdoptQuestion, ChangeQuestion, ChangeRequest, ControlQuestion, DrainQuestion, FreezeScope, JoinQuestion,
    QuestionFault, RolloutAct, question,
};
pub use service::seats::{AgentSeats, NoSeat, SEATS_MAX};
pub use service::turn::*;
pub use service::{ControlService, ControllerMessage, SayLine};
pub use wire::PeerPlace;
