//! One load from several machines: a coordinator here, an agent on each of them.
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

/// Which part of a load is this machine's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) index: usize,
    pub(crate) of: usize,
}

impl Part {
    pub(crate) const WHOLE: Part = Part { index: 0, of: 1 };

    /// The numbers of this part's items.
    pub(crate) fn items(self, count: u64) -> std::ops::Range<u64> {
        let edge = |index: usize| (u128::from(count) * index as u128 / self.of as u128) as u64;
        edge(self.index)..edge(self.index + 1)
    }

    /// How many of `total` are this part's: the first ones take the remainder.
    pub(crate) fn share(self, total: u64) -> u64 {
        let of = self.of as u64;
        total / of + u64::from((self.index as u64) < total % of)
    }
}
