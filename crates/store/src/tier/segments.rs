//! Segments of flash: free, being filled, or sealed, oldest first.

use std::collections::VecDeque;
use std::sync::atomic::{
    AtomicU8, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed},
};

use flash::Bucket;

use super::config::FlashDevice;
use super::geometry::Geometry;
use super::pieces::Stream;

/// What all threads see of a segment.
#[derive(Debug, Default)]
pub(super) struct FlashSegment {
    /// Items that slots refer to.
    pub(super) objects: AtomicU32,
    /// Records that were written since it was opened.
    pub(super) records: AtomicU32,
    /// Bytes of those.
    pub(super) bytes: AtomicU64,
    /// Reads in flight: it is not filled again before they have ended.
    readers: AtomicU32,
    /// Rises each time that it is opened; 0: it is free.
    pub(super) version: AtomicU64,
    /// The stream that it was opened for last, as a number.
    stream: AtomicU8,
}

/// Which segments are what.
#[derive(Debug)]
pub(super) struct FlashQueues {
    /// By device, the one to be taken next first.
    free: Vec<VecDeque<u32>>,
    sealed: VecDeque<u32>,
    /// Nothing refers to them, but reads may be in flight.
    emptied: Vec<u32>,
    devices: Vec<FlashDevice>,
    versions: u64,
}

/// All that is to be known of segments while the tier's lock is held.
pub(super) struct FlashSegments<'t> {
    pub(super) queues: &'t mut FlashQueues,
    pub(super) rows: &'t [FlashSegment],
    pub(super) geometry: &'t Geometry,
    pub(super) seed: u32,
}

impl FlashSegment {
    pub(super) fn add(&self, bytes: usize) {
        self.objects.fetch_add(1, Relaxed);
        self.records.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes as u64, Relaxed);
    }

    /// Begins the CRCs of its records, from the secret of the tier: another one each time that it is filled, so that a record from
    /// before is none, should a device have lost a write.
    pub(super) fn seed(&self, secret: u32) -> u32 {
        secret.wrapping_add((self.version.load(Relaxed) as u32).wrapping_mul(ODD))
    }

    pub(super) fn begin_read(&self) {
        self.readers.fetch_add(1, AcqRel);
    }

    pub(super) fn end_read(&self) {
        self.readers.fetch_sub(1, AcqRel);
    }

    pub(super) fn readers(&self) -> u32 {
        self.readers.load(Relaxed)
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
            emptied: Vec::new(),
            devices: devices.to_vec(),
            versions: 0,
        }
    }

    pub(super) fn free(&self) -> usize {
        self.free.iter().map(VecDeque::len).sum()
    }

    /// Times that a segment was opened.
    pub(super) fn versions(&self) -> u64 {
        self.versions
    }

    pub(super) fn devices(&self) -> &[FlashDevice] {
        &self.devices
    }

    /// Free segments, and those that will be when they are not read any more.
    pub(super) fn free_or_emptied(&self) -> usize {
        self.free() + self.emptied.len()
    }

    /// Takes the segment that is to be emptied next out of its queue, of those that are on their devices.
    pub(super) fn take_victim(
        &mut self,
        rows: &[FlashSegment],
        is_written: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let candidates = || self.sealed.iter().enumerate().filter(|(_, segment)| is_written(**segment));
        let garbage = |segment: u32| rows[segment as usize].garbage();
        let emptiest = candidates().max_by(|a, b| garbage(*a.1).total_cmp(&garbage(*b.1)));
        let emptiest = emptiest.filter(|(_, segment)| garbage(**segment) >= GARBAGE_MIN);
        let place = emptiest.or_else(|| candidates().next())?.0;
        self.sealed.remove(place)
    }

    pub(super) fn put_emptied(&mut self, segment: u32) {
        self.emptied.push(segment);
    }

    /// Frees emptied segments that nobody reads any more.
    pub(super) fn free_unread(&mut self, rows: &[FlashSegment], geometry: &Geometry) {
        let FlashQueues { emptied, free, .. } = self;
        emptied.retain(|segment| {
            let row = &rows[*segment as usize];
            let is_read = row.readers.load(Acquire) > 0;
            if !is_read {
                row.version.store(0, Relaxed);
                free[geometry.device_of(*segment)].push_back(*segment);
            }
            is_read
        });
    }
}

impl FlashSegments<'_> {
    /// Takes a segment for a stream: from the device for it with the largest free share, so that all fill alike.
    pub(super) fn take(&mut self, stream: Stream) -> Option<u32> {
        let FlashQueues { free, devices, versions, .. } = &mut *self.queues;
        let keep = if stream == Stream::Again { 0 } else { RESERVE };
        if free.iter().map(VecDeque::len).sum::<usize>() <= keep {
            return None;
        }
        let share =
            |device: usize| free[device].len() as f64 / self.geometry.segments_of(device).len() as f64;
        let best = |suits: &dyn Fn(Bucket) -> bool| {
            let suitable =
                (0..devices.len()).filter(|device| suits(devices[*device].bucket) && share(*device) > 0.0);
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
        self.queues.sealed.push_back(segment);
    }
}

fn is_for(bucket: Bucket, stream: Stream) -> bool {
    match bucket {
        Bucket::Default | Bucket::Chunked => stream == Stream::New,
        Bucket::LowTtl => stream == Stream::LowTtl,
        Bucket::Compact | Bucket::ColdCompact | Bucket::Old => stream == Stream::Again,
    }
}
