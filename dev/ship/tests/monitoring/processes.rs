//! Processes of a test, which end with it, and clocks and waits: the only module of these tests that uses them.

use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::left_out;

/// How long a process may take to do what is waited for: long, so that a test does not fail on a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// The pause between two looks.
const GLANCE: Duration = Duration::from_millis(100);

/// A process that is ended when this goes.
#[derive(Debug)]
pub(super) struct Running {
    child: Child,
    said: PathBuf,
}

impl Running {
    /// Starts a process; what it says goes to a file.
    pub(super) fn start(command: &mut Command, folder: &Path, name: &str) -> Running {
        let said = folder.join(format!("{name}.log"));
        let file = File::create(&said).expect("a file for what it says");
        let copy = file.try_clone().expect("the file once more");
        let child = command.stdin(Stdio::null()).stdout(file).stderr(copy).spawn();
        Running { child: child.unwrap_or_else(|error| panic!("start {name}: {error}")), said }
    }

    /// What it has said so far.
    pub(super) fn said(&self) -> String {
        std::fs::read_to_string(&self.said).unwrap_or_default()
    }

    /// Whether it has ended.
    pub(super) fn has_ended(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_some())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Addresses of this host with ports that were free a moment ago.
pub(super) fn free_addresses<const COUNT: usize>() -> [SocketAddr; COUNT] {
    // All of them are held at a time, so that no two are one.
    let listeners: [TcpListener; COUNT] =
        std::array::from_fn(|_| TcpListener::bind("127.0.0.1:0").expect("a free port"));
    listeners.map(|listener| listener.local_addr().expect("its address"))
}

/// The binary under test: `EVENKEEL_BIN`, or what cargo has built; nothing, with a line, if it is not there.
pub(super) fn evenkeel() -> Option<PathBuf> {
    let built = || checkout::target_directory().join("debug/evenkeel");
    let path = std::env::var_os("EVENKEEL_BIN").map_or_else(built, PathBuf::from);
    if !path.is_file() {
        left_out(&format!("there is no {} (cargo build, or EVENKEEL_BIN=PATH)", path.display()));
        return None;
    }
    Some(path)
}

/// A new folder for the files of a test.
pub(super) fn new_folder(name: &str) -> PathBuf {
    let folder = checkout::target_directory().join("monitoring").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    folder
}

/// Repeats a look until it finds something; nothing if [`PATIENCE`] is over.
#[expect(clippy::disallowed_methods, reason = "processes that run use real time")]
pub(super) fn wait_for<T>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if begun.elapsed() > PATIENCE {
            return None;
        }
        std::thread::sleep(GLANCE);
    }
}
