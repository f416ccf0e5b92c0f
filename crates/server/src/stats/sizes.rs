//! `stats sizes` (with `-o track_sizes`): how many items there are of each size, in steps of 32 bytes.
//!
//! memcached counts with every item that comes and goes. Here all items are walked when somebody asks, a few pages of
//! the index per turn: requests pay nothing for it, and the counts cannot drift. What is there from beginning to end is
//! counted once.

use std::collections::BTreeMap;

use protocol::reply::{line, stat};
use store::DumpCursor;

use crate::dump::PAGES_PER_TURN;
use crate::flow::Flow;
use crate::output::{OUTPUT_MAX, Output};
use crate::worker::Worker;

/// Sizes are told apart in steps of so many bytes, as by memcached.
const STEP: u64 = 32;

/// Counts on their way.
#[derive(Default)]
pub(crate) struct Sizes {
    cursor: DumpCursor,
    walked: bool,
    /// By size, rounded up. There are never many: items of n different sizes take 16 n² bytes and more.
    counts: BTreeMap<u64, u64>,
}

impl Sizes {
    /// Goes on walking, then sends what came of it.
    pub(crate) fn serve(&mut self, worker: &mut Worker, output: &mut Output) -> Flow {
        if !self.walked {
            self.walk(worker);
            return Flow::Yield;
        }
        while output.len() < OUTPUT_MAX {
            let Some((size, count)) = self.counts.pop_first() else {
                output.copy(line::END);
                return Flow::Go;
            };
            stat(output.copied(), size, count);
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
