//! Executables by their SHA-256, as `sha256sum` prints it: whether what runs is what ran before.

use crate::tree;
use ring::digest::{Context, SHA256};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The executable of a process, or of the first that it has started if it is a shell: a command line has one around it
/// unless it says `exec`. None: there is nothing but shells, or they have ended.
pub(crate) fn of_process(pid: u32) -> Option<String> {
    let shell = fs::canonicalize("/bin/sh").ok();
    let executable = |pid: u32| PathBuf::from(format!("/proc/{pid}/exe"));
    let is_program = |pid: &u32| fs::read_link(executable(*pid)).is_ok_and(|path| Some(path) != shell);
    let program = tree::processes(pid).into_iter().find(is_program)?;
    // The link itself is opened: a file that was replaced meanwhile is not the one that runs.
    digest(&executable(program)).ok()
}

/// The one that runs this.
pub(crate) fn own() -> Option<String> {
    digest(Path::new("/proc/self/exe")).ok()
}

fn digest(path: &Path) -> io::Result<String> {
    let (mut file, mut context) = (File::open(path)?, Context::new(&SHA256));
    let mut buffer = vec![0; PIECE_BYTES];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            count => context.update(&buffer[..count]),
        }
    }
    Ok(hex(context.finish().as_ref()))
}

/// Read at once: large enough to be quick, small enough for any machine.
const PIECE_BYTES: usize = 256 * 1024;

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};

    fn started(program: &str, words: &[&str]) -> Child {
        Command::new(program).args(words).stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect(program)
    }

    fn seen(mut child: Child, what: impl Fn(u32) -> bool) {
        while !what(child.id()) {
            std::thread::yield_now();
        }
        child.kill().expect("it lives");
        child.wait().expect("it is ours");
    }

    #[test]
    fn a_program_is_known_behind_a_shell_and_without_one() {
        let path =
            ["/usr/bin/sleep", "/bin/sleep"].iter().find(|path| Path::new(path).exists()).expect("sleep");
        let sleep = digest(Path::new(path)).expect("it can be read");
        let printed = Command::new("sha256sum").arg(path).output().expect("sha256sum").stdout;
        assert!(String::from_utf8_lossy(&printed).starts_with(&sleep), "{sleep}");
        let is_sleep = |pid| of_process(pid).as_ref() == Some(&sleep);
        seen(started(path, &["1000"]), is_sleep);
        seen(started("sh", &["-c", "exec sleep 1000"]), is_sleep);
        assert_eq!(own().map(|it| it.len()), Some(64));
        assert_ne!(own().as_ref(), Some(&sleep));
    }

    #[test]
    fn a_shell_alone_is_no_program() {
        let child = Command::new("sh").args(["-c", "read line"]).stdin(Stdio::piped()).spawn().expect("sh");
        let shell = || fs::read_link(format!("/proc/{}/exe", child.id())).ok();
        while shell() != fs::canonicalize("/bin/sh").ok() {
            std::thread::yield_now();
        }
        assert_eq!(of_process(child.id()), None);
        seen(child, |_| true);
    }
}
