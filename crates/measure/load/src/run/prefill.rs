//! Prefill: every key is stored before a run.

use super::gathered::All;
use super::workers::Task;
use super::{PROGRESS_EVERY, Runner};
use crate::report::follower::Follower;
use crate::run::shared::{Phase, RunState, Start};
use crate::types::clock::now_ns;
use crate::types::error::Error;
use crate::types::probes::Traffic;
use crate::workload::compose::Composer;

impl Runner<'_> {
    /// Stores every key.
    pub(super) fn prefill(&self, follower: &mut dyn Follower) -> Result<(), Error> {
        let plan = self.plan;
        let item_size = plan.items.values.mean() + plan.items.keys.mean();
        let depth = match (plan.run.udp, plan.run.tls) {
            (false, false) => ((PREFILL_IN_FLIGHT / item_size) as usize).clamp(1, 64),
            (true, _) => ((PREFILL_DATAGRAMS / item_size) as usize).clamp(1, 8),
            // memcached 1.6.18 stops listening to a connection whose records hold more than its buffer of 16 KiB and
            // not each a single set.
            (false, true) => 1,
        };
        let items = plan.part.items(plan.fills());
        let count = items.end - items.start;
        let mut start = items.start;
        let shared = RunState::new(plan.run.threads, Phase::Measure);
        let tasks = (0..plan.run.threads).map(|index| {
            let end = start + plan.share(count, index);
            let composer = Composer::fill(plan, start..end);
            start = end;
            let connections =
                plan.share(plan.connections.min(PREFILL_CONNECTIONS * plan.run.threads) as u64, index);
            Task {
                traffic: Traffic::Load,
                shared: &shared,
                slot: index,
                composer,
                pace: None,
                share: plan.thread(index),
                seed: plan.run.seed,
                index,
                connections: connections as usize,
                depth,
                verify: false,
                backfill: false,
                requests_max: None,
                repeats: PREFILL_REPEATS,
                churn: None,
                is_endless: true,
            }
        });
        let tally = self.with_workers(tasks.collect(), None, |reports| {
            let mut all = All::new(plan.run.threads, 0);
            all.wait_ready(reports)?;
            let at_ns = now_ns();
            shared.begin(Start { at_ns, window_ns: at_ns..u64::MAX });
            while !all.wait(reports, now_ns() + PROGRESS_EVERY.as_nanos() as u64)? {
                follower.stored(shared.total().0, count)?;
                // The latency of storing is not reported.
                drop(all.load.seconds.take());
            }
            all.checked()?;
            Ok(all.load.tally)
        })?;
        // What a connection that has ended took with it was stored again.
        let lost = tally.failures.lost();
        let refused = tally.errors + tally.not_stored() + lost;
        if refused > 0 {
            let other = if lost > 0 { "no reply" } else { "NOT_STORED" };
            let example = tally.error_lines.into_keys().next().unwrap_or_else(|| String::from(other));
            return Err(Error::Prefill { refused, keys: count, example });
        }
        follower.filled(count)
    }
}

/// Bytes on their way per connection while prefilling, about.
const PREFILL_IN_FLIGHT: f64 = 65_536.0;
/// The same of datagrams: a socket of a server holds about 200 KiB, and a small datagram takes one of them.
const PREFILL_DATAGRAMS: f64 = 8192.0;
/// A datagram that is lost this many times in a row reaches no server, or one that does not accept it.
const PREFILL_REPEATS: u32 = 10;
/// Enough to keep a server busy; more would only cost it memory.
const PREFILL_CONNECTIONS: usize = 8;
