//! Files and groups of a benchmark, removed when it is over, interrupted or killed.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

/// A shell script that runs with the end of this value, or of this program, however that ends: the kernel closes the pipe that
/// the script waits for.
pub(super) struct Cleanup(Child);

impl Cleanup {
    /// With `$1` and so on for the script.
    pub(super) fn new(script: &str, words: &[&str]) -> Result<Cleanup> {
        let script = format!("cat > /dev/null; {script}");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script, "sh"]).args(words);
        // Outside of the group of processes that Ctrl-C ends.
        shell.process_group(0);
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Cleanup(shell.spawn().context("start sh")?))
    }
}

impl Drop for Cleanup {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // If it fails, what is left is in nobody's way.
        let _ = self.0.wait();
    }
}

/// A path for a file, which is removed with this value.
pub(super) struct ScratchFile {
    path: PathBuf,
    _cleanup: Cleanup,
}

impl ScratchFile {
    pub(super) fn new(folder: &Path, name: &str) -> Result<ScratchFile> {
        let path = folder.join(format!("flash-bench-{}-{name}", std::process::id()));
        let word = path.to_str().context("a folder whose name is UTF-8")?;
        let cleanup = Cleanup::new("rm -f -- \"$1\"", &[word])?;
        Ok(ScratchFile { path, _cleanup: cleanup })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_removed_with_their_value() {
        let file = ScratchFile::new(&std::env::temp_dir(), "removed with it").expect("a shell");
        let path = file.path().to_path_buf();
        std::fs::write(&path, "text").expect("a folder for temporary files");
        drop(file);
        assert!(!path.exists());
    }

    #[test]
    fn the_script_waits_for_the_end_and_outlives_signals_to_the_group() {
        let file = std::env::temp_dir().join(format!("flash-bench-{}-script", std::process::id()));
        let cleanup = Cleanup::new("echo \"$2\" > \"$1\"", &[file.to_str().expect("UTF-8"), "done"]);
        let cleanup = cleanup.expect("a shell");
        let group = std::fs::read_to_string(format!("/proc/{}/stat", cleanup.0.id())).expect("a process");
        // Its process group, the third field after the name, is its own.
        let after_name = group.rsplit(") ").next().expect("fields");
        assert_eq!(after_name.split(' ').nth(2), Some(cleanup.0.id().to_string().as_str()));
        assert!(!file.exists());
        drop(cleanup);
        assert_eq!(std::fs::read_to_string(&file).expect("written at the end"), "done\n");
        std::fs::remove_file(file).expect("a file");
    }
}
