//! The devices that a worker reads from, and what each of them has of the limits.
//!
//! A device that hangs keeps its reads and their memory until it answers. So each has a share, and leaves the others theirs.

use std::collections::VecDeque;

use net::DiskFile;
use stdx::clock::Now;
use store::FlashRead;

use super::{BYTES_MAX, IN_FLIGHT_MAX, READ_US};

/// The devices, by number.
#[derive(Default)]
pub(super) struct Devices {
    list: Vec<Device>,
    /// A read that is longer than a device's share of the memory has memory.
    has_long: bool,
}

/// The reads of one device.
struct Device {
    file: DiskFile,
    /// To be ordered at the end of a turn, as far as the limits let them.
    queue: VecDeque<Queued>,
    /// Reads for requests.
    in_flight: usize,
    /// Their memory, and that of those that have ended.
    bytes_in_use: usize,
    /// When a read was ordered or ended, most recently.
    moved: Now,
}

/// A read that waits for its turn.
struct Queued {
    tag: usize,
    len: usize,
    is_dump: bool,
}

impl Devices {
    pub(super) fn new(files: Vec<DiskFile>) -> Devices {
        let device = |file| Device {
            file,
            queue: VecDeque::new(),
            in_flight: 0,
            bytes_in_use: 0,
            moved: Now::default(),
        };
        Devices { list: files.into_iter().map(device).collect(), has_long: false }
    }

    pub(super) fn file(&self, device: usize) -> &DiskFile {
        &self.list[device].file
    }

    pub(super) fn enqueue(&mut self, read: &FlashRead, tag: usize, is_dump: bool) {
        let queue = &mut self.list[read.device].queue;
        let queued = Queued { tag, len: read.len, is_dump };
        if is_dump {
            // Few, and in flight at once.
            queue.push_front(queued);
        } else {
            queue.push_back(queued);
        }
    }

    /// A read that waits is not wanted any more.
    pub(super) fn remove(&mut self, device: usize, tag: usize) {
        self.list[device].queue.retain(|queued| queued.tag != tag);
    }

    /// The tag of the next read to be ordered, which is in flight from now on.
    pub(super) fn next(&mut self, now: Now) -> Option<usize> {
        let is_next = |device: &usize| {
            let next = self.list[*device].queue.front();
            next.is_some_and(|next| next.is_dump || self.has_room(*device, next.len))
        };
        let device = (0..self.list.len()).find(is_next)?;
        let Queued { tag, len, is_dump } = self.list[device].queue.pop_front()?;
        self.list[device].moved = now;
        if !is_dump {
            self.has_long |= self.is_long(len);
            self.list[device].in_flight += 1;
            self.list[device].bytes_in_use += len;
        }
        Some(tag)
    }

    /// A read has ended.
    pub(super) fn note_end(&mut self, device: usize, is_dump: bool, now: Now) {
        let device = &mut self.list[device];
        device.moved = now;
        device.in_flight -= usize::from(!is_dump);
    }

    /// The memory of a read for a request is free.
    pub(super) fn note_freed(&mut self, read: &FlashRead) {
        self.list[read.device].bytes_in_use -= read.len;
        self.has_long &= !self.is_long(read.len);
    }

    /// Whether the device has begun and ended no read for as long as a request waits, and has no room for this one.
    pub(super) fn is_stuck(&self, read: &FlashRead, now: Now) -> bool {
        let device = &self.list[read.device];
        let is_still = now.us.saturating_sub(device.moved.us) >= READ_US;
        device.in_flight > 0 && is_still && !self.has_room(read.device, read.len)
    }

    /// Whether a read waits for the memory that this one has.
    pub(super) fn needs_memory_of(&self, read: &FlashRead) -> bool {
        self.is_short_of_memory(read.device) || self.is_long(read.len) && self.any_short_of_memory()
    }

    /// Whether a read waits for memory.
    pub(super) fn any_short_of_memory(&self) -> bool {
        (0..self.list.len()).any(|device| self.is_short_of_memory(device))
    }

    fn is_short_of_memory(&self, device: usize) -> bool {
        let next = self.list[device].queue.front();
        next.is_some_and(|next| !next.is_dump && !self.has_memory(device, next.len))
    }

    fn has_room(&self, device: usize, len: usize) -> bool {
        self.list[device].in_flight < IN_FLIGHT_MAX / self.list.len() && self.has_memory(device, len)
    }

    /// A read that is longer than a share has memory when its device has no other one, and no device another such one.
    fn has_memory(&self, device: usize, len: usize) -> bool {
        let bytes_in_use = self.list[device].bytes_in_use;
        bytes_in_use + len <= self.share_bytes() || bytes_in_use == 0 && !self.has_long
    }

    fn is_long(&self, len: usize) -> bool {
        len > self.share_bytes()
    }

    fn share_bytes(&self) -> usize {
        BYTES_MAX / self.list.len()
    }
}
