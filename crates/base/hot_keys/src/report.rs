//! The hottest keys of all workers, with what is certain about them.

use std::collections::HashMap;
use std::sync::Arc;

use stdx::clock::Now;

use super::ranking::{RankedKey, Ranking};
use super::{HotTable, HotWindow, WINDOW_US};

/// Keys of a report in each ranking.
const HOT_KEYS_MAX: usize = 20;

/// Keys with a smaller share are not hot, and would only come and go.
const SHARE_MIN: f64 = 0.001;

/// The hottest keys.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HotKeys {
    /// Seconds over which they were counted.
    pub window_s: f64,
    /// Accesses to all keys meanwhile.
    pub accesses: u64,
    /// Those with most of the accesses.
    pub requests: Vec<HotKey>,
    /// Of the bytes.
    pub bytes: Vec<HotKey>,
    /// Of the reads that found nothing.
    pub misses: Vec<HotKey>,
}

/// A key and its share of all requests, bytes or misses.
#[derive(Clone, Debug, PartialEq)]
pub struct HotKey {
    /// As the client wrote it.
    pub key: Vec<u8>,
    /// What is certain of it.
    pub share: f64,
    /// It is between these: the bounds of the ranking, and twice the standard deviation of the samples.
    pub share_min: f64,
    /// See [`HotKey::share_min`].
    pub share_max: f64,
}

impl HotKeys {
    /// Over all workers, without waiting for one.
    pub fn read(tables: &[Arc<HotTable>], now: Now) -> HotKeys {
        HotKeys::read_most(tables, now, HOT_KEYS_MAX)
    }

    /// The same, with at most `most` keys in each ranking.
    pub fn read_most(tables: &[Arc<HotTable>], now: Now, most: usize) -> HotKeys {
        let windows: Vec<HotWindow> = tables.iter().flat_map(|table| table.windows(now)).collect();
        let Some(first) = windows.iter().map(|window| window.number).min() else { return HotKeys::default() };
        let top = |ranking: fn(&HotWindow) -> &Ranking| {
            hottest(&windows.iter().map(ranking).collect::<Vec<_>>(), most)
        };
        HotKeys {
            window_s: now.us.saturating_sub(first * WINDOW_US) as f64 / 1e6,
            accesses: windows.iter().map(|window| window.accesses).sum(),
            requests: top(|window| &window.requests),
            bytes: top(|window| &window.bytes),
            misses: top(|window| &window.misses),
        }
    }

    /// The three rankings with their names.
    pub fn rankings(&self) -> [(&'static str, &[HotKey]); 3] {
        [("requests", &self.requests), ("bytes", &self.bytes), ("misses", &self.misses)]
    }
}

/// A key over several rankings.
#[derive(Default)]
struct MergedKey<'r> {
    key: &'r [u8],
    certain: u64,
    error: u64,
    variance: f64,
    /// The most that it can weigh in the rankings that have it.
    missing_max: u64,
}

impl<'r> MergedKey<'r> {
    fn add(&mut self, ranked: &RankedKey<'r>, missing_max: u64) {
        self.key = ranked.key;
        self.certain += ranked.weight - ranked.error;
        self.error += ranked.error;
        self.variance += ranked.variance;
        self.missing_max += missing_max;
    }

    /// `missing_max`: over all rankings.
    fn share(&self, total: f64, missing_max: u64) -> HotKey {
        let certain = self.certain as f64;
        // Where it is missing, and what stands for others where it is not.
        let more = (missing_max - self.missing_max + self.error) as f64;
        let deviation = 2.0 * self.variance.sqrt();
        HotKey {
            key: self.key.to_vec(),
            share: certain / total,
            share_min: ((certain - deviation) / total).max(0.0),
            share_max: ((certain + more + deviation) / total).min(1.0),
        }
    }
}

fn hottest(rankings: &[&Ranking], most: usize) -> Vec<HotKey> {
    let total: f64 = rankings.iter().map(|ranking| ranking.total as f64).sum();
    let mut merged: HashMap<u64, MergedKey<'_>> = HashMap::new();
    for ranking in rankings {
        for ranked in ranking.keys() {
            merged.entry(ranked.hash).or_default().add(&ranked, ranking.missing_max(ranked.hash));
        }
    }
    let mut keys: Vec<_> =
        merged.into_iter().filter(|(_, key)| key.certain as f64 >= total * SHARE_MIN).collect();
    // What is certain counts: a key that has only taken another one's place has a large weight, too.
    keys.sort_unstable_by(|(_, a), (_, b)| b.certain.cmp(&a.certain).then_with(|| a.key.cmp(b.key)));
    keys.truncate(most);
    let missing_max = |hash| rankings.iter().map(|ranking| ranking.missing_max(hash)).sum();
    keys.into_iter().map(|(hash, key)| key.share(total, missing_max(hash))).collect()
}

#[cfg(test)]
mod tests;
