//! Tests of the end of a tier: over a disk that hangs, with a thread, and with none.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};

use flash::faulty::MemoryDisk;
use flash::{Bucket, Disk};

use crate::tier::{
    FlashConfig, FlashDevice, FlashRead, FlashReads, FlashSettings, FlashUse, Located, ReadState,
};
use crate::{Change, Config, Handle, Look, NewValue, Store};

const SEGMENT: u64 = 512 << 10;

/// A disk that keeps whoever writes waiting while it hangs.
#[derive(Debug)]
struct HangingDisk {
    disk: MemoryDisk,
    hangs: Mutex<bool>,
    changed: Condvar,
    /// A write hangs at present.
    waits: AtomicBool,
}

impl HangingDisk {
    fn new(segments: u64) -> HangingDisk {
        HangingDisk {
            disk: MemoryDisk::new(1, segments * SEGMENT, 1),
            hangs: Mutex::new(false),
            changed: Condvar::new(),
            waits: AtomicBool::new(false),
        }
    }

    fn hang(&self, hangs: bool) {
        *self.hangs.lock().unwrap() = hangs;
        self.changed.notify_all();
    }
}

impl Disk for HangingDisk {
    fn read(&self, device: usize, position: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.disk.read(device, position, bytes)
    }

    fn write(&self, device: usize, position: u64, bytes: &[u8]) -> io::Result<()> {
        let mut hangs = self.hangs.lock().unwrap();
        while *hangs {
            self.waits.store(true, SeqCst);
            hangs = self.changed.wait(hangs).unwrap();
        }
        self.waits.store(false, SeqCst);
        self.disk.write(device, position, bytes)
    }
}

/// Reads that end at once.
struct Reads<'d>(&'d HangingDisk, Option<flash::AlignedBytes>);

impl FlashReads for Reads<'_> {
    fn state(&mut self, _hash: u64, read: FlashRead) -> ReadState<'_> {
        let mut bytes = flash::AlignedBytes::zeroed(read.len);
        self.0.read(read.device, read.position, &mut bytes).unwrap();
        ReadState::Done(self.1.insert(bytes))
    }
}

fn config(segments: u64) -> Config {
    let device = FlashDevice { bytes: segments * SEGMENT, bucket: Bucket::Default };
    let settings = FlashSettings::default();
    let flash =
        FlashConfig { devices: vec![device], segment_bytes: SEGMENT, piece_bytes: SEGMENT / 2, settings };
    Config { memory_limit_bytes: 8 << 20, workers: 1, flash: Some(flash), ..Config::default() }
}

fn file() -> Arc<File> {
    let file = rustix::fs::memfd_create("items", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    Arc::new(File::from(file))
}

fn wait_for(is_so: impl Fn() -> bool) {
    while !is_so() {
        std::thread::yield_now();
    }
}

fn set(handle: &mut Handle, number: usize) {
    let name = format!("key {number}");
    let key = handle.key(name.as_bytes());
    let value = [number as u8; 4000];
    handle.store(&key, &Change::default(), NewValue::Bytes(&value), 1).unwrap();
}

/// Items that are found, each with its value.
fn found(store: &Arc<Store>, disk: &HangingDisk, count: usize) -> usize {
    let mut handle = store.handle();
    let is_found = |number: &usize| {
        let name = format!("key {number}");
        let key = handle.key(name.as_bytes());
        let mut reads = Reads(disk, None);
        assert_eq!(handle.locate(&key, FlashUse::Value, &mut reads, 1), Located::Ready);
        let item = handle.get(&key, Look::Use, 1);
        let value = item.map(|item| item.value().as_bytes().to_vec());
        assert!(value.as_ref().is_none_or(|value| value[..] == [*number as u8; 4000]), "{number}");
        value.is_some()
    };
    (0..count).filter(is_found).count()
}

/// Fills memory and, with the thread's help, flash.
fn fill(store: &Arc<Store>, numbers: std::ops::Range<usize>) {
    let mut handle = store.handle();
    for number in numbers {
        set(&mut handle, number);
        wait_for(|| store.flash_backlog().is_some_and(|backlog| backlog.waiting < 3));
    }
}

fn with_thread(store: &Arc<Store>, disk: &Arc<HangingDisk>) -> std::thread::JoinHandle<()> {
    let (weak, disk) = (Arc::downgrade(store), Arc::clone(disk));
    std::thread::spawn(move || Store::keep_flash(&weak, &*disk))
}

#[test]
fn a_tier_that_was_finished_goes_on_where_it_was() {
    let disk = Arc::new(HangingDisk::new(64));
    let store = Store::in_file(config(64), &file()).unwrap();
    let thread = with_thread(&store, &disk);
    fill(&store, 0..3000);
    let opened = store.flash_statistics().unwrap().segments_opened;
    for round in 0..5 {
        store.begin_finish_flash();
        wait_for(|| store.is_flash_finished());
        assert_eq!(store.flash_backlog().unwrap().waiting, 0);
        store.freeze().expect("it is in a file");
        store.go_on();
        assert!(!store.is_flash_finished());
        fill(&store, 3000 + round * 10..3010 + round * 10);
        assert_eq!(found(&store, &disk, 3050), 3010 + round * 10);
    }
    assert!(store.flash_statistics().unwrap().segments_opened <= opened + 1);
    fill(&store, 3050..6000);
    assert_eq!(found(&store, &disk, 6000), 6000, "it writes");
    drop(store);
    thread.thread().unpark();
    thread.join().unwrap();
}

#[test]
fn what_a_hanging_disk_does_not_take_is_given_up_and_nothing_else() {
    let (disk, file) = (Arc::new(HangingDisk::new(64)), file());
    let store = Store::in_file(config(64), &file).unwrap();
    let thread = with_thread(&store, &disk);
    fill(&store, 0..3000);
    disk.hang(true);
    let mut handle = store.handle();
    let mut number = 3000;
    while !disk.waits.load(SeqCst) {
        set(&mut handle, number);
        number += 1;
    }
    drop(handle);
    store.begin_finish_flash();
    assert!(!store.is_flash_finished());
    let before = store.statistics().counts.curr_items;
    let lost = store.give_up_flash();
    assert!(lost > 50 && store.is_flash_finished(), "{lost}");
    assert_eq!(store.statistics().counts.curr_items, before - lost);
    let manifest = store.freeze().expect("it is in a file");
    let next = Store::thaw(config(64), &file, &manifest).unwrap();
    let there = next.statistics().counts.curr_items;
    assert_eq!((there, found(&next, &disk, number) as u64), (before - lost, before - lost));
    // The disk answers at last: the first store's thread leaves alone what is not its own any more.
    disk.hang(false);
    wait_for(|| !disk.waits.load(SeqCst));
    drop(store);
    thread.thread().unpark();
    thread.join().unwrap();
    assert_eq!(found(&next, &disk, number) as u64, there);
    assert_eq!(next.statistics().counts.curr_items, there);
}

#[test]
fn a_tier_goes_on_after_a_disk_that_hung_while_it_was_to_finish() {
    let disk = Arc::new(HangingDisk::new(64));
    let store = Store::in_file(config(64), &file()).unwrap();
    let thread = with_thread(&store, &disk);
    fill(&store, 0..3000);
    for (gives_up, first) in [(false, 10_000), (true, 30_000)] {
        disk.hang(true);
        let mut handle = store.handle();
        let mut number = first;
        while !disk.waits.load(SeqCst) {
            set(&mut handle, number);
            number += 1;
        }
        drop(handle);
        store.begin_finish_flash();
        if gives_up {
            assert!(store.give_up_flash() > 0);
        }
        store.go_on();
        disk.hang(false);
        let written = || store.flash_statistics().unwrap().counts.device_bytes_written;
        let before = written();
        fill(&store, first + 10_000..first + 10_500);
        store.begin_finish_flash();
        wait_for(|| store.is_flash_finished());
        assert!(written() > before, "{before} bytes");
        store.go_on();
    }
    assert_eq!(store.flash_statistics().unwrap().counts.write_errors, 0);
    drop(store);
    thread.thread().unpark();
    thread.join().unwrap();
}

/// While segments are reused all the time: what is being emptied when the end comes is still there.
#[test]
fn a_segment_that_is_being_emptied_is_kept_for_the_next_store() {
    let (disk, file, config) = (Arc::new(HangingDisk::new(8)), file(), config(8));
    let mut store = Store::in_file(config.clone(), &file).unwrap();
    for round in 0..20 {
        let thread = with_thread(&store, &disk);
        let mut handle = store.handle();
        for number in 0..2000 + round * 7 {
            set(&mut handle, number);
        }
        drop(handle);
        store.begin_finish_flash();
        wait_for(|| store.is_flash_finished());
        let (items, manifest) = (store.statistics().counts.curr_items, store.freeze().unwrap());
        let segments = store.flash_statistics().unwrap().segments_free;
        let next = Store::thaw(config.clone(), &file, &manifest).unwrap();
        assert_eq!(next.statistics().counts.curr_items, items);
        assert_eq!(next.flash_statistics().unwrap().segments_free, segments);
        drop(std::mem::replace(&mut store, next));
        thread.thread().unpark();
        thread.join().unwrap();
        assert_eq!(found(&store, &disk, 2000 + round * 7) as u64, items, "round {round}");
    }
}
