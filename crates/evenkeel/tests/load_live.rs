//! `evenkeel load --live`, in a terminal of `script` (util-linux).

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;

const EVENKEEL: &str = env!("CARGO_BIN_EXE_evenkeel");
/// Control sequences: show the alternate screen, and the main screen again.
const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?1049l";
/// Only a failure takes this long.
const PATIENCE_S: &str = "60";

/// A server without items that closes each connection after this many requests.
fn server(requests: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            // A client that disconnects ends the thread.
            thread::spawn(move || {
                let mut lines = BufReader::new(&stream).lines();
                (&mut lines).take(requests).try_for_each(|line| line.and((&stream).write_all(b"END\r\n")))
            });
        }
    });
    address
}

/// A load in a terminal of its own; `None` without `script`.
struct Terminal {
    child: Child,
    output: ChildStdout,
    shown: Vec<u8>,
}

impl Terminal {
    fn start(arguments: &str) -> Option<Terminal> {
        Command::new("script").arg("--version").output().ok()?;
        // A terminal of `script` has no size by itself.
        let line = format!(
            "stty cols 80 rows 24; exec {EVENKEEL} load --connections 2 --warm-up 0 --live {arguments}"
        );
        let mut command = Command::new("timeout");
        command.args(["--foreground", PATIENCE_S, "script", "--quiet", "--return", "--flush"]);
        command.args(["--command", &line, "/dev/null"]);
        let mut child = command
            .env("TERM", "xterm")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("timeout of coreutils");
        let output = child.stdout.take().unwrap();
        Some(Terminal { child, output, shown: Vec::new() })
    }

    fn wait_for(&mut self, text: &str) {
        while !String::from_utf8_lossy(&self.shown).contains(text) {
            let mut bytes = [0; 4096];
            let len = self.output.read(&mut bytes).unwrap();
            assert!(len > 0, "no {text:?} in {}", self.shown());
            self.shown.extend_from_slice(&bytes[..len]);
        }
    }

    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.shown).into_owned()
    }

    /// Its status, and the output after the main screen was restored.
    fn end(mut self) -> (i32, String) {
        self.output.read_to_end(&mut self.shown).unwrap();
        let status = self.child.wait().unwrap().code().unwrap();
        let shown = self.shown();
        let (_, after) = shown.rsplit_once(LEAVE).expect("the first screen is back");
        (status, after.to_owned())
    }
}

#[test]
fn keys_end_the_window_and_the_terminal_is_restored() {
    for key in [&b"q"[..], b"\x03"] {
        let Some(mut terminal) =
            Terminal::start(&format!("--server {} --duration 1h --rate 500", server(usize::MAX)))
        else {
            return;
        };
        terminal.wait_for(ENTER);
        // The first second of the window is over.
        terminal.wait_for("errors");
        terminal.child.stdin.as_mut().unwrap().write_all(key).unwrap();
        let (status, after) = terminal.end();
        assert_eq!(status, 0, "{after}");
        assert!(after.contains("open loop (") && !after.contains("rate-missed"), "{after}");
        assert!(!after.contains("(arrivals)"), "a window that was ended is asked for no more: {after}");
    }
}

#[test]
fn a_key_ends_all_agents() {
    for key in [&b"q"[..], b"\x03"] {
        let arguments = format!(
            "--server {} --duration 1h --rate 500 --agents a,b --agent-command 'exec {EVENKEEL} load --agent'",
            server(usize::MAX)
        );
        let Some(mut terminal) = Terminal::start(&arguments) else { return };
        terminal.wait_for(ENTER);
        // They have reported a second.
        terminal.wait_for("agents");
        terminal.child.stdin.as_mut().unwrap().write_all(key).unwrap();
        let (status, after) = terminal.end();
        assert_eq!(status, 0, "{after}");
        assert!(after.contains("agent     a: ") && after.contains("agent     b: "), "{after}");
        assert!(!after.contains("(arrivals)"), "a window that was ended is asked for no more: {after}");
    }
}

#[test]
fn a_silent_agent_is_shown_during_the_run() {
    let pid_file = std::env::temp_dir().join(format!("evenkeel-live-{}", std::process::id()));
    let arguments = format!(
        "--server {} --duration 1h --rate 500 --agents a,b --agent-command \
         '[ {{host}} = a ] || echo $$ >{}; exec {EVENKEEL} load --agent'",
        server(usize::MAX),
        pid_file.display()
    );
    let Some(mut terminal) = Terminal::start(&arguments) else { return };
    terminal.wait_for("agents");
    let pid = std::fs::read_to_string(&pid_file).unwrap();
    let signal = |signal: &str| {
        assert!(Command::new("kill").args([signal, pid.trim()]).status().unwrap().success());
    };
    signal("-STOP");
    terminal.wait_for("silent");
    signal("-CONT");
    terminal.child.stdin.as_mut().unwrap().write_all(b"q").unwrap();
    let (status, after) = terminal.end();
    assert_eq!(status, 0, "{after}");
    assert!(after.contains("agent     b: "), "{after}");
    std::fs::remove_file(&pid_file).unwrap();
}

#[test]
fn an_error_is_printed_on_the_main_screen() {
    let Some(terminal) =
        Terminal::start(&format!("--server {} --duration 1h --rate 500 --fail-fast", server(300)))
    else {
        return;
    };
    let (status, after) = terminal.end();
    assert_ne!(status, 0, "{after}");
    assert!(after.contains("keep connection"), "{after}");
}

#[test]
fn without_a_terminal_it_is_refused() {
    let output = Command::new(EVENKEEL).args(["load", "--live"]).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    assert!(error.contains("--live needs a terminal on standard error"), "{error}");
}
