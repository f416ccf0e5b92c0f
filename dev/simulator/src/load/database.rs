//! The database behind a cluster: a queue with a time limit, and clients that ask again.
//!
//! Beyond its capacity a queue grows; once waiting takes longer than clients wait, most of its work is for clients that have
//! left, and these ask again. So an overload can outlast its cause (metastable failure).

/// Clients wait this long.
const TIMEOUT_S: f64 = 1.0;
/// Requests of a client after the first that had no answer.
const RETRIES: f64 = 2.0;
/// The queue is bounded: ten time limits, more is refused.
const QUEUE_MAX_S: f64 = 10.0 * TIMEOUT_S;
/// Part of the capacity that still answers somebody who waits, once the queue is longer than the time limit.
const USEFUL_SHARE: f64 = 0.1;

/// A database: its capacity, queue and present success.
#[derive(Clone, Debug)]
pub(super) struct Database {
    capacity: f64,
    queue: f64,
    answered: f64,
}

impl Database {
    /// An idle one with this capacity in requests a second.
    pub(super) fn new(capacity: f64) -> Database {
        Database { capacity, queue: 0.0, answered: 1.0 }
    }

    /// One step with so many misses a second. Returns requests a second with those that are repeated.
    pub(super) fn step(&mut self, misses: f64, seconds: f64) -> f64 {
        let demand = misses * (1.0 + RETRIES * (1.0 - self.answered));
        let backlog = self.queue + (demand - self.capacity) * seconds;
        self.queue = backlog.clamp(0.0, self.capacity * QUEUE_MAX_S);
        let useful =
            if self.queue > self.capacity * TIMEOUT_S { self.capacity * USEFUL_SHARE } else { self.capacity };
        self.answered = if demand > 0.0 { (useful / demand).min(1.0) } else { 1.0 };
        demand
    }

    /// The part of requests that is answered in time.
    pub(super) fn answered(&self) -> f64 {
        self.answered
    }

    /// Nothing waits, and everything is answered.
    pub(super) fn is_calm(&self) -> bool {
        self.queue == 0.0 && self.answered == 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(database: &mut Database, misses: f64, seconds: u32) {
        for _ in 0..seconds {
            database.step(misses, 1.0);
        }
    }

    /// A minute with `trigger` times the usual misses, then ten with the usual ones: part answered at the end.
    #[track_caller]
    fn check(usual: f64, trigger: f64, recovers: bool) {
        let mut database = Database::new(1000.0);
        steps(&mut database, usual * trigger, 60);
        steps(&mut database, usual, 600);
        assert_eq!(database.is_calm(), recovers, "{database:?}");
    }

    #[test]
    fn an_overload_outlasts_its_cause_where_repeated_requests_exceed_the_capacity() {
        check(500.0, 1.5, true);
        check(300.0, 10.0, true);
        check(500.0, 10.0, false);
    }

    #[test]
    fn the_queue_is_bounded() {
        let mut database = Database::new(10.0);
        steps(&mut database, 1e9, 1000);
        assert_eq!(database.queue, 100.0);
        assert_eq!(Database::new(10.0).step(0.0, 1.0), 0.0);
    }
}
