//! A tier of flash below the modelled store: reads that end at any time, in any way, while other operations run.

use std::fs::File;
use std::sync::Arc;

use flash::faulty::{Fault, FaultRule, MemoryDisk};
use flash::{AlignedBytes, Bucket, Disk};
use rustix::fs::{MemfdFlags, memfd_create};
use stdx::prng::Prng;
use store::{
    Change, Config, Delete, Deleted, FlashConfig, FlashCounts, FlashDevice, FlashRead, FlashReads,
    FlashSettings, FlashUse, Located, Look, NewValue, ReadState,
};

use crate::model::{Kept, Pair};

/// The devices of a store, its thread, and the reads of one operation.
pub(crate) struct FlashTier {
    pub(crate) disk: MemoryDisk,
    /// The thread's memory.
    room: Option<AlignedBytes>,
    reads: Vec<ModelRead>,
    prng: Prng,
    /// A read of the present operation was refused.
    refused: bool,
}

struct ModelRead {
    read: FlashRead,
    /// What the disk has said, once it was asked.
    answer: Option<Result<AlignedBytes, ()>>,
    is_done: bool,
}

impl ModelRead {
    fn ask(&mut self, disk: &MemoryDisk) {
        let FlashRead { device, position, len, .. } = self.read;
        let mut bytes = AlignedBytes::zeroed(len);
        self.answer = Some(disk.read(device, position, &mut bytes).map(|()| bytes).map_err(|_| ()));
    }
}

impl FlashTier {
    pub(crate) fn new(config: &FlashConfig, seed: u64) -> FlashTier {
        let bytes = config.devices.iter().map(|device| device.bytes).max().expect("a device");
        let disk = MemoryDisk::new(config.devices.len(), bytes, seed);
        FlashTier { disk, room: None, reads: Vec::new(), prng: Prng::new(!seed), refused: false }
    }
}

impl FlashReads for FlashTier {
    fn state(&mut self, _hash: u64, read: FlashRead) -> ReadState<'_> {
        let Some(at) = self.reads.iter().position(|known| known.read == read) else {
            if self.prng.below(20) == 0 {
                self.refused = true;
                return ReadState::Refused;
            }
            let mut begun = ModelRead { read, answer: None, is_done: false };
            if self.prng.below(2) == 0 {
                begun.ask(&self.disk);
            }
            self.reads.push(begun);
            return ReadState::Pending;
        };
        let known = &mut self.reads[at];
        if known.answer.is_none() {
            known.ask(&self.disk);
        }
        known.is_done |= self.prng.below(2) == 0;
        match &known.answer {
            Some(Ok(bytes)) if known.is_done => ReadState::Done(bytes),
            Some(Err(())) if known.is_done => ReadState::Failed,
            _ => ReadState::Pending,
        }
    }
}

impl Pair {
    /// Stores what no operation asks for, so that other items have to go to flash, and lets the thread do something.
    pub(crate) fn run_tier(&mut self) {
        let Some(tier) = &mut self.tier else { return };
        if self.prng.below(2) == 0 {
            let name = format!("other {}", self.prng.below(1 << 40));
            let (value, now) = (vec![b'o'; self.prng.below(8000) as usize], self.now);
            let handle = &mut self.handles[0];
            let stored =
                handle.store(&handle.key(name.as_bytes()), &Change::default(), NewValue::Bytes(&value), now);
            stored.expect("others are evicted");
        }
        if self.prng.below(8) == 0 {
            self.handles[0].shared().clone().flash_step(&tier.disk, &mut tier.room);
        }
    }

    /// Waits for the item of a key, while other operations are executed. Returns whether a read was refused.
    fn wait_for(&mut self, number: usize, key: &[u8], usage: FlashUse) -> bool {
        let outer = self.tier.as_mut().map(|tier| std::mem::take(&mut tier.reads));
        loop {
            let (now, mut tier) = (self.now, self.tier.take().expect("there is flash"));
            tier.refused = false;
            let handle = &mut self.handles[number];
            let located = handle.locate(&handle.key(key), usage, &mut tier, now);
            let refused = tier.refused;
            if located == Located::Ready {
                tier.reads = outer.unwrap_or_default();
                self.tier = Some(tier);
                return refused;
            }
            self.tier = Some(tier);
            self.run_tier();
            if self.waiting < 3 && self.one_in(2) {
                self.waiting += 1;
                let operation = self.below(100) as usize;
                self.check_operation(operation);
                self.waiting -= 1;
            }
        }
    }

    /// Makes an item that is on flash one in memory. After a read that was refused it is deleted, so that the map knows.
    pub(crate) fn bring_into_memory(&mut self, key: &[u8]) {
        if self.tier.is_none() {
            return;
        }
        let number = self.below(3) as usize;
        if self.wait_for(number, key, FlashUse::Item) {
            let now = self.now;
            let handle = &mut self.handles[number];
            handle.delete(&handle.key(key), &Delete::default(), now).unwrap();
        }
    }

    /// A deletion that waits for the item says whether a get would have found one.
    pub(crate) fn check_delete_from_flash(&mut self) {
        let (key, number) = (self.some_key(), self.below(3) as usize);
        let refused = self.wait_for(number, &key, FlashUse::Removal);
        let (now, context) = (self.now, format!("{} {key:?}", self.context));
        let handle = &mut self.handles[number];
        let deleted = handle.delete(&handle.key(&key), &Delete::default(), now).unwrap();
        let kept = self.map.remove(&key).filter(|kept| kept.expiry == 0 || kept.expiry > now);
        match (deleted, kept) {
            // It may have been dropped before.
            (Deleted::NotFound, _) => {}
            (Deleted::Deleted { len }, Some(kept)) if !refused => {
                assert_eq!(len, kept.value.len(), "{context}")
            }
            (Deleted::Deleted { .. }, _) if refused => {}
            (deleted, kept) => panic!("{context}: {deleted:?} of {kept:?}"),
        }
        let handle = &mut self.handles[number];
        assert!(handle.get(&handle.key(&key), Look::Peek, now).is_none(), "{context}");
        assert!(
            handle.read_ahead(&handle.key(&key)).is_none() || !refused,
            "{context}: it is on flash still"
        );
    }

    /// A read finds what was stored last, or nothing.
    pub(crate) fn check_get_from_flash(&mut self) {
        let (key, number) = (self.some_key(), self.below(3) as usize);
        let look = if self.one_in(3) { Look::Peek } else { Look::Use };
        self.wait_for(number, &key, FlashUse::Value);
        let (now, context) = (self.now, format!("{} {key:?}", self.context));
        let handle = &mut self.handles[number];
        let Some(item) = handle.get(&handle.key(&key), look, now) else { return };
        let kept: &Kept = self.map.get(&key).unwrap_or_else(|| panic!("{context}: nothing was stored"));
        assert_eq!(item.value().as_bytes(), kept.value, "{context}");
        assert_eq!(
            (item.flags(), item.expiry(), item.cas()),
            (kept.flags, kept.expiry, kept.cas),
            "{context}"
        );
        assert_eq!((item.is_stale(), item.token_sent()), (kept.stale, kept.token_sent), "{context}");
        assert_eq!(item.key(), key, "{context}");
    }
}

fn with_flash(limit_mib: u64, devices: &[u64]) -> Config {
    let device = |mib: &u64| FlashDevice { bytes: mib << 20, bucket: Bucket::Default };
    let flash = FlashConfig {
        devices: devices.iter().map(device).collect(),
        segment_bytes: 512 << 10,
        piece_bytes: 256 << 10,
        settings: FlashSettings {
            item_size_min: 100,
            recache_rate: 3,
            low_ttl_s: 50,
            ..FlashSettings::default()
        },
    };
    Config { memory_limit_bytes: limit_mib << 20, workers: 3, flash: Some(flash), ..Config::default() }
}

/// Runs a model over two devices, and returns what has happened on flash.
fn run(seed: u64, devices: &[u64], fault: Option<FaultRule>) -> FlashCounts {
    run_in(seed, devices, fault, None)
}

/// The same with a store in a file, which moves.
fn run_in(seed: u64, devices: &[u64], fault: Option<FaultRule>, file: Option<Arc<File>>) -> FlashCounts {
    let mut pair = Pair::new(seed, with_flash(8, devices), file);
    if let (Some(tier), Some(fault)) = (&pair.tier, fault) {
        tier.disk.fail(fault);
    }
    pair.run(20_000);
    pair.handles[0].shared().flash_statistics().expect("there is flash").counts
}

#[test]
fn what_is_found_on_flash_is_what_was_stored_last() {
    let mut sums = [0; 7];
    for seed in 700..708 {
        let counts = run(seed, if seed % 2 == 0 { &[4] } else { &[3, 8] }, None);
        assert_eq!((counts.damaged, counts.lost, counts.write_errors), (0, 0, 0), "{seed}: {counts:?}");
        let FlashCounts { objects_written, objects_read, aborted, .. } = counts;
        let FlashCounts { segments_reused, objects_evicted, reclaimed, recached, .. } = counts;
        let counts =
            [objects_written, objects_read, aborted, segments_reused, objects_evicted, reclaimed, recached];
        sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    assert!(sums[0] > 10_000 && sums[1] > 1000, "{sums:?}");
    assert!(sums.iter().all(|sum| *sum > 0), "{sums:?}");
}

#[test]
fn a_store_that_moves_to_another_process_finds_its_items_on_flash() {
    let mut read = 0;
    for seed in 720..726 {
        let file = memfd_create("model", MemfdFlags::CLOEXEC).expect("a file in memory");
        let counts = run_in(seed, &[3, 8], None, Some(Arc::new(file.into())));
        assert_eq!((counts.damaged, counts.lost), (0, 0), "{seed}: {counts:?}");
        // Since the last move.
        read += counts.objects_read;
    }
    assert!(read > 0, "no item was read from flash after a move");
}

/// Runs a model over devices that do this from time to time, until some items were lost by it.
#[track_caller]
fn check_faulty(first_seed: u64, fault: Fault, probability: f64) {
    let rule = || FaultRule::new(fault).probability(probability);
    let lost = (first_seed..first_seed + 4).map(|seed| run(seed, &[3, 3], Some(rule())).lost);
    assert!(lost.sum::<u64>() > 0, "{fault:?} has never happened");
}

#[test]
fn a_device_that_fails_or_lies_loses_items_but_gives_no_other_ones() {
    check_faulty(900, Fault::ReadError, 0.2);
    check_faulty(910, Fault::WriteError, 0.3);
    check_faulty(920, Fault::FlippedRead { bits: 3 }, 0.3);
    check_faulty(930, Fault::TornWrite, 0.3);
    check_faulty(940, Fault::FailedTornWrite, 0.3);
    check_faulty(950, Fault::LostWrite, 0.5);
}
