//! Devices of a flash tier: a file or block device that is opened, checked and ours alone.
//!
//! A file is created with mode 0600 if there is none, and gets its blocks at once. One that exists has to be this user's alone to
//! write, and empty or long enough: what another program has written is not overwritten because of a wrong name, nor is a file of
//! another user filled. It is never cut, and no hole is made in it. A block device is left as it is. What either holds is not looked at.

use crate::alignment::make_direct;
use crate::allocation::allocate;
use crate::disk::PAGE_BYTES;
use crate::error::OpenError;
use crate::identity::FileIdentity;
use crate::specification::{Bucket, PathSpecification};
use rustix::fs::{FlockOperation, Mode, OFlags, SeekFrom, fcntl_getfl, fcntl_lock, major, minor, seek};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::fs::{self, File, Metadata, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Opening of a path as open(2) does it, or with more care about links. `PATH` is among the flags to look at what is there.
pub(crate) type OpenPath<'o> = &'o dyn Fn(&Path, OFlags, Mode) -> io::Result<File>;

/// An opened file or block device. No other can be opened on the same one, by this process or another, until this and all
/// clones of its descriptor are closed.
#[derive(Debug)]
pub struct Device {
    file: File,
    path: PathBuf,
    bytes: u64,
    bucket: Bucket,
    is_direct: bool,
    identity: FileIdentity,
}

/// A device, and what its user should be told.
#[derive(Debug)]
pub struct OpenedDevice {
    /// The device.
    pub device: Device,
    /// Sentences for people. The device works all the same.
    pub warnings: Vec<String>,
}

impl Device {
    /// Opens a file or a block device. Of its size, whole pages of `page_bytes` are used, and two are the least: one that is
    /// written, and one that is read.
    ///
    /// # Panics
    /// If `page_bytes` is not a multiple of 4096, or 0.
    pub fn open(
        specification: &PathSpecification,
        page_bytes: u64,
        open: OpenPath<'_>,
    ) -> Result<OpenedDevice, OpenError> {
        assert!(
            page_bytes > 0 && page_bytes.is_multiple_of(PAGE_BYTES as u64),
            "pages of {page_bytes} bytes"
        );
        let PathSpecification { path, bytes, bucket } = specification;
        let whole_pages = bytes / page_bytes;
        if whole_pages < 2 {
            return Err(OpenError::TooSmall { path: path.clone(), bytes: *bytes, page_bytes });
        }
        let bytes = whole_pages * page_bytes;
        let (file, is_new) = open_or_create(path, open)?;
        let metadata = file.metadata().map_err(examine(path))?;
        let identity = FileIdentity::of(&metadata, path)?;
        if !is_new && !identity.is_block_device() {
            check_file(&metadata, path, bytes)?;
        }
        let mut warnings = Vec::new();
        // Before anything of a file is changed: it may be in use.
        warnings.extend(lock(&file, path, identity)?);
        let prepared = prepare(&file, path, identity, bytes, &mut warnings);
        if prepared.is_err() && is_new {
            // An empty file is as good as none for the next attempt; its name may be another one's by now. If that fails, too, the error
            // is the first.
            let _ = file.set_len(0);
        }
        let device =
            Device { is_direct: prepared?, file, path: path.clone(), bytes, bucket: *bucket, identity };
        Ok(OpenedDevice { device, warnings })
    }

    /// Takes a device over that another process has opened as this one: a descriptor which that process has passed. Nothing is changed,
    /// and the lock stays: it belongs to what was opened.
    ///
    /// # Panics
    /// If `page_bytes` is 0.
    pub fn adopt(
        specification: &PathSpecification,
        page_bytes: u64,
        file: File,
    ) -> Result<Device, OpenError> {
        let PathSpecification { path, bytes, bucket } = specification;
        let identity = FileIdentity::of(&file.metadata().map_err(examine(path))?, path)?;
        let found = fs::metadata(path).map_err(examine(path))?;
        if FileIdentity::of(&found, path)? != identity {
            return Err(OpenError::NotTheSame { path: path.clone() });
        }
        let flags = fcntl_getfl(&file).map_err(|errno| examine(path)(errno.into()))?;
        Ok(Device {
            is_direct: flags.contains(OFlags::DIRECT),
            file,
            path: path.clone(),
            bytes: bytes / page_bytes * page_bytes,
            bucket: *bucket,
            identity,
        })
    }

    /// Another descriptor of it, for those who read and write in their own way: positions, lengths and memory are multiples of
    /// 4096. It keeps the device from being opened again as long as it lives.
    pub fn file(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// How many bytes of it are used: whole pages of the tier.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What is written to it first.
    pub fn bucket(&self) -> Bucket {
        self.bucket
    }

    /// Its name on the command line.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is read and written without the page cache.
    pub fn is_direct(&self) -> bool {
        self.is_direct
    }

    pub(crate) fn descriptor(&self) -> &File {
        &self.file
    }

    pub(crate) fn identity(&self) -> FileIdentity {
        self.identity
    }
}

fn examine(path: &Path) -> impl Fn(io::Error) -> OpenError {
    move |source| OpenError::Examine { path: path.to_owned(), source }
}

/// What is at the path. It is not opened for it: opening a FIFO or a tape has effects of its own.
pub(crate) fn look(path: &Path, open: OpenPath<'_>) -> io::Result<Metadata> {
    open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?.metadata()
}

/// Opens what is there or creates a file, and says whether it did.
fn open_or_create(path: &Path, open: OpenPath<'_>) -> Result<(File, bool), OpenError> {
    match look(path, open) {
        Ok(metadata) => Ok((open_existing(path, open, FileIdentity::of(&metadata, path)?)?, false)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => create(path, open),
        Err(source) => Err(OpenError::Open { path: path.to_owned(), source }),
    }
}

fn open_existing(path: &Path, open: OpenPath<'_>, found: FileIdentity) -> Result<File, OpenError> {
    // For a block device, without O_CREAT: nothing else has claimed it, be it a file system, a RAID or another server, and
    // nothing can until it is closed (open(2)).
    let alone = if found.is_block_device() { OFlags::EXCL } else { OFlags::empty() };
    let busy = Some(Errno::BUSY.raw_os_error());
    let file = match open(path, OFlags::RDWR | OFlags::CLOEXEC | alone, Mode::empty()) {
        Ok(file) => file,
        Err(error) if error.raw_os_error() == busy && found.is_block_device() => {
            return Err(OpenError::DeviceInUse { path: path.to_owned() });
        }
        Err(source) => return Err(OpenError::Open { path: path.to_owned(), source }),
    };
    // What was opened may have taken the place of what was looked at, and a device would not be ours alone then.
    let opened = FileIdentity::of(&file.metadata().map_err(examine(path))?, path)?;
    if opened != found {
        let source = io::Error::other("it was replaced meanwhile");
        return Err(OpenError::Open { path: path.to_owned(), source });
    }
    Ok(file)
}

/// Creates a file. If another process was faster, its file is opened, which it will have locked.
fn create(path: &Path, open: OpenPath<'_>) -> Result<(File, bool), OpenError> {
    // A mistyped name of a device would become a file in memory.
    if path.starts_with("/dev") && !path.starts_with("/dev/shm") {
        return Err(OpenError::NoSuchDevice { path: path.to_owned() });
    }
    if path.is_symlink() {
        return Err(OpenError::Kind { path: path.to_owned(), found: "a symbolic link that leads nowhere" });
    }
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::CREATE | OFlags::EXCL;
    match open(path, flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => Ok((file, true)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let metadata = look(path, open).map_err(examine(path))?;
            Ok((open_existing(path, open, FileIdentity::of(&metadata, path)?)?, false))
        }
        Err(source) => Err(OpenError::Open { path: path.to_owned(), source }),
    }
}

/// Whether a file that was there may be filled: nobody else writes it, and it was meant for so much.
fn check_file(found: &Metadata, path: &Path, bytes: u64) -> Result<(), OpenError> {
    let path = path.to_owned();
    let user = geteuid().as_raw();
    if found.uid() != user {
        return Err(OpenError::Owner { path, owner: found.uid(), user });
    }
    if found.mode() & 0o022 != 0 {
        return Err(OpenError::Mode { path, mode: found.mode() & 0o777 });
    }
    // Another user could have given this name to a file of ours.
    if found.nlink() != 1 {
        return Err(OpenError::HardLink { path });
    }
    if (1..bytes).contains(&found.len()) {
        return Err(OpenError::Shorter { path, bytes, file_bytes: found.len() });
    }
    Ok(())
}

/// Takes a file for us alone. Returns a warning where the file system has no locks.
fn lock(file: &File, path: &Path, identity: FileIdentity) -> Result<Option<String>, OpenError> {
    let in_use = || OpenError::InUse { path: path.to_owned() };
    // The lock of memcached. It is only looked for: this kind of lock is lost as soon as the process closes any descriptor of
    // the file, and over NFS it would be in the way of the next one.
    match fcntl_lock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::AGAIN | Errno::ACCESS) => return Err(in_use()),
        _ => _ = fcntl_lock(file, FlockOperation::NonBlockingUnlock),
    }
    // A block device is ours already, by O_EXCL, and udev locks devices for moments (systemd, "Locking Block Device Access").
    if identity.is_block_device() {
        return Ok(None);
    }
    // It belongs to the open file, not to the process: so it is in the way of this process, too, and outlives a fork.
    match file.try_lock() {
        Ok(()) => Ok(None),
        Err(TryLockError::WouldBlock) => Err(in_use()),
        Err(TryLockError::Error(error)) => Ok(Some(format!(
            "{} cannot be locked ({error}): take care that no other process uses it",
            path.display()
        ))),
    }
}

/// Makes sure of the size, and that it can be read and written. Returns whether that is direct.
fn prepare(
    file: &File,
    path: &Path,
    identity: FileIdentity,
    bytes: u64,
    warnings: &mut Vec<String>,
) -> Result<bool, OpenError> {
    match identity {
        FileIdentity::File { .. } => warnings.extend(allocate(file, path, bytes)?),
        FileIdentity::Block { number } => {
            if is_read_only(number) {
                return Err(OpenError::ReadOnly { path: path.to_owned() });
            }
            let device_bytes = seek(file, SeekFrom::End(0)).map_err(|errno| examine(path)(errno.into()))?;
            if device_bytes < bytes {
                return Err(OpenError::DeviceTooSmall { path: path.to_owned(), bytes, device_bytes });
            }
        }
    }
    let (is_direct, warning) = make_direct(file, path)?;
    warnings.extend(warning);
    Ok(is_direct)
}

/// Whether a block device takes no writes: the kernel opens some of those to write, and refuses each write then.
fn is_read_only(number: u64) -> bool {
    let said = format!("/sys/dev/block/{}:{}/ro", major(number), minor(number));
    fs::read_to_string(said).is_ok_and(|text| text.trim_end() == "1")
}
