//! Cleanup records: processes, and a file system on a loop device, that a killed run would leave. They are written
//! before either exists; as long as the run continues, it holds a lock on the file.
//!
//! ```text
//! STATE/lab/MARK.json     {"mark": "812-1763740000", "mount": {"at": …, "image": …}}
//! STATE/lab/MARK.groups   the groups of processes of the trial that runs, a line each
//! ```

use crate::error::Error;
use crate::experiment::FileSystem;
use crate::trial::halt::Halt;
use crate::trial::leftovers::Mark;
use crate::trial::mounts;
use crate::trial::process::ShellCommand;
use os::clock::Stopwatch;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The file of a run in progress.
#[derive(Debug)]
pub(crate) struct CleanupRecord {
    path: PathBuf,
    file: File,
    left: Left,
    mark: Mark,
}

/// The things to clean up.
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

/// How long a file system may be in use after its last process was killed: the kernel frees a process in its own
/// time.
const UNMOUNT_TIME_MAX: Duration = Duration::from_secs(10);

/// The time limit for making one.
const MAKE_TIME_MAX: Duration = Duration::from_secs(600);

impl CleanupRecord {
    /// Begins one. Its mark is like no other's on this host.
    pub(crate) fn begin(state: &Path, at_unix_s: u64) -> Result<CleanupRecord, Error> {
        let directory = directory(state);
        std::fs::create_dir_all(&directory).map_err(Error::io("create", &directory))?;
        let mark = format!("{}-{at_unix_s}", std::process::id());
        let path = directory.join(format!("{mark}.json"));
        let file = OpenOptions::new().create_new(true).append(true).open(&path);
        let file = file.map_err(Error::io("create", &path))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|errno| Error::io("lock", &path)(errno.into()))?;
        let groups = path.with_extension("groups");
        let mut trace =
            CleanupRecord { mark: Mark::new(&mark, groups), path, file, left: Left { mark, mount: None } };
        trace.write()?;
        Ok(trace)
    }

    /// Finds what a trial leaves also where it has shed its mark.
    pub(crate) fn adopt(&mut self) -> Result<(), Error> {
        self.mark.adopt()
    }

    pub(crate) fn mark(&self) -> &Mark {
        &self.mark
    }

    /// On the disk, before the action. The last line counts: one that is cut off was never acted upon.
    fn write(&mut self) -> Result<(), Error> {
        let line = serde_json::to_string(&self.left).expect("it is plain data") + "\n";
        let written = self.file.write_all(line.as_bytes()).and_then(|()| self.file.sync_all());
        let synced =
            written.and_then(|()| File::open(self.path.parent().expect("it is in a directory"))?.sync_all());
        synced.map_err(Error::io("write", &self.path))
    }

    /// Makes a file system of its own at a directory, whose path has no symbolic links. `line` is the surroundings of
    /// its commands.
    pub(crate) fn mount(
        &mut self,
        wanted: &FileSystem,
        at: &Path,
        line: &ShellCommand,
        halt: &Halt,
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
        let kind = quoted(Path::new(&wanted.kind));
        let options = quoted(Path::new(&options));
        let mount = format!("exec mount -t {kind} -o {options} {} {}", quoted(&image), quoted(at));
        for text in [make, mount] {
            ShellCommand { text: &text, ..line.clone() }.run(halt, MAKE_TIME_MAX)?;
        }
        // What is not found there now would not be unmounted either.
        match mounts::is_point(at)? {
            true => Ok(()),
            false => Err(Error::place(line.place, format!("it is not found at {}", at.display()))),
        }
    }

    /// Removes everything of the last trial.
    pub(crate) fn clear(&mut self) -> Result<(), Error> {
        let ended = self.mark.end();
        let unmounted = self.unmount();
        Error::all([ended, unmounted])
    }

    fn unmount(&mut self) -> Result<(), Error> {
        let Some(mount) = &self.left.mount else { return Ok(()) };
        mount.undo()?;
        self.left.mount = None;
        self.write()
    }

    /// Nothing is left.
    pub(crate) fn end(mut self) -> Result<(), Error> {
        self.clear()?;
        std::fs::remove_file(&self.path).map_err(Error::io("remove", &self.path))
    }
}

impl Mount {
    fn undo(&self) -> Result<(), Error> {
        let (clock, patience) = (Stopwatch::start(), Halt::default());
        while mounts::is_point(&self.at)? {
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

/// Undoes the remains of runs that were killed, and adds them to `restored`. Runs in progress are left alone, and
/// remains that cannot be undone do not stop the rest.
pub(crate) fn restore(state: &Path, restored: &mut Vec<String>) -> Result<(), Error> {
    let entries = std::fs::read_dir(directory(state)).into_iter().flatten().flatten();
    let traces =
        entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|it| it == "json"));
    Error::all(traces.map(|path| restore_one(&path, restored)).collect::<Vec<_>>())
}

fn restore_one(path: &Path, restored: &mut Vec<String>) -> Result<(), Error> {
    let file = OpenOptions::new().append(true).open(path).map_err(Error::io("open", path))?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Ok(());
    }
    let text = std::fs::read_to_string(path).map_err(Error::io("read", path))?;
    let whole = &text[..text.rfind('\n').unwrap_or(0)];
    if let Some(line) = whole.lines().last() {
        let left: Left =
            serde_json::from_str(line).map_err(|source| Error::Json { path: path.to_owned(), source })?;
        let ended = Mark::new(&left.mark, path.with_extension("groups")).end();
        if ended.is_ok() {
            restored.push(format!("run {}: no process of it is found any more", left.mark));
        }
        let unmounted = left.mount.as_ref().map_or(Ok(()), Mount::undo);
        if let (Some(mount), Ok(())) = (&left.mount, &unmounted) {
            restored.push(format!("{}: unmounted", mount.at.display()));
        }
        Error::all([ended, unmounted])?;
    }
    std::fs::remove_file(path).map_err(Error::io("remove", path))
}

fn directory(state: &Path) -> PathBuf {
    state.join("lab")
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
        let mut trace = CleanupRecord::begin(scratch.path(), 7).expect("a trace");
        let restore = |restored: &mut Vec<String>| restore(scratch.path(), restored);
        let mut restored = Vec::new();
        restore(&mut restored).expect("nothing to do");
        assert!(restored.is_empty(), "{restored:?}");
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
        // Of another one, nothing can be understood.
        let odd = directory(scratch.path()).join("odd.json");
        std::fs::write(&odd, "{}\n").expect("written");
        let error = restore(&mut restored).expect_err("what is odd").to_string();
        assert!(error.contains("odd.json"), "{error}");
        assert_eq!(restored[1..], [format!("{}: unmounted", at.display())]);
        assert!(!image.exists() && !path.exists());
        std::fs::remove_file(odd).expect("it is there");
        restored.clear();
        restore(&mut restored).expect("nothing to do");
        assert!(restored.is_empty(), "{restored:?}");
    }

    #[test]
    fn a_trace_that_ends_leaves_nothing() {
        let scratch = Scratch::new("trace-ends");
        CleanupRecord::begin(scratch.path(), 7).and_then(CleanupRecord::end).expect("it ends");
        assert_eq!(std::fs::read_dir(directory(scratch.path())).expect("a directory").count(), 0);
    }

    #[test]
    fn a_path_is_one_word() {
        assert_eq!(quoted(Path::new("/a b/it's")), "'/a b/it'\\''s'");
    }
}
