//! Runs of large values; those of dropped ones are given back to the system in steps.
//!
//! The system takes 0.13 ms per MiB to take pages back (measured): 130 ms for the largest possible value,
//! while the worker that drops it has other connections to serve. Until its step comes, a run stays charged.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::memory::system::PAGE;
use crate::sync::{Mutex, lock};

/// Runs up to this size are given back at once: 0.13 ms, or 2 ms for a batch of records.
pub(crate) const AT_ONCE_MAX: usize = 1 << 20;
/// Bytes given back in one step, at most.
pub(crate) const STEP_MAX: usize = 4 << 20;

/// Addresses of a value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) offset: usize,
    pub(crate) len: usize,
    /// Bytes at the front whose pages are charged. So is the last page if the run ends on a part of it.
    pub(crate) charged: usize,
}

impl Run {
    /// The pages that are this run's alone.
    pub(crate) fn inner(&self) -> Range<usize> {
        let start = self.offset.next_multiple_of(PAGE);
        start..start.max(self.end() / PAGE * PAGE)
    }

    /// The pages at its ends that other runs may be on, too: two at most.
    pub(crate) fn ends(&self) -> impl Iterator<Item = Range<usize>> {
        let first = self.offset / PAGE * PAGE;
        let last = self.end() / PAGE * PAGE;
        let first = (first < self.offset).then_some(first);
        let last = (last < self.end() && Some(last) != first).then_some(last);
        first.into_iter().chain(last).map(|start| start..start + PAGE)
    }

    /// Bytes of the inner pages that are charged.
    pub(crate) fn charged_inner(&self) -> usize {
        let inner = self.inner();
        (self.offset + self.charged).min(inner.end).saturating_sub(inner.start)
    }

    /// Bytes of the inner pages that are not charged.
    pub(crate) fn missing(&self) -> usize {
        self.inner().len() - self.charged_inner()
    }

    fn end(&self) -> usize {
        self.offset + self.len
    }

    /// Takes a piece off the front, up to the end of a page, with at most `charged` charged bytes. `None` once nothing is left.
    fn split(&mut self, charged: usize) -> Option<Run> {
        let all = self.charged <= charged;
        let charged = if all { self.charged } else { (self.offset + charged) / PAGE * PAGE - self.offset };
        let len = if all { self.len } else { charged };
        let piece = Run { offset: self.offset, len, charged };
        *self = Run { offset: self.offset + len, len: self.len - len, charged: self.charged - charged };
        (piece.len > 0).then_some(piece)
    }
}

/// Runs that wait to be given back.
#[derive(Debug, Default)]
pub(crate) struct Unused {
    runs: Mutex<Vec<Run>>,
    charged: AtomicU64,
}

impl Unused {
    pub(crate) fn add(&self, run: Run) {
        let mut runs = lock(&self.runs);
        runs.push(run);
        self.charged.fetch_add(run.charged as u64, Relaxed);
    }

    /// The next piece to give back, with at most `most` charged bytes: whole pages.
    pub(crate) fn next(&self, most: usize) -> Option<Run> {
        if self.charged() == 0 {
            return None;
        }
        let mut runs = lock(&self.runs);
        let piece = runs.last_mut()?.split(most)?;
        if runs.last().is_some_and(|run| run.len == 0) {
            runs.pop();
        }
        self.charged.fetch_sub(piece.charged as u64, Relaxed);
        Some(piece)
    }

    /// Bytes that are still charged.
    #[inline]
    pub(crate) fn charged(&self) -> u64 {
        self.charged.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: usize = 1 << 20;

    #[test]
    fn pieces_make_up_the_runs() {
        let unused = Unused::default();
        assert!(unused.next(STEP).is_none());
        unused.add(Run { offset: 0, len: 10 * STEP, charged: 2 * STEP + 4096 });
        unused.add(Run { offset: 20 * STEP, len: STEP, charged: STEP });
        let pieces: Vec<Run> = std::iter::from_fn(|| unused.next(STEP)).collect();
        let seen: Vec<(usize, usize, usize)> =
            pieces.iter().map(|piece| (piece.offset, piece.len, piece.charged)).collect();
        assert_eq!(
            seen,
            [(20 * STEP, STEP, STEP), (0, STEP, STEP), (STEP, STEP, STEP), (2 * STEP, 8 * STEP, 4096)]
        );
        assert_eq!(unused.charged(), 0);
    }
}
