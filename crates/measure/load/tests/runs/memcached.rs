//! Whole runs against memcached, where it is installed.

use crate::support::run;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// memcached on a unix socket of its own, ended when dropped.
pub(crate) struct Memcached {
    pub(crate) child: Child,
    pub(crate) socket: PathBuf,
}

/// A program that starts on a busy machine, from a cold disk, takes its time: only a failure takes longer.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks at a program that does not say when it is ready.
const GLANCE: Duration = Duration::from_millis(5);

impl Memcached {
    /// `None` where it is not installed.
    #[expect(clippy::disallowed_methods, reason = "another program lives in real time")]
    pub(crate) fn start(name: &str) -> Option<Memcached> {
        let socket = std::env::temp_dir().join(format!("evenkeel-load-{name}-{}", std::process::id()));
        let mut command = Command::new("/usr/bin/memcached");
        command
            .args(["-u", "root", "-t", "1", "-m", "64", "-c", "4096", "-s"])
            .arg(&socket)
            .stderr(Stdio::null());
        let child = command.spawn().ok()?;
        let mut memcached = Memcached { child, socket };
        let started = Instant::now();
        while started.elapsed() < PATIENCE {
            if memcached.version().is_ok() {
                return Some(memcached);
            }
            let ended = memcached.child.try_wait().expect("a child");
            assert!(ended.is_none(), "memcached has ended: {ended:?}");
            std::thread::sleep(GLANCE);
        }
        panic!("memcached does not listen on {}", memcached.socket.display());
    }

    fn version(&self) -> std::io::Result<String> {
        self.ask("version")
    }

    /// The first line that it answers.
    fn ask(&self, request: &str) -> std::io::Result<String> {
        let mut stream = UnixStream::connect(&self.socket)?;
        stream.write_all(format!("{request}\r\n").as_bytes())?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line)?;
        Ok(line)
    }

    fn check(&self, line: &str) {
        let line = format!(
            "--socket {} --server-pid {} --warm-up 20ms --keys 2000 --prefill --verify {line}",
            self.socket.display(),
            self.child.id()
        );
        let summary = run(&line).expect(&line);
        assert!(summary.is_clean() && summary.requests >= 5000, "{line}\n{summary}");
        assert_eq!((summary.misses, summary.hits), (0, summary.keys_asked), "{line}\n{summary}");
        assert!(summary.server.is_some_and(|cost| cost.cpu_seconds > 0.0), "{line}\n{summary}");
        assert!(summary.client.cpu_seconds > 0.0 && summary.latency.p50_us > 0.0, "{line}\n{summary}");
    }
}

/// memcached on ports of loopback that it chose, ended when dropped.
pub(crate) struct Listening {
    child: Child,
    /// Where it writes which ports those are.
    file: PathBuf,
    /// `127.0.0.1:PORT`, the first for TCP, the second for datagrams.
    pub(crate) addresses: [String; 2],
}

impl Listening {
    /// `None` where it is not installed.
    #[expect(clippy::disallowed_methods, reason = "another program lives in real time")]
    pub(crate) fn start(name: &str, options: &[&str]) -> Option<Listening> {
        let file = std::env::temp_dir().join(format!("evenkeel-load-{name}-{}", std::process::id()));
        let mut command = Command::new("/usr/bin/memcached");
        command.args(["-u", "root", "-t", "1", "-m", "64", "-c", "4096", "-l", "127.0.0.1"]);
        command.args(["-p", "-1", "-U", "-1"]).args(options);
        let child = command.env("MEMCACHED_PORT_FILENAME", &file).stderr(Stdio::null()).spawn().ok()?;
        let mut listening = Listening { child, file, addresses: [const { String::new() }; 2] };
        let started = Instant::now();
        // It appears under this name when it is complete.
        while started.elapsed() < PATIENCE && !listening.file.exists() {
            let ended = listening.child.try_wait().expect("a child");
            assert!(ended.is_none(), "memcached has ended: {ended:?}");
            std::thread::sleep(GLANCE);
        }
        let text = std::fs::read_to_string(&listening.file).expect("the ports");
        listening.addresses = ["TCP INET: ", "UDP INET: "].map(|kind| {
            let port = text.lines().find_map(|line| line.strip_prefix(kind)).expect(&text);
            format!("127.0.0.1:{port}")
        });
        Some(listening)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.file);
    }
}

impl Drop for Memcached {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.socket);
    }
}

#[test]
fn memcached_keeps_what_is_stored() {
    let Some(memcached) = Memcached::start("mixes") else { return };
    for engine in ["auto", "epoll"] {
        for line in [
            "",
            "--depth 16 --gets 0.9 --popularity zipf",
            "--depth 64 --multiget 20 --connections 8",
            "--protocol meta --gets 0.8",
            "--connections 2000 --threads 2",
            "--protocol meta --multiget 50 --depth 4",
            "--protocol binary --gets 0.8 --depth 8",
            "--protocol binary --multiget 50 --depth 4",
            "--protocol binary --gets 0.5 --key-size 10-250 --value-size 0-2000",
            "--threads 2 --key-size 10-250 --value-size 0-2000 --gets 0.5",
            "--workload etc",
            "--workload twitter:c29 --popularity hot:0.5,100",
        ] {
            // As many as keep a server busy for several of the ticks by which its CPU time is counted.
            memcached.check(&format!("--engine {engine} --requests 5000 {line}"));
        }
    }
}

#[test]
fn memcached_understands_every_command() {
    let Some(memcached) = Memcached::start("commands") else { return };
    for protocol in ["text", "meta", "binary"] {
        let line = format!(
            "--socket {} --protocol {protocol} --keys 200 --prefill --verify --requests 20000 --warm-up 0 --depth 8 --mix \
             get=4,gets=1,set=1,add=1,replace=1,delete=1,incr=1,decr=1,touch=1",
            memcached.socket.display()
        );
        let summary = run(&line).expect(&line);
        assert!(summary.is_clean(), "{line}\n{summary}");
        assert_eq!(summary.commands.iter().map(|count| count.requests).sum::<u64>(), summary.requests);
        assert_eq!(summary.hits + summary.misses, summary.keys_asked, "{summary}");
        let names: Vec<&str> = summary.commands.iter().map(|count| count.command.as_str()).collect();
        assert_eq!(names, ["get", "gets", "set", "add", "replace", "delete", "incr", "decr", "touch"]);
        for count in &summary.commands {
            let sometimes = (1..count.requests).contains(&count.declined);
            match count.command.as_str() {
                // Half of the items are there, as deletes are as frequent as adds and sets.
                "add" | "replace" | "delete" | "touch" => assert!(sometimes, "{count:?}"),
                _ => assert_eq!(count.declined, 0, "{count:?}"),
            }
        }
    }
}

#[test]
fn memcached_sees_the_time_to_live() {
    let Some(memcached) = Memcached::start("ttl") else { return };
    // memcached counts seconds of its own from 1970.
    for (ttl, protocol, least, most) in [
        ("500", "text", 400, 500),
        ("500", "meta", 400, 500),
        ("500", "binary", 400, 500),
        ("31d", "text", 2_678_000, 2_678_402),
    ] {
        let line = format!(
            "--socket {} --keys 1 --prefill --ttl {ttl} --protocol {protocol} --requests 1 --warm-up 0",
            memcached.socket.display()
        );
        run(&line).expect(&line);
        let answer = memcached.ask("mg key:0000000000 t").expect("an answer");
        let left: u64 = answer.trim_end().strip_prefix("HD t").and_then(|t| t.parse().ok()).expect(&answer);
        assert!((least..=most).contains(&left), "{line}: {answer}");
    }
}

#[test]
fn a_trace_is_replayed() {
    let Some(memcached) = Memcached::start("trace") else { return };
    let file = std::env::temp_dir().join(format!("evenkeel-load-{}.trace", std::process::id()));
    // Every key is stored in the first second; all of that is done when the next one begins.
    let mut trace = String::new();
    for (second, operation) in
        [(7, "set"), (8, "get"), (8, "gets"), (9, "incr"), (9, "touch"), (10, "delete"), (11, "get")]
    {
        for key in 0..200 {
            let len = if operation == "set" { 4 + key % 2 * 100 } else { 0 };
            let key = if operation == "incr" { key / 2 * 2 } else { key };
            trace += &format!("{second},k{key:03},8,{len},{key},{operation},600\n");
        }
    }
    std::fs::write(&file, &trace).expect("a file");
    // One connection to a thread: requests of a key never overtake each other, however late they are.
    for line in [
        "--threads 2 --connections 2",
        "--protocol meta --connections 1",
        "--protocol binary --connections 1",
        "--engine epoll --connections 1 --depth 4",
    ] {
        let line = format!(
            "--socket {} --trace {} --speed 4 --warm-up 0 {line}",
            memcached.socket.display(),
            file.display()
        );
        let summary = run(&line).expect(&line);
        assert!(summary.is_clean() && summary.r#loop == "open", "{line}\n{summary}");
        assert_eq!((summary.requests, summary.hits, summary.misses), (1400, 400, 200), "{line}\n{summary}");
        assert!(summary.commands.iter().all(|count| count.declined == 0), "{line}\n{summary}");
        // The last request is intended 1.25 s after the first; on a busy machine the window may open late.
        assert!(summary.seconds > 0.3, "{line}\n{summary}");
        assert!(summary.to_string().contains("at speed 4"), "{summary}");
    }
    // A broken line ends the run that replays the lines before it.
    std::fs::write(&file, format!("{trace}12,k,1,0,7,got,0\n")).expect("a file");
    let line = format!("--socket {} --trace {} --speed 100", memcached.socket.display(), file.display());
    let error = run(&line).expect_err(&line);
    assert!(error.contains(", line 1401: expected an operation: get, "), "{error}");
    std::fs::remove_file(&file).expect("the file");
    assert!(run(&line).expect_err(&line).starts_with("read /"));
}

#[test]
fn memcached_refuses_what_is_too_large() {
    let Some(memcached) = Memcached::start("large") else { return };
    for (protocol, error) in [("text", "SERVER_ERROR object too large for cache"), ("binary", "Too large.")] {
        let line = format!(
            "--socket {} --protocol {protocol} --keys 10 --gets 0 --value-size 2m --connections 2 --requests 10 --warm-up 0",
            memcached.socket.display()
        );
        let summary = run(&line).expect(&line);
        assert_eq!(summary.errors, summary.sets, "{summary}");
        assert_eq!(summary.error_lines[0].line, error);
    }
}
