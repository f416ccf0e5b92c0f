//! Reads of the flash tier: what requests of this worker wait for.
//!
//! A request whose item is on flash leaves its input where it is, and its connection waits. When the read has ended the
//! connection is woken, the request is parsed once more, and [`store::Handle::locate`] finds the item in the bytes. Each read
//! belongs to a connection and the hash of a key. A read that nobody waits for any more is kept until the system is done with
//! its memory.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use net::{Block, DiskFile, Errno, Link, Turn};
use stdx::clock::Now;
use store::{FlashRead, FlashReads, FlashUse, Key, Located, ReadState};

use crate::output::Held;
use crate::worker::Worker;

mod dump_reads;
use dump_reads::{DUMP_READS_MAX, DumpReads};

/// Reads in flight of one worker for requests.
const REQUEST_READS_MAX: usize = 256;
/// Reads in flight of one worker.
pub(crate) const READS_MAX: usize = REQUEST_READS_MAX + DUMP_READS_MAX;
/// Bytes that they read together, beyond which one waits for the end of the others.
const BYTES_MAX: usize = 16 << 20;
/// Of these, those begun ahead of their requests' turn leave as many to other connections.
const AHEAD_MAX: usize = REQUEST_READS_MAX / 2;
/// Reads begun ahead of the turn of one connection's requests.
const AHEAD_PER_CONNECTION: usize = 32;
/// A request waits so long for a place among the reads: then it is a miss.
const PLACE_US: u64 = 10_000;
/// And so long for its read.
const READ_US: u64 = 100_000;
/// Bytes that nobody has come for are kept for so long.
const UNUSED_US: u64 = 200_000;
/// Blocks that are kept for the next reads.
const BLOCKS_KEPT: usize = 64;

/// The reads of one worker.
#[derive(Default)]
pub(crate) struct FlashStage {
    /// The devices, by number.
    files: Vec<DiskFile>,
    /// By tag.
    reads: Vec<Option<Waited>>,
    /// By tag, the hash of the key, or 0: all requests look for their reads, and these lie together.
    hashes: Vec<u64>,
    unused: Vec<usize>,
    /// Reads of all workers.
    in_use_by_all: Arc<AtomicU64>,
    bytes_in_use: usize,
    dumps: DumpReads,
    /// To be ordered at the end of the turn.
    orders: Vec<usize>,
    /// Connections that wait for a place.
    waiting: VecDeque<(Link, Now)>,
    /// Connections to be woken: there are places, or a read takes too long.
    woken: Vec<Link>,
    /// Places that became free in this turn.
    freed: usize,
    blocks: Vec<Block>,
    now: Now,
    /// Reads in flight are looked at again then.
    look_at: Option<Now>,
}

/// A read.
struct Waited {
    /// `None`: nobody waits for it any more.
    link: Option<Link>,
    read: FlashRead,
    /// It is a dump's.
    is_dump: bool,
    /// The connection does nothing until it has ended. What was begun ahead of its turn wakes nobody.
    is_awaited: bool,
    /// When it was begun, or when it has ended.
    since: Now,
    bytes: BlockState,
}

enum BlockState {
    InFlight,
    Done(Block),
    Failed,
    /// It was never done, because the network stops.
    Canceled,
}

/// The reads of one connection.
struct Of<'s> {
    stage: &'s mut FlashStage,
    link: Link,
}

impl FlashReads for Of<'_> {
    fn state(&mut self, hash: u64, read: FlashRead) -> ReadState<'_> {
        let Of { stage, link } = self;
        let Some(tag) = stage.find(*link, hash, &read) else { return stage.begin(*link, hash, read) };
        stage.state_of(tag)
    }
}

impl FlashStage {
    /// `in_use_by_all` counts the reads of all workers.
    pub(crate) fn new(files: Vec<DiskFile>, in_use_by_all: Arc<AtomicU64>) -> FlashStage {
        FlashStage { files, in_use_by_all, ..FlashStage::default() }
    }

    /// Reads for requests.
    fn in_use(&self) -> usize {
        self.reads.len() - self.unused.len() - self.dumps.reads()
    }

    /// Whether there is a place among `most` reads for one of this length.
    fn has_place(&self, most: usize, len: usize) -> bool {
        self.in_use() == 0 || self.in_use() < most && self.bytes_in_use + len <= BYTES_MAX
    }

    fn bytes(&self, tag: usize) -> ReadState<'_> {
        match &self.reads[tag].as_ref().expect("a read").bytes {
            BlockState::Done(block) => ReadState::Done(block.bytes()),
            _ => ReadState::Failed,
        }
    }

    /// The reads of a connection for a key.
    fn reads_of(&self, link: Link, hash: u64) -> impl Iterator<Item = (usize, &Waited)> {
        let tags = self.hashes.iter().enumerate().filter(move |(_, found)| **found == hash);
        let reads = tags.filter_map(|(tag, _)| Some((tag, self.reads[tag].as_ref()?)));
        reads.filter(move |(_, waited)| waited.link == Some(link))
    }

    fn find(&self, link: Link, hash: u64, read: &FlashRead) -> Option<usize> {
        self.reads_of(link, hash).find(|(_, waited)| waited.read == *read).map(|(tag, _)| tag)
    }

    /// What has become of a read, for whoever waits for it.
    fn state_of(&mut self, tag: usize) -> ReadState<'_> {
        let waited = self.reads[tag].as_ref().expect("a read");
        let is_late = self.now.us.saturating_sub(waited.since.us) >= READ_US;
        match waited.bytes {
            BlockState::InFlight if is_late => {
                self.abandon(tag);
                ReadState::Late
            }
            BlockState::InFlight => self.await_end(tag),
            BlockState::Failed => ReadState::Failed,
            BlockState::Canceled => ReadState::Refused,
            BlockState::Done(_) => self.bytes(tag),
        }
    }

    /// The connection is woken when this read has ended.
    fn await_end(&mut self, tag: usize) -> ReadState<'static> {
        if let Some(waited) = &mut self.reads[tag] {
            waited.is_awaited = true;
        }
        ReadState::Pending
    }

    /// Begins a read for a request whose turn it is, or lets it wait for a place.
    fn begin(&mut self, link: Link, hash: u64, read: FlashRead) -> ReadState<'static> {
        let place = self.waiting.iter().position(|(waiting, _)| *waiting == link);
        if self.has_place(REQUEST_READS_MAX, read.len) {
            if let Some(place) = place {
                self.waiting.remove(place);
            }
            let tag = self.order(link, hash, read, false);
            return self.await_end(tag);
        }
        match place {
            Some(place) if self.now.us.saturating_sub(self.waiting[place].1.us) >= PLACE_US => {
                self.waiting.remove(place);
                ReadState::Refused
            }
            Some(_) => ReadState::Pending,
            None => {
                self.waiting.push_back((link, self.now));
                self.look_again(PLACE_US);
                ReadState::Pending
            }
        }
    }

    /// Begins a read ahead of its request's turn, if there are places enough.
    fn begin_ahead(&mut self, link: Link, hash: u64, read: FlashRead) {
        let own = || self.reads.iter().flatten().filter(|waited| waited.link == Some(link)).count();
        if self.has_place(AHEAD_MAX, read.len) && own() < AHEAD_PER_CONNECTION {
            self.order(link, hash, read, false);
        }
    }

    fn order(&mut self, link: Link, hash: u64, read: FlashRead, is_dump: bool) -> usize {
        let waited = Waited {
            link: Some(link),
            read,
            is_dump,
            is_awaited: false,
            since: self.now,
            bytes: BlockState::InFlight,
        };
        let tag = match self.unused.pop() {
            Some(tag) => tag,
            None => {
                self.reads.push(None);
                self.hashes.push(0);
                self.reads.len() - 1
            }
        };
        if is_dump {
            self.dumps.note_begun();
        } else {
            self.bytes_in_use += waited.read.len;
        }
        self.in_use_by_all.fetch_add(1, Relaxed);
        self.reads[tag] = Some(waited);
        self.hashes[tag] = hash;
        self.orders.push(tag);
        self.look_again(READ_US);
        tag
    }

    fn look_again(&mut self, in_us: u64) {
        let then = Now { us: self.now.us + in_us };
        self.look_at = Some(self.look_at.map_or(then, |at| at.min(then)));
    }

    /// Nobody waits for this read any more.
    fn abandon(&mut self, tag: usize) {
        let Some(waited) = &mut self.reads[tag] else { return };
        waited.link = None;
        // One that has not been ordered yet is taken back when the turn ends.
        if !matches!(waited.bytes, BlockState::InFlight) {
            self.free(tag);
        }
    }

    fn free(&mut self, tag: usize) {
        let Some(Waited { read, bytes, is_dump, .. }) = self.reads[tag].take() else { return };
        self.in_use_by_all.fetch_sub(1, Relaxed);
        self.hashes[tag] = 0;
        if is_dump {
            self.unused.push(tag);
            return self.dumps.note_freed();
        }
        self.bytes_in_use -= read.len;
        if let BlockState::Done(block) = bytes
            && self.blocks.len() < BLOCKS_KEPT
            && block.capacity() <= FlashRead::SHORT_LEN_MAX
        {
            self.blocks.push(block);
        }
        self.unused.push(tag);
        // It asks again. Until then another one may have taken the place, so it stays where it waits.
        if let Some((link, _)) = self.waiting.get(self.freed) {
            self.woken.push(*link);
        }
        self.freed += 1;
    }

    /// Forgets the reads of a connection for a key.
    fn forget_key(&mut self, link: Link, hash: u64) {
        let next = |stage: &FlashStage| stage.reads_of(link, hash).next().map(|(tag, _)| tag);
        while let Some(tag) = next(self) {
            self.abandon(tag);
        }
        self.waiting.retain(|(waiting, _)| *waiting != link);
    }

    /// Forgets all the reads of a connection.
    fn forget(&mut self, link: Link) {
        for tag in 0..self.reads.len() {
            if self.reads[tag].as_ref().is_some_and(|waited| waited.link == Some(link)) {
                self.abandon(tag);
            }
        }
        self.waiting.retain(|(waiting, _)| *waiting != link);
    }

    /// All connections and reads have ended, and others with the same links may come.
    pub(crate) fn rest(&mut self) {
        debug_assert_eq!(self.in_use(), 0, "whoever waited has gone");
        self.woken.clear();
        self.freed = 0;
        self.look_at = None;
    }

    /// When a request may have waited for too long.
    pub(crate) fn deadline(&self) -> Option<Now> {
        if self.woken.is_empty() { self.look_at } else { Some(self.now) }
    }

    pub(crate) fn begin_turn(&mut self, now: Now) {
        self.now = now;
    }

    /// Gives the orders of this turn, and wakes whoever need not wait any longer.
    pub(crate) fn end_turn(&mut self, turn: &mut Turn<Held>) {
        for tag in std::mem::take(&mut self.orders) {
            let Some(waited) = &self.reads[tag] else { continue };
            if waited.link.is_none() {
                self.free(tag);
                continue;
            }
            let (file, len, position) =
                (&self.files[waited.read.device], waited.read.len, waited.read.position);
            let fits = |block: &Block| block.capacity() == len;
            let kept = self.blocks.iter().position(fits).map(|at| self.blocks.swap_remove(at));
            let block = kept.unwrap_or_else(|| Block::aligned(len, store::FLASH_PAGE_BYTES));
            if turn.read(file, position, block, tag as u64).is_err() {
                // The network is stopping.
                self.on_read(tag, Err(Errno::CANCELED), turn);
            }
        }
        if self.look_at.is_some_and(|at| at <= self.now) {
            self.wake_late(turn);
        }
        self.dumps.end_turn(turn);
        self.woken.drain(..).for_each(|link| turn.wake(link));
        self.freed = 0;
    }

    fn wake_late(&mut self, turn: &mut Turn<Held>) {
        self.look_at = None;
        self.drop_unused();
        let mut next = None;
        // A dump comes for its bytes: its client had read all before.
        let is_looked_at = |waited: &&Waited| !waited.is_dump || matches!(waited.bytes, BlockState::InFlight);
        let reads = self.reads.iter().flatten().filter(is_looked_at);
        let limit_us = |waited: &Waited| match waited.bytes {
            BlockState::InFlight => READ_US,
            _ => UNUSED_US,
        };
        let reads = reads.filter_map(|waited| Some((waited.link?, waited.since.us + limit_us(waited))));
        let places = self.waiting.iter().map(|(link, since)| (*link, since.us + PLACE_US));
        for (link, late_us) in reads.chain(places) {
            if late_us <= self.now.us {
                turn.wake(link);
            } else {
                next = Some(next.map_or(late_us, |us: u64| us.min(late_us)));
            }
        }
        self.look_at = next.map(|us| Now { us });
    }

    /// Drops what nobody has come for: the client of a blocked connection that does not read must not keep the places of others.
    fn drop_unused(&mut self) {
        for tag in 0..self.reads.len() {
            let is_unused = |waited: &Waited| {
                let has_ended = !matches!(waited.bytes, BlockState::InFlight);
                has_ended && !waited.is_dump && waited.since.us + UNUSED_US <= self.now.us
            };
            if self.reads[tag].as_ref().is_some_and(is_unused) {
                self.abandon(tag);
            }
        }
    }

    /// A read has ended.
    pub(crate) fn on_read(&mut self, tag: usize, result: Result<Block, Errno>, turn: &mut Turn<Held>) {
        let Some(waited) = &mut self.reads[tag] else { return };
        waited.since = self.now;
        let is_whole = |block: &Block| block.bytes().len() == waited.read.len;
        waited.bytes = match result {
            Ok(block) if is_whole(&block) => BlockState::Done(block),
            Err(Errno::CANCELED) => BlockState::Canceled,
            _ => BlockState::Failed,
        };
        match waited.link {
            Some(link) => {
                if waited.is_awaited {
                    turn.wake(link);
                }
                self.look_again(UNUSED_US);
            }
            None => self.free(tag),
        }
    }
}

impl Worker {
    /// Whether the request of this connection whose turn it is has to wait for its item.
    pub(crate) fn must_wait(&mut self, link: Link, key: &Key<'_>, usage: FlashUse) -> bool {
        let Some(stage) = &mut self.stage else { return false };
        let mut reads = Of { stage, link };
        if self.store.locate(key, usage, &mut reads, self.second) == Located::Waits {
            return true;
        }
        stage.forget_key(link, key.hash());
        false
    }

    /// Begins the read that a later request of a connection will wait for.
    pub(crate) fn read_ahead(&mut self, link: Link, key: &Key<'_>) {
        if let Some(stage) = &mut self.stage
            && stage.reads_of(link, key.hash()).next().is_none()
            && let Some(read) = self.store.read_ahead(key)
        {
            stage.begin_ahead(link, key.hash(), read);
        }
    }

    /// Whether items may be on flash.
    #[inline]
    pub(crate) fn has_flash(&self) -> bool {
        self.stage.is_some()
    }

    /// Forgets the reads of a connection that is gone.
    pub(crate) fn forget_reads(&mut self, link: Link) {
        if let Some(stage) = &mut self.stage {
            stage.forget(link);
            stage.dumps.leave(link);
        }
    }
}
