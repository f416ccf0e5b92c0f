//! Documents that were answered a moment ago.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use admin::site::Bytes;
use os::clock::Stopwatch;

/// Age up to which a document is sent again, so that any number of tabs costs one. Pages ask every two seconds: what happens is seen after four at
/// most, in a fleet whose documents are made in a moment.
const KEPT_FOR: Duration = Duration::from_secs(2);
/// A document is kept for so many times as long as it took to be made, so that each costs 0.4 % of a core at most. The summary of 5,000 members
/// takes a controller some fifteen milliseconds.
const KEPT_PER_MAKING: u32 = 250;
/// Age at which a document is made again, however long that takes: a person waits for what is new.
const KEPT_FOR_MAX: Duration = Duration::from_secs(10);
/// Documents that are kept: as many as a few people look at within that time.
const KEPT_MAX: usize = 64;
/// Bytes of all of them.
const KEPT_LEN_MAX: usize = 64 * 1024 * 1024;

/// A document and its tag.
#[derive(Clone)]
pub(crate) struct KeptDocument {
    pub(crate) json: Bytes,
    pub(crate) tag: String,
}

impl KeptDocument {
    pub(crate) fn of(json: String) -> KeptDocument {
        KeptDocument { tag: tag(json.as_bytes()), json: json.into() }
    }
}

/// A document, and how long it is sent again.
struct Kept {
    since: Stopwatch,
    kept_for: Duration,
    document: KeptDocument,
}

impl Kept {
    fn is_fresh(&self) -> bool {
        self.since.passed() < self.kept_for
    }
}

/// Documents by path and query.
#[derive(Default)]
pub(crate) struct KeptDocuments(Mutex<HashMap<String, Kept>>);

impl KeptDocuments {
    /// One that is not too old.
    pub(crate) fn get(&self, name: &str) -> Option<KeptDocument> {
        self.lock().get(name).filter(|kept| kept.is_fresh()).map(|kept| kept.document.clone())
    }

    /// Keeps one that took so long to be made. At a limit all others go: they would be too old soon.
    pub(crate) fn keep(&self, name: String, json: String, made_in: Duration) -> KeptDocument {
        let document = KeptDocument::of(json);
        let mut kept = self.lock();
        kept.retain(|_, kept| kept.is_fresh());
        let len: usize = kept.values().map(|kept| kept.document.json.len()).sum();
        if kept.len() >= KEPT_MAX || len + document.json.len() > KEPT_LEN_MAX {
            kept.clear();
        }
        if document.json.len() <= KEPT_LEN_MAX {
            let (since, kept_for) = (Stopwatch::start(), kept_for(made_in));
            kept.insert(name, Kept { since, kept_for, document: document.clone() });
        }
        document
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long a document is sent again that took so long to be made.
fn kept_for(made_in: Duration) -> Duration {
    made_in.saturating_mul(KEPT_PER_MAKING).clamp(KEPT_FOR, KEPT_FOR_MAX)
}

/// The tag of an answer with these bytes, as in `etag`.
pub(crate) fn tag(bytes: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    format!("\"{:016x}\"", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_kept_and_many_are_not() {
        let kept = KeptDocuments::default();
        assert!(kept.get("a").is_none());
        let first = kept.keep("a".to_owned(), "{}".to_owned(), Duration::ZERO);
        // On a busy machine it may be too old by now.
        assert!(kept.get("a").is_none_or(|found| found.tag == first.tag && found.json == first.json));
        assert_eq!(first.tag, kept.keep("b".to_owned(), "{}".to_owned(), Duration::ZERO).tag);
        assert_ne!(first.tag, kept.keep("b".to_owned(), "[]".to_owned(), Duration::ZERO).tag);
        for at in 0..1000 {
            kept.keep(at.to_string(), "{}".to_owned(), Duration::ZERO);
            assert!(kept.lock().len() <= KEPT_MAX);
        }
    }

    #[test]
    fn what_takes_long_to_be_made_is_kept_longer() {
        assert_eq!(kept_for(Duration::ZERO), KEPT_FOR);
        assert_eq!(kept_for(Duration::from_millis(8)), KEPT_FOR);
        assert_eq!(kept_for(Duration::from_millis(20)), Duration::from_secs(5));
        assert_eq!(kept_for(Duration::from_millis(500)), KEPT_FOR_MAX);
        assert_eq!(kept_for(Duration::MAX), KEPT_FOR_MAX);
    }
}
