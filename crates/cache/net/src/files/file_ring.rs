//! The ring for reads of files: an io_uring whose reads outlive the round that began them.
//!
//! The kernel gets addresses of blocks, and writes to them until it reports completion. The proof that they stay valid: from
//! before its submission until its completion has been taken from the ring, a read lies in [`FileRing::in_flight`], which
//! owns its block and its file. Nothing but `take_finished` takes a read out, and only for its completion. A block's memory
//! stays at one address although the block moves, and nothing looks at it while the read is in flight. Where completions do
//! not come (a ring that fails, a disk that does not answer), the reads are leaked ([`FileRing::give_up`], [`Drop`]): at most
//! [`crate::Options::reads_max`] blocks, once in the life of a worker.

#![expect(unsafe_code, reason = "io_uring takes addresses; the module documentation says why they are valid")]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use io_uring::types::Fd;
use io_uring::{IoUring, opcode, squeue};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read};

use crate::clock::precise_us;
use crate::files::file_read::{FileRead, FinishedRead};
use crate::files::registered_blocks::RegisteredBlocks;
use crate::slab::Slab;

/// The most that one read asks for: less than the kernel's own limit of 2 GiB. The rest is a short read's rest.
const READ_LEN_MAX: usize = 1 << 30;

/// Refusals in a row for lack of kernel resources before the ring is given up.
const REFUSALS_MAX: u32 = 1000;

/// A ring with the reads that the kernel is busy with.
pub(crate) struct FileRing {
    ring: IoUring,
    /// Their places are the user data of their submissions. See the proof above.
    in_flight: Slab<FileRead>,
    blocks: RegisteredBlocks,
}

impl FileRing {
    /// A ring for `reads_max` reads, which reports completions to `eventfd`.
    pub(crate) fn new(reads_max: usize, eventfd: &OwnedFd) -> io::Result<FileRing> {
        let entries = reads_max as u32;
        // Completions need no system call to be taken; those that are ready wait until the thread enters the kernel by itself
        // (Linux 5.19). An older kernel interrupts the thread for them.
        let ring = IoUring::builder().dontfork().setup_coop_taskrun().build(entries);
        let ring = ring.or_else(|_| IoUring::builder().dontfork().build(entries))?;
        ring.submitter().register_eventfd(eventfd.as_raw_fd())?;
        let blocks = RegisteredBlocks::new(&ring.submitter());
        Ok(FileRing { ring, in_flight: Slab::new(), blocks })
    }

    /// Submits reads. Those that cannot be are added to `finished`.
    ///
    /// # Errors
    /// If the ring does not work any more. The reads are in flight, as far as anyone can know.
    pub(crate) fn begin(
        &mut self,
        reads: Vec<FileRead>,
        finished: &mut Vec<FinishedRead>,
    ) -> Result<(), Errno> {
        let mut outcome = Ok(());
        self.blocks.forget_retired(&self.ring.submitter());
        for read in reads {
            let target = read.position().and_then(|position| Ok((position, read.file.fd()?.as_raw_fd())));
            let (position, fd) = match target {
                Ok(target) => target,
                Err(error) => {
                    finished.push(FinishedRead::Done(read, Err(error)));
                    continue;
                }
            };
            let place = self.in_flight.insert(read).index;
            let entry = self.entry(place, position, fd).user_data(u64::from(place));
            // SAFETY: the entry names the block of a read that is in `in_flight` from now on, and `fd` belongs to its file; the
            // module's documentation says why both stay valid.
            while outcome.is_ok() && unsafe { self.ring.submission().push(&entry) }.is_err() {
                outcome = self.submit();
            }
        }
        outcome.and_then(|()| self.submit())
    }

    /// The submission of a read in flight, from its file's `position` on.
    fn entry(&mut self, place: u32, position: u64, fd: i32) -> squeue::Entry {
        let block = &mut self.in_flight.at_mut(place).block;
        let number = self.blocks.number(&self.ring.submitter(), block);
        let rest = block.rest();
        let (start, len) = (rest.as_mut_ptr(), rest.len().min(READ_LEN_MAX) as u32);
        match number {
            Some(number) => opcode::ReadFixed::new(Fd(fd), start, len, number).offset(position).build(),
            None => opcode::Read::new(Fd(fd), start, len).offset(position).build(),
        }
    }

    /// Submits what has been pushed.
    fn submit(&mut self) -> Result<(), Errno> {
        let mut refusals = 0;
        while !self.ring.submission().is_empty() {
            let submitted = self.ring.submit();
            refusals += 1;
            match submitted.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO)) {
                Ok(1..) => refusals = 0,
                Ok(0) | Err(Errno::INTR | Errno::AGAIN | Errno::BUSY) if refusals < REFUSALS_MAX => {}
                Ok(0) => return Err(Errno::AGAIN),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Takes the completions that there are.
    pub(crate) fn take_finished(&mut self, finished: &mut Vec<FinishedRead>) {
        for completion in self.ring.completion() {
            let read = self.in_flight.remove(completion.user_data() as u32);
            let result = usize::try_from(completion.result());
            let result = result.map_err(|_| Errno::from_raw_os_error(-completion.result()));
            finished.push(FinishedRead::Done(read, result));
        }
    }

    /// Waits until all reads have finished, at most `most_ms`.
    pub(crate) fn drain(&mut self, eventfd: &OwnedFd, most_ms: u64, finished: &mut Vec<FinishedRead>) {
        let end_us = precise_us() + most_ms * 1000;
        loop {
            // In this order: a completion after the read of the eventfd's counter makes it readable again.
            let _not_notified = read(eventfd, &mut [0; 8]);
            self.take_finished(finished);
            let left_us = end_us.saturating_sub(precise_us());
            if left_us == 0 || self.in_flight.is_empty() {
                return;
            }
            let timeout = Timespec {
                tv_sec: (left_us / 1_000_000) as i64,
                tv_nsec: (left_us % 1_000_000 * 1000) as i64,
            };
            let _interrupted = poll(&mut [PollFd::new(eventfd, PollFlags::IN)], Some(&timeout));
        }
    }

    /// Reports all reads in flight as failed, and leaks them, because the kernel may still write to their blocks.
    pub(crate) fn give_up(&mut self, error: Errno, finished: &mut Vec<FinishedRead>) {
        let tags = self.in_flight.indices().map(|place| self.in_flight.at(place).tag);
        finished.extend(tags.map(|tag| FinishedRead::Lost(tag, error)));
        self.leak();
    }

    fn leak(&mut self) {
        if !self.in_flight.is_empty() {
            std::mem::forget(std::mem::take(&mut self.in_flight));
        }
    }
}

impl Drop for FileRing {
    /// Blocks in flight outlive the ring. Its own memory belongs to the kernel, which frees it after the last read.
    fn drop(&mut self) {
        self.leak();
    }
}

#[cfg(test)]
impl FileRing {
    pub(crate) fn registered_blocks(&self) -> &RegisteredBlocks {
        &self.blocks
    }

    /// Does what the beginning of a read into this block does.
    pub(crate) fn number_block(&mut self, block: &mut crate::files::block::Block) -> Option<u16> {
        self.blocks.number(&self.ring.submitter(), block)
    }

    /// From now on every `io_uring_enter` fails.
    pub(crate) fn break_ring(&self) {
        let null = std::fs::File::open("/dev/null").expect("open /dev/null");
        // SAFETY: two open descriptors. The mappings of the ring keep it and what is in flight alive.
        let replaced = unsafe { libc::dup2(null.as_raw_fd(), self.ring.as_raw_fd()) };
        assert!(replaced >= 0);
    }
}
