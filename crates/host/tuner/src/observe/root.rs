//! Root of the file system that is read: `/`, or a directory that holds another host's `/proc`, `/sys` and `/etc`.
//!
//! A missing file is no error here: kernels, drivers and containers differ in their files.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags, open, openat2};
use rustix::io::Errno;

/// A larger file is not one of the kernel's.
const FILE_LEN_MAX: u64 = 16 << 20;

/// Attempts to open a file in a tree in which something is renamed at the same time.
const OPEN_TRIES_MAX: usize = 8;

/// Errors of reading a root.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file or directory exists, but cannot be read.
    #[error("read {path}", path = path.display())]
    Read {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// It has unexpected content.
    #[error("understand {path}: expected {expected}, found {found:?}", path = path.display())]
    Parse {
        /// The path.
        path: PathBuf,
        /// The expected content, in words.
        expected: &'static str,
        /// The content.
        found: String,
    },
}

/// The directory of the host's files.
#[derive(Clone, Debug)]
pub struct Root(PathBuf);

impl Root {
    /// `/` for this host.
    pub fn new(path: impl Into<PathBuf>) -> Root {
        Root(path.into())
    }

    /// Whether it is this host, and not a captured one.
    pub fn is_live(&self) -> bool {
        self.0 == Path::new("/")
    }

    /// The path here of an absolute path of the host.
    pub fn path(&self, path: &str) -> PathBuf {
        self.0.join(path.trim_start_matches('/'))
    }

    /// Opens a file to read or write it. A link in another host's tree leads nowhere outside of it, as if that host
    /// had this root.
    pub(crate) fn open(&self, path: &str, flags: OFlags) -> io::Result<File> {
        if self.is_live() {
            #[allow(
                clippy::disallowed_methods,
                reason = "files of the kernel, whose names nobody else makes"
            )]
            return Ok(open(path, flags | OFlags::CLOEXEC, Mode::empty())?.into());
        }
        let root = File::open(&self.0)?;
        let inside = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        let mut tries = 1;
        loop {
            match openat2(&root, path, flags | OFlags::CLOEXEC, Mode::empty(), inside) {
                // Something was renamed meanwhile, so it is unknown whether it is inside.
                Err(Errno::AGAIN) if tries < OPEN_TRIES_MAX => tries += 1,
                opened => return Ok(opened?.into()),
            }
        }
    }

    /// The text of a file without the white space at its end; `None` if there is no such file. Files that exist but
    /// have no value (a link without speed answers EINVAL) count as missing, too.
    pub fn read(&self, path: &str) -> Result<Option<String>, Error> {
        let here = self.path(path);
        let failed = |source| Error::Read { path: PathBuf::from(path), source };
        let read = File::open(&here).and_then(|file| {
            let mut bytes = Vec::new();
            io::Read::read_to_end(&mut io::Read::take(file, FILE_LEN_MAX), &mut bytes)?;
            Ok(bytes)
        });
        match read {
            Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).trim_end().to_owned())),
            Err(error) if says_nothing(&error) => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    /// A file that holds one value; `None` if there is none.
    pub fn value<T: std::str::FromStr>(
        &self,
        path: &str,
        expected: &'static str,
    ) -> Result<Option<T>, Error> {
        let Some(text) = self.read(path)? else { return Ok(None) };
        match text.trim().parse() {
            Ok(value) => Ok(Some(value)),
            Err(_) => Err(Error::Parse { path: PathBuf::from(path), expected, found: text }),
        }
    }

    /// Names in a directory, numbers in the order of numbers (`rx-2` before `rx-10`); none if there is no such
    /// directory.
    pub fn names(&self, path: &str) -> Result<Vec<String>, Error> {
        let entries = match std::fs::read_dir(self.path(path)) {
            Ok(entries) => entries,
            Err(error) if says_nothing(&error) => return Ok(Vec::new()),
            Err(source) => return Err(Error::Read { path: PathBuf::from(path), source }),
        };
        let mut names: Vec<_> =
            entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort_by_cached_key(|name| natural(name));
        Ok(names)
    }

    /// The target of a symbolic link, as it is written there; `None` if there is no such link.
    pub fn link(&self, path: &str) -> Option<String> {
        let target = std::fs::read_link(self.path(path)).ok()?;
        Some(target.to_string_lossy().into_owned())
    }

    /// Whether there is such a file or directory.
    pub fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }
}

/// The file does not exist (any more), or has no value in its present state.
fn says_nothing(error: &io::Error) -> bool {
    let gone =
        [Errno::NOENT, Errno::NOTDIR, Errno::NODEV, Errno::NXIO, Errno::SRCH, Errno::INVAL, Errno::OPNOTSUPP];
    Errno::from_io_error(error).is_some_and(|errno| gone.contains(&errno))
}

/// A key that sorts numbers inside of names by their value.
fn natural(name: &str) -> Vec<(String, u64)> {
    let mut key = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let text = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let digits = rest[text..].find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len() - text);
        key.push((rest[..text].to_owned(), rest[text..text + digits].parse().unwrap_or(0)));
        rest = &rest[text + digits..];
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_in_the_order_of_their_numbers() {
        let mut names = ["tx-10", "rx-10", "tx-2", "rx-2", "rx-0"];
        names.sort_by_cached_key(|name| natural(name));
        assert_eq!(names, ["rx-0", "rx-2", "rx-10", "tx-2", "tx-10"]);
    }

    #[test]
    fn what_is_not_there_is_no_error_but_what_cannot_be_understood_is() {
        let root = Root::new(env!("CARGO_MANIFEST_DIR"));
        assert!(root.read("/proc/nothing").unwrap().is_none());
        assert!(root.names("/sys/nothing").unwrap().is_empty());
        let error = root.value::<u32>("/Cargo.toml", "a number").unwrap_err();
        assert!(
            error.to_string().starts_with("understand /Cargo.toml: expected a number, found \"[package]")
        );
    }
}
