//! Hot values of a worker: answers in place of a server, and what requests and replies mean for them.
//!
//! Where no pool has such values, a request and a reply cost a branch each. The rules are those of [`HotCache`]; which server a
//! request goes to, and to whom an answer is handed over, is not known here.

mod answers;
mod notes;
mod pools;

use crate::hot::cache::HotCache;

pub(super) use answers::HotAnswer;
pub(super) use notes::NotedReply;

/// The hot values of a worker.
#[derive(Default)]
pub(super) struct HotValues {
    /// Values that are asked for again and again; `None` if no pool keeps any.
    cache: Option<Box<HotCache>>,
    /// Memory for an answer.
    text: Vec<u8>,
    /// A key that a reply is about.
    key: Vec<u8>,
}

#[cfg(test)]
impl HotValues {
    pub(super) fn cache(&self) -> Option<&HotCache> {
        self.cache.as_deref()
    }
}
