//! Answers that are on their way: who asks for the same document meanwhile waits for the same answer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::OnceCell;

use crate::kept::KeptDocument;

/// Answers that are waited for at one time: a few people's pages. Whoever makes them has other work as well.
pub(crate) const UNDER_WAY_MAX: usize = 16;

/// What was answered; nothing if there is no such document.
#[derive(Clone)]
pub(crate) struct Answered {
    pub(crate) status: u16,
    pub(crate) document: KeptDocument,
}

/// An answer that several requests wait for. If the one that has asked goes away, the next one asks.
pub(crate) type SharedAnswer = Arc<OnceCell<Option<Answered>>>;

/// Answers by path and query, as long as a request waits for them.
#[derive(Default)]
pub(crate) struct AnswersUnderWay(Mutex<HashMap<String, Weak<OnceCell<Option<Answered>>>>>);

impl AnswersUnderWay {
    /// The answer that is on its way, or a new one; none if too many are.
    pub(crate) fn join(&self, name: &str) -> Option<SharedAnswer> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = all.get(name).and_then(Weak::upgrade) {
            return Some(found);
        }
        all.retain(|_, answer| answer.strong_count() > 0);
        if all.len() >= UNDER_WAY_MAX {
            return None;
        }
        let new = SharedAnswer::default();
        all.insert(name.to_owned(), Arc::downgrade(&new));
        Some(new)
    }
}
