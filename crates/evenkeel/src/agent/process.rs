//! Processes by their pid files.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use control::{ProcessLook, ProcessReport};

/// Looks at the process that a file names, each time anew: it may be another one after a restart.
pub(super) fn look(pid_file: &Path) -> ProcessLook {
    let pid_file: PathBuf = pid_file.to_owned();
    Arc::new(move || match fs::read_to_string(&pid_file).ok().and_then(|text| running(text.trim())) {
        Some(pid) => ProcessReport::Running { pid },
        None => ProcessReport::Down,
    })
}

/// The number, if a process has it that does not only wait to be buried: proc(5), the state in /proc/PID/stat.
fn running(text: &str) -> Option<u32> {
    let pid: u32 = text.parse().ok().filter(|pid| *pid > 0)?;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may have any characters.
    let state = stat.rsplit_once(") ")?.1.chars().next()?;
    (!matches!(state, 'Z' | 'X')).then_some(pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_runs_until_it_has_ended() {
        let path = std::env::temp_dir().join(format!("evenkeel-look-{}", std::process::id()));
        let look = look(&path);
        assert_eq!(look(), ProcessReport::Down, "there is no file");
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("a process");
        fs::write(&path, format!("{}\n", child.id())).expect("a file");
        assert_eq!(look(), ProcessReport::Running { pid: child.id() });
        child.kill().expect("it is ours");
        // It has ended, and nobody has asked how.
        for _ in 0..10_000 {
            if look() == ProcessReport::Down {
                break;
            }
            std::thread::park_timeout(std::time::Duration::from_millis(1));
        }
        assert_eq!(look(), ProcessReport::Down);
        child.wait().expect("it is ours");
        for text in ["", "0", "-1", "no number", "99999999999999"] {
            fs::write(&path, text).expect("a file");
            assert_eq!(look(), ProcessReport::Down, "{text:?}");
        }
        fs::remove_file(&path).expect("it is there");
    }
}
