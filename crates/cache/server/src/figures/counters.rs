//! Counters of a worker. Each worker has its own, and `stats` sums them on demand.

use std::sync::Arc;

use stdx::counter::{Counter, Sum, since};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// One worker's counters, under memcached's names.
        #[derive(Debug, Default)]
        #[repr(align(128))] // Two cache lines: neighbours' prefetchers take lines in pairs.
        pub(crate) struct Counters { $($(#[$doc])* pub(crate) $name: Counter,)* }

        /// Sums of all workers' counters at one moment.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub(crate) struct Totals { $(pub(crate) $name: u64,)* }

        impl Totals {
            /// What all workers have counted.
            pub(crate) fn of(all: &[Arc<Counters>]) -> Totals {
                Totals { $($name: all.iter().map(|counters| &counters.$name).collect::<Sum>().value(),)* }
            }

            /// What has been counted since `earlier`.
            pub(crate) fn since(&self, earlier: &Totals) -> Totals {
                Totals { $($name: since(self.$name, earlier.$name),)* }
            }
        }
    };
}

counters! {
    /// Keys requested by any retrieval command.
    cmd_get,
    cmd_set,
    cmd_flush,
    cmd_touch,
    /// Meta commands of any kind.
    cmd_meta,
    get_hits,
    get_misses,
    delete_misses,
    delete_hits,
    incr_misses,
    incr_hits,
    decr_misses,
    decr_hits,
    cas_misses,
    cas_hits,
    cas_badval,
    touch_hits,
    touch_misses,
    store_too_large,
    store_no_memory,
    auth_cmds,
    lru_crawler_starts,
    auth_errors,
    /// Connections of the binary protocol that were refused, because with `-Y` alone it has no login.
    binary_refused,
    /// Datagrams that were served.
    udp_requests,
    /// Datagrams of senders that are not allowed.
    udp_refused,
    /// Datagrams that are no requests, or parts of requests.
    udp_malformed,
    /// Replies that were not sent because of the limit for their network.
    udp_limited,
    /// Replies with large values that found no room in a round.
    udp_dropped,
    /// Turns that ended because the connection had reached its number of requests per turn.
    conn_yields,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_sums_and_can_start_over() {
        let all = [Arc::<Counters>::default(), Arc::default()];
        all[0].cmd_get.add(3);
        all[1].cmd_get.add(4);
        all[1].touch_hits.add(1);
        let totals = Totals::of(&all);
        assert_eq!((totals.cmd_get, totals.touch_hits), (7, 1));
        assert_eq!(totals.since(&totals), Totals::default());
    }
}
