//! Averages over the last four minutes, from sums that are taken every second.

use std::collections::VecDeque;

use stdx::clock::Now;

use super::RouteTotals;

/// Seconds that rates go over, as in mcrouter: 210 KB of sums.
const SECONDS: usize = 240;

/// Seconds that average times go over.
const RECENT: usize = 10;

/// Sums of the last minutes.
#[derive(Debug, Default)]
pub(crate) struct StatsWindow {
    /// The oldest first.
    samples: VecDeque<(Now, RouteTotals)>,
}

impl StatsWindow {
    /// Takes the sums of this moment.
    pub(crate) fn tick(&mut self, now: Now, totals: RouteTotals) {
        if self.samples.len() > SECONDS {
            self.samples.pop_front();
        }
        self.samples.push_back((now, totals));
    }

    /// What was counted in the window, and its length in seconds. It ends with the last full second.
    pub(crate) fn counted(&self) -> Option<(RouteTotals, f64)> {
        let ((begin, first), (end, last)) = (self.samples.front()?, self.samples.back()?);
        let seconds = end.us.saturating_sub(begin.us) as f64 / 1e6;
        (seconds > 0.0).then(|| (last.since(first), seconds))
    }

    /// What was counted in the last seconds up to `totals`.
    pub(crate) fn recent(&self, totals: &RouteTotals) -> Option<RouteTotals> {
        let place = self.samples.len().saturating_sub(RECENT);
        self.samples.get(place).map(|(_, earlier)| totals.since(earlier))
    }

    /// The most requests that were outstanding at the end of a second.
    pub(crate) fn most_outstanding(&self) -> u64 {
        self.samples.iter().map(|(_, totals)| totals.outstanding()).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::operation::Operation;
    use crate::stats::RouteCells;
    use std::sync::Arc;

    #[test]
    fn a_window_forgets_what_is_older_than_four_minutes() {
        let cells = Arc::new(RouteCells::default());
        let mut window = StatsWindow::default();
        assert!(window.counted().is_none());
        for second in 0..1000 {
            window.tick(Now::at_ms(second * 1000), RouteTotals::of(&[Arc::clone(&cells)]));
            // A hundred a second, a thousand of them before the window.
            cells.request(Operation::Get);
            if second >= 759 {
                (0..99).for_each(|_| cells.request(Operation::Get));
            }
        }
        let (counted, seconds) = window.counted().expect("a window");
        assert_eq!((counted.all_requests(), seconds), (24_000, 240.0));
        assert_eq!(window.samples.len(), SECONDS + 1);
    }
}
