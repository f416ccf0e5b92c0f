//! The share of the memory limit that values which are being received have announced together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// An upload that had to wait for the share counts as waiting for this many seconds.
const WAITING_S: u32 = 2;

/// The sum of announced bytes of values that are being received.
#[derive(Debug, Default)]
pub(crate) struct Uploads {
    announced: AtomicU64,
    /// Announced bytes that are not charged yet.
    outstanding: AtomicU64,
    /// The last second in which the share did not suffice.
    last_wait_s: AtomicU32,
}

/// One value's part of the share, released when the value is complete or dropped.
#[derive(Debug)]
pub(crate) struct UploadShare {
    uploads: Arc<Uploads>,
    bytes: u64,
    outstanding: u64,
}

impl Uploads {
    /// Takes part of the share for a value, and for the value that it is joined to, if that much is left of
    /// `most`.
    pub(crate) fn announce(self: &Arc<Uploads>, bytes: u64, joined: u64, most: u64) -> Option<UploadShare> {
        let both = bytes + joined;
        let within = |announced: u64| announced.checked_add(both).filter(|sum| *sum <= most);
        self.announced.fetch_update(Relaxed, Relaxed, within).ok()?;
        self.outstanding.fetch_add(bytes, Relaxed);
        Some(UploadShare { uploads: Arc::clone(self), bytes: both, outstanding: bytes })
    }

    pub(crate) fn announced(&self) -> u64 {
        self.announced.load(Relaxed)
    }

    /// Announced bytes that are not charged yet.
    pub(crate) fn outstanding(&self) -> u64 {
        self.outstanding.load(Relaxed)
    }

    /// Notes that an upload has to wait.
    pub(crate) fn note_waiting(&self, now: u32) {
        self.last_wait_s.store(now, Relaxed);
    }

    /// Whether an upload waits, or waited a moment ago.
    pub(crate) fn is_waited_for(&self, now: u32) -> bool {
        let last_wait_s = self.last_wait_s.load(Relaxed);
        last_wait_s != 0 && now.saturating_sub(last_wait_s) <= WAITING_S
    }
}

impl UploadShare {
    /// Marks `bytes` more of its bytes as charged.
    pub(crate) fn note_charged(&mut self, bytes: u64) {
        self.outstanding -= bytes;
        self.uploads.outstanding.fetch_sub(bytes, Relaxed);
    }
}

impl Drop for UploadShare {
    fn drop(&mut self) {
        self.uploads.announced.fetch_sub(self.bytes, Relaxed);
        self.uploads.outstanding.fetch_sub(self.outstanding, Relaxed);
    }
}
