//! Servers that a benchmark starts: built as they are measured, waited for, and gone when it is.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use end_to_end::clock;
use end_to_end::subject::target_directory;
use rustix::process::{Pid, Signal, kill_process};

/// Between two looks at a server that gets ready.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A server that does not listen after this many checks will not.
const LOOKS_MAX: u32 = 500;

/// The measured build is the one that packages ship: the `release` of a checkout is made to be built quickly.
const PROFILE: &str = "dist";

/// Builds ours as packages ship it, and returns its path.
pub(crate) fn build() -> Result<PathBuf> {
    let arguments = ["build", "--profile", PROFILE, "--package", "evenkeel"];
    let status = Command::new(env!("CARGO")).args(arguments).status().context("run cargo")?;
    ensure!(status.success(), "cargo {} failed", arguments.join(" "));
    Ok(built("evenkeel"))
}

/// Where a program is that was built so.
pub(super) fn built(name: &str) -> PathBuf {
    target_directory().join(PROFILE).join(name)
}

/// A running server, ended when dropped; if the thread that started it ends, or this program is killed, the kernel ends it
/// (PR_SET_PDEATHSIG of prctl(2)).
#[derive(Debug)]
pub(crate) struct BenchProcess {
    /// To try it by hand.
    line: String,
    child: Child,
}

impl BenchProcess {
    /// Runs `program`, on `cpu` only if one is given.
    pub(crate) fn start(program: &Path, words: &[&str], cpu: Option<usize>) -> Result<BenchProcess> {
        BenchProcess::start_on(program, words, cpu.map(|cpu| cpu.to_string()).as_deref())
    }

    /// Runs `program`, on a list of CPUs only if one is given: `0,1`.
    pub(super) fn start_on(program: &Path, words: &[&str], cpus: Option<&str>) -> Result<BenchProcess> {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]);
        if let Some(cpus) = cpus {
            command.args(["taskset", "-c", cpus]);
        }
        let silent = command.arg(program).args(words).stdin(Stdio::null()).stdout(Stdio::null());
        let child = silent.stderr(Stdio::null()).spawn().context("start setpriv (of util-linux)")?;
        Ok(BenchProcess { line: format!("{} {}", program.display(), words.join(" ")), child })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends it in an orderly way, and returns when it has ended.
    pub(super) fn end(&mut self) -> Result<()> {
        let process = Pid::from_raw(self.child.id().cast_signed()).context("a process id")?;
        kill_process(process, Signal::TERM)?;
        let status = self.child.wait()?;
        ensure!(status.success(), "a server ended with {status}: {}", self.line);
        Ok(())
    }

    /// Returns once `listens`.
    pub(crate) fn wait_until(&mut self, listens: impl Fn() -> bool) -> Result<()> {
        for _ in 0..LOOKS_MAX {
            if listens() {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("a server ended at its start ({status}): {}", self.line);
            }
            clock::pass(LOOK_EVERY);
        }
        bail!("a server does not accept connections after {:?}: {}", LOOK_EVERY * LOOKS_MAX, self.line)
    }
}

impl Drop for BenchProcess {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
