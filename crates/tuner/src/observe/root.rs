//! Root of the file system as it is seen: `/`, or a directory that holds another host's `/proc`, `/sys` and `/etc`.
//!
//! What is not there is no error here: kernels, drivers and containers differ in what they show.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags, open, openat2};
use rustix::io::Errno;

/// A file that is larger is not one of the kernel's.
const FILE_LEN_MAX: u64 = 16 << 20;

/// How often a file is opened in a tree in which something is renamed at the same time.
const OPEN_TRIES_MAX: usize = 8;

/// Why something could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file or directory is there, but cannot be read.
    #[error("read {path}", path = path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It says something that was not expected.
    #[error("understand {path}: expected {expected}, found {found:?}", path = path.display())]
    Parse {
        /// Which.
        path: PathBuf,
        /// What it should hold, in words.
        expected: &'static str,
        /// What it holds.
        found: String,
    },
}

/// Where the host's files are.
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

    /// Where an absolute path of the host is here.
    pub fn path(&self, path: &str) -> PathBuf {
        self.0.join(path.trim_start_matches('/'))
    }

    /// Opens a file to read or to set what it holds. A link in another host's tree leads to nothing outside of it, as it
    /// would if that host had this root.
    pub(crate) fn open(&self, path: &str, flags: OFlags) -> io::Result<File> {
        if self.is_live() {
            return Ok(open(path, flags | OFlags::CLOEXEC, Mode::empty())?.into());
        }
        let root = File::open(&self.0)?;
        let inside = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        let mut tries = 1;
        loop {
            match openat2(&root, path, flags | OFlags::CLOEXEC, Mode::empty(), inside) {
                // Something was renamed meanwhile, so it could not be told whether it is inside.
                Err(Errno::AGAIN) if tries < OPEN_TRIES_MAX => tries += 1,
                opened => return Ok(opened?.into()),
            }
        }
    }

    /// The text of a file without the white space at its end; `None` if there is no such file. Files that exist but
    /// have nothing to say (a link without speed answers EINVAL) count as missing, too.
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

    /// Where a symbolic link leads, as it is written there; `None` if there is no such link.
    pub fn link(&self, path: &str) -> Option<String> {
        let target = std::fs::read_link(self.path(path)).ok()?;
        Some(target.to_string_lossy().into_owned())
    }

    /// Whether there is such a file or directory.
    pub fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }
}

/// There is no such thing (any more), or it has no value in its present state.
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
