//! Progress of large values on their way from a server.

use stdx::clock::Now;

/// So many bytes of large values in [`STEP_US`] are progress: 1 MiB/s, a tenth of what the slowest usual network carries. A server
/// whose bytes come drop by drop makes none, and its requests time out as those of one that is silent.
const STEP_BYTES: usize = 256 << 10;

/// See [`STEP_BYTES`].
const STEP_US: u64 = 250_000;

/// What has arrived of large values over a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ValueArrival {
    /// When the present step began, and its bytes.
    begun_us: u64,
    bytes: usize,
    /// When the last step was complete; 0 before the first.
    last_us: u64,
}

impl ValueArrival {
    /// Bytes of a large value have come. Returns whether they complete a step.
    #[inline]
    pub(crate) fn note(&mut self, bytes: usize, now: Now) -> bool {
        if now.us.saturating_sub(self.begun_us) > STEP_US {
            (self.begun_us, self.bytes) = (now.us, 0);
        }
        self.bytes += bytes;
        if self.bytes < STEP_BYTES {
            return false;
        }
        *self = ValueArrival { begun_us: now.us, bytes: 0, last_us: now.us };
        true
    }

    /// When there was progress last.
    pub(crate) fn last_us(&self) -> u64 {
        self.last_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_a_quarter_of_a_mebibyte_in_a_quarter_of_a_second() {
        let mut arrival = ValueArrival::default();
        let mut note = |bytes, us| (arrival.note(bytes, Now { us }), arrival.last_us());
        assert_eq!(note(STEP_BYTES - 1, 5_000_000), (false, 0));
        assert_eq!(note(1, 5_250_000), (true, 5_250_000));
        assert_eq!(note(STEP_BYTES - 1, 5_500_000), (false, 5_250_000));
        // The next byte is too late, and begins another step.
        assert_eq!(note(1, 5_500_001), (false, 5_250_000));
        assert_eq!(note(STEP_BYTES, 5_600_000), (true, 5_600_000));
        for us in (6_000_000..9_000_000).step_by(100_000) {
            assert_eq!(note(STEP_BYTES / 4, us), (false, 5_600_000), "{us}");
        }
    }
}
