//! What a run may leave behind if it is killed: processes, and a file system on a loop device. A file says so before it
//! is so; as long as the run lives, it holds a lock on that file.
//!
//! ```text
//! STATE/lab/MARK.json   {"mark": "812-1763740000", "mount": {"at": …, "image": …}}
//! ```

use crate::error::Error;
use crate::experiment::FileSystem;
use crate::process::{Clock, Halt, Hands, Line, end_marked};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// A living run's file.
#[derive(Debug)]
pub(crate) struct Trace {
    path: PathBuf,
    file: File,
    left: Left,
}

/// What there may be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Left {
    /// In the environment of its processes.
    mark: String,
    /// Its file system.
    mount: Option<Mount>,
}

/// A file system on a loop device, which goes when it is unmounted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Mount {
    at: PathBuf,
    image: PathBuf,
}

/// How long a file system may be in use after its last process was killed: the kernel buries a process in its own time.
const UNMOUNT_TIME_MAX: Duration = Duration::from_secs(10);

/// How long it may take to make one.
const MAKE_TIME_MAX: Duration = Duration::from_secs(600);

impl Trace {
    /// Begins one. Its mark is like no other's on this host.
    pub(crate) fn begin(state: &Path, at_unix_s: u64) -> Result<Trace, Error> {
        let directory = directory(state);
        std::fs::create_dir_all(&directory).map_err(Error::io("create", &directory))?;
        let mark = format!("{}-{at_unix_s}", std::process::id());
        let path = directory.join(format!("{mark}.json"));
        let file = OpenOptions::new().create_new(true).append(true).open(&path);
        let file = file.map_err(Error::io("create", &path))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|errno| Error::io("lock", &path)(errno.into()))?;
        let mut trace = Trace { path, file, left: Left { mark, mount: None } };
        trace.write()?;
        Ok(trace)
    }

    pub(crate) fn mark(&self) -> &str {
        &self.left.mark
    }

    /// On the disk, before it is done. The last line counts: one that is cut off was never acted upon.
    fn write(&mut self) -> Result<(), Error> {
        let line = serde_json::to_string(&self.left).expect("it is plain data") + "\n";
        let written = self.file.write_all(line.as_bytes()).and_then(|()| self.file.sync_all());
        let synced =
            written.and_then(|()| File::open(self.path.parent().expect("it is in a directory"))?.sync_all());
        synced.map_err(Error::io("write", &self.path))
    }

    /// Makes a file system of its own at a directory. `line` is the surroundings of its commands.
    pub(crate) fn mount(
        &mut self,
        wanted: &FileSystem,
        at: &Path,
        line: &Line,
        hands: &Hands,
    ) -> Result<(), Error> {
        let image = at.with_extension("image");
        self.left.mount = Some(Mount { at: at.to_owned(), image: image.clone() });
        self.write()?;
        let file = File::create(&image).map_err(Error::io("create", &image))?;
        file.set_len(u64::from(wanted.size_mb) << 20).map_err(Error::io("size", &image))?;
        // xfs and others ask before they overwrite, but never a file that is empty.
        let make = format!("exec mkfs.{} {}", wanted.kind, quoted(&image));
        let options = std::iter::once("loop")
            .chain(Some(wanted.options.as_str()).filter(|options| !options.is_empty()));
        let options = options.collect::<Vec<_>>().join(",");
        let (kind, image, at) = (quoted(Path::new(&wanted.kind)), quoted(&image), quoted(at));
        let mount = format!("exec mount -t {kind} -o {} {image} {at}", quoted(Path::new(&options)));
        for text in [make, mount] {
            Line { text: &text, ..line.clone() }.run(hands, MAKE_TIME_MAX)?;
        }
        Ok(())
    }

    /// Everything of the last trial as before. `line` is said in complaints.
    pub(crate) fn clear(&mut self) -> Result<(), Error> {
        end_marked(&self.left.mark);
        if let Some(mount) = &self.left.mount {
            mount.undo()?;
            self.left.mount = None;
            self.write()?;
        }
        Ok(())
    }

    /// Nothing is left.
    pub(crate) fn end(mut self) -> Result<(), Error> {
        self.clear()?;
        std::fs::remove_file(&self.path).map_err(Error::io("remove", &self.path))
    }
}

impl Mount {
    fn undo(&self) -> Result<(), Error> {
        let (clock, patience) = (Clock::start(), Halt::default());
        while is_mounted(&self.at)? {
            let unmounted = run("umount", &[self.at.as_os_str()]);
            if let Err(why) = unmounted {
                if clock.passed() >= UNMOUNT_TIME_MAX {
                    return Err(Error::NotRestored(format!("unmount {}: {why}", self.at.display())));
                }
                let _ = patience.pause(Duration::from_millis(50));
            }
        }
        // The loop device goes with the mount. If the run was killed before, the image alone is there.
        match std::fs::remove_file(&self.image) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::io("remove", &self.image)(error))
            }
            _ => Ok(()),
        }
    }
}

/// Undoes what runs that were killed have left, and says what that was. Runs that live are left alone.
pub(crate) fn restore(state: &Path) -> Result<Vec<String>, Error> {
    let mut restored = Vec::new();
    let entries = std::fs::read_dir(directory(state)).into_iter().flatten().flatten();
    for path in
        entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|it| it == "json"))
    {
        let file = OpenOptions::new().append(true).open(&path).map_err(Error::io("open", &path))?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            continue;
        }
        let text = std::fs::read_to_string(&path).map_err(Error::io("read", &path))?;
        let whole = &text[..text.rfind('\n').unwrap_or(0)];
        if let Some(line) = whole.lines().last() {
            let left: Left =
                serde_json::from_str(line).map_err(|source| Error::Json { path: path.clone(), source })?;
            end_marked(&left.mark);
            if let Some(mount) = &left.mount {
                mount.undo()?;
                restored.push(format!("{}: unmounted", mount.at.display()));
            }
            restored.push(format!("run {}: nothing of it runs any more", left.mark));
        }
        std::fs::remove_file(&path).map_err(Error::io("remove", &path))?;
    }
    Ok(restored)
}

fn directory(state: &Path) -> PathBuf {
    state.join("lab")
}

/// Column 5 of mountinfo, where blanks and the like are octal.
fn is_mounted(at: &Path) -> Result<bool, Error> {
    let path = Path::new("/proc/self/mountinfo");
    let text = std::fs::read_to_string(path).map_err(Error::io("read", path))?;
    let escape = |text: &str| {
        text.replace('\\', "\\134").replace(' ', "\\040").replace('\t', "\\011").replace('\n', "\\012")
    };
    let at = escape(&at.to_string_lossy());
    Ok(text.lines().any(|line| line.split(' ').nth(4) == Some(at.as_str())))
}

fn run(program: &str, arguments: &[&std::ffi::OsStr]) -> Result<(), String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("start {program}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}

/// As one word for the shell.
pub(crate) fn quoted(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn a_living_run_is_left_alone_and_a_dead_one_is_cleared_away() {
        let scratch = Scratch::new("trace");
        let mut trace = Trace::begin(scratch.path(), 7).expect("a trace");
        assert_eq!(restore(scratch.path()).expect("nothing to do"), Vec::<String>::new());
        // As far as it came: an image, and no mount.
        let (at, image) = (scratch.path().join("a b"), scratch.path().join("a b.image"));
        trace.left.mount = Some(Mount { at: at.clone(), image: image.clone() });
        trace.write().expect("it is written");
        File::create(&image).expect("an image");
        let path = trace.path.clone();
        drop(trace);
        let mut file = OpenOptions::new().append(true).open(&path).expect("its file");
        file.write_all(b"{\"mark\": \"cut o").expect("it is written");
        drop(file);
        let restored = restore(scratch.path()).expect("it is cleared away");
        assert_eq!(restored[0], format!("{}: unmounted", at.display()));
        assert!(!image.exists() && !path.exists());
        assert!(restore(scratch.path()).expect("nothing to do").is_empty());
    }

    #[test]
    fn a_trace_that_ends_leaves_nothing() {
        let scratch = Scratch::new("trace-ends");
        Trace::begin(scratch.path(), 7).and_then(Trace::end).expect("it ends");
        assert_eq!(std::fs::read_dir(directory(scratch.path())).expect("a directory").count(), 0);
    }

    #[test]
    fn a_path_is_one_word() {
        assert_eq!(quoted(Path::new("/a b/it's")), "'/a b/it'\\''s'");
    }
}
