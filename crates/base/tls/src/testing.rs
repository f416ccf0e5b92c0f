//! Things that the tests of several modules need: a clock that stands still, and files.

use rustls::pki_types::UnixTime;
use rustls::time_provider::TimeProvider;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// A clock that tests set.
#[derive(Debug)]
pub(crate) struct FakeClock(AtomicU64);

impl FakeClock {
    pub(crate) fn at(second: u64) -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(second)))
    }

    pub(crate) fn set(&self, second: u64) {
        self.0.store(second, Ordering::Relaxed);
    }
}

impl TimeProvider for FakeClock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_secs(self.0.load(Ordering::Relaxed))))
    }
}

/// A directory that is removed in the end.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("evenkeel-tls-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).expect("a directory");
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A file with this text.
    pub(crate) fn file(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).expect("a file");
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A file among the tests' certificates.
pub(crate) fn tests_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/certificates").join(name)
}
