//! Reads of the flash tier: what requests of this worker wait for.
//!
//! A request whose item is on flash leaves its input where it is, and its connection waits. When its reads have ended the
//! connection is woken, the request is parsed once more, and [`store::Handle::locate`] finds the item in the bytes. Each read
//! belongs to a connection and the hash of a key. A read that nobody waits for any more is kept until the system is done with
//! its memory.
//!
//! The reads of the requests of a pipeline are begun together, and the connection is woken when all of them have ended: their
//! values leave with one send instead of several, a fifth of the CPU time of a get.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use net::{Block, DiskFile, Errno, Link, Turn};
use stdx::clock::Now;
use store::{FlashRead, FlashReads, FlashUse, Key, Located, ReadState, Store};

use crate::connection::output::Held;
use crate::worker::Worker;

mod devices;
mod dump_reads;
mod fair_queue;
mod kept_blocks;
mod readers;
mod write_waits;
use devices::{Devices, IN_FLIGHT_MAX, READ_US};
use dump_reads::{DUMP_READS_MAX, DumpReads};
use kept_blocks::KeptBlocks;
use readers::Readers;
use write_waits::WriteWaits;

/// Reads of one worker for requests: they wait for the device, are in flight, or have ended.
const REQUEST_READS_MAX: usize = 2048;
/// Of these, those begun ahead of their requests' turn leave as many to other connections.
const AHEAD_MAX: usize = REQUEST_READS_MAX / 2;
/// Reads begun ahead of the turn of one connection's requests.
const AHEAD_PER_CONNECTION: usize = 32;
/// Reads in flight of one worker.
pub(crate) const READS_MAX: usize = IN_FLIGHT_MAX + DUMP_READS_MAX;
/// A request waits so long for a place among the reads: then it is a miss.
const PLACE_US: u64 = 10_000;
/// Bytes that nobody has come for are kept for so long.
const UNUSED_US: u64 = 200_000;
/// The same while reads wait for memory: whoever has not come has output that his client does not read.
const UNUSED_SHORT_US: u64 = 5_000;
/// And for a connection that waits for others of its reads. Meanwhile it is woken, every [`UNUSED_SHORT_US`], and takes what it can use.
const UNUSED_WAITING_US: u64 = 15_000;

/// The reads of one worker.
#[derive(Default)]
pub(crate) struct FlashStage {
    devices: Devices,
    /// By tag.
    reads: Vec<Option<Waited>>,
    unused: Vec<usize>,
    readers: Readers,
    /// Reads of all workers.
    in_use_by_all: Arc<AtomicU64>,
    dumps: DumpReads,
    /// Connections whose next request waits for the disks to write.
    writes: WriteWaits,
    /// Connections that wait for a place.
    waiting: VecDeque<(Link, Now)>,
    /// Connections to be woken: there are places, or a read takes too long.
    woken: Vec<Link>,
    /// Reads that are about to be dropped.
    unwanted: Vec<usize>,
    /// Places that became free in this turn.
    freed: usize,
    blocks: KeptBlocks,
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
    /// When it came to this state.
    since: Now,
    bytes: BlockState,
}

enum BlockState {
    /// It waits for its turn at the device.
    Queued,
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
        stage.state_of(*link, tag)
    }
}

impl FlashStage {
    /// `in_use_by_all` counts the reads of all workers.
    pub(crate) fn new(files: Vec<DiskFile>, in_use_by_all: Arc<AtomicU64>) -> FlashStage {
        FlashStage { devices: Devices::new(files), in_use_by_all, ..FlashStage::default() }
    }

    /// Reads for requests.
    fn in_use(&self) -> usize {
        self.reads.len() - self.unused.len() - self.dumps.reads()
    }

    fn bytes(&self, tag: usize) -> ReadState<'_> {
        match &self.reads[tag].as_ref().expect("a read").bytes {
            BlockState::Done(block) => ReadState::Done(block.bytes()),
            _ => ReadState::Failed,
        }
    }

    fn find(&self, link: Link, hash: u64, read: &FlashRead) -> Option<usize> {
        let is_it = |tag: &usize| self.reads[*tag].as_ref().is_some_and(|waited| waited.read.covers(read));
        self.readers.tags(link, hash).find(is_it)
    }

    /// What has become of a read of a connection, for whoever waits for it.
    fn state_of(&mut self, link: Link, tag: usize) -> ReadState<'_> {
        let waited = self.reads[tag].as_ref().expect("a read");
        let is_late = self.now.us.saturating_sub(waited.since.us) >= READ_US;
        match waited.bytes {
            BlockState::Queued if self.devices.is_stuck(&waited.read, self.now) => {
                self.abandon(tag);
                ReadState::Late
            }
            BlockState::Queued if is_late => {
                self.abandon(tag);
                ReadState::Refused
            }
            BlockState::InFlight if is_late => {
                self.abandon(tag);
                ReadState::Late
            }
            BlockState::Queued | BlockState::InFlight => self.await_end(link),
            BlockState::Failed => ReadState::Failed,
            BlockState::Canceled => ReadState::Refused,
            BlockState::Done(_) => self.bytes(tag),
        }
    }

    /// The connection is woken when its reads have ended.
    fn await_end(&mut self, link: Link) -> ReadState<'static> {
        self.readers.await_ends(link);
        ReadState::Pending
    }

    /// Begins a read for a request whose turn it is, or lets it wait for a place.
    fn begin(&mut self, link: Link, hash: u64, read: FlashRead) -> ReadState<'static> {
        if self.devices.is_stuck(&read, self.now) {
            return ReadState::Late;
        }
        let place = self.waiting.iter().position(|(waiting, _)| *waiting == link);
        if self.in_use() < REQUEST_READS_MAX {
            if let Some(place) = place {
                self.waiting.remove(place);
            }
            self.drop_covered(link, hash, &read);
            self.order(link, hash, read, false);
            return self.await_end(link);
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

    /// Drops a shorter read of the same item. The first page of a large value has said how long it is, and comes once more with the value. If
    /// it was kept, requests that wait for memory could have all of it.
    fn drop_covered(&mut self, link: Link, hash: u64, read: &FlashRead) {
        let is_covered =
            |tag: &usize| self.reads[*tag].as_ref().is_some_and(|waited| read.covers(&waited.read));
        let covered = self.readers.tags(link, hash).find(is_covered);
        if let Some(tag) = covered {
            self.abandon(tag);
        }
    }

    /// Whether one more read may be begun ahead of the turn of its request.
    fn has_place_ahead(&self, link: Link, hash: u64) -> bool {
        self.in_use() < AHEAD_MAX
            && self.readers.count(link) < AHEAD_PER_CONNECTION
            && self.readers.tags(link, hash).next().is_none()
    }

    fn order(&mut self, link: Link, hash: u64, read: FlashRead, is_dump: bool) {
        let waited = Waited { link: Some(link), read, is_dump, since: self.now, bytes: BlockState::Queued };
        let tag = self.unused.pop().unwrap_or_else(|| {
            self.reads.push(None);
            self.reads.len() - 1
        });
        if is_dump {
            self.dumps.note_begun();
        }
        self.devices.enqueue(&read, link.place(), tag, is_dump);
        self.in_use_by_all.fetch_add(1, Relaxed);
        self.readers.add(link, hash, tag);
        self.reads[tag] = Some(waited);
        self.look_again(READ_US);
    }

    fn look_again(&mut self, in_us: u64) {
        let then = Now { us: self.now.us + in_us };
        self.look_at = Some(self.look_at.map_or(then, |at| at.min(then)));
    }

    /// Nobody waits for this read any more.
    fn abandon(&mut self, tag: usize) {
        let Some(waited) = &mut self.reads[tag] else { return };
        let is_pending = matches!(waited.bytes, BlockState::Queued | BlockState::InFlight);
        let link = waited.link.take();
        if let Some(link) = link {
            self.readers.remove(link, tag, is_pending);
        }
        match waited.bytes {
            BlockState::InFlight => {}
            BlockState::Queued => {
                // Somebody waits for each that is queued.
                let place = link.map_or(0, Link::place);
                self.devices.remove(&waited.read, place, tag);
                self.free(tag);
            }
            _ => self.free(tag),
        }
    }

    /// Frees the place of a read that nobody waits for, and that is not in flight.
    fn free(&mut self, tag: usize) {
        let Some(Waited { read, bytes, is_dump, .. }) = self.reads[tag].take() else { return };
        self.in_use_by_all.fetch_sub(1, Relaxed);
        self.unused.push(tag);
        if is_dump {
            return self.dumps.note_freed();
        }
        if !matches!(bytes, BlockState::Queued) {
            self.devices.note_freed(&read);
        }
        if let BlockState::Done(block) = bytes {
            self.blocks.keep(block);
        }
        // It asks again. Until then another one may have taken the place, so it stays where it waits.
        if let Some((link, _)) = self.waiting.get(self.freed) {
            self.woken.push(*link);
        }
        self.freed += 1;
    }

    /// Forgets the reads of a connection for a key.
    fn forget_key(&mut self, link: Link, hash: u64) {
        let next = |stage: &FlashStage| stage.readers.tags(link, hash).next();
        while let Some(tag) = next(self) {
            self.abandon(tag);
        }
        self.leave(link);
    }

    /// Forgets all the reads of a connection.
    fn forget(&mut self, link: Link) {
        while let Some(tag) = self.readers.any(link) {
            self.abandon(tag);
        }
        self.leave(link);
        self.writes.forget(link);
    }

    /// A connection does not wait for a place any more.
    fn leave(&mut self, link: Link) {
        if !self.waiting.is_empty() {
            self.waiting.retain(|(waiting, _)| *waiting != link);
        }
    }

    /// All connections and reads have ended, and others with the same links may come.
    pub(crate) fn rest(&mut self) {
        debug_assert_eq!(self.in_use(), 0, "whoever waited has gone");
        self.woken.clear();
        self.writes.clear();
        self.freed = 0;
        self.look_at = None;
    }

    /// When a request may have waited for too long.
    pub(crate) fn deadline(&self) -> Option<Now> {
        let reading = if self.woken.is_empty() { self.look_at } else { Some(self.now) };
        reading.into_iter().chain(self.writes.deadline(self.now)).min()
    }

    pub(crate) fn begin_turn(&mut self, now: Now) {
        self.now = now;
    }

    /// Orders reads as far as the limits let them, and wakes whoever need not wait any longer.
    pub(crate) fn end_turn(&mut self, store: &Store, turn: &mut Turn<Held>) {
        self.writes.wake(self.now, || store.flash_is_behind(), |link| turn.wake(link));
        if self.look_at.is_some_and(|at| at <= self.now) {
            self.wake_late(turn);
        }
        while let Some(tag) = self.devices.next(self.now) {
            self.submit(tag, turn);
        }
        if self.devices.any_needs_memory() {
            self.look_again(UNUSED_SHORT_US);
        }
        self.dumps.end_turn(turn);
        self.woken.drain(..).for_each(|link| turn.wake(link));
        self.freed = 0;
    }

    fn submit(&mut self, tag: usize, turn: &mut Turn<Held>) {
        let waited = self.reads[tag].as_mut().expect("a queued read");
        (waited.bytes, waited.since) = (BlockState::InFlight, self.now);
        let FlashRead { device, position, len, .. } = waited.read;
        let block = self.blocks.take(len);
        if turn.read(self.devices.file(device), position, block, tag as u64).is_err() {
            // The network is stopping.
            self.on_read(tag, Err(Errno::CANCELED), turn);
        }
    }

    fn wake_late(&mut self, turn: &mut Turn<Held>) {
        self.look_at = None;
        self.drop_unused();
        let mut next = None;
        // A dump comes for its bytes: its client had read all before.
        let is_looked_at = |waited: &&Waited| !waited.is_dump || matches!(waited.bytes, BlockState::InFlight);
        let reads = self.reads.iter().flatten().filter(is_looked_at);
        let limit_us = |waited: &Waited| match waited.bytes {
            BlockState::Queued | BlockState::InFlight => READ_US,
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
            let Some(waited) = &self.reads[tag] else { continue };
            let has_ended = !matches!(waited.bytes, BlockState::Queued | BlockState::InFlight);
            if !has_ended || waited.is_dump {
                continue;
            }
            let unused_us = self.now.us.saturating_sub(waited.since.us);
            if unused_us >= UNUSED_US {
                self.unwanted.push(tag);
            } else if unused_us >= UNUSED_SHORT_US
                && self.devices.needs_memory_of(&waited.read)
                && let Some(link) = waited.link
                && !self.is_part(link, tag)
            {
                if unused_us < UNUSED_WAITING_US && self.readers.waits(link) {
                    if self.woken.last() != Some(&link) {
                        self.woken.push(link);
                    }
                } else {
                    self.unwanted.push(tag);
                }
            }
        }
        // Not before, so that all of them are looked at with the same memory.
        while let Some(tag) = self.unwanted.pop() {
            self.abandon(tag);
        }
    }

    /// Whether the request that has this read waits for another one as well, because two keys share a tag. It needs both: if each was
    /// dropped while it waits for the other one, it would wait for ever.
    fn is_part(&self, link: Link, tag: usize) -> bool {
        let is_pending = |tag: usize| {
            let waited = self.reads[tag].as_ref();
            waited.is_some_and(|waited| matches!(waited.bytes, BlockState::Queued | BlockState::InFlight))
        };
        self.readers.hash(link, tag).is_some_and(|hash| self.readers.tags(link, hash).any(is_pending))
    }

    /// A read has ended.
    pub(crate) fn on_read(&mut self, tag: usize, result: Result<Block, Errno>, turn: &mut Turn<Held>) {
        let Some(waited) = &mut self.reads[tag] else { return };
        waited.since = self.now;
        self.devices.note_end(waited.read.device, waited.is_dump, self.now);
        let is_whole = |block: &Block| block.bytes().len() == waited.read.len;
        waited.bytes = match result {
            Ok(block) if is_whole(&block) => BlockState::Done(block),
            Err(Errno::CANCELED) => BlockState::Canceled,
            _ => BlockState::Failed,
        };
        match waited.link {
            Some(link) => {
                if self.readers.note_end(link) {
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
    #[inline(never)]
    pub(crate) fn must_wait(&mut self, link: Link, key: &Key<'_>, usage: FlashUse) -> bool {
        let Some(stage) = &mut self.stage else { return false };
        let mut reads = Of { stage, link };
        if self.store.locate(key, usage, &mut reads, self.second) == Located::Waits {
            return true;
        }
        stage.forget_key(link, key.hash());
        false
    }

    /// Whether a request that stores an item has to wait for the disks: see [`WriteWaits`].
    pub(crate) fn must_wait_for_writes(&mut self, link: Link) -> bool {
        let Some(stage) = &mut self.stage else { return false };
        let store = &self.shared.store;
        if store.flash_is_behind() {
            return stage.writes.must_wait(link, store.flash_progress(), self.now);
        }
        stage.writes.pass(link);
        false
    }

    /// Begins the read that a later request of a connection will wait for.
    #[inline(never)]
    pub(crate) fn read_ahead(&mut self, link: Link, key: &Key<'_>) {
        if let Some(stage) = &mut self.stage
            && stage.has_place_ahead(link, key.hash())
            && let Some(read) = self.store.read_ahead(key)
            // Or else others would be dropped for it before they are used.
            && stage.devices.has_memory_to_spare(&read)
        {
            stage.order(link, key.hash(), read, false);
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
