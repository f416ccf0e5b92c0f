//! Documents that were answered a moment ago.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use admin::site::Bytes;
use os::clock::Stopwatch;

/// Age up to which a document is sent again, so that any number of tabs costs one. Pages ask every two seconds: what happens is seen after four at
/// most. The summary of 5,000 members takes a controller some ten milliseconds.
const KEPT_FOR: Duration = Duration::from_secs(2);
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

/// Documents by path and query.
#[derive(Default)]
pub(crate) struct KeptDocuments(Mutex<HashMap<String, (Stopwatch, KeptDocument)>>);

impl KeptDocuments {
    /// One that is not too old.
    pub(crate) fn get(&self, name: &str) -> Option<KeptDocument> {
        let kept = self.lock();
        let (since, document) = kept.get(name)?;
        (since.passed() < KEPT_FOR).then(|| document.clone())
    }

    /// Keeps one. At a limit all others go: they would be too old soon.
    pub(crate) fn keep(&self, name: String, json: String) -> KeptDocument {
        let document = KeptDocument::of(json);
        let mut kept = self.lock();
        kept.retain(|_, (since, _)| since.passed() < KEPT_FOR);
        let len: usize = kept.values().map(|(_, document)| document.json.len()).sum();
        if kept.len() >= KEPT_MAX || len + document.json.len() > KEPT_LEN_MAX {
            kept.clear();
        }
        if document.json.len() <= KEPT_LEN_MAX {
            kept.insert(name, (Stopwatch::start(), document.clone()));
        }
        document
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, (Stopwatch, KeptDocument)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
        let first = kept.keep("a".to_owned(), "{}".to_owned());
        // On a busy machine it may be too old by now.
        assert!(kept.get("a").is_none_or(|found| found.tag == first.tag && found.json == first.json));
        assert_eq!(first.tag, kept.keep("b".to_owned(), "{}".to_owned()).tag);
        assert_ne!(first.tag, kept.keep("b".to_owned(), "[]".to_owned()).tag);
        for at in 0..1000 {
            kept.keep(at.to_string(), "{}".to_owned());
            assert!(kept.lock().len() <= KEPT_MAX);
        }
    }
}
