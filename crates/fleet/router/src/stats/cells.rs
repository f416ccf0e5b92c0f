//! Counters of one worker: requests by command, outcomes, failovers, connections.

use std::sync::{Arc, Mutex, PoisonError};

use stdx::counter::Counter;

use super::{AllPoolCells, DestinationCells};
use crate::message::operation::{Operation, OperationClass};
use crate::message::outcome::Outcome;

/// The commands that are counted, by mcrouter's names. Meta commands count as what they do.
pub(crate) const COMMANDS: [&str; 15] = [
    "add", "append", "cas", "decr", "delete", "flushall", "gat", "gats", "get", "gets", "incr", "prepend",
    "replace", "set", "touch",
];

/// Classes of operations.
pub(crate) const CLASSES: usize = 5;

/// Counters of one worker. Only that worker writes them.
#[derive(Debug, Default)]
#[repr(align(128))] // Two cache lines: neighbours' prefetchers take lines in pairs.
pub(crate) struct RouteCells {
    /// Requests of clients, one for each key of a `get`.
    pub(crate) requests: [Counter; COMMANDS.len()],
    /// Requests to servers, without those of a failover.
    pub(crate) out: [Counter; COMMANDS.len()],
    /// Requests to servers, all of them.
    pub(crate) out_all: [Counter; COMMANDS.len()],
    /// Those that have a reply, sent or not (`noreply`).
    pub(crate) replied: Counter,
    /// Those of them that are errors.
    pub(crate) failed: Counter,
    /// Those that are gets of an item that is there, and of one that is not, as their clients see it.
    pub(crate) get_hits: Counter,
    pub(crate) get_misses: Counter,
    /// Outcomes of requests to servers, without those of a failover.
    pub(crate) results: [Counter; Outcome::COUNT],
    /// Outcomes of all requests to servers.
    pub(crate) results_all: [Counter; Outcome::COUNT],
    /// Sum of the times of replies, in microseconds, by class.
    pub(crate) latency_us: [Counter; CLASSES],
    /// Replies in those sums.
    pub(crate) timed: [Counter; CLASSES],
    /// Requests that went to another server after an error.
    pub(crate) failovers: Counter,
    /// Those of them that ended with an error.
    pub(crate) failed_failovers: Counter,
    /// Errors after which another server may be asked, and those of them that need no server to know.
    pub(crate) policy_errors: Counter,
    pub(crate) policy_unavailable: Counter,
    /// Requests at a DevNullRoute.
    pub(crate) dev_null: Counter,
    pub(crate) clients_opened: Counter,
    pub(crate) clients_closed: Counter,
    /// Clients that were closed because they held too much, and values that were refused because of too much in all.
    pub(crate) closed_for_memory: Counter,
    pub(crate) refused_for_memory: Counter,
    pub(crate) servers_opened: Counter,
    pub(crate) servers_closed: Counter,
    /// Times that a server became unavailable, by the worker that noticed.
    pub(crate) became_unavailable: Counter,
    /// Values that pools with compression have stored compressed, their bytes, and the bytes in their place.
    pub(crate) compressed: Counter,
    pub(crate) bytes_before: Counter,
    pub(crate) bytes_after: Counter,
    /// Values that did not become smaller.
    pub(crate) not_smaller: Counter,
    pub(crate) decompressed: Counter,
    /// Values whose stored form is none, or has changed.
    pub(crate) damaged: Counter,
    /// Values whose dictionary is not there.
    pub(crate) no_dictionary: Counter,
    /// Gets that hot values in this worker have answered.
    pub(crate) hot_hits: Counter,
    /// Values that were kept.
    pub(crate) hot_fills: Counter,
    /// Those that were dropped because of an update, a flush, a lost connection or another configuration.
    pub(crate) hot_dropped: Counter,
    /// Those that made room for others before their time.
    pub(crate) hot_evicted: Counter,
    /// Bytes of those that are there.
    pub(crate) hot_bytes: Counter,
    /// Of the pools that have statistics of their own; none without `--pool-stats-config-file`.
    pub(crate) pools: AllPoolCells,
    /// The cells of this worker's destinations, in the order of their places.
    destinations: Mutex<Vec<Arc<DestinationCells>>>,
}

impl RouteCells {
    /// With so many pools that have statistics of their own.
    pub(crate) fn with_pools(count: usize) -> RouteCells {
        RouteCells { pools: (0..count).map(|_| Default::default()).collect(), ..RouteCells::default() }
    }

    /// A request of a client has begun.
    #[inline]
    pub(crate) fn request(&self, operation: Operation) {
        self.requests[command_index(operation)].add(1);
    }

    /// One of its requests has a reply.
    #[inline]
    pub(crate) fn replied(&self, operation: Option<Operation>, outcome: Outcome) {
        self.replied.add(1);
        if operation.is_some_and(|operation| operation.class() == OperationClass::Get) {
            match outcome {
                Outcome::Found => self.get_hits.add(1),
                Outcome::NotFound => self.get_misses.add(1),
                _ => {}
            }
        }
        if outcome.is_error() {
            self.failed.add(1);
        }
    }

    /// `count` requests are sent to a server, or cannot be.
    #[inline]
    pub(crate) fn sent(&self, operation: Operation, count: u64, is_failover: bool) {
        let command = command_index(operation);
        self.out_all[command].add(count);
        if !is_failover {
            self.out[command].add(count);
        }
    }

    /// `count` requests to a server have this outcome.
    #[inline]
    pub(crate) fn ended(&self, outcome: Outcome, count: u64, is_failover: bool) {
        self.results_all[outcome as usize].add(count);
        if !is_failover {
            self.results[outcome as usize].add(count);
        }
    }

    /// A reply, or the end of waiting for it, came after this time.
    #[inline]
    pub(crate) fn took(&self, operation: Operation, us: u64) {
        let class = class_index(operation.class());
        self.latency_us[class].add(us);
        self.timed[class].add(1);
    }

    /// Puts a destination at its place among those that are reported.
    pub(crate) fn show(&self, place: u32, cells: &Arc<DestinationCells>) {
        let mut all = self.destinations.lock().unwrap_or_else(PoisonError::into_inner);
        match all.get_mut(place as usize) {
            Some(old) => *old = Arc::clone(cells),
            None => all.push(Arc::clone(cells)),
        }
    }

    /// The cells of all destinations.
    pub(crate) fn destinations(&self) -> Vec<Arc<DestinationCells>> {
        self.destinations.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The place of a command in [`COMMANDS`].
#[inline]
pub(crate) fn command_index(operation: Operation) -> usize {
    use protocol::request::{ArithmeticMode, SetMode};
    match operation {
        Operation::Add | Operation::MetaSet(SetMode::Add) => 0,
        Operation::Append | Operation::MetaSet(SetMode::Append) => 1,
        Operation::Cas => 2,
        Operation::Decrement | Operation::MetaArithmetic(ArithmeticMode::Decrement) => 3,
        Operation::Delete | Operation::MetaDelete => 4,
        Operation::FlushAll => 5,
        Operation::Gat => 6,
        Operation::Gats => 7,
        Operation::Get | Operation::MetaGet | Operation::MetaDebug => 8,
        Operation::Gets => 9,
        Operation::Increment | Operation::MetaArithmetic(ArithmeticMode::Increment) => 10,
        Operation::Prepend | Operation::MetaSet(SetMode::Prepend) => 11,
        Operation::Replace | Operation::MetaSet(SetMode::Replace) => 12,
        Operation::Set | Operation::MetaSet(SetMode::Set) => 13,
        Operation::Touch => 14,
    }
}

/// The place of a class in the arrays by class.
#[inline]
pub(crate) fn class_index(class: OperationClass) -> usize {
    match class {
        OperationClass::Get => 0,
        OperationClass::Update => 1,
        OperationClass::Delete => 2,
        OperationClass::Arithmetic => 3,
        OperationClass::Touch => 4,
    }
}

#[cfg(test)]
mod tests {
    use protocol::request::{ArithmeticMode, SetMode};

    use super::*;

    #[test]
    fn commands_are_counted_under_the_names_that_routes_know() {
        use Operation::*;
        let sets = [SetMode::Set, SetMode::Add, SetMode::Replace, SetMode::Append, SetMode::Prepend];
        let meta = sets.map(MetaSet);
        let arithmetic = [ArithmeticMode::Increment, ArithmeticMode::Decrement].map(MetaArithmetic);
        let classic = [
            Get, Gets, Gat, Gats, Set, Add, Replace, Append, Prepend, Cas, Delete, Increment, Decrement,
            Touch, MetaGet, MetaDelete, MetaDebug, FlushAll,
        ];
        for operation in classic.into_iter().chain(meta).chain(arithmetic) {
            assert_eq!(COMMANDS[command_index(operation)], operation.name(), "{operation:?}");
        }
    }
}
