//! The replies to `stats`, from which metrics take what memcached counts, too.

use stdx::clock::Now;

use crate::figures::stats;
use crate::shared::{Figures, Shared};

/// What `stats` replies: the metrics cannot differ from it.
pub(super) struct Statistics {
    /// `stats`, `stats items` and `stats slabs`.
    counts: String,
    /// `stats settings`.
    settings: String,
}

impl Statistics {
    /// With these figures.
    pub(super) fn read(shared: &Shared, figures: &Figures, now: Now) -> Statistics {
        let text = |reply: Vec<u8>| String::from_utf8_lossy(&reply).into_owned();
        Statistics {
            counts: text(stats::all_counts(shared, figures, now)),
            settings: text(stats::all_settings(shared)),
        }
    }

    /// Names and values, in the order of the replies.
    pub(super) fn counts(&self) -> impl Iterator<Item = (&str, &str)> {
        pairs(&self.counts)
    }

    /// Names and values of settings.
    pub(super) fn settings(&self) -> impl Iterator<Item = (&str, &str)> {
        pairs(&self.settings)
    }
}

fn pairs(reply: &str) -> impl Iterator<Item = (&str, &str)> {
    reply.lines().filter_map(|line| line.strip_prefix("STAT ")?.split_once(' '))
}
