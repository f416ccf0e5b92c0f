//! Sliding windows: how many requests may be on their way to a server. One more for each window that is answered, half after a
//! loss, as TCP does it.

use stdx::clock::Now;

/// Thousandths of a request.
const ONE: u32 = 1000;

/// At first: a round trip with ten requests floods nobody, and a working network doubles it soon.
const FIRST: u32 = 10 * ONE;

/// At most: replies of 1,400 bytes of these all at once are 700 kB, which the buffers of switches hold.
const MOST: u32 = 512 * ONE;

/// A window.
#[derive(Debug)]
pub(super) struct SlidingWindow {
    size: u32,
    /// When it was halved last.
    halved: Now,
}

impl Default for SlidingWindow {
    fn default() -> SlidingWindow {
        SlidingWindow { size: FIRST, halved: Now::default() }
    }
}

impl SlidingWindow {
    pub(super) fn has_room(&self, on_their_way: usize) -> bool {
        on_their_way < (self.size / ONE) as usize
    }

    /// A reply has come.
    pub(super) fn grow(&mut self) {
        self.size = (self.size + ONE * ONE / self.size).min(MOST);
    }

    /// A request was lost. Those that were on their way when the window was halved do not halve it again.
    pub(super) fn shrink(&mut self, sent: Now, now: Now) {
        if sent >= self.halved {
            self.size = (self.size / 2).max(ONE);
            self.halved = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(window: &SlidingWindow) -> usize {
        (0..).find(|count| !window.has_room(*count)).expect("a limit")
    }

    #[test]
    fn a_window_grows_by_one_with_each_window_and_halves_once_for_one() {
        let mut window = SlidingWindow::default();
        assert_eq!(requests(&window), 10);
        (0..11).for_each(|_| window.grow());
        assert_eq!(requests(&window), 11);
        (0..200_000).for_each(|_| window.grow());
        assert_eq!(requests(&window), 512);
        let at = |us| Now { us };
        for sent in 100..150 {
            window.shrink(at(sent), at(1000 + sent));
        }
        assert_eq!(requests(&window), 256, "all of these were sent before it was halved");
        window.shrink(at(1100), at(2000));
        assert_eq!(requests(&window), 128);
        (0..20).for_each(|round| window.shrink(at(3000 + round), at(3000 + round)));
        assert_eq!(requests(&window), 1, "never less");
    }
}
