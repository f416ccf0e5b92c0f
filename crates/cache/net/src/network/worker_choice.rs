//! The choice of a worker for a connection, by the CPU or the receive queue of its packets.
//!
//! Shared by the threads that deal connections out. Whoever does not get a worker here deals in turn.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::net::sockopt::socket_incoming_cpu;

use crate::network::placement::{Deal, WorkerPlacement};
use crate::sockets::napi_id::incoming_napi_id;

/// Connections that a worker may have been given more than the one that got the fewest, by its CPU. A host whose network
/// interface has one queue handles all packets on one CPU, whose worker would get everything.
const LEAD_MAX: u64 = 64;

/// Sums of all dealing threads.
#[derive(Default)]
pub(crate) struct WorkerChoice {
    deal: Deal,
    /// The CPU of each worker.
    cpus: Vec<u32>,
    /// The queue of each worker; 0 for none yet.
    napi_ids: Mutex<Vec<u32>>,
    /// Connections that each worker was given by its CPU.
    given: Mutex<Vec<u64>>,
    /// Connections without a worker of their CPU or queue.
    pub(crate) fallbacks: AtomicU64,
    /// Queues beyond the number of workers.
    pub(crate) unexpected_ids: AtomicU64,
}

impl WorkerChoice {
    pub(crate) fn new(placement: &WorkerPlacement, workers: usize) -> WorkerChoice {
        WorkerChoice {
            deal: placement.deal,
            cpus: placement.cpus.clone(),
            napi_ids: Mutex::new(vec![0; workers]),
            given: Mutex::new(vec![0; workers]),
            ..WorkerChoice::default()
        }
    }

    /// The worker for a connection; `None` for the next in turn.
    pub(crate) fn worker(&self, socket: impl AsFd) -> Option<usize> {
        let worker = match self.deal {
            Deal::InTurn => return None,
            Deal::ByCpu => socket_incoming_cpu(socket).ok().and_then(|cpu| self.by_cpu(cpu)),
            Deal::ByNapiId => incoming_napi_id(socket).map(|id| self.by_napi_id(id)),
        };
        if worker.is_none() {
            self.fallbacks.fetch_add(1, Ordering::Relaxed);
        }
        worker
    }

    fn by_cpu(&self, cpu: u32) -> Option<usize> {
        let near = self.cpus.iter().position(|own| *own == cpu)?;
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        let (least, fewest) = given.iter().copied().enumerate().min_by_key(|(_, given)| *given)?;
        let has_lead = given[near] >= fewest + LEAD_MAX;
        let worker = if has_lead { least } else { near };
        if has_lead {
            self.fallbacks.fetch_add(1, Ordering::Relaxed);
        }
        given[worker] += 1;
        Some(worker)
    }

    /// As memcached: the first worker without a queue takes a new one; when there is none, all begin anew.
    fn by_napi_id(&self, id: u32) -> usize {
        let mut ids = self.napi_ids.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(worker) = ids.iter().position(|own| *own == id || *own == 0) {
            ids[worker] = id;
            return worker;
        }
        self.unexpected_ids.fetch_add(1, Ordering::Relaxed);
        ids.fill(0);
        ids[0] = id;
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(deal: Deal, cpus: &[u32]) -> WorkerChoice {
        WorkerChoice::new(&WorkerPlacement { deal, cpus: cpus.to_vec(), busy_poll_us: 0 }, cpus.len())
    }

    #[test]
    fn queues_are_given_workers_in_the_order_in_which_they_appear() {
        let choice = choice(Deal::ByNapiId, &[0, 1, 2]);
        let workers = [70, 80, 70, 90, 80].map(|id| choice.by_napi_id(id));
        assert_eq!((workers, choice.unexpected_ids.load(Ordering::Relaxed)), ([0, 1, 0, 2, 1], 0));
    }

    #[test]
    fn one_queue_more_than_workers_begins_anew_as_in_memcached() {
        let choice = choice(Deal::ByNapiId, &[0, 1]);
        let workers = [70, 80, 90, 70, 90].map(|id| choice.by_napi_id(id));
        assert_eq!((workers, choice.unexpected_ids.load(Ordering::Relaxed)), ([0, 1, 0, 1, 0], 1));
    }

    #[test]
    fn a_cpu_has_its_own_worker_and_others_have_none() {
        let choice = choice(Deal::ByCpu, &[4, 6]);
        assert_eq!([4, 6, 5].map(|cpu| choice.by_cpu(cpu)), [Some(0), Some(1), None]);
    }

    #[test]
    fn a_cpu_that_handles_all_packets_does_not_get_all_connections() {
        let choice = choice(Deal::ByCpu, &[4, 6]);
        let given: Vec<_> = (0..1000).filter_map(|_| choice.by_cpu(4)).collect();
        let near = given.iter().filter(|worker| **worker == 0).count();
        assert_eq!((given.len(), near), (1000, 500 + LEAD_MAX as usize / 2));
        assert_eq!(choice.fallbacks.load(Ordering::Relaxed), 500 - LEAD_MAX / 2);
    }

    #[test]
    fn a_connection_without_a_queue_is_dealt_in_turn_and_counted() {
        let (one, _other) = std::os::unix::net::UnixStream::pair().expect("a pair");
        let by_queue = choice(Deal::ByNapiId, &[0, 1]);
        assert_eq!((by_queue.worker(&one), by_queue.fallbacks.load(Ordering::Relaxed)), (None, 1));
        let in_turn = choice(Deal::InTurn, &[0, 1]);
        assert_eq!((in_turn.worker(&one), in_turn.fallbacks.load(Ordering::Relaxed)), (None, 0));
    }
}
