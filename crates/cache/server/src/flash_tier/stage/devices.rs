//! The devices that a worker reads from, and what each of them has of the limits.
//!
//! A device that hangs keeps its reads and their memory until it answers. So each has a share, and leaves the others theirs. A read that is
//! longer than a share is in no share: there is one at a time. Within a share, connections have their turns.

use std::collections::VecDeque;

use net::DiskFile;
use stdx::clock::Now;
use store::FlashRead;

use super::fair_queue::{FairQueue, QueuedRead};

/// Reads in flight for requests, of which each device has an equal share: as many as a queue of a device has room for. What it does not take
/// at once, the kernel hands to threads of its own.
pub(super) const IN_FLIGHT_MAX: usize = 256;
/// Memory of the reads in flight and of those that have ended, beyond which the others wait. Each device has an equal share of it, too.
const BYTES_MAX: usize = 16 << 20;
/// A request waits so long for its turn at the device, and so long for the device: then it is a miss.
pub(super) const READ_US: u64 = 100_000;

/// The devices, by number.
#[derive(Default)]
pub(super) struct Devices {
    list: Vec<Device>,
    /// A long read has memory.
    has_long: bool,
}

/// The reads of one device.
struct Device {
    file: DiskFile,
    /// To be ordered at the end of a turn. Those of dumps are few, and in flight at once.
    dumps: VecDeque<usize>,
    /// Reads for requests, to be ordered at the end of a turn as far as the limits let them.
    queue: FairQueue,
    /// Long reads for requests, which delay no others.
    long: FairQueue,
    /// Reads for requests.
    in_flight: usize,
    /// Their memory, and that of those that have ended, without long ones.
    bytes_in_use: usize,
    /// Memory that the reads for requests in the queue need.
    bytes_queued: usize,
    /// When a read was ordered or ended, most recently.
    moved: Now,
}

impl Devices {
    pub(super) fn new(files: Vec<DiskFile>) -> Devices {
        let device = |file| Device {
            file,
            dumps: VecDeque::new(),
            queue: FairQueue::default(),
            long: FairQueue::default(),
            in_flight: 0,
            bytes_in_use: 0,
            bytes_queued: 0,
            moved: Now::default(),
        };
        Devices { list: files.into_iter().map(device).collect(), has_long: false }
    }

    pub(super) fn file(&self, device: usize) -> &DiskFile {
        &self.list[device].file
    }

    /// `place` is that of the connection.
    pub(super) fn enqueue(&mut self, read: &FlashRead, place: usize, tag: usize, is_dump: bool) {
        let is_long = self.is_long(read.len);
        let device = &mut self.list[read.device];
        let queued = QueuedRead { tag, len: read.len };
        if is_dump {
            device.dumps.push_back(tag);
        } else if is_long {
            device.long.push(place, queued);
        } else {
            device.queue.push(place, queued);
            device.bytes_queued += read.len;
        }
    }

    /// A read that waits is not wanted any more.
    pub(super) fn remove(&mut self, read: &FlashRead, place: usize, tag: usize) {
        let device = &mut self.list[read.device];
        if device.queue.remove(place, tag) {
            device.bytes_queued -= read.len;
        } else if !device.long.remove(place, tag) {
            device.dumps.retain(|queued| *queued != tag);
        }
    }

    /// The tag of the next read to be ordered, which is in flight from now on.
    pub(super) fn next(&mut self, now: Now) -> Option<usize> {
        (0..self.list.len()).find_map(|device| self.next_of(device, now))
    }

    fn next_of(&mut self, number: usize, now: Now) -> Option<usize> {
        if let Some(tag) = self.list[number].dumps.pop_front() {
            self.list[number].moved = now;
            return Some(tag);
        }
        let may_begin = |next: &QueuedRead| self.has_room(number, next.len);
        let next = self.list[number].queue.front().filter(may_begin);
        let next = next.or_else(|| self.list[number].long.front().filter(may_begin))?;
        let is_long = self.is_long(next.len);
        self.has_long |= is_long;
        let device = &mut self.list[number];
        device.moved = now;
        device.in_flight += 1;
        if is_long {
            device.long.pop_front();
        } else {
            device.queue.pop_front();
            device.bytes_queued -= next.len;
            device.bytes_in_use += next.len;
        }
        Some(next.tag)
    }

    /// A read has ended.
    pub(super) fn note_end(&mut self, device: usize, is_dump: bool, now: Now) {
        let device = &mut self.list[device];
        device.moved = now;
        device.in_flight -= usize::from(!is_dump);
    }

    /// The memory of a read for a request is free.
    pub(super) fn note_freed(&mut self, read: &FlashRead) {
        if self.is_long(read.len) {
            self.has_long = false;
        } else {
            self.list[read.device].bytes_in_use -= read.len;
        }
    }

    /// Whether the device has begun and ended no read for as long as a request waits, and has no room for this one.
    pub(super) fn is_stuck(&self, read: &FlashRead, now: Now) -> bool {
        let device = &self.list[read.device];
        let is_still = now.us.saturating_sub(device.moved.us) >= READ_US;
        device.in_flight > 0 && is_still && !self.has_room(read.device, read.len)
    }

    /// Whether there is memory for one more read after those that wait.
    pub(super) fn has_memory_to_spare(&self, read: &FlashRead) -> bool {
        let device = &self.list[read.device];
        device.bytes_in_use + device.bytes_queued + read.len <= self.share_bytes()
    }

    /// Whether a read waits for the memory that this one has.
    pub(super) fn needs_memory_of(&self, read: &FlashRead) -> bool {
        if self.is_long(read.len) { self.is_short_for_long() } else { self.is_short(&self.list[read.device]) }
    }

    /// Whether a read waits for memory.
    pub(super) fn any_needs_memory(&self) -> bool {
        self.is_short_for_long() || self.list.iter().any(|device| self.is_short(device))
    }

    fn is_short_for_long(&self) -> bool {
        self.has_long && self.list.iter().any(|device| !device.long.is_empty())
    }

    fn is_short(&self, device: &Device) -> bool {
        let next = device.queue.front();
        next.is_some_and(|next| device.bytes_in_use + next.len > self.share_bytes())
    }

    fn has_room(&self, device: usize, len: usize) -> bool {
        let device = &self.list[device];
        let has_memory =
            if self.is_long(len) { !self.has_long } else { device.bytes_in_use + len <= self.share_bytes() };
        has_memory && device.in_flight < IN_FLIGHT_MAX / self.list.len()
    }

    fn is_long(&self, len: usize) -> bool {
        len > self.share_bytes()
    }

    fn share_bytes(&self) -> usize {
        BYTES_MAX / self.list.len()
    }
}
