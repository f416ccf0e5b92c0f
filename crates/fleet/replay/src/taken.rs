//! A file of the log that this process has taken: read from the front, emptied from the front, and replaced by what is left
//! of it. At every moment each delete that was not sent is in one of these files.
//!
//! ```text
//! NAME          [ zeros: done or below | not read yet ]
//! NAME.rest     [ deletes of the zeros that could not be sent ]   in place of NAME once that is read
//! NAME.refused  [ lines that are no deletes ]                     stays
//! ```
//!
//! Zeros are a hole in the file, so what is done needs no space. They are made only after the other two files are synced.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FlockOperation, Mode, OFlags, RenameFlags, fallocate, fchown, flock, fstat,
    fsync, openat, renameat, renameat_with, seek, statat, unlinkat,
};
use rustix::io::Errno;

use super::folder::{LoggedFile, REFUSED, REST};
use super::lines::{LineReader, PieceEnd};

/// Bytes that are read at a time.
const READ_LEN: usize = 256 * 1024;

/// A folder of an hour is removed when it is empty and this old: a router may be about to make a file in a younger one.
const FOLDER_STAYS_S: u64 = 2 * 3600;

/// The outcome of an attempt to take a file.
pub(super) enum Take {
    /// It is this process's as long as the value lives.
    Taken(Box<TakenFile>),
    /// A router writes to it, or another replayer has it.
    InUse,
    /// It is there no more.
    Gone,
}

/// A file under a lock.
pub(super) struct TakenFile {
    folder: OwnedFd,
    name: String,
    pub(super) path: PathBuf,
    /// For the lock, and for the zeros.
    file: File,
    lines: LineReader<BufReader<File>>,
    /// It begins with zeros: `NAME.rest` belongs to it.
    was_begun: bool,
    /// The end of the first line, until it is known to be zeros.
    first_end: u64,
    is_punchable: bool,
    rest: Option<Companion>,
    refused: Option<Companion>,
}

/// A file beside it.
struct Companion {
    file: File,
    len: u64,
}

impl TakenFile {
    /// Takes a file, or only looks into it if `is_dry`. Nothing is followed: others may be able to write to these folders.
    pub(super) fn take(root: &Path, logged: &LoggedFile, is_dry: bool) -> io::Result<Take> {
        let folder = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = match openat(CWD, root.join(&logged.hour), folder, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(Take::Gone),
            opened => opened?,
        };
        let how = if is_dry { OFlags::RDONLY } else { OFlags::RDWR };
        let how = how | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match openat(&folder, &logged.name, how, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(Take::Gone),
            opened => File::from(opened?),
        };
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::other("expected a file, found something else"));
        }
        // It might be somebody's file from elsewhere, which is not to get holes.
        if metadata.nlink() > 1 {
            return Err(io::Error::other(
                "expected a file with one name, found one with several (hard links)",
            ));
        }
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => return Ok(Take::InUse),
            locked => locked?,
        }
        // Between opening and locking, another replayer may have removed or replaced it.
        if !has_name(&file, &folder, &logged.name)? {
            return Ok(Take::Gone);
        }
        let path = logged.path(root);
        let taken = TakenFile::begin(folder, logged.name.clone(), path, file, is_dry)?;
        Ok(Take::Taken(Box::new(taken)))
    }

    fn begin(
        folder: OwnedFd,
        name: String,
        path: PathBuf,
        file: File,
        is_dry: bool,
    ) -> io::Result<TakenFile> {
        let mut input = file.try_clone()?;
        let start = match seek(&input, rustix::fs::SeekFrom::Data(0)) {
            Ok(start) => start,
            // Nothing but a hole.
            Err(Errno::NXIO) => input.metadata()?.len(),
            // A file system without holes.
            Err(_) => 0,
        };
        input.seek(SeekFrom::Start(start))?;
        let mut lines = LineReader::new(BufReader::with_capacity(READ_LEN, input), start);
        lines.skip_zeros()?;
        let was_begun = lines.offset > 0;
        let mut taken = TakenFile {
            folder,
            name,
            path,
            file,
            lines,
            was_begun,
            first_end: 0,
            is_punchable: true,
            rest: None,
            refused: None,
        };
        if is_dry {
            return Ok(taken);
        }
        if was_begun {
            let rest = taken.open_companion(REST, OFlags::empty())?;
            taken.rest = rest.map(Companion::without_half_a_line).transpose()?;
        } else {
            // All that it has is still in the file.
            taken.remove_companion(REST)?;
        }
        Ok(taken)
    }

    /// Where the next piece begins.
    pub(super) fn offset(&self) -> u64 {
        self.lines.offset
    }

    /// The place of the piece that was read last, for messages.
    pub(super) fn place(&self) -> String {
        let from = if self.was_begun { " after what is done" } else { "" };
        format!("{}: line {}{from}", self.path.display(), self.lines.number)
    }

    /// Lines that were read.
    pub(super) fn lines_read(&self) -> u64 {
        self.lines.number
    }

    /// Whether `NAME.rest` belongs to it.
    pub(super) fn was_begun(&self) -> bool {
        self.was_begun
    }

    /// Reads the next piece.
    pub(super) fn next(&mut self, piece: &mut Vec<u8>) -> io::Result<Option<PieceEnd>> {
        let end = self.lines.next(piece)?;
        if self.first_end == 0 {
            self.first_end = self.lines.offset;
        }
        Ok(end)
    }

    /// Keeps a line that could not be sent.
    pub(super) fn keep(&mut self, line: &[u8]) -> io::Result<()> {
        if self.rest.is_none() {
            let file = self.open_companion(REST, OFlags::CREATE | OFlags::EXCL)?;
            self.rest = file.map(|file| Companion { file, len: 0 });
        }
        self.rest.as_mut().expect("it has just been made").append(&[line, b"\n"])
    }

    /// Moves a piece of something that is no delete out of the way.
    pub(super) fn refuse(&mut self, piece: &[u8], end: PieceEnd) -> io::Result<()> {
        if self.refused.is_none() {
            let file = self.open_companion(REFUSED, OFlags::CREATE)?.expect("it is made if it is missing");
            self.refused = Some(Companion::on_a_new_line(file)?);
        }
        let line_end: &[u8] = if end == PieceEnd::Long { b"" } else { b"\n" };
        self.refused.as_mut().expect("it has just been opened").append(&[piece, line_end])
    }

    /// Records that everything before `offset` is done or kept. Nothing is on its way from there.
    pub(super) fn done_until(&mut self, offset: u64) -> io::Result<()> {
        self.sync()?;
        if !self.is_punchable || offset == 0 {
            return Ok(());
        }
        // A host that crashes may keep a hole in parts. The first line alone says whether there is one.
        if !self.was_begun {
            self.is_punchable = self.punch(self.first_end.min(offset));
            self.was_begun = self.is_punchable;
            self.file.sync_data()?;
        }
        // A file system without holes: a replayer that is killed begins with the whole file again.
        self.is_punchable = self.is_punchable && self.punch(offset);
        Ok(())
    }

    fn punch(&self, len: u64) -> bool {
        fallocate(&self.file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 0, len).is_ok()
    }

    /// Replaces the file by what is left, once all of it is read and nothing is on its way; whether something is left.
    pub(super) fn finish(self, root: &Path, logged: &LoggedFile, now_s: u64) -> io::Result<bool> {
        self.sync()?;
        let is_left = self.rest.as_ref().is_some_and(|rest| rest.len > 0);
        if !has_name(&self.file, &self.folder, &self.name)? {
            return self.finish_beside_another(is_left);
        }
        if is_left {
            renameat(&self.folder, format!("{}{REST}", self.name), &self.folder, &self.name)?;
            fsync(&self.folder)?;
            return Ok(true);
        }
        self.remove_companion(REST)?;
        unlinkat(&self.folder, &self.name, AtFlags::empty())?;
        if now_s > logged.hour_s.saturating_add(FOLDER_STAYS_S) {
            // Other files may be in it.
            let _ = unlinkat(CWD, root.join(&logged.hour), AtFlags::REMOVEDIR);
        }
        Ok(false)
    }

    /// Somebody has moved another file to the place of this one, or has removed it. What is there now was not read.
    fn finish_beside_another(&self, is_left: bool) -> io::Result<bool> {
        if !is_left {
            self.remove_companion(REST)?;
            return Ok(statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW).is_ok());
        }
        // The name of a file of a router that has ended, so that it is read like any other.
        let name = format!("{}-p{}", self.name, std::process::id());
        renameat_with(
            &self.folder,
            format!("{}{REST}", self.name),
            &self.folder,
            name,
            RenameFlags::NOREPLACE,
        )?;
        fsync(&self.folder)?;
        Ok(true)
    }

    /// After an error: what is not recorded as done is still in the file, so a disk that is full need not keep it twice.
    pub(super) fn abandon(self) {
        if !self.was_begun {
            // If it fails, the next pass removes it.
            let _ = self.remove_companion(REST);
        }
    }

    fn sync(&self) -> io::Result<()> {
        let companions = [&self.rest, &self.refused];
        if companions.iter().all(|companion| companion.is_none()) {
            return Ok(());
        }
        for companion in companions.into_iter().flatten() {
            companion.file.sync_data()?;
        }
        Ok(fsync(&self.folder)?)
    }

    /// Opens or makes a file beside it, with the same owner and permissions; `None` if it is missing and is not to be made.
    fn open_companion(&self, end: &str, more: OFlags) -> io::Result<Option<File>> {
        let how =
            OFlags::RDWR | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | more;
        let of_file = fstat(&self.file)?;
        let mode = Mode::from_raw_mode(of_file.st_mode & 0o666);
        let file = match openat(&self.folder, format!("{}{end}", self.name), how, mode) {
            Err(Errno::NOENT) if !more.contains(OFlags::CREATE) => return Ok(None),
            opened => File::from(opened?),
        };
        if !file.metadata()?.is_file() {
            return Err(io::Error::other(format!(
                "expected a file {}{end}, found something else",
                self.name
            )));
        }
        if more.contains(OFlags::CREATE) {
            // Only root can give files away; whoever can replay the log as another user can read it.
            let (user, group) = (of_file.st_uid, of_file.st_gid);
            let _ =
                fchown(&file, Some(rustix::fs::Uid::from_raw(user)), Some(rustix::fs::Gid::from_raw(group)));
        }
        Ok(Some(file))
    }

    fn remove_companion(&self, end: &str) -> io::Result<()> {
        match unlinkat(&self.folder, format!("{}{end}", self.name), AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(()),
            removed => Ok(removed?),
        }
    }
}

/// Whether a file has this name, which another one may have got.
fn has_name(file: &File, folder: &OwnedFd, name: &str) -> io::Result<bool> {
    let ours = fstat(file)?;
    match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(named) => Ok((named.st_dev, named.st_ino) == (ours.st_dev, ours.st_ino)),
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

impl Companion {
    /// A line that a killed replayer has written for a part is still in the file itself: zeros come after syncing.
    fn without_half_a_line(mut file: File) -> io::Result<Companion> {
        let mut end = file.metadata()?.len();
        let mut buffer = vec![0; READ_LEN];
        let len = loop {
            let start = end.saturating_sub(READ_LEN as u64);
            let part = &mut buffer[..(end - start) as usize];
            file.seek(SeekFrom::Start(start))?;
            file.read_exact(part)?;
            if let Some(at) = part.iter().rposition(|byte| *byte == b'\n') {
                break start + at as u64 + 1;
            }
            if start == 0 {
                break 0;
            }
            end = start;
        };
        file.set_len(len)?;
        Ok(Companion { file, len })
    }

    fn on_a_new_line(mut file: File) -> io::Result<Companion> {
        let len = file.metadata()?.len();
        let mut last = [b'\n'];
        if len > 0 {
            file.seek(SeekFrom::Start(len - 1))?;
            file.read_exact(&mut last)?;
        }
        let mut companion = Companion { file, len };
        if last != *b"\n" {
            companion.append(&[b"\n"])?;
        }
        Ok(companion)
    }

    /// Appends all or nothing.
    fn append(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        let bytes = parts.concat();
        let written = self.file.write_all(&bytes);
        match written {
            Ok(()) => self.len += bytes.len() as u64,
            // Half a line would be refused later.
            Err(_) => self.file.set_len(self.len)?,
        }
        written
    }
}
