//! `stats detail`: requests by key prefix, the part of a key before the first `:`.
//!
//! Off until `stats detail on` (or `-D`); while it is on, every request takes one lock.

use std::collections::BTreeMap;
use std::io::Write;
use std::ops::Bound;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use protocol::uri;

/// Maximum number of prefixes, so that keys without a pattern cannot fill the memory (memcached's limit is of
/// the same order: 16 Ki).
const PREFIXES_MAX: usize = 16 * 1024;

/// Counts by prefix.
#[derive(Debug)]
pub(crate) struct Prefixes {
    enabled: AtomicBool,
    delimiter: u8,
    counts: Mutex<BTreeMap<Box<[u8]>, Counts>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    get: u64,
    hit: u64,
    set: u64,
    del: u64,
}

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
        Prefixes { enabled: AtomicBool::new(enabled), delimiter, counts: Mutex::default() }
    }

    #[inline]
    pub(crate) fn enabled(&self) -> bool {
        self.enabled.load(Relaxed)
    }

    pub(crate) fn enable(&self, enabled: bool) {
        self.enabled.store(enabled, Relaxed);
    }

    pub(crate) fn clear(&self) {
        self.counts.lock().expect("no panic while counting").clear();
    }

    /// Counts one use. A key without the delimiter has no prefix and is not counted.
    pub(crate) fn record(&self, key: &[u8], what: Use) {
        let Some(end) = memchr(self.delimiter, key) else { return };
        let mut counts = self.counts.lock().expect("no panic while counting");
        if !counts.contains_key(&key[..end]) {
            if counts.len() == PREFIXES_MAX {
                return;
            }
            counts.insert(key[..end].into(), Counts::default());
        }
        let entry = counts.get_mut(&key[..end]).expect("inserted above");
        match what {
            Use::Hit => (entry.get, entry.hit) = (entry.get + 1, entry.hit + 1),
            Use::Miss => entry.get += 1,
            Use::Set => entry.set += 1,
            Use::Delete => entry.del += 1,
        }
    }

    /// Appends lines of `stats detail dump` until `out` has `len_max` bytes, starting after the prefix
    /// `after`. Returns the last prefix, or `None` once there are no more.
    pub(crate) fn dump(&self, after: Option<&[u8]>, len_max: usize, out: &mut Vec<u8>) -> Option<Box<[u8]>> {
        let counts = self.counts.lock().expect("no panic while counting");
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        for (prefix, Counts { get, hit, set, del }) in counts.range::<[u8], _>((from, Bound::Unbounded)) {
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
    }
}
