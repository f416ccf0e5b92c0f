//! `lru_crawler metadump` and `mgdump`: a line for every item, in pieces that fit the output.

use protocol::reply::ReplyKey;
use protocol::reply::dump::{DumpFacts, metadump_line, mgdump_line};
use protocol::reply::line;
use store::DumpCursor;

use crate::connection::{OUTPUT_MAX, State};
use crate::execute::Flow;
use crate::worker::{Output, Worker};

/// A dump on its way.
pub(crate) struct Dump {
    cursor: DumpCursor,
    kind: DumpKind,
}

/// The form of the lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DumpKind {
    Metadump,
    Mgdump,
}

impl Dump {
    /// Starts with `OK`, as memcached does since 1.6.43.
    pub(crate) fn start(kind: DumpKind, output: &mut Output) -> Dump {
        output.copy(line::OK);
        Dump { cursor: DumpCursor::default(), kind }
    }

    /// Sends the next lines.
    pub(crate) fn serve(&mut self, worker: &mut Worker, output: &mut Output) -> Flow {
        let shared = &worker.shared;
        let epoch = shared.epoch_unix_s();
        let kind = self.kind;
        while output.len() < OUTPUT_MAX {
            let more = worker.store.dump(&mut self.cursor, worker.second, |item| match kind {
                DumpKind::Metadump => {
                    let facts = DumpFacts {
                        expiry: (item.expiry != 0).then(|| i64::from(item.expiry) + epoch),
                        last_access: (i64::from(item.last_access) + epoch).max(0) as u64,
                        cas: item.cas,
                        fetched: item.fetched,
                        class: 1,
                        size: shared.store.item_size(item.key.len(), item.flags, item.value_len),
                        flags: item.flags,
                    };
                    metadump_line(output.copied(), item.key, &facts);
                }
                DumpKind::Mgdump => {
                    mgdump_line(output.copied(), ReplyKey { bytes: item.key, binary: item.key_is_binary });
                }
            });
            if !more {
                output.copy(match kind {
                    DumpKind::Metadump => line::END,
                    DumpKind::Mgdump => line::META_MISS,
                });
                return Flow::Become(State::Commands);
            }
        }
        Flow::Yield
    }
}
