//! Memory that the heap keeps after large values, and its return to the system.

use crate::process::sys;

/// Microseconds between two looks.
const LOOK_EVERY_US: u64 = 10_000_000;

/// Memory in bytes that may stay unused: less is not worth the page faults when it is used again.
const UNUSED_MAX: u64 = 32 << 20;

/// What is known of unused memory. The heap keeps what was freed between what is still in use, and after the first large value it takes the
/// next ones from there, too: a router would stay as large as it ever was.
#[derive(Debug, Default)]
pub(super) struct UnusedMemory {
    next_us: u64,
    /// At the last look.
    last: u64,
    /// What could not be returned.
    stays: u64,
}

impl UnusedMemory {
    /// Looks if it is time to, and returns what has been unused for two looks. `resident` tells the memory of the process in bytes.
    pub(super) fn look(&mut self, now_us: u64, resident: impl Fn() -> u64) {
        if now_us < self.next_us {
            return;
        }
        self.next_us = now_us + LOOK_EVERY_US;
        let unused = || sys::heap_in_use().map(|in_use| resident().saturating_sub(in_use));
        if let Some(now_unused) = unused()
            && self.is_too_much(now_unused)
        {
            sys::return_unused_heap();
            self.returned(unused().unwrap_or(now_unused));
        }
    }

    /// Whether so much has been unused for two looks that it is returned.
    fn is_too_much(&mut self, unused: u64) -> bool {
        let lasting = unused.min(self.last);
        self.last = unused;
        self.stays = self.stays.min(unused);
        lasting >= self.stays + UNUSED_MAX
    }

    /// So much is left after that.
    fn returned(&mut self, unused: u64) {
        (self.last, self.stays) = (unused, unused);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    #[test]
    fn memory_is_returned_once_it_has_been_unused_for_two_looks() {
        let mut memory = UnusedMemory::default();
        assert!(!memory.is_too_much(100 * MB));
        assert!(!memory.is_too_much(31 * MB));
        assert!(!memory.is_too_much(100 * MB));
        assert!(memory.is_too_much(90 * MB));
        memory.returned(50 * MB);
        // What stays is not tried again and again, until there is more.
        assert!(!memory.is_too_much(50 * MB) && !memory.is_too_much(81 * MB) && !memory.is_too_much(81 * MB));
        assert!(!memory.is_too_much(82 * MB));
        assert!(memory.is_too_much(82 * MB));
        memory.returned(50 * MB);
        assert!(!memory.is_too_much(5 * MB) && !memory.is_too_much(40 * MB) && memory.is_too_much(40 * MB));
    }
}
