//! Segments of flash: free, being filled, or sealed, oldest first.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

use flash::Bucket;

use super::config::FlashDevice;
use super::pieces::Stream;
use crate::tier::devices::health::DeviceHealth;
use crate::tier::devices::write_budget::WriteBudget;
use crate::tier::layout::geometry::Geometry;

/// What all threads see of a segment.
#[derive(Debug, Default)]
pub(super) struct FlashSegment {
    /// Items that slots refer to.
    pub(super) objects: AtomicU32,
    /// Records that were written since it was opened.
    pub(super) records: AtomicU32,
    /// Bytes of those.
    pub(super) bytes: AtomicU64,
    /// Rises each time that it is opened; 0: it is free.
    pub(super) version: AtomicU64,
    /// Of a segment among the sealed ones: how many had been sealed by then. It changes while the tier's lock is held.
    pub(super) sealed: AtomicU64,
    /// Its pieces that are not on the device. It changes while the tier's lock is held.
    in_memory: AtomicU32,
    /// The stream that it was opened for last, as a number.
    stream: AtomicU8,
}

/// Which of the segments, oldest first, is emptied next: the one with most garbage, if it has much, or else the oldest.
pub(super) fn choose_victim(candidates: &[u32], rows: &[FlashSegment]) -> Option<u32> {
    let with_garbage = candidates.iter().map(|segment| (rows[*segment as usize].garbage(), *segment));
    let emptiest = with_garbage.max_by(|(one, _), (other, _)| one.total_cmp(other));
    let emptiest = emptiest.filter(|(garbage, _)| *garbage >= GARBAGE_MIN);
    emptiest.map(|(_, segment)| segment).or_else(|| candidates.first().copied())
}

/// Which segments are what.
#[derive(Debug)]
pub(super) struct FlashQueues {
    /// By device, the one to be taken next first.
    free: Vec<VecDeque<u32>>,
    sealed: VecDeque<u32>,
    /// The one that is being emptied.
    emptied: Option<u32>,
    devices: Vec<FlashDevice>,
    versions: u64,
    /// Times that a segment was sealed.
    seals: u64,
    /// Those of the tier that went on in this one.
    first_version: u64,
}

/// All that is to be known of segments while the tier's lock is held.
pub(super) struct FlashSegments<'t> {
    pub(super) queues: &'t mut FlashQueues,
    pub(super) rows: &'t [FlashSegment],
    pub(super) geometry: &'t Geometry,
    pub(super) health: &'t [DeviceHealth],
    pub(super) second: u32,
    pub(super) seed: u32,
    /// Of the index.
    pub(super) shard_bits: u32,
    pub(super) budget: &'t WriteBudget,
    /// Bytes per second that it earns.
    pub(super) write_rate: u64,
}

impl FlashSegment {
    pub(super) fn add(&self, bytes: usize) {
        self.objects.fetch_add(1, Relaxed);
        self.records.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes as u64, Relaxed);
    }

    /// Whether it may have pieces in memory. Whoever has seen a slot that refers to it need not take the tier's lock if it has none: a piece
    /// is noted before the slots of its records are written, and until it is on the device.
    pub(super) fn may_be_in_memory(&self) -> bool {
        self.in_memory.load(Acquire) > 0
    }

    pub(super) fn note_piece_opened(&self) {
        self.in_memory.fetch_add(1, Relaxed);
    }

    /// A piece is on the device, or given up.
    pub(super) fn note_piece_gone(&self) {
        self.in_memory.fetch_sub(1, Release);
    }

    /// The items that it was opened for, by extstore's names.
    pub(super) fn bucket(&self) -> Bucket {
        match self.stream.load(Relaxed) {
            stream if stream == Stream::LowTtl as u8 => Bucket::LowTtl,
            stream if stream == Stream::Again as u8 => Bucket::Compact,
            _ => Bucket::Default,
        }
    }

    /// Bytes of the items that slots refer to: as long on average as all that were written.
    pub(super) fn used_bytes(&self) -> u64 {
        let records = u64::from(self.records.load(Relaxed)).max(1);
        self.bytes.load(Relaxed) / records * u64::from(self.objects.load(Relaxed))
    }

    /// The share of records that nothing refers to.
    fn garbage(&self) -> f64 {
        1.0 - f64::from(self.objects.load(Relaxed)) / f64::from(self.records.load(Relaxed).max(1))
    }
}

/// Begins the CRCs of the records of a segment, from the secret of the tier: another one each time that the segment is filled, so that a
/// record from before is none, should a device have lost a write.
pub(super) fn seed_of(secret: u32, version: u64) -> u32 {
    secret.wrapping_add((version as u32).wrapping_mul(ODD))
}

/// Spreads the numbers of versions: the golden ratio, as Fibonacci hashing does.
const ODD: u32 = 0x9e37_79b9;
/// With so much garbage a segment is reused before older ones.
const GARBAGE_MIN: f64 = 0.75;
/// Segments that only items which are written again may use.
const RESERVE: usize = 1;

impl FlashQueues {
    pub(super) fn new(geometry: &Geometry, devices: &[FlashDevice]) -> FlashQueues {
        let free = (0..geometry.devices()).map(|device| geometry.segments_of(device).collect());
        FlashQueues {
            free: free.collect(),
            sealed: VecDeque::new(),
            emptied: None,
            devices: devices.to_vec(),
            versions: 0,
            seals: 0,
            first_version: 0,
        }
    }

    pub(super) fn free(&self) -> usize {
        self.free.iter().map(VecDeque::len).sum()
    }

    /// Whether there is a free one for a stream.
    pub(super) fn has_free_for(&self, stream: Stream) -> bool {
        self.free() > if stream == Stream::Again { 0 } else { RESERVE }
    }

    /// Times that a segment was opened, by all servers that have had this tier.
    pub(super) fn versions(&self) -> u64 {
        self.versions
    }

    pub(super) fn devices(&self) -> &[FlashDevice] {
        &self.devices
    }

    /// The segments that may be emptied, oldest first.
    pub(super) fn candidates(&self) -> Vec<u32> {
        self.sealed.iter().copied().collect()
    }

    /// Takes the segment that is to be emptied out of its queue.
    pub(super) fn take_victim(&mut self, segment: u32) -> Option<u32> {
        let place = self.sealed.iter().position(|other| *other == segment)?;
        self.emptied = self.sealed.remove(place);
        self.emptied
    }

    /// The segment that is being emptied stays for the time being: what slots refer to is still there.
    pub(super) fn put_back(&mut self, rows: &[FlashSegment]) {
        let Some(segment) = self.emptied.take() else { return };
        let sealed = |segment: &u32| rows[*segment as usize].sealed.load(Relaxed);
        let place = self.sealed.partition_point(|other| sealed(other) < sealed(&segment));
        self.sealed.insert(place, segment);
    }

    /// The segments that are in use, oldest first, but for those that are being filled.
    pub(super) fn sealed(&self) -> impl Iterator<Item = u32> {
        self.emptied.into_iter().chain(self.sealed.iter().copied())
    }

    /// Times that a segment was opened since the start.
    pub(super) fn opened(&self) -> u64 {
        self.versions - self.first_version
    }

    /// Puts segments into use that were all free, oldest first. Their rows have their versions already.
    pub(super) fn thaw(&mut self, versions: u64, sealed: Vec<u32>, rows: &[FlashSegment]) {
        (self.versions, self.first_version) = (versions, versions);
        let is_free = |segment: &u32| rows[*segment as usize].version.load(Relaxed) == 0;
        self.free.iter_mut().for_each(|free| free.retain(is_free));
        sealed.into_iter().for_each(|segment| self.seal(segment, rows));
    }

    fn seal(&mut self, segment: u32, rows: &[FlashSegment]) {
        self.seals += 1;
        rows[segment as usize].sealed.store(self.seals, Relaxed);
        self.sealed.push_back(segment);
    }

    /// The first of the sealed segments behind the one with this number.
    pub(super) fn sealed_after(&self, number: u64, rows: &[FlashSegment]) -> Option<u32> {
        let is_passed = |segment: &u32| rows[*segment as usize].sealed.load(Relaxed) <= number;
        self.sealed.get(self.sealed.partition_point(is_passed)).copied()
    }

    /// Frees a segment to which nothing refers any more. Reads of it may be in flight: what they bring has another version then.
    pub(super) fn put_free(&mut self, segment: u32, rows: &[FlashSegment], geometry: &Geometry) {
        rows[segment as usize].version.store(0, Relaxed);
        self.emptied = None;
        self.free[geometry.device_of(segment)].push_back(segment);
    }
}

impl FlashSegments<'_> {
    /// Takes a segment for a stream: from the device for it with the largest free share, so that all fill alike.
    pub(super) fn take(&mut self, stream: Stream) -> Option<u32> {
        if !self.queues.has_free_for(stream) {
            return None;
        }
        let FlashQueues { free, devices, versions, .. } = &mut *self.queues;
        let is_off = |device: usize| self.health[device].is_off(self.second);
        let share =
            |device: usize| free[device].len() as f64 / self.geometry.segments_of(device).len() as f64;
        let best = |suits: &dyn Fn(Bucket) -> bool| {
            let suitable = (0..devices.len())
                .filter(|device| suits(devices[*device].bucket) && share(*device) > 0.0 && !is_off(*device));
            suitable.max_by(|a, b| share(*a).total_cmp(&share(*b)))
        };
        let device = best(&|bucket| is_for(bucket, stream));
        let device =
            device.or_else(|| best(&|bucket| is_for(bucket, Stream::New))).or_else(|| best(&|_| true))?;
        let segment = free[device].pop_front()?;
        *versions += 1;
        let row = &self.rows[segment as usize];
        debug_assert_eq!(row.objects.load(Relaxed), 0, "nothing refers to it");
        row.records.store(0, Relaxed);
        row.bytes.store(0, Relaxed);
        row.version.store(*versions, Relaxed);
        row.stream.store(stream as u8, Relaxed);
        Some(segment)
    }

    /// No more records come to this segment.
    pub(super) fn seal(&mut self, segment: u32) {
        self.queues.seal(segment, self.rows);
    }
}

fn is_for(bucket: Bucket, stream: Stream) -> bool {
    match bucket {
        Bucket::Default | Bucket::Chunked => stream == Stream::New,
        Bucket::LowTtl => stream == Stream::LowTtl,
        Bucket::Compact | Bucket::ColdCompact | Bucket::Old => stream == Stream::Again,
    }
}
