//! Probes: a few connections that measure how slow the server is while the load keeps it busy.
//!
//! They are an open loop of their own, with a thread, a schedule and counts of their own: a closed loop cannot
//! measure latency at a rate, and connections of a saturating load wait behind each other, in the client too. Probes
//! ask little and wait alone. Their times are random (Poisson), so that they sample the server's state over time
//! without bias.

use super::Runner;
use super::workers::Task;
use crate::run::shared::RunState;
use crate::types::arrivals::Arrivals;
use crate::types::arrivals::pace::{OpenLoopPace, Timing};
use crate::types::part::Share;
use crate::types::probes::{Probes, Traffic};
use crate::workload::compose::Composer;

impl Runner<'_> {
    /// The task of the probes' thread: the commands of the load, one at a time on each connection.
    pub(super) fn probes<'a>(&'a self, asked: Probes, shared: &'a RunState) -> Task<'a> {
        let plan = self.plan;
        let seed = stdx::prng::mix(plan.run.seed ^ SALT);
        Task {
            traffic: Traffic::Probes,
            shared,
            slot: 0,
            composer: Composer::probe(plan, seed),
            pace: Some(OpenLoopPace {
                timing: Timing::Law(asked.rate, Arrivals::Poisson),
                sleep: plan.sleep.alone(),
            }),
            share: Share { index: 0, threads: 1 },
            seed,
            index: plan.run.threads,
            connections: asked.connections,
            depth: 1,
            verify: plan.run.verify,
            backfill: false,
            requests_max: None,
            repeats: 0,
            churn: None,
            is_endless: false,
        }
    }
}

/// A seed of its own keeps the probes' keys and times independent of the load.
const SALT: u64 = 0x7072_6f62_6573_0000;
