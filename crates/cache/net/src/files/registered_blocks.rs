//! Blocks whose pages a ring knows, so that the kernel does not look them up for each read.
//!
//! A block is registered when it is read into for the second time: whoever uses it once more keeps it for reads. That buys 4 % of
//! the CPU time of a get of 4000 bytes from a device in pipelines of 16, and 3 % at depth 1.
//!
//! The ring has pinned the pages of registered memory, and would go on writing to them after the memory was freed and its
//! addresses had others. So memory is not freed while it is registered: a block that is dropped leaves it to [`Retired`], and the
//! ring forgets it before its next reads.

#![expect(unsafe_code, reason = "io_uring takes addresses; the module documentation says why they are valid")]

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use io_uring::Submitter;

use crate::files::block::Block;

/// Registered blocks of a ring.
const REGISTERED_MAX: u16 = 2048;
/// And their memory, which counts to the user's `RLIMIT_MEMLOCK` if he is not privileged.
const BYTES_MAX: usize = 8 << 20;

/// Registered blocks that have been dropped.
#[derive(Debug, Default)]
pub(crate) struct Retired(Mutex<Vec<RetiredBlock>>);

#[derive(Debug)]
struct RetiredBlock {
    number: u16,
    memory: Vec<u8>,
    capacity: usize,
}

impl Retired {
    fn lock(&self) -> MutexGuard<'_, Vec<RetiredBlock>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A block's number among those of one ring.
#[derive(Debug)]
pub(crate) struct Registration {
    number: u16,
    retired: Arc<Retired>,
}

impl Registration {
    /// The block is dropped.
    pub(crate) fn retire(self, memory: Vec<u8>, capacity: usize) {
        let block = RetiredBlock { number: self.number, memory, capacity };
        self.retired.lock().push(block);
    }
}

/// The registered blocks of a ring.
pub(crate) struct RegisteredBlocks {
    /// Numbers that no block has. Empty where the kernel registers none.
    unused: Vec<u16>,
    bytes: usize,
    retired: Arc<Retired>,
}

impl RegisteredBlocks {
    /// Without blocks. Linux before 5.19 has no table for them.
    pub(crate) fn new(ring: &Submitter<'_>) -> RegisteredBlocks {
        let has_table = ring.register_buffers_sparse(u32::from(REGISTERED_MAX)).is_ok();
        let unused = if has_table { (0..REGISTERED_MAX).rev().collect() } else { Vec::new() };
        RegisteredBlocks { unused, bytes: 0, retired: Arc::default() }
    }

    /// Forgets the blocks that have been dropped.
    pub(crate) fn forget_retired(&mut self, ring: &Submitter<'_>) {
        let retired = std::mem::take(&mut *self.retired.lock());
        for RetiredBlock { number, memory, capacity } in retired {
            self.bytes -= capacity;
            if update(ring, number, None).is_ok() {
                self.unused.push(number);
            } else {
                std::mem::forget(memory);
            }
        }
    }

    /// The number of a block, if it has one now.
    pub(crate) fn number(&mut self, ring: &Submitter<'_>, block: &mut Block) -> Option<u16> {
        if let Some(registration) = block.registration() {
            // Another ring's number is none here.
            return Arc::ptr_eq(&registration.retired, &self.retired).then_some(registration.number);
        }
        if !block.was_read() || self.bytes + block.capacity() > BYTES_MAX {
            return None;
        }
        let number = self.unused.pop()?;
        if update(ring, number, Some(block.whole())).is_err() {
            // RLIMIT_MEMLOCK, most likely, or the ring is broken.
            self.unused.clear();
            return None;
        }
        self.bytes += block.capacity();
        block.set_registration(Registration { number, retired: Arc::clone(&self.retired) });
        Some(number)
    }
}

/// Gives a number to memory, or takes it from that which has it.
fn update(ring: &Submitter<'_>, number: u16, memory: Option<&mut [u8]>) -> io::Result<()> {
    let (base, len) = memory.map_or((std::ptr::null_mut(), 0), |memory| (memory.as_mut_ptr(), memory.len()));
    let vector = libc::iovec { iov_base: base.cast(), iov_len: len };
    // SAFETY: the memory is a block's, which neither moves nor grows, and is freed only after the number has been taken from it, or
    // together with the ring. The kernel writes to it only for reads of that block.
    unsafe { ring.register_buffers_update(u32::from(number), &[vector], None) }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, SeekFrom, Write};

    use super::*;
    use crate::files::file_read::{DiskFile, FileRead, FinishedRead};
    use crate::files::file_ring::FileRing;
    use crate::network::message_queue::new_eventfd;

    const BLOCK_LEN: usize = 4096;

    struct Rig {
        ring: FileRing,
        eventfd: std::os::fd::OwnedFd,
        path: std::path::PathBuf,
        file: DiskFile,
    }

    impl Rig {
        /// A ring, and a file whose pages have their numbers. `None`: the kernel refuses io_uring.
        fn new(name: &str) -> Option<Rig> {
            let path =
                std::env::temp_dir().join(format!("evenkeel-registered-{name}-{}", std::process::id()));
            let mut file = std::fs::File::options();
            let mut file =
                file.read(true).write(true).create(true).truncate(true).open(&path).expect("a file");
            for page in 0..=u8::MAX {
                file.write_all(&[page; BLOCK_LEN]).expect("room for a mebibyte");
            }
            file.seek(SeekFrom::Start(0)).expect("it is a file");
            let eventfd = new_eventfd().expect("an eventfd");
            let ring = FileRing::new(64, &eventfd).ok()?;
            Some(Rig { ring, eventfd, path, file: file.into() })
        }

        /// Reads a page into each of the blocks, and checks what they have.
        fn read(&mut self, blocks: Vec<Block>, first: u8) -> Vec<Block> {
            let read = |(tag, mut block): (usize, Block)| {
                block.clear();
                let at = (u64::from(first) + tag as u64) * BLOCK_LEN as u64;
                FileRead { file: self.file.clone(), at, block, tag: tag as u64 }
            };
            let reads: Vec<FileRead> = blocks.into_iter().enumerate().map(read).collect();
            let (count, mut finished) = (reads.len(), Vec::new());
            self.ring.begin(reads, &mut finished).expect("the ring works");
            self.ring.drain(&self.eventfd, 10_000, &mut finished);
            assert_eq!(finished.len(), count);
            let check = |finished| {
                let FinishedRead::Done(FileRead { mut block, tag, .. }, Ok(len)) = finished else {
                    panic!("{finished:?}")
                };
                block.advance(len);
                assert!(block.bytes() == [first + tag as u8; BLOCK_LEN], "page {tag}");
                block
            };
            finished.into_iter().map(check).collect()
        }

        fn registered(&self) -> (usize, usize) {
            let blocks = self.ring.registered_blocks();
            (usize::from(REGISTERED_MAX) - blocks.unused.len(), blocks.bytes)
        }
    }

    impl Drop for Rig {
        fn drop(&mut self) {
            let _gone = std::fs::remove_file(&self.path);
        }
    }

    fn blocks(count: usize, capacity: usize) -> Vec<Block> {
        (0..count).map(|_| Block::aligned(capacity, BLOCK_LEN)).collect()
    }

    #[test]
    fn a_block_that_is_read_into_again_is_known_until_it_is_dropped() {
        let Some(mut rig) = Rig::new("again") else { return eprintln!("this kernel refuses io_uring") };
        let mut kept = rig.read(blocks(10, BLOCK_LEN), 0);
        assert_eq!(rig.registered(), (0, 0), "nobody knows that they come back");
        kept = rig.read(kept, 10);
        kept = rig.read(kept, 20);
        assert_eq!(rig.registered(), (10, 10 * BLOCK_LEN));
        // Its memory is registered, and another block may not get it.
        kept.truncate(4);
        let others = rig.read(blocks(6, BLOCK_LEN), 100);
        assert_eq!(rig.registered(), (4, 4 * BLOCK_LEN));
        kept.extend(others);
        kept = rig.read(kept, 50);
        assert_eq!(rig.registered(), (10, 10 * BLOCK_LEN));
        // A block outlives its ring, and goes on with another one.
        let Some(mut other) = Rig::new("other") else { return };
        drop(rig);
        kept = other.read(kept, 60);
        assert_eq!(other.registered(), (0, 0));
        drop(kept);
    }

    /// The next process needs the file at once, and the kernel ends a ring some time after its process.
    #[test]
    fn a_file_is_closed_while_its_ring_and_blocks_are_there() {
        let Some(mut rig) = Rig::new("closed") else { return eprintln!("this kernel refuses io_uring") };
        let locked = std::fs::File::open(&rig.path).expect("the file");
        locked.try_lock().expect("nobody else");
        rig.file = locked.into();
        let kept = rig.read(blocks(4, BLOCK_LEN), 0);
        let _kept = rig.read(kept, 4);
        let other = std::fs::File::open(&rig.path).expect("the file");
        other.try_lock().expect_err("it is locked");
        rig.file = std::fs::File::open("/dev/null").expect("a file").into();
        other.try_lock().expect("closed with its last owner");
    }

    #[test]
    fn beyond_the_limits_blocks_are_read_into_as_others_are() {
        let Some(mut rig) = Rig::new("limits") else { return eprintln!("this kernel refuses io_uring") };
        let huge = BYTES_MAX / 2;
        let read_once = |mut block: Block| {
            block.rest()[..1].fill(0);
            block.advance(1);
            block
        };
        let mut all: Vec<Block> = blocks(3, huge).into_iter().map(read_once).collect();
        for block in &mut all {
            rig.ring.number_block(block);
        }
        assert_eq!(rig.registered(), (2, BYTES_MAX));
        let more: Vec<Block> = blocks(3, BLOCK_LEN).into_iter().map(read_once).collect();
        let more = rig.read(more, 3);
        assert_eq!(rig.registered(), (2, BYTES_MAX));
        drop(all);
        let more = rig.read(more, 5);
        assert_eq!(rig.registered(), (3, 3 * BLOCK_LEN));
        drop(more);
    }
}
