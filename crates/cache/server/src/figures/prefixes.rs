//! `stats detail`: requests by key prefix, the part of a key before the first `:`.
//!
//! Off until `stats detail on` (or `-D`); while it is on, every request takes one lock.

use std::collections::BTreeMap;
use std::io::Write;
use std::ops::Bound;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use protocol::uri;

/// Maximum number of prefixes, so that keys without a pattern cannot fill the memory (memcached's limit is of
/// the same order: 16 Ki).
const PREFIXES_MAX: usize = 16 * 1024;

/// Counts by prefix.
#[derive(Debug)]
pub(crate) struct Prefixes {
    enabled: AtomicBool,
    delimiter: u8,
    counts: Mutex<BTreeMap<Box<[u8]>, PrefixUses>>,
    uncounted: AtomicU64,
    counted: AtomicBool,
}

/// Uses of the keys with a prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PrefixUses {
    pub(crate) get: u64,
    /// Of these.
    pub(crate) hit: u64,
    pub(crate) set: u64,
    pub(crate) del: u64,
}

impl PrefixUses {
    fn all(&self) -> u64 {
        self.get + self.set + self.del
    }
}

/// The prefixes with the most uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PrefixSummary {
    /// Counted ones.
    pub(crate) prefixes: usize,
    /// Uses of others, for which there was no room.
    pub(crate) uncounted: u64,
    /// The most used first.
    pub(crate) most_used: Vec<(Box<[u8]>, PrefixUses)>,
}

/// Prefixes that a summary reads at a time. Requests wait for the lock meanwhile: some 5 µs.
const STEP: usize = 64;

/// The kind of use of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Hit,
    Miss,
    Set,
    Delete,
}

impl Prefixes {
    pub(crate) fn new(enabled: bool, delimiter: u8) -> Prefixes {
        Prefixes {
            enabled: AtomicBool::new(enabled),
            delimiter,
            counts: Mutex::default(),
            uncounted: AtomicU64::new(0),
            counted: AtomicBool::new(enabled),
        }
    }

    #[inline]
    pub(crate) fn enabled(&self) -> bool {
        self.enabled.load(Relaxed)
    }

    pub(crate) fn enable(&self, enabled: bool) {
        self.enabled.store(enabled, Relaxed);
        self.counted.fetch_or(enabled, Relaxed);
    }

    /// Whether it has ever been on.
    pub(crate) fn have_been_counted(&self) -> bool {
        self.counted.load(Relaxed)
    }

    pub(crate) fn clear(&self) {
        self.uncounted.store(0, Relaxed);
        self.counts.lock().expect("no panic while counting").clear();
    }

    /// Counts one use. A key without the delimiter has no prefix and is not counted.
    pub(crate) fn record(&self, key: &[u8], what: Use) {
        let Some(end) = memchr(self.delimiter, key) else { return };
        let mut counts = self.counts.lock().expect("no panic while counting");
        if !counts.contains_key(&key[..end]) {
            if counts.len() == PREFIXES_MAX {
                self.uncounted.fetch_add(1, Relaxed);
                return;
            }
            counts.insert(key[..end].into(), PrefixUses::default());
        }
        let entry = counts.get_mut(&key[..end]).expect("inserted above");
        match what {
            Use::Hit => (entry.get, entry.hit) = (entry.get + 1, entry.hit + 1),
            Use::Miss => entry.get += 1,
            Use::Set => entry.set += 1,
            Use::Delete => entry.del += 1,
        }
    }

    /// The `most` prefixes with the most uses. Read in steps, between which requests count.
    pub(crate) fn summary(&self, most: usize) -> PrefixSummary {
        let mut summary =
            PrefixSummary { uncounted: self.uncounted.load(Relaxed), ..PrefixSummary::default() };
        let mut after: Option<Box<[u8]>> = None;
        loop {
            let counts = self.counts.lock().expect("no panic while counting");
            let from = after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            let step = counts.range::<[u8], _>((from, Bound::Unbounded)).take(STEP);
            let step: Vec<(Box<[u8]>, PrefixUses)> =
                step.map(|(prefix, uses)| (prefix.clone(), *uses)).collect();
            drop(counts);
            let Some((last, _)) = step.last() else { break };
            after = Some(last.clone());
            summary.prefixes += step.len();
            summary.most_used.extend(step);
            summary
                .most_used
                .sort_by(|(a, less), (b, more)| more.all().cmp(&less.all()).then_with(|| a.cmp(b)));
            summary.most_used.truncate(most);
        }
        summary
    }

    /// Appends lines of `stats detail dump` until `out` has `len_max` bytes, starting after the prefix
    /// `after`. Returns the last prefix, or `None` once there are no more.
    pub(crate) fn dump(&self, after: Option<&[u8]>, len_max: usize, out: &mut Vec<u8>) -> Option<Box<[u8]>> {
        let counts = self.counts.lock().expect("no panic while counting");
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        for (prefix, PrefixUses { get, hit, set, del }) in counts.range::<[u8], _>((from, Bound::Unbounded)) {
            out.extend_from_slice(b"PREFIX ");
            // It may come from a key in base64, and contain any bytes.
            uri::encode_unreadable(out, prefix);
            let _ = write!(out, " get {get} hit {hit} set {set} del {del}\r\n");
            if out.len() >= len_max {
                return Some(prefix.clone());
            }
        }
        None
    }
}

fn memchr(byte: u8, bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|&other| other == byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All lines, in pieces of about `len_max` bytes.
    fn dump(prefixes: &Prefixes, len_max: usize) -> String {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let mut piece = Vec::new();
            after = prefixes.dump(after.as_deref(), len_max, &mut piece);
            assert!(piece.len() < len_max.saturating_add(400), "{}", piece.len());
            all.append(&mut piece);
            if after.is_none() {
                return all.escape_ascii().to_string();
            }
        }
    }

    #[test]
    fn uses_are_counted_by_prefix() {
        let prefixes = Prefixes::new(true, b':');
        prefixes.record(b"user:1", Use::Hit);
        prefixes.record(b"user:2", Use::Miss);
        prefixes.record(b"page:1", Use::Set);
        prefixes.record(b"page:1", Use::Delete);
        prefixes.record(b"plain", Use::Set);
        assert_eq!(
            dump(&prefixes, usize::MAX),
            "PREFIX page get 0 hit 0 set 1 del 1\\r\\nPREFIX user get 2 hit 1 set 0 del 0\\r\\n"
        );
        prefixes.clear();
        assert_eq!(dump(&prefixes, usize::MAX), "");
    }

    #[test]
    fn the_number_of_prefixes_is_bounded() {
        let prefixes = Prefixes::new(true, b':');
        for index in 0..PREFIXES_MAX + 10 {
            prefixes.record(format!("{index}:x").as_bytes(), Use::Set);
        }
        let all = dump(&prefixes, usize::MAX);
        assert_eq!(all.matches("\\n").count(), PREFIXES_MAX);
        assert!(dump(&prefixes, 1000) == all, "in pieces it says the same");
        let summary = prefixes.summary(50);
        assert_eq!((summary.prefixes, summary.uncounted, summary.most_used.len()), (PREFIXES_MAX, 10, 50));
    }

    #[test]
    fn a_summary_has_the_most_used_prefixes_of_all_steps() {
        let prefixes = Prefixes::new(true, b':');
        let uses = |index: usize| if index.is_multiple_of(100) { index } else { 1 };
        for index in 0..1000 {
            (0..uses(index)).for_each(|_| prefixes.record(format!("{index}:x").as_bytes(), Use::Hit));
        }
        let summary = prefixes.summary(3);
        let shown: Vec<(&[u8], u64)> =
            summary.most_used.iter().map(|(prefix, uses)| (&**prefix, uses.hit)).collect();
        assert_eq!(shown, [(&b"900"[..], 900), (b"800", 800), (b"700", 700)]);
        prefixes.clear();
        assert_eq!(prefixes.summary(3), PrefixSummary::default());
    }
}
