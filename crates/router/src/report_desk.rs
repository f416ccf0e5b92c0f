//! The report desk: workers order reports for their clients, another thread makes them.
//!
//! A report about 10,000 servers takes milliseconds, which no worker has. All orders for the same report that are there when
//! it is begun get it, so clients that ask in a loop cost one report after the other, at the pace of the thread that makes
//! them. Every report was begun after it was ordered: it is never older than the question.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Release};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::destination::ReplyTarget;
use crate::stats::StatsGroup;

/// Orders that wait. Beyond it they are refused.
pub(crate) const ORDERS_MAX: usize = 10_000;

/// The subject of a report.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ReportSubject {
    Stats(StatsGroup),
}

/// An order: for whom, and of which worker.
#[derive(Debug)]
struct Order {
    worker: usize,
    target: ReplyTarget,
}

/// A report for a client.
pub(crate) struct ReadyReport {
    pub(crate) target: ReplyTarget,
    pub(crate) text: Arc<[u8]>,
}

/// Orders of all workers, and what is ready for each.
#[derive(Debug, Default)]
pub(crate) struct ReportDesk {
    orders: Mutex<Orders>,
    bell: Condvar,
}

#[derive(Debug, Default)]
struct Orders {
    by_subject: HashMap<ReportSubject, Vec<Order>>,
    count: usize,
}

/// Reports that are ready for one worker.
#[derive(Default)]
pub(crate) struct ReportTray {
    has_reports: AtomicBool,
    reports: Mutex<Vec<ReadyReport>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ReportDesk {
    /// Orders a report; `false` if too many wait.
    pub(crate) fn order(&self, subject: ReportSubject, worker: usize, target: ReplyTarget) -> bool {
        let mut orders = lock(&self.orders);
        if orders.count >= ORDERS_MAX {
            return false;
        }
        orders.count += 1;
        orders.by_subject.entry(subject).or_default().push(Order { worker, target });
        if orders.count == 1 {
            self.bell.notify_one();
        }
        true
    }

    /// Waits for orders, at most this long.
    pub(crate) fn wait(&self, at_most: Duration) {
        let orders = lock(&self.orders);
        // A wake-up without an order does no harm.
        drop(self.bell.wait_timeout_while(orders, at_most, |orders| orders.count == 0));
    }

    /// Makes all reports that are ordered now, and puts them into the trays of their workers. Returns these workers.
    pub(crate) fn serve(
        &self,
        trays: &[Arc<ReportTray>],
        mut make: impl FnMut(&ReportSubject) -> Arc<[u8]>,
    ) -> Vec<usize> {
        let orders = std::mem::take(&mut *lock(&self.orders));
        let mut workers = Vec::new();
        for (subject, orders) in orders.by_subject {
            let text = make(&subject);
            for Order { worker, target } in orders {
                trays[worker].put(ReadyReport { target, text: Arc::clone(&text) });
                if !workers.contains(&worker) {
                    workers.push(worker);
                }
            }
        }
        workers
    }
}

impl ReportTray {
    fn put(&self, report: ReadyReport) {
        lock(&self.reports).push(report);
        self.has_reports.store(true, Release);
    }

    /// What is ready.
    #[inline]
    pub(crate) fn take(&self) -> Vec<ReadyReport> {
        // A load of a cache line that changes only with a report.
        if !self.has_reports.load(Acquire) {
            return Vec::new();
        }
        let mut reports = lock(&self.reports);
        self.has_reports.store(false, Release);
        std::mem::take(&mut *reports)
    }
}

impl std::fmt::Debug for ReportTray {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReportTray").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_who_wait_for_a_report_get_the_same_one() {
        let (desk, trays) = (ReportDesk::default(), [Arc::<ReportTray>::default(), Arc::default()]);
        let subject = ReportSubject::Stats(StatsGroup::Basic);
        for worker in [1, 0, 1] {
            assert!(desk.order(subject.clone(), worker, ReplyTarget::Nobody));
        }
        assert!(desk.order(ReportSubject::Stats(StatsGroup::All), 1, ReplyTarget::Nobody));
        let mut made = 0;
        let mut workers = desk.serve(&trays, |_| {
            made += 1;
            Arc::from(*b"x")
        });
        workers.sort_unstable();
        assert_eq!((made, workers), (2, vec![0, 1]));
        assert_eq!((trays[0].take().len(), trays[1].take().len(), trays[1].take().len()), (1, 3, 0));
        assert!(desk.serve(&trays, |_| unreachable!("nothing is ordered")).is_empty());
    }

    #[test]
    fn orders_beyond_the_limit_are_refused_until_some_were_served() {
        let (desk, trays) = (ReportDesk::default(), [Arc::<ReportTray>::default()]);
        let order = || desk.order(ReportSubject::Stats(StatsGroup::Basic), 0, ReplyTarget::Nobody);
        assert!((0..ORDERS_MAX).all(|_| order()));
        assert!(!order());
        desk.serve(&trays, |_| Arc::from(*b"x"));
        assert!(order());
    }
}
