//! Agents: one load from several machines, a coordinator here, an agent on each of them.
//!
//! They exchange lines of JSON over the agent's standard input and output ([`talk`]), over any transport: ssh, a
//! network namespace, a container. Each agent runs its share of the load with a schedule that is a part of the whole
//! (agent.rs). The coordinator (coordinate.rs) starts them at one moment, given to each in its own clock, and
//! combines what they measured: histograms are added, percentiles never averaged (unite.rs). kubernetes.rs writes a
//! job whose pods can be agents.

mod agent;
mod coordinate;
mod kubernetes;
pub(crate) mod talk;
mod unite;

pub use agent::agent;
pub use coordinate::{run_on_agents, search_on_agents};
pub use kubernetes::kubernetes_job;
