//! Sums over all workers.

use std::sync::Arc;

use stdx::counter::{Counter, Sum, since};

use super::cells::{CLASSES, COMMANDS};
use super::{DestinationPhase, RouteCells};
use crate::message::outcome::Outcome;

macro_rules! totals {
    ($($arrays:ident: $len:expr,)* ; $($names:ident,)*) => {
        /// What all workers have counted.
        #[derive(Clone, Debug)]
        pub(crate) struct RouteTotals {
            $(pub(crate) $arrays: [u64; $len],)*
            $(pub(crate) $names: u64,)*
        }

        impl RouteTotals {
            pub(crate) fn of(all: &[Arc<RouteCells>]) -> RouteTotals {
                RouteTotals {
                    $($arrays: std::array::from_fn(|place| sum(all.iter().map(|cells| &cells.$arrays[place]))),)*
                    $($names: sum(all.iter().map(|cells| &cells.$names)),)*
                }
            }

            /// What was counted since `earlier`.
            pub(crate) fn since(&self, earlier: &RouteTotals) -> RouteTotals {
                RouteTotals {
                    $($arrays: std::array::from_fn(|place| since(self.$arrays[place], earlier.$arrays[place])),)*
                    $($names: since(self.$names, earlier.$names),)*
                }
            }
        }
    };
}

totals! {
    requests: COMMANDS.len(),
    out: COMMANDS.len(),
    out_all: COMMANDS.len(),
    results: Outcome::COUNT,
    results_all: Outcome::COUNT,
    latency_us: CLASSES,
    timed: CLASSES,
    ;
    replied,
    failed,
    get_hits,
    get_misses,
    failovers,
    failed_failovers,
    policy_errors,
    policy_unavailable,
    dev_null,
    clients_opened,
    clients_closed,
    closed_for_memory,
    refused_for_memory,
    servers_opened,
    servers_closed,
    became_unavailable,
    compressed,
    bytes_before,
    bytes_after,
    not_smaller,
    decompressed,
    damaged,
    no_dictionary,
    hot_hits,
    hot_fills,
    hot_dropped,
    hot_evicted,
    hot_bytes,
}

fn sum<'c>(counters: impl Iterator<Item = &'c Counter>) -> u64 {
    counters.collect::<Sum>().value()
}

impl RouteTotals {
    /// Requests of clients.
    pub(crate) fn all_requests(&self) -> u64 {
        self.requests.iter().sum()
    }

    /// Requests at servers, or on their way there.
    pub(crate) fn outstanding(&self) -> u64 {
        since(self.out_all.iter().sum(), self.results_all.iter().sum())
    }

    /// Clients that are connected.
    pub(crate) fn clients(&self) -> u64 {
        since(self.clients_opened, self.clients_closed)
    }

    /// The average time of replies of these classes in microseconds; 0 before the first.
    pub(crate) fn average_us(&self, classes: impl Iterator<Item = usize> + Clone) -> f64 {
        let timed: u64 = classes.clone().map(|class| self.timed[class]).sum();
        let us: u64 = classes.map(|class| self.latency_us[class]).sum();
        if timed == 0 { 0.0 } else { us as f64 / timed as f64 }
    }
}

/// What all destinations are doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServerPhases {
    /// By phase, in the order of [`DestinationPhase::ALL`].
    pub(crate) all: [u64; 4],
    /// Those with TLS.
    pub(crate) tls: [u64; 4],
    /// Requests that wait for a connection.
    pub(crate) pending: u64,
    /// Requests that wait for a reply.
    pub(crate) inflight: u64,
}

impl ServerPhases {
    pub(crate) fn of(all: &[Arc<RouteCells>]) -> ServerPhases {
        let mut phases = ServerPhases::default();
        for destination in all.iter().flat_map(|cells| cells.destinations()) {
            if destination.is_gone() {
                continue;
            }
            let phase = destination.phase();
            phases.all[phase as usize] += 1;
            phases.tls[phase as usize] += u64::from(destination.spec.tls.is_some());
            match phase {
                DestinationPhase::Up => phases.inflight += destination.outstanding(),
                _ => phases.pending += destination.outstanding(),
            }
        }
        phases
    }
}
