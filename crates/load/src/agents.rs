//! Agents: one load from several machines, a coordinator here, an agent on each of them.
//!
//! They talk in lines of JSON over the agent's standard input and output ([`talk`]), whatever carries those: ssh, a
//! network namespace, a container. Each agent runs its share of the load with a schedule that is a part of the whole
//! (agent.rs). The coordinator (coordinate.rs) starts them at one moment, told to each in its own clock, and puts
//! together what they measured: histograms are added, never percentiles averaged (unite.rs). A job of pods that can be
//! agents is a text (kubernetes.rs).

mod agent;
mod coordinate;
mod kubernetes;
pub(crate) mod talk;
mod unite;

pub use agent::agent;
pub use coordinate::{run_on_agents, search_on_agents};
pub use kubernetes::kubernetes_job;
