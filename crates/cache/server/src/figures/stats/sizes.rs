//! `stats sizes` (with `-o track_sizes`): how many items there are of each size, in steps of 32 bytes.
//!
//! memcached updates the counts with every stored and removed item. Here all items are walked on demand, a
//! few index pages per turn: requests have no overhead, and the counts cannot drift. An item that exists from
//! beginning to end is counted once.

use std::collections::BTreeMap;

use store::DumpCursor;

use super::list::{StatForm, stat};
use crate::commands::dump::PAGES_PER_TURN;
use crate::connection::flow::Flow;
use crate::connection::output::{OUTPUT_MAX, Output};
use crate::worker::Worker;

/// Granularity of sizes in bytes, as in memcached.
const STEP: u64 = 32;

/// A `stats sizes` in progress.
pub(crate) struct Sizes {
    form: StatForm,
    cursor: DumpCursor,
    walked: bool,
    /// Counts by size, rounded up. There are never many: items of n different sizes take 16 n² bytes or more.
    counts: BTreeMap<u64, u64>,
}

impl Sizes {
    pub(crate) fn new(form: StatForm) -> Sizes {
        Sizes { form, cursor: DumpCursor::default(), walked: false, counts: BTreeMap::new() }
    }

    /// Continues the walk, then sends the counts.
    pub(crate) fn serve(&mut self, worker: &mut Worker, output: &mut Output) -> Flow {
        if !self.walked {
            self.walk(worker);
            return Flow::Yield;
        }
        while output.len() < OUTPUT_MAX {
            let Some((size, count)) = self.counts.pop_first() else {
                self.form.list(output.copied()).end();
                return Flow::Go;
            };
            stat(&mut self.form.list(output.copied()), size, count);
        }
        Flow::Yield
    }

    fn walk(&mut self, worker: &mut Worker) {
        let store = &worker.shared.store;
        for _ in 0..PAGES_PER_TURN {
            let more = worker.store.dump(&mut self.cursor, worker.second, |item| {
                let size = store.item_size(item.key.len(), item.flags, item.value_len);
                *self.counts.entry(size.next_multiple_of(STEP)).or_default() += 1;
            });
            if !more {
                self.walked = true;
                return;
            }
        }
    }
}
