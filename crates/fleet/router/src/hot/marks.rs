//! Marks of keys whose gets hot values have answered lately, for lists of hot keys.

use std::sync::{Mutex, PoisonError};

use stdx::clock::Now;

/// Keys of a worker that can have a mark: twice as many as a list has.
const MARKS_MAX: usize = 64;

/// A mark lasts as long as the samples that a list is made of.
const MARK_US: u64 = 2 * ::hot_keys::WINDOW_US;

/// The marks of a worker, which other threads read.
#[derive(Debug, Default)]
pub(crate) struct HotMarks {
    /// Hashes of keys as clients write them, with the time of the last answer.
    marks: Mutex<Vec<(u64, Now)>>,
}

impl HotMarks {
    /// A get for the key was answered. Only some of them are told, and the worker does not wait for a reader.
    pub(crate) fn mark(&self, hash: u64, now: Now) {
        let Ok(mut marks) = self.marks.try_lock() else { return };
        if let Some((_, at)) = marks.iter_mut().find(|(other, _)| *other == hash) {
            *at = now;
        } else if marks.len() < MARKS_MAX {
            marks.push((hash, now));
        } else if let Some(oldest) = marks.iter_mut().min_by_key(|(_, at)| *at) {
            *oldest = (hash, now);
        }
    }

    /// Whether the key has a mark.
    pub(crate) fn has(&self, hash: u64, now: Now) -> bool {
        let marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        marks.iter().any(|(other, at)| *other == hash && at.us + MARK_US > now.us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_last_for_two_windows_and_the_oldest_makes_room() {
        let marks = HotMarks::default();
        for hash in 0..=MARKS_MAX as u64 {
            marks.mark(hash, Now::at_ms(1000 + hash));
            marks.mark(1, Now::at_ms(1000 + hash));
        }
        let now = Now::at_ms(1100);
        assert!(!marks.has(0, now) && marks.has(1, now) && marks.has(MARKS_MAX as u64, now));
        assert!(marks.has(1, Now::at_ms(11_063)) && !marks.has(1, Now::at_ms(11_064)));
        assert_eq!(marks.marks.lock().expect("a lock").len(), MARKS_MAX);
    }
}
