//! `evenkeel top` and `evenkeel tune top` in a terminal of `script` (util-linux).

use std::io::{Read, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

const EVENKEEL: &str = env!("CARGO_BIN_EXE_evenkeel");
/// Control sequences: show the alternate screen, and the main screen again.
const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?1049l";
/// Only a failure takes this long.
const PATIENCE_S: &str = "60";

/// A program in a terminal of its own.
struct Terminal {
    child: Child,
    output: ChildStdout,
    shown: Vec<u8>,
}

impl Terminal {
    /// After it, the terminal's settings and the status are printed. `None` without `script`.
    fn start(name: &str, columns: u32, rows: u32, arguments: &str) -> Option<Terminal> {
        Command::new("script").arg("--version").output().ok()?;
        let line = format!(
            "stty cols {columns} rows {rows}; sh -c 'echo $$ >{}; exec {EVENKEEL} {arguments}'; status=$?; stty -a; echo status $status.",
            pid_file(name)
        );
        let mut command = Command::new("timeout");
        command.args(["--foreground", PATIENCE_S, "script", "--quiet", "--return", "--flush"]);
        command.args(["--command", &line, "/dev/null"]).env("TERM", "xterm").env_remove("NO_COLOR");
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("timeout of coreutils");
        let output = child.stdout.take().expect("a pipe");
        Some(Terminal { child, output, shown: Vec::new() })
    }

    fn wait_for(&mut self, text: &str) {
        while !String::from_utf8_lossy(&self.shown).contains(text) {
            let mut bytes = [0; 4096];
            let len = self.output.read(&mut bytes).expect("output");
            assert!(len > 0, "no {text:?} in {}", String::from_utf8_lossy(&self.shown));
            self.shown.extend_from_slice(&bytes[..len]);
        }
    }

    fn press(&mut self, key: &[u8]) {
        self.child.stdin.as_mut().expect("a pipe").write_all(key).expect("a key");
    }

    /// What was printed after the main screen was restored.
    fn end(mut self) -> String {
        self.output.read_to_end(&mut self.shown).expect("output");
        self.child.wait().expect("a child");
        let shown = String::from_utf8_lossy(&self.shown).into_owned();
        shown.rsplit_once(LEAVE).expect("the first screen is back").1.to_owned()
    }
}

fn pid_file(name: &str) -> String {
    std::env::temp_dir().join(format!("evenkeel-top-{name}-{}", std::process::id())).display().to_string()
}

#[track_caller]
fn check_restored(after: &str, status: i32) {
    assert!(after.contains(&format!("status {status}.")), "{after}");
    for setting in ["icanon", "echo", "isig"] {
        assert!(after.split_whitespace().any(|word| word == setting), "{setting}: {after}");
    }
}

#[test]
fn keys_end_it_and_the_terminal_is_restored() {
    // Port 1 of the loopback: nothing listens there.
    for (arguments, text) in [("top 127.0.0.1:1", "unreachable"), ("tune top", "softirq")] {
        for key in [&b"q"[..], b"\x03"] {
            let Some(mut terminal) = Terminal::start("keys", 80, 24, arguments) else { return };
            terminal.wait_for(ENTER);
            terminal.wait_for(text);
            terminal.press(key);
            check_restored(&terminal.end(), 0);
        }
    }
}

#[test]
fn a_signal_ends_it_and_the_terminal_is_restored() {
    for (signal, status) in [("-TERM", 143), ("-INT", 130), ("-HUP", 129)] {
        let Some(mut terminal) = Terminal::start("signal", 80, 24, "top 127.0.0.1:1") else { return };
        terminal.wait_for("unreachable");
        let pid = std::fs::read_to_string(pid_file("signal")).expect("its number");
        assert!(Command::new("kill").args([signal, pid.trim()]).status().expect("kill").success());
        check_restored(&terminal.end(), status);
    }
}

#[test]
fn a_terminal_of_one_character_is_large_enough() {
    let Some(mut terminal) = Terminal::start("small", 1, 1, "top 127.0.0.1:1 127.0.0.1:2") else { return };
    terminal.wait_for(ENTER);
    // The first letter of the title.
    terminal.wait_for("e");
    terminal.press(b"q");
    check_restored(&terminal.end(), 0);
}
