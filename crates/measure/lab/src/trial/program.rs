//! Executables by their SHA-256, as `sha256sum` prints it, to detect a change of the program.

use os::processes;
use ring::digest::{Context, SHA256};
use rustix::fs::{Access, access};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

/// The beginning of a SHA-256: enough to find it in the output of `sha256sum`. One in a file can be shorter.
pub(crate) fn shown(digest: &str) -> String {
    digest.chars().take(DIGITS_SHOWN).collect()
}

const DIGITS_SHOWN: usize = 12;

/// An executable that runs, opened: it can be read although its process has ended, or its file was replaced.
#[derive(Debug)]
pub(crate) struct Program(File);

/// Reasons why the executable of a process is not known.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unknown {
    /// There is only a shell.
    #[error("only a shell runs")]
    Shell,
    /// The processes have ended.
    #[error("all of its processes have ended")]
    Ended,
    /// It is another user's, or one that the kernel protects.
    #[error("read {path}: {source}")]
    Unread {
        /// The path in /proc.
        path: String,
        /// The cause.
        source: io::Error,
    },
}

/// The executable of a process, or of the first that it has started if it is a shell: a command line has one around it
/// unless it says `exec`.
pub(crate) fn of_process(pid: u32) -> Result<Program, Unknown> {
    let shell = fs::canonicalize("/bin/sh").ok();
    let mut unknown = Unknown::Ended;
    for pid in processes::with_descendants(pid) {
        // The link itself is opened: a file that was replaced meanwhile is not the one that runs.
        let path = format!("/proc/{pid}/exe");
        let is_shell = fs::read_link(&path).map(|executable| Some(executable) == shell);
        match is_shell.and_then(|is_shell| if is_shell { Ok(None) } else { File::open(&path).map(Some) }) {
            Ok(Some(file)) => return Ok(Program(file)),
            Err(source) if !is_gone(&source) => unknown = Unknown::Unread { path, source },
            Ok(None) if matches!(unknown, Unknown::Ended) => unknown = Unknown::Shell,
            Ok(None) | Err(_) => {}
        }
    }
    Err(unknown)
}

/// The kernel's errors for an ended process.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(Errno::SRCH.raw_os_error())
}

/// Whether a command line finds a program: a path, or a name in PATH.
pub(crate) fn is_found(program: &str) -> bool {
    let can_start = |path: &Path| path.is_file() && access(path, Access::EXEC_OK).is_ok();
    if program.contains('/') {
        return can_start(Path::new(program));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| can_start(&directory.join(program)))
}

/// The one that runs this.
pub(crate) fn own() -> Option<String> {
    digest(File::open("/proc/self/exe").ok()?).ok()
}

impl Program {
    /// The result of a later check, or else this one: a shell that was seen first may have been about to start it.
    pub(crate) fn latest(
        first: Result<Program, Unknown>,
        last: Result<Program, Unknown>,
    ) -> Result<Program, Unknown> {
        match (first, last) {
            (_, Ok(program)) | (Ok(program), Err(_)) => Ok(program),
            (Err(why), Err(Unknown::Ended)) | (Err(_), Err(why)) => Err(why),
        }
    }

    /// Reads all of it.
    pub(crate) fn digest(self) -> Result<String, Unknown> {
        digest(self.0).map_err(|source| Unknown::Unread { path: "the executable".to_owned(), source })
    }
}

fn digest(mut file: File) -> io::Result<String> {
    let mut context = Context::new(&SHA256);
    let mut buffer = vec![0; PIECE_BYTES];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => context.update(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
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
        let sleep = digest(File::open(path).expect("it is there")).expect("it can be read");
        let printed = Command::new("sha256sum").arg(path).output().expect("sha256sum").stdout;
        assert!(String::from_utf8_lossy(&printed).starts_with(&sleep), "{sleep}");
        let is_sleep = |pid| of_process(pid).and_then(Program::digest).is_ok_and(|digest| digest == sleep);
        seen(started(path, &["1000"]), is_sleep);
        seen(started("sh", &["-c", "exec sleep 1000"]), is_sleep);
        assert_eq!(own().map(|it| it.len()), Some(64));
        assert_ne!(own().as_ref(), Some(&sleep));
    }

    #[test]
    fn a_program_is_found_by_its_name_or_its_path() {
        for (program, expected) in
            [("sh", true), ("/bin/sh", true), ("no-such-program", false), ("/proc/stat", false), ("/", false)]
        {
            assert_eq!(is_found(program), expected, "{program}");
        }
    }

    #[test]
    fn of_a_digest_the_beginning_is_shown_and_of_a_record_what_it_has() {
        assert_eq!(shown(&"0123456789abcdef".repeat(4)), "0123456789ab");
        assert_eq!((shown("abc").as_str(), shown("").as_str(), shown("äöü").as_str()), ("abc", "", "äöü"));
    }

    #[test]
    fn a_shell_alone_is_no_program() {
        let child = Command::new("sh").args(["-c", "read line"]).stdin(Stdio::piped()).spawn().expect("sh");
        let shell = || fs::read_link(format!("/proc/{}/exe", child.id())).ok();
        while shell() != fs::canonicalize("/bin/sh").ok() {
            std::thread::yield_now();
        }
        let pid = child.id();
        assert!(matches!(of_process(pid), Err(Unknown::Shell)));
        seen(child, |_| true);
        assert!(matches!(of_process(pid), Err(Unknown::Ended)));
    }

    #[test]
    fn the_last_look_goes_first_and_an_earlier_one_knows_who_has_died() {
        let program = || Ok(Program(File::open("/proc/self/exe").expect("it runs")));
        let known = |first, last| Program::latest(first, last).is_ok();
        assert!(known(Err(Unknown::Shell), program()), "the shell was about to start it");
        assert!(known(program(), Err(Unknown::Ended)) && known(program(), program()));
        let why = |first, last| Program::latest(first, last).expect_err("it is not known").to_string();
        assert_eq!(why(Err(Unknown::Shell), Err(Unknown::Ended)), "only a shell runs");
        assert_eq!(why(Err(Unknown::Ended), Err(Unknown::Shell)), "only a shell runs");
    }
}
