//! What a worker counts. Each worker has its own, and `stats` sums them on demand.

use stdx::counter::Counter;

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
            /// Adds what one worker has counted.
            pub(crate) fn add(&mut self, counters: &Counters) {
                $(self.$name += counters.$name.value();)*
            }

            /// What has been counted since `earlier`.
            pub(crate) fn since(&self, earlier: &Totals) -> Totals {
                Totals { $($name: self.$name.wrapping_sub(earlier.$name),)* }
            }
        }
    };
}

counters! {
    /// Keys asked for, by any retrieval command.
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
    auth_errors,
    /// Connections that began with a request of the binary protocol, and were told that it is not understood.
    binary_refused,
    /// Turns that ended because the connection had reached its number of requests per turn.
    conn_yields,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_sums_and_can_start_over() {
        let (first, second) = (Counters::default(), Counters::default());
        first.cmd_get.add(3);
        second.cmd_get.add(4);
        second.touch_hits.add(1);
        let mut totals = Totals::default();
        totals.add(&first);
        totals.add(&second);
        assert_eq!((totals.cmd_get, totals.touch_hits), (7, 1));
        assert_eq!(totals.since(&totals), Totals::default());
    }
}
