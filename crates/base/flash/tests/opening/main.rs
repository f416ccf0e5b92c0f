//! Opening and using real files and block devices: what is accepted, what is refused, and in which words.

mod block_devices;
mod file_systems;
mod files;
mod own_use;

use flash::{AlignedBytes, Bucket, Device, Devices, Disk, OpenError, OpenedDevice, PathSpecification};
use rustix::fs::{Mode, OFlags};
use std::error::Error;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

const MIB: u64 = 1 << 20;
/// Of the tier.
const PAGE_BYTES: u64 = MIB;

/// A directory of a test's own.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        Folder::in_directory(&std::env::temp_dir())
    }

    fn in_directory(directory: &Path) -> Folder {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = directory.join(format!("flash-{}-{number}", std::process::id()));
        fs::create_dir(&path).expect("a directory of our own");
        Folder(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// As the kernel does it.
fn open_path(path: &Path, flags: OFlags, mode: Mode) -> io::Result<File> {
    Ok(rustix::fs::open(path, flags, mode)?.into())
}

fn specification(path: &Path, bytes: u64) -> PathSpecification {
    PathSpecification { path: path.to_owned(), bytes, bucket: Bucket::Default }
}

fn open(path: &Path, bytes: u64) -> Result<OpenedDevice, OpenError> {
    Device::open(&specification(path, bytes), PAGE_BYTES, &open_path)
}

/// The device is refused with this message, in which `PATH` stands for its path, and with this cause, if any.
#[track_caller]
fn check_refused(path: &Path, bytes: u64, message: &str, cause: Option<&str>) {
    let error = open(path, bytes).expect_err("refused");
    // It was open for a moment.
    close(());
    let said = error.to_string().replace(path.to_str().expect("text"), "PATH");
    assert_eq!(said.split("\n  hint: ").next(), Some(message));
    let said = error.source().map(ToString::to_string);
    assert!(cause.is_none_or(|cause| said.as_ref().is_some_and(|said| said.contains(cause))), "{said:?}");
}

/// All of a device can be written and read, and nothing beyond it.
#[track_caller]
fn check_use(devices: &Devices, number: usize) {
    let end = devices[number].bytes();
    let page = |position: u64| {
        let mut bytes = AlignedBytes::zeroed(8192);
        let numbers = (position..).step_by(8).map(|at| at.wrapping_mul(0x9e37_79b9).to_le_bytes());
        bytes.chunks_mut(8).zip(numbers).for_each(|(to, from)| to.copy_from_slice(&from));
        bytes
    };
    for position in (0..end).step_by(256 << 10).chain([end - 8192]) {
        devices.write(number, position, &page(position)).expect("written");
    }
    let mut bytes = AlignedBytes::zeroed(8192);
    for position in (0..end).step_by(256 << 10).chain([end - 8192]) {
        devices.read(number, position, &mut bytes).expect("read");
        assert!(*bytes == *page(position), "what was written at {position}");
    }
    let error = devices.read(number, end - 4096, &mut bytes).expect_err("beyond the end");
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    let error = devices.write(number, end - 4096, &bytes).expect_err("beyond the end");
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    devices.read(number + 1, 0, &mut bytes).expect_err("no such device");
}

/// Held until a process that was started has closed our descriptors, of which it has copies for a moment: until it has ended
/// or printed something.
static STARTING: Mutex<()> = Mutex::new(());

fn starting() -> MutexGuard<'static, ()> {
    STARTING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Closes a device, and waits until it can be opened again: until no process that was started before has it.
fn close<T>(opened: T) {
    drop(opened);
    drop(starting());
}

/// What a program prints, without the end of the line, or what it says when it fails.
fn run(program: &str, arguments: &[&str]) -> Result<String, String> {
    let _starting = starting();
    let output = Command::new(program).args(arguments).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

/// Runs `test` where mounts are seen by no other thread or process, and end with it. Where that is impossible, the test is
/// left out, which is said.
fn with_own_mounts(test: impl FnOnce() + Send + 'static) {
    // The thread of the test may be used for others, too.
    let thread = std::thread::spawn(move || {
        #[expect(deprecated, reason = "unsafe only where file descriptors are unshared")]
        if let Err(error) = rustix::thread::unshare(rustix::thread::UnshareFlags::NEWNS) {
            return eprintln!("left out: no mounts of a test's own are possible here: {error}");
        }
        match run("mount", &["--make-rprivate", "/"]) {
            Ok(_) => test(),
            Err(why) => eprintln!("left out: no mounts of a test's own are possible here: {why}"),
        }
    });
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}
