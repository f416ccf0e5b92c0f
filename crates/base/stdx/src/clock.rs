//! Time as data: moments that are passed to the code that needs the time.

/// A moment: microseconds since the process started, by the monotonic clock.
///
/// Only the network worker and the binaries create one from a real clock; a test can choose any moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Now {
    /// Microseconds since the process started.
    pub us: u64,
}

impl Now {
    /// The moment this many milliseconds after the start.
    pub fn at_ms(ms: u64) -> Now {
        Now { us: ms * 1000 }
    }

    /// Whole milliseconds since the process started.
    #[inline]
    pub fn ms(self) -> u64 {
        self.us / 1000
    }

    /// The second of this moment, as caches count: the process starts in second 2, so that second 0 can mean "never"
    /// and second 1 "before everything" (as in memcached).
    pub fn second(self) -> u32 {
        u32::try_from(self.us / 1_000_000 + u64::from(FIRST_SECOND)).unwrap_or(u32::MAX)
    }

    /// The first moment of `second`.
    pub fn at_second(second: u32) -> Now {
        Now::at_ms(u64::from(second.saturating_sub(FIRST_SECOND)) * 1000)
    }
}

/// The second in which the process starts.
pub const FIRST_SECOND: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_starts_in_second_two() {
        assert_eq!(Now::at_ms(0).second(), 2);
        assert_eq!(Now { us: 999_999 }.second(), 2);
        assert_eq!(Now::at_ms(1000).second(), 3);
        assert_eq!(Now::at_second(7).second(), 7);
    }
}
