//! The file that holds a server's items (`-e`), and what a server leaves in `FILE.meta` for the next one.
//!
//! ```text
//!  start   read FILE.meta ─► lock FILE ─► checksums right? ─► store ─► remove FILE.meta ─► serve     else empty FILE, and say why
//!  end     workers have ended ─► checksums ─► a file without a name that others know ─► FILE.meta
//! ```
//!
//! While a server runs there is no FILE.meta: what a crash leaves is never used. No item is looked at, at either end.

use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::available_parallelism;

use os::DirectoryEntry;
use os::clock::unix_time;
use rustix::fs::{AtFlags, Mode, OFlags, StatxAttributes, StatxFlags, fchmod, fstatfs, statx};
use rustix::process::geteuid;
use server::{Manifest, Memory};

use crate::Error;

mod left;
mod sums;

pub use left::LeftItems;

/// What an earlier server has left, or why that cannot be used.
pub type FoundItems = Result<Option<LeftItems>, String>;

/// A server's memory file, locked.
pub struct MemoryFile {
    file: Arc<File>,
    path: PathBuf,
    /// FILE.meta: its name in the file's directory, and for messages.
    meta: DirectoryEntry,
    meta_path: PathBuf,
}

/// The largest FILE.meta that is read: that of more memory than a machine has.
const META_LEN_MAX: u64 = 1 << 30;

/// For its owner alone: it holds all items.
const MODE: u32 = 0o600;

/// Reads what is beside the file, if it is this user's. Nothing is changed.
pub fn read_left(path: &Path, user: u32) -> FoundItems {
    let meta = beside(path, ".meta");
    let explain = |why: String| format!("{}: {why}", meta.display());
    let read = read_meta(&meta, user).map_err(|error| explain(error.to_string()));
    let Some(bytes) = read? else { return Ok(None) };
    let left = LeftItems::of(&bytes).map_err(explain)?;
    let now_ms = unix_time().as_millis() as u64;
    match left.ended_unix_ms.checked_sub(now_ms) {
        None | Some(0) => Ok(Some(left)),
        Some(ahead_ms) => Err(explain(format!(
            "it was written {}.{:03} s after what the clock shows now, so no item's expiration is known",
            ahead_ms / 1000,
            ahead_ms % 1000
        ))),
    }
}

/// The contents of FILE.meta, if it is there.
fn read_meta(meta: &Path, user: u32) -> io::Result<Option<Vec<u8>>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK;
    let file = match DirectoryEntry::of(meta).and_then(|entry| entry.open(flags, 0)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let found = file.metadata()?;
    if !found.is_file() || found.len() > META_LEN_MAX {
        return Err(ErrorKind::InvalidData.into());
    }
    check_owner(&found, user).map_err(io::Error::other)?;
    let mut bytes = Vec::new();
    file.take(META_LEN_MAX).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// A server removes FILE.meta before it serves, so one that no server has left is refused instead. It is written under another
/// name first: no end of a server leaves a beginning of it. Of a link only the name would be removed.
fn check_meta(meta: &Path, user: u32) -> Result<(), Error> {
    if meta.is_symlink() {
        return Ok(());
    }
    let found = match read_meta(meta, user) {
        Ok(Some(bytes)) if bytes.is_empty() => "an empty one",
        Ok(Some(bytes)) if !LeftItems::are_begun_in(&bytes) => "something else",
        _ => return Ok(()),
    };
    let what =
        format!("{} (-e): expected no file, or one that a server has left, found {found}", meta.display());
    let hint = "name another file with -e; or remove this one, if nothing needs it";
    Err(Error::other(what).with_hint(hint))
}

/// Whoever else may write a file could change items, or end the server by making it shorter.
fn check_owner(found: &std::fs::Metadata, user: u32) -> Result<(), String> {
    if found.uid() != user {
        return Err(format!("it belongs to user {}, and a file of user {user} is expected", found.uid()));
    }
    if found.nlink() > 1 {
        return Err("it has another name, too (a hard link), so something else may need it".to_owned());
    }
    match found.mode() & 0o777 {
        mode if mode & 0o022 != 0 => {
            Err(format!("its mode is {mode:04o}, so others than its owner can write it: `chmod go-w` it"))
        }
        _ => Ok(()),
    }
}

impl MemoryFile {
    /// Opens or creates the file, and locks it.
    pub fn open(path: &Path) -> Result<MemoryFile, Error> {
        let failed = |error| Error::system(format!("open {} (-e)", path.display()), error);
        let refused = |why: String| Error::other(format!("-e {}: {why}", path.display()));
        let meta_path = beside(path, ".meta");
        check_meta(&meta_path, geteuid().as_raw())?;
        let entry = DirectoryEntry::of(path).map_err(failed)?;
        // A fifo keeps nobody waiting.
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NONBLOCK;
        let file = entry.open(flags, MODE).map_err(failed)?;
        let found = file.metadata().map_err(failed)?;
        if !found.is_file() {
            let what = if found.file_type().is_block_device() { "a block device" } else { "something else" };
            return Err(refused(format!("expected a file on tmpfs or on a DAX file system, found {what}")));
        }
        check_owner(&found, geteuid().as_raw()).map_err(refused)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let what = "another process uses it: each server needs a file of its own";
                return Err(refused(what.to_owned()));
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let is_ours = server::is_items_file(&file).map_err(failed)?;
        if !is_ours && file.metadata().map_err(failed)?.len() > 0 {
            let what = "expected an empty file, or one that a server has made, found something else";
            let hint =
                "name a file that is not there, and it is created; or remove this one, if nothing needs it";
            return Err(refused(what.to_owned()).with_hint(hint));
        }
        // Made by hand, others could read it.
        fchmod(&file, Mode::from_raw_mode(MODE)).map_err(|errno| failed(errno.into()))?;
        let meta = beside(Path::new(entry.name()), ".meta");
        let meta = entry.sibling(meta).map_err(failed)?;
        // What cannot be written now could not be written at the end, when it is too late.
        let possible = meta.try_to_replace(MODE);
        possible.map_err(|error| Error::system(format!("write {} (-e)", meta_path.display()), error))?;
        Ok(MemoryFile { file: Arc::new(file), path: path.to_owned(), meta, meta_path })
    }

    /// A line for the operator if the file is on a disk.
    pub fn warning(&self) -> Option<String> {
        const TMPFS: i64 = 0x0102_1994;
        const RAMFS: i64 = 0x8584_58f6;
        let is_memory = fstatfs(&self.file).is_ok_and(|system| [TMPFS, RAMFS].contains(&system.f_type));
        let attributes = statx(&self.file, "", AtFlags::EMPTY_PATH, StatxFlags::empty());
        let is_dax = attributes.is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::DAX));
        (!is_memory && !is_dax).then(|| {
            format!(
                "{} is on a disk, which the kernel writes every change to: -e is meant for tmpfs and DAX",
                self.path.display()
            )
        })
    }

    /// The memory for a server: what `found` describes, if the file is still what it was, and otherwise an empty file. A line for the
    /// operator says what was lost.
    pub fn take(&self, found: FoundItems, say: impl FnOnce(&str)) -> Result<(Memory, bool), Error> {
        // It was read before the lock was held, and meanwhile a server may have ended, or begun and ended.
        let user = geteuid().as_raw();
        if read_left(&self.path, user).ok().as_ref() != found.as_ref().ok() {
            let what = "another server has just used it: start this one again";
            return Err(Error::other(format!("-e {}: {what}", self.path.display())));
        }
        match found.and_then(|left| left.map(|left| self.verify(left)).transpose()) {
            Ok(Some(manifest)) => return Ok((Memory::Left(Arc::clone(&self.file), manifest), true)),
            Ok(None) if self.file.metadata().is_ok_and(|found| found.len() == 0) => {}
            Ok(None) => say(&format!(
                "the items of the last server are lost: it had no orderly end, so there is no {}",
                self.meta_path.display()
            )),
            Err(why) => say(&format!("the items of the last server are lost: {why}")),
        }
        let emptied = self.file.set_len(0);
        emptied.map_err(|error| Error::system(format!("empty {} (-e)", self.path.display()), error))?;
        Ok((Memory::File(Arc::clone(&self.file)), false))
    }

    /// From now on the contents change, and what is beside them is no longer true.
    pub fn claim(&self) -> Result<(), Error> {
        let removed = self.meta.remove_if_there();
        removed.map_err(|error| Error::system(format!("remove {} (-e)", self.meta_path.display()), error))
    }

    /// No server came of it: the file is as empty as it was.
    pub fn give_up(&self) {
        // If it fails, the next server says that items are lost, although there were none.
        let _ = self.file.set_len(0);
    }

    fn verify(&self, left: LeftItems) -> Result<Manifest, String> {
        let sums =
            sums::of(&self.file, threads()).map_err(|error| format!("{}: {error}", self.path.display()))?;
        let differing = left.sums.iter().filter(|sum| sums.binary_search(sum).is_err()).count();
        if differing == 0 && sums.len() == left.sums.len() {
            return Ok(left.manifest);
        }
        Err(format!(
            "{}: {} of {} checksums are wrong",
            self.path.display(),
            differing.max(1),
            left.sums.len().max(1)
        ))
    }

    /// Leaves everything to the next server. Nobody changes the file any more.
    pub fn leave(&self, manifest: Manifest, zero_unix_ms: u64) -> Result<(), Error> {
        let failed = |error| {
            let what = format!("write {} (-e): the next server starts empty", self.meta_path.display());
            Error::system(what, error)
        };
        let sums = sums::of(&self.file, threads()).map_err(failed)?;
        let ended_unix_ms = unix_time().as_millis() as u64;
        let bytes = LeftItems { zero_unix_ms, ended_unix_ms, sums, manifest }.to_bytes();
        // On a disk, it must not be there before what it describes.
        self.file.sync_data().map_err(failed)?;
        let written = self.meta.replace(MODE, |file| {
            file.write_all(&bytes)?;
            file.sync_all()
        });
        written.map_err(failed)
    }
}

fn threads() -> usize {
    available_parallelism().map_or(1, std::num::NonZeroUsize::get)
}

/// The file's path with something appended.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut longer = path.as_os_str().to_owned();
    longer.push(suffix);
    longer.into()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn read_left(path: &Path) -> FoundItems {
        super::read_left(path, geteuid().as_raw())
    }

    /// A folder of its own, removed with this value.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("evenkeel-memory-{name}-{}", std::process::id()));
            fs::create_dir(&path).expect("a folder");
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            // If it fails, the folder does no harm.
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn left(ended_unix_ms: u64) -> LeftItems {
        LeftItems { zero_unix_ms: 5, ended_unix_ms, sums: Vec::new(), manifest: Manifest(vec![1]) }
    }

    #[test]
    fn a_clock_that_was_set_back_loses_the_items() {
        let folder = Folder::new("clock");
        let path = folder.0.join("items");
        assert_eq!(read_left(&path), Ok(None));
        let now_ms = unix_time().as_millis() as u64;
        fs::write(folder.0.join("items.meta"), left(now_ms).to_bytes()).expect("room");
        assert_eq!(read_left(&path), Ok(Some(left(now_ms))));
        fs::write(folder.0.join("items.meta"), left(now_ms + 3_600_000).to_bytes()).expect("room");
        let why = read_left(&path).expect_err("it comes from the future");
        assert!(
            why.contains("items.meta: it was written 3") && why.ends_with("expiration is known"),
            "{why}"
        );
    }

    #[test]
    fn what_is_no_file_is_refused_at_once() {
        let folder = Folder::new("fifo");
        let fifo = folder.0.join("fifo");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            Mode::from_raw_mode(0o600),
            0,
        )
        .expect("a fifo");
        let failure = MemoryFile::open(&fifo).err().expect("it is no file");
        assert!(
            failure
                .to_string()
                .ends_with("expected a file on tmpfs or on a DAX file system, found something else")
        );
        let failure = MemoryFile::open(&folder.0).err().expect("it is a directory");
        assert!(failure.to_string().starts_with("open "), "{failure}");
        fs::rename(&fifo, folder.0.join("items.meta")).expect("renamed");
        assert!(read_left(&folder.0.join("items")).is_err(), "a fifo keeps nobody waiting");
    }

    #[track_caller]
    fn check_refused(path: &Path, expected: &str) {
        let failure = MemoryFile::open(path).err().expect("it is refused").in_full();
        assert!(failure.contains(expected), "{failure}");
    }

    #[test]
    fn a_file_that_no_server_has_made_is_refused_and_stays_as_it_is() {
        let folder = Folder::new("foreign");
        let path = folder.0.join("letter");
        fs::write(&path, "precious").expect("room");
        check_refused(&path, "expected an empty file, or one that a server has made, found something else");
        assert_eq!(fs::read(&path).expect("a file"), b"precious");
        std::os::unix::fs::symlink(&path, folder.0.join("link")).expect("a link");
        check_refused(&folder.0.join("link"), "it is a symbolic link: give the path that it leads to");
        fs::write(folder.0.join("empty"), "").expect("room");
        let memory = MemoryFile::open(&folder.0.join("empty")).expect("an empty file is as good as none");
        assert_eq!(memory.file.metadata().expect("a file").mode() & 0o777, 0o600, "for nobody else to read");
    }

    #[test]
    fn a_meta_that_no_server_has_left_is_refused_and_stays_as_it_is() {
        let folder = Folder::new("foreign-meta");
        let (path, meta) = (folder.0.join("items"), folder.0.join("items.meta"));
        for (contents, found) in [("", "an empty one"), ("slab_page_size=1048576\n", "something else")] {
            fs::write(&meta, contents).expect("room");
            check_refused(
                &path,
                &format!("items.meta (-e): expected no file, or one that a server has left, found {found}"),
            );
            assert_eq!(fs::read(&meta).expect("a file"), contents.as_bytes());
            assert!(!path.exists(), "nothing is made");
        }
        // What is damaged was a server's, and its items are lost.
        fs::write(&meta, &left(0).to_bytes()[..20]).expect("room");
        MemoryFile::open(&path).expect("a new file");
    }

    #[test]
    fn a_file_that_others_own_or_can_write_is_refused() {
        let folder = Folder::new("others");
        let path = folder.0.join("items");
        drop(MemoryFile::open(&path).expect("a new file"));
        let set_mode = |path: &Path, mode: u32| {
            fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode))
                .expect("it is ours");
        };
        for mode in [0o620, 0o602] {
            set_mode(&path, mode);
            check_refused(&path, &format!("its mode is {mode:04o}, so others than its owner can write it"));
        }
        set_mode(&path, 0o600);
        let meta = folder.0.join("items.meta");
        fs::write(&meta, left(0).to_bytes()).expect("room");
        set_mode(&meta, 0o666);
        assert!(read_left(&path).expect_err("who could have written that?").contains("its mode is 0666"));
        if !geteuid().is_root() {
            return eprintln!("left out: only root can give a file to another user");
        }
        set_mode(&meta, 0o600);
        for path in [&path, &meta] {
            std::os::unix::fs::chown(path, Some(5), None).expect("root may");
        }
        check_refused(&path, "it belongs to user 5, and a file of user 0 is expected");
        assert!(read_left(&path).expect_err("another user's").contains("it belongs to user 5"));
    }

    /// As it was made by hand, in a folder where every user can make links.
    #[test]
    fn links_in_the_places_of_unfinished_files_lead_nowhere() {
        let folder = Folder::new("planted");
        fs::write(folder.0.join("victim"), "precious").expect("a file");
        for name in ["items.meta.tmp", "items.meta", "items.tmp"] {
            std::os::unix::fs::symlink("victim", folder.0.join(name)).expect("a link");
        }
        let memory = MemoryFile::open(&folder.0.join("items")).expect("a new file");
        memory.leave(Manifest(vec![7]), 0).expect("room");
        assert_eq!(fs::read(folder.0.join("victim")).expect("a file"), b"precious");
        assert!(!folder.0.join("items.meta").is_symlink());
    }

    #[test]
    fn a_file_has_one_user_at_a_time() {
        let folder = Folder::new("lock");
        let path = folder.0.join("items");
        let first = MemoryFile::open(&path).expect("a new file");
        let failure = MemoryFile::open(&path).err().expect("it is in use");
        assert!(failure.to_string().contains("another process uses it"), "{failure}");
        drop(first);
        MemoryFile::open(&path).expect("it is free");
    }

    /// What was read before the lock was held may describe the items of the server before the last one, or nothing.
    #[test]
    fn what_another_server_leaves_in_the_meantime_is_not_lost() {
        let folder = Folder::new("meantime");
        let memory = MemoryFile::open(&folder.0.join("items")).expect("a new file");
        let found = read_left(&memory.path);
        memory.file.set_len(1 << 30).expect("a sparse file");
        memory.leave(Manifest(vec![7]), 0).expect("room");
        let failure = memory.take(found, |_| ()).err().expect("it is refused");
        assert!(failure.to_string().ends_with("start this one again"), "{failure}");
        let (_, is_left) = memory.take(read_left(&memory.path), |_| ()).expect("it is still there");
        assert!(is_left);
    }

    #[test]
    fn what_is_left_is_taken_once_and_only_unchanged() {
        let folder = Folder::new("taken");
        let memory = MemoryFile::open(&folder.0.join("items")).expect("a new file");
        let take = |expected: &str| {
            let mut said = String::new();
            let found = read_left(&memory.path);
            let (_, is_left) =
                memory.take(found, |line| said = line.to_owned()).expect("a folder of our own");
            assert!(said.contains(expected) && said.is_empty() == expected.is_empty(), "{said}");
            memory.claim().expect("a folder of our own");
            is_left
        };
        assert!(!take(""), "there was nothing");
        memory.file.set_len(1 << 30).expect("a sparse file");
        std::os::unix::fs::FileExt::write_all_at(&*memory.file, b"items", 1 << 29).expect("room");
        memory.leave(Manifest(vec![7]), 0).expect("room");
        assert!(take(""));
        assert!(!take("it had no orderly end"));
        assert_eq!(memory.file.metadata().expect("the file").len(), 0);
        std::os::unix::fs::FileExt::write_all_at(&*memory.file, b"items", 1 << 29).expect("room");
        memory.leave(Manifest(vec![7]), 0).expect("room");
        std::os::unix::fs::FileExt::write_all_at(&*memory.file, b"j", 1 << 29).expect("room");
        assert!(!take("1 of 1 checksums are wrong"));
    }
}
