//! Programs on the disk: nobody else could have put them there, what they are, and whether they start.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fleet::tuning::{AnswerDigest, HostFacts};
use ring::digest::{Context, SHA256};

use super::processes::{self, Runs};
use super::reload::{Ran, run};
use crate::agent::settings::UpgradedMember;
use crate::agent::tuning::program::check_way;

/// Letters of a digest that are shown.
const SHOWN_LEN: usize = 12;
/// Bytes that are hashed at a time.
const PART_LEN: usize = 1 << 20;
/// A program that has not said its version by then does not start here.
const VERSION_WITHIN: Duration = Duration::from_secs(10);
/// Letters of what a program says of itself.
const VERSION_LEN_MAX: usize = 60;
/// Digests that are remembered: of all programs that servers run at one time, and a few more.
const DIGESTS_MAX: usize = 64;

/// A program that only root or the agent's user could have put there. What is hashed and tried is the file that was opened.
pub(super) struct Program {
    pub(super) path: PathBuf,
    pub(super) file: File,
}

impl Program {
    /// Opens it.
    ///
    /// # Errors
    /// If it is not there, or others could have written it.
    pub(super) fn open(path: &Path) -> Result<Program, String> {
        let real = path.canonicalize().map_err(|error| format!("find {}: {error}", path.display()))?;
        check_way(path)?;
        let failed = |error| format!("open {}: {error}", real.display());
        let file = File::open(&real).map_err(failed)?;
        let found = file.metadata().map_err(failed)?;
        if !found.is_file() || found.mode() & 0o111 == 0 {
            return Err(format!("{} is no program: expected a file that can be run", real.display()));
        }
        Ok(Program { path: real, file })
    }

    /// What it says of itself: it starts on this host.
    pub(super) fn version(&self) -> Result<String, String> {
        let said = run(&[self.path.as_os_str(), "--version".as_ref()], None, VERSION_WITHIN)
            .and_then(Ran::succeeded)
            .map_err(|why| format!("the program {} does not say its version: {why}", self.path.display()))?;
        let line = String::from_utf8_lossy(&said).lines().next().unwrap_or_default().trim().to_owned();
        let line: String = line.chars().filter(|letter| !letter.is_control()).take(VERSION_LEN_MAX).collect();
        match line.is_empty() {
            true => Err(format!("{} --version says nothing", self.path.display())),
            false => Ok(line),
        }
    }
}

/// Digests of files that have not changed since: a program has some 30 MB, and is looked at again and again.
#[derive(Default)]
pub(super) struct KnownDigests {
    known: BTreeMap<FileState, AnswerDigest>,
}

/// What changes with a file's bytes: device, inode, length, and the times of both, which nobody can set back.
type FileState = (u64, u64, u64, i64, i64, i64, i64);

impl KnownDigests {
    /// The SHA-256 of an open file.
    pub(super) fn of(&mut self, file: &File, path: &Path) -> Result<AnswerDigest, String> {
        let failed = |error| format!("read {}: {error}", path.display());
        let state = state(file).map_err(failed)?;
        if let Some(digest) = self.known.get(&state) {
            return Ok(digest.clone());
        }
        let (mut context, mut part, mut file) = (Context::new(&SHA256), vec![0; PART_LEN], file);
        loop {
            match file.read(&mut part).map_err(failed)? {
                0 => break,
                len => context.update(&part[..len]),
            }
        }
        let letters: String = context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        let digest: AnswerDigest = letters.parse()?;
        if self.known.len() >= DIGESTS_MAX {
            self.known.clear();
        }
        self.known.insert(state, digest.clone());
        Ok(digest)
    }

    /// The program that a server or router runs.
    pub(super) fn running(&mut self, member: &UpgradedMember) -> Result<Runs, String> {
        let pid = processes::pid(&member.process).ok_or_else(|| format!("{} does not run", member.name))?;
        let path = PathBuf::from(format!("/proc/{pid}/exe"));
        let file = File::open(&path)
            .map_err(|error| format!("{}: open {}: {error}", member.name, path.display()))?;
        Ok(Runs { pid, digest: self.of(&file, &path)? })
    }
}

fn state(file: &File) -> std::io::Result<FileState> {
    let found = file.metadata()?;
    let (changed, written) = ((found.ctime(), found.ctime_nsec()), (found.mtime(), found.mtime_nsec()));
    Ok((found.dev(), found.ino(), found.len(), changed.0, changed.1, written.0, written.1))
}

/// What makes two hosts different for a program.
pub(super) fn host_facts() -> HostFacts {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    HostFacts {
        kernel: text("/proc/sys/kernel/osrelease"),
        cpus: text("/sys/devices/system/cpu/online"),
        memory_bytes: os::memory::of_host().unwrap_or(0),
        ..HostFacts::default()
    }
}

/// The beginning of a digest.
pub(super) fn shown(digest: &AnswerDigest) -> &str {
    &digest.as_str()[..SHOWN_LEN]
}
