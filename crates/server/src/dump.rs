//! `lru_crawler metadump` and `mgdump`, `stats cachedump`: a line for every item, in pieces that fit the output.

use protocol::reply::ReplyKey;
use protocol::reply::dump::{DumpFacts, cachedump_line, metadump_line, mgdump_line};
use protocol::reply::line;
use store::{DumpCursor, Dumped};

use crate::flow::Flow;
use crate::output::{OUTPUT_MAX, Output};
use crate::shared::Shared;
use crate::worker::Worker;

/// The slab class of all items: memory is not divided by size.
pub(crate) const ITEM_CLASS: u32 = 1;

/// Index pages walked per turn, some 6000 items, even if they yield no output: half a millisecond.
pub(crate) const PAGES_PER_TURN: usize = 16;

/// The maximum length of `stats cachedump`, as in memcached; `lru_crawler metadump` has no limit.
const CACHEDUMP_LEN_MAX: usize = 2 * 1024 * 1024;

/// A dump in progress.
pub(crate) struct Dump {
    cursor: DumpCursor,
    kind: DumpKind,
    /// The remaining number of items, and of bytes of output.
    items_left: usize,
    bytes_left: usize,
}

/// The form of the lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DumpKind {
    Metadump,
    Mgdump,
    Cachedump,
}

impl DumpKind {
    /// The line after the last item.
    pub(crate) fn end(self) -> &'static [u8] {
        match self {
            DumpKind::Metadump | DumpKind::Cachedump => line::END,
            DumpKind::Mgdump => line::META_MISS,
        }
    }

    fn write_line(self, out: &mut Vec<u8>, item: &Dumped<'_>, shared: &Shared) {
        let expiry = (item.expiry != 0).then(|| i64::from(item.expiry) + shared.epoch_unix_s());
        match self {
            DumpKind::Metadump => {
                let last_access = i64::from(item.last_access) + shared.epoch_unix_s();
                let facts = DumpFacts {
                    expiry,
                    last_access: last_access.max(0) as u64,
                    cas: item.cas,
                    fetched: item.fetched,
                    class: ITEM_CLASS,
                    size: shared.store.item_size(item.key.len(), item.flags, item.value_len),
                    flags: item.flags,
                };
                metadump_line(out, item.key, &facts);
            }
            DumpKind::Mgdump => mgdump_line(out, ReplyKey { bytes: item.key, binary: item.key_is_binary }),
            // Such a key may contain any bytes, even those of another line.
            DumpKind::Cachedump if item.key_is_binary => {}
            DumpKind::Cachedump => {
                cachedump_line(out, item.key, item.value_len, expiry.unwrap_or(0).max(0) as u64);
            }
        }
    }
}

impl Dump {
    /// A dump of all items.
    pub(crate) fn new(kind: DumpKind) -> Dump {
        Dump { cursor: DumpCursor::default(), kind, items_left: usize::MAX, bytes_left: usize::MAX }
    }

    /// A dump of `limit` items (0: as many as a reply may contain), in no order.
    pub(crate) fn cachedump(limit: u32) -> Dump {
        let items_left = if limit == 0 { usize::MAX } else { limit as usize };
        Dump { items_left, bytes_left: CACHEDUMP_LEN_MAX, ..Dump::new(DumpKind::Cachedump) }
    }

    /// Sends the next lines.
    pub(crate) fn serve(&mut self, worker: &mut Worker, output: &mut Output) -> Flow {
        let Dump { cursor, kind, items_left, bytes_left } = self;
        for _ in 0..PAGES_PER_TURN {
            if output.len() >= OUTPUT_MAX {
                break;
            }
            let more = worker.store.dump(cursor, worker.second, |item| {
                let out = output.copied();
                let before = out.len();
                if *items_left > 0 {
                    kind.write_line(out, item, &worker.shared);
                }
                let len = out.len() - before;
                if len > *bytes_left {
                    out.truncate(before);
                    *items_left = 0;
                } else if len > 0 {
                    *items_left -= 1;
                    *bytes_left -= len;
                }
            });
            if !more || *items_left == 0 {
                output.copy(kind.end());
                return Flow::Go;
            }
        }
        Flow::Yield
    }
}

/// Makes the next step of a crawl: `lru_crawler crawl`.
pub(crate) fn crawl(cursor: &mut DumpCursor, worker: &mut Worker) -> Flow {
    let more = (0..PAGES_PER_TURN).all(|_| worker.store.crawl(cursor, worker.second));
    if more { Flow::Yield } else { Flow::Go }
}
