//! The share of the memory limit that values which are being received have announced together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// For so many seconds it counts as present that somebody had to wait for the share.
const WANTED_S: u32 = 2;

/// What values that are being received have announced together.
#[derive(Debug, Default)]
pub(crate) struct Uploads {
    announced: AtomicU64,
    /// What of it has not been charged yet.
    outstanding: AtomicU64,
    /// The last second in which the share did not suffice.
    wanted: AtomicU32,
}

/// A part of it, given back when the value is complete or dropped.
#[derive(Debug)]
pub(crate) struct UploadShare {
    uploads: Arc<Uploads>,
    bytes: u64,
    outstanding: u64,
}

impl Uploads {
    /// Takes part of the share for a value, and for what it is joined to, if so much is left of `most`.
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

    /// What has been announced, but not charged yet.
    pub(crate) fn outstanding(&self) -> u64 {
        self.outstanding.load(Relaxed)
    }

    /// Somebody has to wait.
    pub(crate) fn note_wanted(&self, now: u32) {
        self.wanted.store(now, Relaxed);
    }

    /// Whether somebody waits, or did a moment ago.
    pub(crate) fn is_wanted(&self, now: u32) -> bool {
        let wanted = self.wanted.load(Relaxed);
        wanted != 0 && now.saturating_sub(wanted) <= WANTED_S
    }
}

impl UploadShare {
    /// So many of its bytes are charged now.
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
