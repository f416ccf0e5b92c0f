//! Notes on the disk: a nameless file for each worker.

use super::{Note, Room, Round};
use crate::types::error::Error;
use crate::types::mix::Command;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;

/// Bytes of a note.
const NOTE_LEN: usize = 17;

/// Creates the files beside the recording, where there has to be room for it anyway. They have no name any more when
/// this returns: however the run ends, nothing is left of them.
pub(super) fn create(path: &Path, workers: usize) -> Result<Vec<File>, Error> {
    let one = |worker| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".notes-{worker}"));
        let path = PathBuf::from(name);
        let file = File::options().read(true).write(true).create_new(true).open(&path);
        let file = file.and_then(|file| fs::remove_file(&path).map(|()| file));
        file.map_err(|source| Error::Output { path, source })
    };
    (0..workers).map(one).collect()
}

/// Writes the workers' notes, until they have ended.
pub(super) fn keep(
    rounds: &Receiver<Round>,
    mut files: Vec<File>,
    room: &Room,
    path: &Path,
) -> Result<Vec<File>, Error> {
    let mut bytes = Vec::new();
    for (worker, notes) in rounds {
        bytes.clear();
        notes.iter().for_each(|note| note.write(&mut bytes));
        let written = files[worker].write_all(&bytes);
        written.map_err(|source| Error::Output { path: path.to_path_buf(), source })?;
        room.waiting.fetch_sub(notes.len(), Ordering::Relaxed);
    }
    Ok(files)
}

impl Note {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.at_ns.to_le_bytes());
        out.extend_from_slice(&self.item.to_le_bytes());
        out.push(self.command as u8);
    }

    /// The next one of a file; `None` at its end.
    pub(super) fn read(from: &mut impl Read) -> io::Result<Option<Note>> {
        let mut bytes = [0; NOTE_LEN];
        match from.read_exact(&mut bytes) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
        let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|place| bytes[at + place]));
        let command = Command::ALL[usize::from(bytes[NOTE_LEN - 1])];
        Ok(Some(Note { at_ns: number(0), item: number(8), command }))
    }
}
