//! `lru_crawler metadump` and `mgdump`, `stats cachedump`: a line for every item, in pieces that fit the output.

use std::sync::Arc;

use protocol::reply::ReplyKey;
use protocol::reply::dump::{DumpFacts, cachedump_line, metadump_line, mgdump_line};
use protocol::reply::line;
use store::{DumpCursor, Dumped, FlashDump, FlashDumped};

use crate::connection::flow::Flow;
use crate::connection::output::{OUTPUT_MAX, Output};
use crate::shared::Shared;
use crate::worker::Worker;

/// The slab class of all items: memory is not divided by size.
pub(crate) const ITEM_CLASS: u32 = 1;

/// Index pages walked per turn, some 6000 items, even if they yield no output: half a millisecond.
pub(crate) const PAGES_PER_TURN: usize = 16;

/// The maximum length of `stats cachedump`, as in memcached; `lru_crawler metadump` has no limit.
const CACHEDUMP_LEN_MAX: usize = 2 * 1024 * 1024;

/// Parts of flash passed over per turn, where nothing is to be listed: segments without items, or of a device that is left alone.
const FLASH_PARTS_PER_TURN: usize = 64;

/// A dump in progress.
pub(crate) struct Dump {
    part: Part,
    flash: FlashDump,
    lines: Lines,
}

/// What is listed. What moves to flash while memory is listed comes in the second round.
enum Part {
    Flash,
    Memory(DumpCursor),
    FlashAgain,
}

/// The lines of a dump.
struct Lines {
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
                    on_flash: item.on_flash.map(|place| (place.page, place.offset)),
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

impl Lines {
    fn put(&mut self, item: &Dumped<'_>, output: &mut Output, shared: &Shared) {
        let out = output.copied();
        let before = out.len();
        if self.items_left > 0 {
            self.kind.write_line(out, item, shared);
        }
        let len = out.len() - before;
        if len > self.bytes_left {
            out.truncate(before);
            self.items_left = 0;
        } else if len > 0 {
            self.items_left -= 1;
            self.bytes_left -= len;
        }
    }
}

impl Dump {
    /// A dump of all items.
    pub(crate) fn new(kind: DumpKind) -> Dump {
        let lines = Lines { kind, items_left: usize::MAX, bytes_left: usize::MAX };
        Dump { part: Part::Flash, flash: FlashDump::default(), lines }
    }

    /// A dump of `limit` items in memory (0: as many as a reply may contain), in no order.
    pub(crate) fn cachedump(limit: u32) -> Dump {
        let items_left = if limit == 0 { usize::MAX } else { limit as usize };
        let lines = Lines { kind: DumpKind::Cachedump, items_left, bytes_left: CACHEDUMP_LEN_MAX };
        Dump { part: Part::Memory(DumpCursor::default()), flash: FlashDump::default(), lines }
    }

    /// Sends the next lines.
    pub(crate) fn serve(&mut self, worker: &mut Worker, output: &mut Output) -> Flow {
        let Dump { part, flash, lines } = self;
        loop {
            let flow = match part {
                Part::Flash | Part::FlashAgain => list_flash(flash, lines, worker, output),
                Part::Memory(cursor) => list_memory(cursor, lines, worker, output),
            };
            if !matches!(flow, Flow::Go) {
                return flow;
            }
            *part = match part {
                Part::Flash => Part::Memory(DumpCursor::default()),
                Part::Memory(_) if lines.kind != DumpKind::Cachedump && worker.has_flash() => {
                    Part::FlashAgain
                }
                _ => {
                    output.copy(lines.kind.end());
                    return Flow::Go;
                }
            };
        }
    }
}

/// Lists the next items in memory. `Flow::Go`: there are no more.
fn list_memory(cursor: &mut DumpCursor, lines: &mut Lines, worker: &mut Worker, output: &mut Output) -> Flow {
    for _ in 0..PAGES_PER_TURN {
        if output.len() >= OUTPUT_MAX {
            break;
        }
        let (store, shared) = (&mut worker.store, &worker.shared);
        let more = store.dump(cursor, worker.second, |item| lines.put(item, output, shared));
        if !more || lines.items_left == 0 {
            return Flow::Go;
        }
    }
    Flow::Yield
}

/// Lists the next items on flash: those of one read, or of as much of a buffer in memory.
fn list_flash(flash: &mut FlashDump, lines: &mut Lines, worker: &mut Worker, output: &mut Output) -> Flow {
    // A client that does not read must not keep the turn to read from other dumps.
    for _ in 0..FLASH_PARTS_PER_TURN {
        if !output.is_empty() {
            break;
        }
        let shared = Arc::clone(&worker.shared);
        match worker.dump_flash(flash, |item| lines.put(item, output, &shared)) {
            FlashDumped::More => {}
            FlashDumped::Waits => return Flow::Sleep,
            FlashDumped::Ended => return Flow::Go,
        }
    }
    Flow::Yield
}

/// Makes the next step of a crawl: `lru_crawler crawl`.
pub(crate) fn crawl(cursor: &mut DumpCursor, worker: &mut Worker) -> Flow {
    let more = (0..PAGES_PER_TURN).all(|_| worker.store.crawl(cursor, worker.second));
    if more { Flow::Yield } else { Flow::Go }
}
