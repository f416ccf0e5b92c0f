//! `evenkeel serve` on hosts that refuse what it requests.

#![expect(clippy::disallowed_methods, reason = "a process is waited for in real time")]

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Long, so that a test does not fail on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server with a socket in a directory of its own, ended with this value.
struct Server {
    child: Child,
    directory: PathBuf,
    client: BufReader<UnixStream>,
}

impl Server {
    /// Starts one, with standard error going to `said`.
    fn start(name: &str, arguments: &[&str], said: impl Into<Stdio>) -> Server {
        Server::start_by(Command::new(env!("CARGO_BIN_EXE_evenkeel")), name, arguments, said)
    }

    /// The same, by a command that runs the program with the arguments that follow.
    fn start_by(command: Command, name: &str, arguments: &[&str], said: impl Into<Stdio>) -> Server {
        Server::try_start_by(command, name, arguments, said).expect("the server has ended")
    }

    /// The same, for a server that may end instead.
    fn try_start_by(
        mut command: Command,
        name: &str,
        arguments: &[&str],
        said: impl Into<Stdio>,
    ) -> Result<Server, ExitStatus> {
        let directory = std::env::temp_dir().join(format!("evenkeel-serve-{}-{name}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        command.args(["serve", "-s", "socket"]).args(arguments).current_dir(&directory);
        if rustix::process::getuid().is_root() {
            command.args(["-u", "root"]);
        }
        let mut child = command.stdout(Stdio::null()).stderr(said).spawn().unwrap();
        let deadline = Instant::now() + PATIENCE;
        let stream = loop {
            match UnixStream::connect(directory.join("socket")) {
                Ok(stream) => break stream,
                Err(error) => assert!(
                    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused)
                        && Instant::now() < deadline,
                    "{error}"
                ),
            }
            if let Some(status) = child.try_wait().unwrap() {
                return Err(status);
            }
        };
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Ok(Server { child, directory, client: BufReader::new(stream) })
    }

    /// Sends, and reads one line.
    fn ask(&mut self, request: &[u8]) -> String {
        self.try_ask(request).unwrap()
    }

    /// The same, for a server that may have ended.
    fn try_ask(&mut self, request: &[u8]) -> io::Result<String> {
        self.client.get_mut().write_all(request)?;
        let mut line = String::new();
        match self.client.read_line(&mut line)? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            _ => Ok(line),
        }
    }

    fn set(&mut self, key: &str, len: usize) -> String {
        let head = format!("set {key} 0 0 {len}\r\n");
        self.ask(&[head.as_bytes(), &vec![b'v'; len], b"\r\n"].concat())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

#[test]
fn locked_memory_can_be_given_back() {
    let mut server = Server::start("locked", &["-k", "-m", "16"], Stdio::inherit());
    for len in [500_000, 400_000, 500_000, 0] {
        assert_eq!(server.set("large", len), "STORED\r\n");
    }
    // Whole segments are freed, too.
    for number in 0..20_000 {
        assert_eq!(server.set(&format!("k{number}"), 2000), "STORED\r\n");
    }
    assert_eq!(server.ask(b"cache_memlimit 8\r\n"), "OK\r\n");
    for number in 0..20_000 {
        assert_eq!(server.set(&format!("k{number}"), 2000), "STORED\r\n");
    }
}

#[test]
fn a_log_that_cannot_be_written_does_not_end_the_server() {
    let full: File = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut server = Server::start("full", &["-v"], full);
    assert_eq!(server.set("k", 1), "STORED\r\n");
    let pid = rustix::process::Pid::from_child(&server.child);
    // With -v it reports that there is nothing to reload.
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let status = server.child.wait().unwrap();
    assert!(status.success(), "{status}");
}

#[test]
fn a_small_address_space_is_enough_for_values_of_every_size() {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -v 1500000 && exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_evenkeel")]);
    let arguments = ["-m", "64", "-I", "32m", "-t", "2"];
    let mut server = Server::start_by(command, "addresses", &arguments, Stdio::inherit());
    for len in [40_000, 150_000, 280_000, 600_000, 1_200_000, 5_000_000, 17_000_000, 40_000] {
        for number in 0..2 * (64 << 20) / len {
            assert_eq!(server.set(&format!("k{len}.{number}"), len), "STORED\r\n", "{len} bytes, {number}");
        }
    }
}

/// Either there is room for all that clients do, or the server reports at the start that there is none.
#[test]
fn in_a_small_address_space_it_does_not_start_or_keeps_serving() {
    for mib in [240, 256, 264, 272, 300, 340, 390, 460, 520] {
        let mut command = Command::new("sh");
        let script = format!("ulimit -c 0; ulimit -v {} && exec \"$0\" \"$@\"", mib * 1024);
        command.args(["-c", &script, env!("CARGO_BIN_EXE_evenkeel")]);
        match Server::try_start_by(command, "few", &["-m", "64", "-t", "4"], Stdio::null()) {
            Err(status) => assert_eq!(status.code(), Some(71), "{mib} MiB"),
            Ok(mut server) => {
                // The socket accepts connections before the start is complete, which may still fail.
                if server.try_ask(b"version\r\n").is_err() {
                    assert_eq!(server.child.wait().unwrap().code(), Some(71), "{mib} MiB");
                    continue;
                }
                for number in 0..2000 {
                    assert_eq!(server.set(&format!("k{number}"), 40_000), "STORED\r\n", "{mib} MiB");
                }
            }
        }
    }
}

#[test]
fn a_log_at_the_limit_on_file_sizes_does_not_end_the_server() {
    let log = std::env::temp_dir().join(format!("evenkeel-serve-{}-log", std::process::id()));
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -f 0; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_evenkeel")]);
    let mut server = Server::start_by(limited, "limit", &["-v"], File::create(&log).unwrap());
    assert_eq!(server.set("k", 1), "STORED\r\n");
    assert_eq!(fs::metadata(&log).unwrap().len(), 0, "the line that it serves could not be written");
    fs::remove_file(log).unwrap();
}

#[test]
fn a_file_of_users_that_never_ends_is_refused() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_evenkeel")).args(["serve", "-Y", "/dev/zero"]).output().unwrap();
    assert_eq!(output.status.code(), Some(64));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("expected at most 65536 bytes"), "{said}");
}
