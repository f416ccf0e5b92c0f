//! Reads of dumps: one at a time for each worker, however many dumps there are, beside those of requests.
//!
//! A dump keeps its turn from the beginning of a read until it has used the bytes. It begins one only when its client has read all lines
//! so far, so it comes for the bytes as soon as reports let it.

use std::collections::VecDeque;

use net::{Link, Turn};
use store::{Dumped, FlashDump, FlashDumped, FlashRead, FlashReads, ReadState};

use super::FlashStage;
use crate::connection::output::Held;
use crate::worker::Worker;

/// Reads of dumps in flight, with those that took too long and are not waited for: a device that hangs keeps no more memory than
/// for these. Without a place, a dump leaves out what it would read.
pub(super) const DUMP_READS_MAX: usize = 8;

/// Whose turn it is to read for a dump.
#[derive(Default)]
pub(super) struct DumpReads {
    turn: Option<Link>,
    /// The others, in order, each once.
    waiting: VecDeque<Link>,
    /// Reads that have memory.
    reads: usize,
}

impl DumpReads {
    pub(super) fn reads(&self) -> usize {
        self.reads
    }

    pub(super) fn note_begun(&mut self) {
        self.reads += 1;
    }

    pub(super) fn note_freed(&mut self) {
        self.reads -= 1;
    }

    /// Whether it is the turn of this connection. If not, it is woken when it is.
    fn take(&mut self, link: Link) -> bool {
        let is_free = self.turn.is_none() && self.waiting.is_empty();
        if is_free {
            self.turn = Some(link);
        } else if self.turn != Some(link) && !self.waiting.contains(&link) {
            self.waiting.push_back(link);
        }
        self.turn == Some(link)
    }

    /// Ends the turn of a connection, or its wait for one.
    pub(super) fn leave(&mut self, link: Link) {
        self.turn = self.turn.filter(|turn| *turn != link);
        self.waiting.retain(|waiting| *waiting != link);
    }

    /// Wakes the next connection.
    pub(super) fn end_turn(&mut self, turn: &mut Turn<Held>) {
        while self.turn.is_none()
            && let Some(link) = self.waiting.pop_front()
        {
            if turn.is_open(link) {
                turn.wake(link);
                self.turn = Some(link);
            }
        }
    }
}

/// The reads of one dump.
struct OfDump<'s> {
    stage: &'s mut FlashStage,
    link: Link,
}

impl FlashReads for OfDump<'_> {
    fn state(&mut self, hash: u64, read: FlashRead) -> ReadState<'_> {
        let OfDump { stage, link } = self;
        if !stage.dumps.take(*link) {
            return ReadState::Pending;
        }
        let Some(tag) = stage.find(*link, hash, &read) else {
            if stage.dumps.reads >= DUMP_READS_MAX {
                return ReadState::Refused;
            }
            stage.order(*link, hash, read, true);
            return stage.await_end(*link);
        };
        stage.state_of(*link, tag)
    }
}

impl Worker {
    /// Makes the next step of a dump of the items on flash.
    pub(crate) fn dump_flash(&mut self, dump: &mut FlashDump, each: impl FnMut(&Dumped<'_>)) -> FlashDumped {
        let Some(stage) = &mut self.stage else { return FlashDumped::Ended };
        let link = self.serving;
        let dumped = self.store.dump_flash(dump, &mut OfDump { stage, link }, self.second, each);
        if dumped != FlashDumped::Waits {
            stage.forget(link);
            stage.dumps.leave(link);
        }
        dumped
    }
}
