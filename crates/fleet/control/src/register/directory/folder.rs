//! A folder as the directory register uses it: whole files that are written once, renamed and removed.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use os::DirectoryEntry;
use rustix::fs::OFlags;

/// Longest file: more than all contents take at their limit, as JSON.
const FILE_LEN_MAX: u64 = 512 << 20;

/// The steps that a write consists of. Tests let each of them fail, or the power.
pub(crate) trait Folder: Send {
    /// Where it is, for messages.
    fn path(&self) -> &Path;

    /// The names of all files.
    fn names(&self) -> io::Result<Vec<String>>;

    /// A whole file.
    fn read(&self, name: &str) -> io::Result<Vec<u8>>;

    /// Writes a new file, in the place of another one if there is one, until its bytes are on the disk.
    fn write(&mut self, name: &str, bytes: &[u8]) -> io::Result<()>;

    /// Gives a file another name.
    fn rename(&mut self, from: &str, to: &str) -> io::Result<()>;

    /// Waits until names are on the disk as they are now.
    fn sync(&mut self) -> io::Result<()>;

    /// Removes a file.
    fn remove(&mut self, name: &str) -> io::Result<()>;
}

/// A folder of this host.
#[derive(Clone, Debug)]
pub(crate) struct HostFolder(pub(crate) PathBuf);

impl HostFolder {
    fn entry(&self, name: &str) -> io::Result<DirectoryEntry> {
        DirectoryEntry::of(&self.0.join(name))
    }
}

impl Folder for HostFolder {
    fn path(&self) -> &Path {
        &self.0
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let names = fs::read_dir(&self.0)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        names.collect()
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        // A pipe of that name would keep its reader waiting.
        let file = self.entry(name)?.open(OFlags::RDONLY | OFlags::NONBLOCK, 0)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() || metadata.len() > FILE_LEN_MAX {
            let why = format!("it is not a regular file of at most {FILE_LEN_MAX} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        let mut bytes = Vec::with_capacity(metadata.len() as usize);
        file.take(FILE_LEN_MAX).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn write(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let entry = self.entry(name)?;
        entry.remove_if_there()?;
        let mut file = entry.create_new(0o644)?;
        file.write_all(bytes)?;
        file.sync_all()
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.entry(from)?.rename_to(&self.entry(to)?)
    }

    fn sync(&mut self) -> io::Result<()> {
        File::open(&self.0)?.sync_all()
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.entry(name)?.remove()
    }
}
