//! The report desk: workers order reports for their clients, another thread makes them.
//!
//! A report about 10,000 servers takes milliseconds, which no worker has. All orders for the same report that are there when
//! it is begun get it, so clients that ask in a loop cost one report after the other, at the pace of the thread that makes
//! them. Every report was begun after it was ordered: it is never older than the question.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Release};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::servers::destination::ReplyTarget;
use crate::stats::StatsGroup;

/// Orders that wait. Beyond it they are refused.
pub(crate) const ORDERS_MAX: usize = 10_000;

/// Different keys about the router that are answered in one round.
const SUBJECTS_MAX: usize = 64;

/// The subject of a report.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ReportSubject {
    Stats(StatsGroup),
    /// A key that begins with [`SERVICE_PREFIX`].
    Service(Box<[u8]>),
}

/// Keys that begin so are about the router.
pub(crate) const SERVICE_PREFIX: &[u8] = b"__mcrouter__.";

/// A report: parts of it are the same for many.
#[derive(Clone, Debug)]
pub(crate) struct DeskReport {
    pub(crate) head: Vec<u8>,
    pub(crate) body: Arc<[u8]>,
    /// What follows the body where the report is a part of an answer; a whole answer ends with `END` besides.
    pub(crate) tail: &'static [u8],
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
    pub(crate) report: DeskReport,
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
    is_rung: bool,
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
        self.bell.notify_one();
        true
    }

    /// Takes the orders of one round: all for `stats`, and some of the others, of which clients can make up any number.
    fn take(&self) -> Vec<(ReportSubject, Vec<Order>)> {
        let mut orders = lock(&self.orders);
        let (mut some, mut left) = (Vec::new(), SUBJECTS_MAX);
        for (subject, of_subject) in std::mem::take(&mut orders.by_subject) {
            if left == 0 && matches!(subject, ReportSubject::Service(_)) {
                orders.by_subject.insert(subject, of_subject);
                continue;
            }
            left -= usize::from(matches!(subject, ReportSubject::Service(_)));
            orders.count -= of_subject.len();
            some.push((subject, of_subject));
        }
        some
    }

    /// Ends a wait for orders.
    pub(crate) fn ring(&self) {
        lock(&self.orders).is_rung = true;
        self.bell.notify_one();
    }

    /// Waits for orders, at most this long.
    pub(crate) fn wait(&self, at_most: Duration) {
        let orders = lock(&self.orders);
        let is_idle = |orders: &mut Orders| orders.count == 0 && !std::mem::take(&mut orders.is_rung);
        // A wake-up without an order does no harm.
        drop(self.bell.wait_timeout_while(orders, at_most, is_idle));
    }

    /// Makes all reports that are ordered now, and puts them into the trays of their workers. Returns these workers.
    pub(crate) fn serve(
        &self,
        trays: &[Arc<ReportTray>],
        mut make: impl FnMut(&ReportSubject) -> DeskReport,
    ) -> Vec<usize> {
        let mut workers = Vec::new();
        for (subject, orders) in self.take() {
            let report = make(&subject);
            for Order { worker, target } in orders {
                trays[worker].put(ReadyReport { target, report: report.clone() });
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

    fn report() -> DeskReport {
        DeskReport { head: Vec::new(), body: Arc::from(*b"x"), tail: b"" }
    }

    #[test]
    fn a_round_has_all_statistics_and_some_keys() {
        let (desk, trays) = (ReportDesk::default(), [Arc::<ReportTray>::default()]);
        for number in 0..3 * SUBJECTS_MAX {
            let key = ReportSubject::Service(number.to_string().into_bytes().into());
            assert!(desk.order(key, 0, ReplyTarget::Nobody));
        }
        assert!(desk.order(ReportSubject::Stats(StatsGroup::Basic), 0, ReplyTarget::Nobody));
        let taken = [(); 4].map(|()| {
            desk.serve(&trays, |_| report());
            trays[0].take().len()
        });
        assert_eq!(taken, [SUBJECTS_MAX + 1, SUBJECTS_MAX, SUBJECTS_MAX, 0]);
    }

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
            report()
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
        desk.serve(&trays, |_| report());
        assert!(order());
    }
}
