//! A budget for writes: a device lasts for so many bytes.
//!
//! Time earns bytes, and each piece that is opened spends its length, so what is written in any time is at most what was earned in
//! it, and a reserve. Items that were used before go to flash as long as there is anything left; items that were never used
//! only while more than half of the reserve is there. So where the budget is short, it goes to those that are worth more.
//!
//! A start begins with nothing: a server that is started again and again writes no more than one that runs.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

/// So many seconds' bytes can be saved up, beside the length of a few pieces.
const RESERVE_S: u64 = 10;
/// Pieces in the reserve: half of it has to last for one, or unused items would never be written.
const RESERVE_PIECES: u64 = 4;

#[derive(Debug, Default)]
pub(crate) struct WriteBudget {
    left_bytes: AtomicI64,
}

impl WriteBudget {
    /// Takes note that seconds have passed. `rate` is bytes per second; 0: there is no budget.
    pub(crate) fn earn(&self, seconds: u32, rate: u64, piece_bytes: usize) {
        let earned = clamp(rate.saturating_mul(seconds.into()));
        let most = clamp(reserve_bytes(rate, piece_bytes));
        let add = |left: i64| Some(left.saturating_add(earned).min(most));
        // It cannot fail: there is always a new value.
        let _ = self.left_bytes.fetch_update(Relaxed, Relaxed, add);
    }

    /// Takes note that so many bytes will be written. Without a budget there are no debts.
    pub(crate) fn spend(&self, bytes: usize, rate: u64) {
        if rate != 0 {
            self.left_bytes.fetch_sub(clamp(bytes as u64), Relaxed);
        }
    }

    /// Whether an item may be written.
    pub(crate) fn admits(&self, was_used: bool, rate: u64, piece_bytes: usize) -> bool {
        let least = if was_used { 0 } else { clamp(reserve_bytes(rate, piece_bytes)) / 2 };
        rate == 0 || self.left_bytes.load(Relaxed) > least
    }
}

fn reserve_bytes(rate: u64, piece_bytes: usize) -> u64 {
    rate.saturating_mul(RESERVE_S).saturating_add(RESERVE_PIECES * piece_bytes as u64)
}

fn clamp(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIECE: usize = 1000;
    const RATE: u64 = 100;

    #[test]
    fn without_a_rate_all_is_admitted() {
        let budget = WriteBudget::default();
        budget.spend(PIECE, 0);
        assert!(budget.admits(false, 0, PIECE));
        budget.earn(6, RATE, PIECE);
        assert!(budget.admits(true, RATE, PIECE), "nothing is owed for what was written without a budget");
    }

    #[test]
    fn nothing_is_written_before_it_is_earned() {
        let budget = WriteBudget::default();
        assert!(!budget.admits(true, RATE, PIECE));
        budget.earn(1, RATE, PIECE);
        assert!(budget.admits(true, RATE, PIECE) && !budget.admits(false, RATE, PIECE));
        budget.spend(PIECE, RATE);
        budget.earn(9, RATE, PIECE);
        assert!(!budget.admits(true, RATE, PIECE), "1000 earned, 1000 spent");
    }

    #[test]
    fn unused_items_come_while_half_of_the_reserve_is_there() {
        let budget = WriteBudget::default();
        budget.earn(u32::MAX, RATE, PIECE);
        let mut pieces = [0, 0];
        for (was_used, pieces) in [false, true].into_iter().zip(&mut pieces) {
            while budget.admits(was_used, RATE, PIECE) {
                budget.spend(PIECE, RATE);
                *pieces += 1;
            }
        }
        assert_eq!(pieces, [3, 2], "of a reserve of 5000 bytes");
    }

    #[test]
    fn no_clock_and_no_rate_overflow_it() {
        let budget = WriteBudget::default();
        budget.earn(u32::MAX, u64::MAX, PIECE);
        budget.earn(u32::MAX, u64::MAX, PIECE);
        assert!(budget.admits(false, u64::MAX, PIECE));
        // A lower rate has a smaller reserve.
        budget.earn(0, RATE, PIECE);
        budget.spend(5 * PIECE, RATE);
        assert!(!budget.admits(true, RATE, PIECE));
    }
}
