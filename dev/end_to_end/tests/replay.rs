//! `evenkeel replay`: deletes of an async log that reach servers which were away, whatever happens meanwhile.

use end_to_end::clock::{self, PATIENCE};
use end_to_end::process;
use end_to_end::server::{Server, reserve_port};
use end_to_end::subject::{self, ServerUnderTest, SocketDriver};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use stdx::prng::Prng;

const HOUR: &str = "20260101T00-1767225600";

/// An async log, removed with this value.
struct Log(PathBuf);

impl Log {
    fn new() -> Log {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder =
            std::env::temp_dir().join(format!("evenkeel-test-replay-{}-{number}", std::process::id()));
        fs::create_dir_all(folder.join(HOUR)).expect("make folders");
        Log(folder)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("text")
    }

    /// The path of the file with this number; a lower one is older.
    fn file(&self, number: u32) -> PathBuf {
        self.0.join(HOUR).join(format!("20260101T000000-{}-mcrouter-5000-p77", 1_767_225_600 + number))
    }

    fn write(&self, number: u32, lines: &[u8]) -> PathBuf {
        let path = self.file(number);
        fs::write(&path, lines).expect("write");
        path
    }

    fn replayer(&self, flags: &[&str]) -> Command {
        let mut command = subject::replayer();
        command.args(["--async-dir", self.path()]).args(flags).stdin(Stdio::null());
        command
    }

    fn replay(&self, flags: &[&str]) -> Output {
        self.replayer(flags).output().expect("run")
    }

    fn start(&self, flags: &[&str]) -> Running {
        let mut command = self.replayer(flags);
        Running(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("start"))
    }

    /// Names in the folder of the hour.
    fn names(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.0.join(HOUR)) else { return Vec::new() };
        let mut names: Vec<_> =
            entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text")).collect();
        names.sort();
        names
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // If it fails, the files do no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A running replayer, ended with this value.
struct Running(Child);

impl Running {
    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.0.id() as i32).expect("an id"), signal).expect("send a signal");
    }

    /// Waits for its end; its status and what it said.
    fn end(&mut self) -> (Option<i32>, String) {
        let status = clock::wait_for(|| self.0.try_wait().expect("a child")).expect("it ends");
        let mut said = String::new();
        self.0.stderr.take().expect("a pipe").read_to_string(&mut said).expect("text");
        (status.code(), said)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server that remembers what it has got, and answers each request until there were so many.
struct Peer {
    address: SocketAddr,
    received: Arc<Mutex<HashMap<Vec<u8>, usize>>>,
    answers: Arc<AtomicUsize>,
}

impl Peer {
    fn start() -> Peer {
        Peer::on(TcpListener::bind("127.0.0.1:0").expect("a port"), usize::MAX)
    }

    /// It answers so many deletes, and then none.
    fn that_hangs_after(answers: usize) -> Peer {
        Peer::on(TcpListener::bind("127.0.0.1:0").expect("a port"), answers)
    }

    fn on(listener: TcpListener, answers: usize) -> Peer {
        let peer = Peer {
            address: listener.local_addr().expect("an address"),
            received: Arc::default(),
            answers: Arc::new(AtomicUsize::new(answers)),
        };
        let (received, answers) = (Arc::clone(&peer.received), Arc::clone(&peer.answers));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (received, answers) = (Arc::clone(&received), Arc::clone(&answers));
                std::thread::spawn(move || converse(stream.expect("a connection"), &received, &answers));
            }
        });
        peer
    }

    fn received(&self) -> MutexGuard<'_, HashMap<Vec<u8>, usize>> {
        self.received.lock().expect("no panic")
    }

    /// Different requests, without those that only ask whether it is there.
    fn count(&self) -> usize {
        self.received().len()
    }

    #[track_caller]
    fn has_got(&self, keys: impl Iterator<Item = String>) {
        let received = self.received();
        let mut count = 0;
        for key in keys {
            count += 1;
            assert!(received.contains_key(format!("delete {key}\r\n").as_bytes()), "{key} is lost");
        }
        assert_eq!(received.len(), count, "nothing else");
    }
}

fn converse(stream: TcpStream, received: &Mutex<HashMap<Vec<u8>, usize>>, answers: &AtomicUsize) {
    let mut writer = stream.try_clone().expect("a socket");
    let (mut reader, mut line) = (BufReader::new(stream), Vec::new());
    while reader.read_until(b'\n', &mut line).is_ok_and(|len| len > 0) {
        let answer = match &*line {
            b"version\r\n" => "VERSION 1\r\n",
            _ => {
                *received.lock().expect("no panic").entry(line.clone()).or_default() += 1;
                "NOT_FOUND\r\n"
            }
        };
        line.clear();
        let one_less = |left: usize| left.checked_sub(1);
        if answers.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_err() {
            continue;
        }
        if writer.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

fn record(server: SocketAddr, key: &str) -> String {
    format!("[\"AS1.0\",1767225600.5,\"C\",[\"{}\",{},\"delete {key}\\r\\n\"]]\n", server.ip(), server.port())
}

fn records(server: SocketAddr, keys: impl Iterator<Item = String>) -> String {
    keys.map(|key| record(server, &key)).collect()
}

fn keys(name: &str, count: usize) -> impl Iterator<Item = String> {
    (0..count).map(move |number| format!("{name}{number}"))
}

/// An address at which nobody listens; somebody may, as long as the value lives.
fn nobody() -> (OwnedFd, SocketAddr) {
    reserve_port().expect("a port")
}

#[track_caller]
fn status_is(output: &Output, expected: i32) -> (String, String) {
    let (text, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(expected), "{text}{said}");
    (text.into_owned(), said.into_owned())
}

fn ask(stream: &mut BufReader<TcpStream>, request: &str) -> String {
    stream.get_mut().write_all(request.as_bytes()).expect("send");
    let mut line = String::new();
    stream.read_line(&mut line).expect("an answer");
    line
}

fn conversation(server: &Server) -> BufReader<TcpStream> {
    BufReader::new(server.connect().expect("a connection"))
}

#[test]
fn deletes_of_a_router_reach_the_server_that_was_away() {
    for flags in [&[][..], &["--use-asynclog-version2"]] {
        let log = Log::new();
        fs::remove_dir(log.0.join(HOUR)).expect("remove");
        let server =
            Server::start::<&str>(&ServerUnderTest::evenkeel(SocketDriver::Epoll), &[]).expect("a server");
        let configuration = log.0.join("route.json");
        let pool = format!(
            r#"{{"pools": {{"A": {{"servers": ["{}"]}}}}, "route": "PoolRoute|A"}}"#,
            server.address()
        );
        fs::write(&configuration, pool).expect("write");
        let configured = format!("--config=file:{}", configuration.display());
        let start = || {
            let fixed = [&*configured, "--async-dir", log.path(), "-t", "500", "--router-name=r"];
            Server::start_router(&[&fixed[..], flags].concat()).expect("a router")
        };
        let router = start();
        let (mut client, mut direct) = (conversation(&router), conversation(&server));
        // Keys with what JSON escapes, and with bytes that are no text.
        let names = ["plain", "with\"quotes\\", "\u{1}control\u{7f}", "ünïcode", "/a/b|#|c"];
        let stored: Vec<String> =
            (0..20).flat_map(|number| names.map(|name| format!("{name}{number}"))).collect();
        for key in &stored {
            assert_eq!(ask(&mut direct, &format!("set {key} 0 0 1\r\nx\r\n")), "STORED\r\n", "{key}");
        }
        process::stop(server.pid()).expect("stop");
        for key in &stored {
            assert_eq!(ask(&mut client, &format!("delete {key}\r\n")), "NOT_FOUND\r\n", "{key}");
        }
        kill_process(Pid::from_raw(server.pid() as i32).expect("an id"), Signal::CONT).expect("continue");
        let is_stale = |direct: &mut BufReader<TcpStream>, key: &str| {
            ask(direct, &format!("touch {key} 0\r\n")) == "TOUCHED\r\n"
        };
        let stale = stored.iter().filter(|key| is_stale(&mut direct, key)).count();
        assert!(stale > stored.len() / 2, "only some were on their way: {stale}");

        // The router has its file still.
        let (text, _) = status_is(&log.replay(&[]), 0);
        assert!(text.contains("1 file in use, and left alone") && text.contains("0 deletes sent"), "{text}");
        drop(router);
        let router = start();
        let address = router.address().to_string();
        let (text, said) = status_is(&log.replay(&["--router", &address]), 0);
        assert!(text.contains("deletes sent to 1 server; 1 file done"), "{text}{said}");
        let stale: Vec<_> = stored.iter().filter(|key| is_stale(&mut direct, key)).collect();
        assert!(stale.is_empty(), "{stale:?}");
        assert!(said.is_empty(), "{said}");
    }
}

#[test]
fn what_is_no_delete_is_moved_away_and_nothing_else_is_sent() {
    let (log, peer) = (Log::new(), Peer::start());
    let one = |command: &str| {
        let (ip, port) = (peer.address.ip(), peer.address.port());
        format!("[\"AS1.0\",1.5,\"C\",[\"{ip}\",{port},\"{command}\"]]\n")
    };
    let refused = [
        one("flush_all\\r\\n").into_bytes(),
        one("delete a\\r\\nflush_all\\r\\n").into_bytes(),
        one("delete a b\\r\\n").into_bytes(),
        one("set k 0 0 1\\r\\nx\\r\\n").into_bytes(),
        b"[\"AS3.0\",1,\"C\",{\"k\":\"x\"}]\n".to_vec(),
        b"\x01\xff\x00binary\r\n".to_vec(),
        b"\n".to_vec(),
        [vec![b'x'; 100_000], b"\n".to_vec()].concat(),
        b"[\"AS1.0\",1767225600.123,\"C\",[\"127.0".to_vec(),
    ];
    let mut lines = record(peer.address, "first").into_bytes();
    for line in &refused[..refused.len() - 1] {
        lines.extend_from_slice(line);
        lines.extend_from_slice(record(peer.address, "after").as_bytes());
    }
    // A router that was killed has written half of the last one.
    lines.extend_from_slice(&refused[refused.len() - 1]);
    let path = log.write(1, &lines);
    let (text, said) = status_is(&log.replay(&[]), 65);
    peer.has_got(["first".to_owned(), "after".to_owned()].into_iter());
    assert!(text.contains("9 lines no deletes, moved out of the way:"), "{text}");
    let line = |number: usize| format!("{}: line {number} is no delete, and is moved to", path.display());
    assert!(said.contains(&line(2)) && said.contains(&line(18)), "{said}");
    assert!(said.contains("expected the command `delete KEY`, found `flush_all\\r\\n`"), "{said}");
    let moved =
        fs::read(log.0.join(HOUR).join(format!("{}.refused", path.file_name().expect("a name").display())));
    let expected = [refused.concat(), b"\n".to_vec()].concat();
    assert!(moved.expect("a file") == expected, "it has them as they were");
    assert_eq!(log.names().len(), 1);
    // Nothing is left to do, and the refused ones are not tried again.
    status_is(&log.replay(&[]), 0);
}

#[test]
fn a_file_that_is_put_in_the_place_of_one_that_is_read_is_sent_too() {
    for answers in [usize::MAX, 100] {
        let (log, peer, other) = (Log::new(), Peer::that_hangs_after(answers), Peer::start());
        let path = log.write(0, records(peer.address, keys("first", 400)).as_bytes());
        let mut replayer =
            log.start(&["--rate", "200", "--window", "1", "--timeout", "300", "--give-up-after", "3"]);
        clock::wait_for(|| (peer.count() > 20).then_some(())).expect("it sends");
        let beside = log.0.join("beside");
        fs::write(&beside, records(other.address, keys("second", 50))).expect("write");
        fs::rename(&beside, &path).expect("rename");
        let (status, said) = replayer.end();
        if answers == usize::MAX {
            assert_eq!((status, log.names()), (Some(0), Vec::new()), "{said}");
        } else {
            // What could not be sent of the first is left, beside the second.
            assert_eq!(status, Some(75), "{said}");
            peer.answers.store(usize::MAX, Ordering::Relaxed);
            status_is(&log.replay(&[]), 0);
        }
        peer.has_got(keys("first", 400));
        other.has_got(keys("second", 50));
    }
}

#[test]
fn servers_that_are_away_keep_no_other_waiting() {
    let (log, there) = (Log::new(), Peer::start());
    let (_other, away) = nobody();
    let hangs = Peer::that_hangs_after(0);
    let mut lines = String::new();
    for number in 0..500 {
        for server in [away, hangs.address, there.address] {
            lines += &record(server, &format!("key{number}"));
        }
    }
    log.write(1, lines.as_bytes());
    let mut running = log.start(&["--timeout", "300"]);
    assert!(clock::wait_for(|| (there.count() == 500).then_some(())).is_some(), "{}", there.count());
    assert!(running.0.try_wait().expect("a child").is_none(), "the others are tried again");
    let back = Peer::on(TcpListener::bind(away).expect("the port"), usize::MAX);
    hangs.answers.store(usize::MAX, Ordering::SeqCst);
    let (status, said) = running.end();
    assert_eq!(status, Some(0), "{said}");
    for peer in [&there, &back, &hangs] {
        peer.has_got(keys("key", 500));
    }
    for server in [away, hangs.address] {
        assert!(
            said.contains(&format!("{server} does not answer"))
                && said.contains(&format!("{server} answers again")),
            "{said}"
        );
    }
    assert_eq!(log.names(), Vec::<String>::new());
}

#[test]
fn a_replayer_may_be_killed_at_any_moment() {
    let (log, slow) = (Log::new(), Peer::that_hangs_after(3000));
    let (_other, away) = nobody();
    let mut lines = String::new();
    for number in 0..5000 {
        lines += &record(away, &format!("away{number}"));
        lines += &record(slow.address, &format!("key{number}"));
    }
    let path = log.write(1, lines.as_bytes());
    let mut running = log.start(&["--timeout", "60000"]);
    assert!(clock::wait_for(|| (slow.count() >= 3000).then_some(())).is_some());
    running.signal(Signal::KILL);
    assert_eq!(running.end().0, None, "it was killed");
    slow.answers.store(usize::MAX, Ordering::SeqCst);

    // It is asked to end, and records what is done: zeros in the file, and beside it what could not be sent.
    let running_until = |count: usize| {
        let running = log.start(&["--rate", "4000", "--window", "16"]);
        let before = slow.received().values().sum::<usize>();
        let until =
            clock::wait_for(|| (slow.received().values().sum::<usize>() > before + count).then_some(()));
        assert!(until.is_some());
        running
    };
    let mut running = running_until(800);
    running.signal(Signal::TERM);
    assert_eq!(running.end().0, Some(143));
    let begun = fs::read(&path).expect("the file");
    assert!(
        begun.len() == lines.len()
            && begun.starts_with(b"\0")
            && begun.ends_with(&lines.as_bytes()[lines.len() - 100..])
    );
    assert!(log.names().iter().any(|name| name.ends_with(".rest")), "{:?}", log.names());
    // Killed on the way, with half a line in the file of what is left.
    let mut running = running_until(800);
    running.signal(Signal::KILL);
    running.end();
    let rest = format!("{}.rest", path.display());
    let mut file = File::options().append(true).open(&rest).expect("the rest");
    file.write_all(b"[\"AS1.0\",176").expect("write");
    drop(file);

    let (_, said) = status_is(&log.replay(&["--give-up-after", "0"]), 75);
    assert!(!said.contains("no delete"), "{said}");
    slow.has_got(keys("key", 5000));
    // What is left is what the other server has not got.
    let back = Peer::on(TcpListener::bind(away).expect("the port"), usize::MAX);
    status_is(&log.replay(&[]), 0);
    back.has_got(keys("away", 5000));
    assert_eq!(log.names(), Vec::<String>::new());
}

#[test]
fn nothing_is_lost_however_often_a_replayer_is_ended() {
    let (log, there) = (Log::new(), Peer::start());
    let (_port, away) = nobody();
    let mut prng = Prng::new(1);
    for file in 0..3 {
        let mut lines = String::new();
        for number in 0..4000 {
            let server = if prng.below(2) == 0 { away } else { there.address };
            lines += &record(server, &format!("file{file}-{number}"));
        }
        log.write(file, lines.as_bytes());
    }
    let total = || there.received().values().sum::<usize>();
    for _ in 0..12 {
        let until = total() + 1 + prng.below(800) as usize;
        let mut running = log.start(&["--rate", "20000", "--window", "64"]);
        let mut is_time = || total() >= until || running.0.try_wait().expect("a child").is_some();
        assert!(clock::wait_for(|| is_time().then_some(())).is_some());
        // Asked to, at once, or in the middle of what it does when it is asked to.
        let signals: &[Signal] =
            [&[Signal::TERM][..], &[Signal::KILL], &[Signal::TERM, Signal::KILL]][prng.below(3) as usize];
        signals.iter().for_each(|signal| running.signal(*signal));
        running.end();
    }
    let back = Peer::on(TcpListener::bind(away).expect("the port"), usize::MAX);
    let (_, said) = status_is(&log.replay(&[]), 0);
    assert_eq!(said, "");
    let received: HashSet<Vec<u8>> = there.received().keys().chain(back.received().keys()).cloned().collect();
    for file in 0..3 {
        for number in 0..4000 {
            let key = format!("file{file}-{number}");
            assert!(received.contains(format!("delete {key}\r\n").as_bytes()), "{key} is lost");
        }
    }
    assert_eq!(received.len(), 12_000);
}

#[test]
fn two_replayers_do_not_send_twice() {
    let (log, peer) = (Log::new(), Peer::start());
    for file in 0..40 {
        let lines = records(peer.address, keys(&format!("file{file}-"), 300));
        log.write(file, lines.as_bytes());
    }
    let mut both = [log.start(&[]), log.start(&[])];
    for running in &mut both {
        let (status, said) = running.end();
        assert_eq!((status, &*said), (Some(0), ""));
    }
    assert_eq!(peer.count(), 12_000);
    assert!(peer.received().values().all(|count| *count == 1), "each once");
    assert_eq!(log.names(), Vec::<String>::new());
}

#[test]
fn files_that_others_have_are_left_alone() {
    let (log, peer) = (Log::new(), Peer::start());
    let locked = log.write(1, record(peer.address, "locked").as_bytes());
    let lock = File::open(&locked).expect("a file");
    flock(&lock, FlockOperation::NonBlockingLockExclusive).expect("a lock");
    // mcrouter does not lock: it may write to this one until 16 minutes after the time in its name.
    let young =
        log.0.join(HOUR).join(format!("20260101T000000-{}-mcrouter-5000-t7-0x7f", clock::unix_time()));
    fs::write(&young, record(peer.address, "young")).expect("write");
    let old = log.0.join(HOUR).join("20260101T000000-1767225600-mcrouter-5000-t7-0x7f");
    fs::write(&old, record(peer.address, "old")).expect("write");
    // Links are not followed, and other names are somebody else's.
    let elsewhere = log.0.join("elsewhere");
    fs::write(&elsewhere, record(peer.address, "elsewhere")).expect("write");
    std::os::unix::fs::symlink(&elsewhere, log.file(2)).expect("a link");
    std::os::unix::fs::symlink(log.0.join(HOUR), log.0.join("20260101T01-1767229200")).expect("a link");
    fs::write(log.0.join(HOUR).join("notes.txt"), record(peer.address, "notes")).expect("write");
    let (text, said) = status_is(&log.replay(&[]), 0);
    assert!(text.contains("1 file done") && text.contains("2 files in use"), "{text}{said}");
    peer.has_got(["old".to_owned()].into_iter());
    assert!(locked.exists() && young.exists() && elsewhere.exists() && !old.exists());
    drop(lock);
    status_is(&log.replay(&[]), 0);
    peer.has_got(["old".to_owned(), "locked".to_owned()].into_iter());
}

#[test]
fn a_file_with_a_name_elsewhere_gets_no_holes() {
    let (log, peer) = (Log::new(), Peer::start());
    let elsewhere = log.0.join("elsewhere");
    fs::write(&elsewhere, record(peer.address, "elsewhere")).expect("write");
    fs::hard_link(&elsewhere, log.file(1)).expect("a link");
    log.write(2, record(peer.address, "key").as_bytes());
    let (_, said) = status_is(&log.replay(&["--give-up-after", "0"]), 71);
    assert!(said.contains("expected a file with one name"), "{said}");
    peer.has_got(["key".to_owned()].into_iter());
    assert_eq!(fs::read_to_string(&elsewhere).expect("a file"), record(peer.address, "elsewhere"));
}

#[test]
fn a_full_disk_loses_nothing() {
    let can = Command::new("unshare").args(["--mount", "true"]).status().is_ok_and(|status| status.success());
    if !can {
        eprintln!("unshare --mount is not possible here");
        return;
    }
    let (log, peer) = (Log::new(), Peer::start());
    let (_other, away) = nobody();
    let lines = records(away, keys("away", 2000)) + &records(peer.address, keys("key", 100));
    let path = log.write(1, lines.as_bytes());
    let copy = log.0.join("copy");
    fs::rename(&path, &copy).expect("move");
    let hour = log.0.join(HOUR);
    // A disk that is full but for a few KB; then one that has room.
    let script = format!(
        "mount -t tmpfs -o size=512k tmpfs {hour} && cp {copy} {path} && head -c 1M /dev/zero 2>&- >{hour}/fill
         truncate -s -16k {hour}/fill; \"$@\"; echo status $?; cmp {copy} {path} && ls {hour} && rm {hour}/fill
         \"$@\"; echo status $?; wc -l <{path}",
        hour = hour.display(),
        copy = copy.display(),
        path = path.display(),
    );
    let replayer = log.replayer(&["--give-up-after", "0"]);
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", &script, "sh"])
        .arg(replayer.get_program())
        .args(replayer.get_args());
    let output = command.stdin(Stdio::null()).output().expect("run");
    let (text, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let alone = format!("status 71\n{}\nfill\n", path.file_name().expect("a name").display());
    assert!(text.contains(&alone), "the file is as it was, and alone: {text}{said}");
    assert!(said.contains("No space left on device") && said.contains("it stays as it is"), "{said}");
    assert!(text.ends_with("status 75\n2000\n"), "{text}{said}");
    peer.has_got(keys("key", 100));
}

#[test]
fn a_follower_sends_what_comes_and_ends_by_a_signal() {
    let (log, peer) = (Log::new(), Peer::start());
    let mut running = log.start(&["--follow"]);
    for number in 0..3 {
        // An empty folder of an hour that is over is removed.
        fs::create_dir_all(log.0.join(HOUR)).expect("make a folder");
        // In one step, as it is complete: a router would lock it.
        let unfinished = log.0.join("unfinished");
        fs::write(&unfinished, record(peer.address, &format!("key{number}"))).expect("write");
        fs::rename(&unfinished, log.file(number)).expect("rename");
        let is_there = || (peer.count() == number as usize + 1 && log.names().is_empty()).then_some(());
        assert!(clock::wait_for(is_there).is_some(), "{:?}", log.names());
    }
    running.signal(Signal::TERM);
    let (status, said) = running.end();
    assert_eq!(status, Some(0));
    let done = format!("{} is done, 1 of its deletes were sent now", log.file(2).display());
    assert!(said.contains(&done), "{said}");
}

#[test]
fn errors_of_a_server_leave_its_deletes_there() {
    let log = Log::new();
    // It asks for a password.
    let users = log.0.join("users");
    fs::write(&users, "name:password\n").expect("write");
    let flags = ["-Y", users.to_str().expect("text")];
    let server = Server::start(&ServerUnderTest::evenkeel(SocketDriver::Epoll), &flags).expect("a server");
    let lines = records(server.address(), keys("key", 50));
    let path = log.write(1, lines.as_bytes());
    let (text, _) = status_is(&log.replay(&["--give-up-after", "0"]), 75);
    assert!(text.contains("a server has answered: CLIENT_ERROR unauthenticated"), "{text}");
    let mut left: Vec<String> = fs::read_to_string(&path).expect("text").lines().map(str::to_owned).collect();
    left.sort();
    let mut all: Vec<String> = lines.lines().map(str::to_owned).collect();
    all.sort();
    assert_eq!(left, all);
}

#[test]
fn servers_are_spoken_to_over_tls_if_one_says_so() {
    let log = Log::new();
    let subject = ServerUnderTest::evenkeel(SocketDriver::Epoll).over_tls();
    let server = Server::start::<&str>(&subject, &[]).expect("a server");
    let path = log.write(1, records(server.address(), keys("key", 1000)).as_bytes());
    let once = ["--give-up-after", "0"];
    let (text, said) = status_is(&log.replay(&once), 75);
    assert!(text.contains("use --tls"), "{text}{said}");
    let stranger = subject::certificate("foreign");
    let (text, _) = status_is(&log.replay(&[&once[..], &["--tls", "--tls-ca", &stranger]].concat()), 75);
    assert!(text.contains("does not answer: TLS: invalid peer certificate"), "{text}");
    assert!(path.exists());
    let authority = subject::certificate("authority");
    let (text, _) = status_is(&log.replay(&["--tls", "--tls-ca", &authority]), 0);
    assert!(text.contains("1000 deletes sent to 1 server; 1 file done") && !path.exists(), "{text}");
}

#[test]
fn a_dry_run_counts_and_changes_nothing() {
    let (log, peer) = (Log::new(), Peer::start());
    let lines = records(peer.address, keys("key", 30)) + "nonsense\n";
    let path = log.write(1, lines.as_bytes());
    let (text, _) = status_is(&log.replay(&["--dry-run"]), 65);
    let to = format!("30 deletes would be sent, nothing was\n  30 to {}\n1 line no deletes:\n", peer.address);
    assert!(text.starts_with(&to), "{text}");
    let (json, _) = status_is(&log.replay(&["--dry-run", "--json"]), 65);
    assert!(json.contains(r#""dry_run":true"#) && json.contains(r#""sent":30"#), "{json}");
    assert!(fs::read(&path).expect("the file") == lines.as_bytes() && peer.count() == 0);
    let (json, _) = status_is(&log.replay(&["--json"]), 65);
    let server =
        format!(r#"{{"failures":0,"is_away":false,"sent":30,"server":"{}","trouble":null}}"#, peer.address);
    assert!(json.contains(&server) && json.contains(r#""files":{"done":1,"in_use":0,"left":0}"#), "{json}");
}

#[test]
fn a_rate_is_kept() {
    let (log, peer) = (Log::new(), Peer::start());
    log.write(1, records(peer.address, keys("key", 300)).as_bytes());
    let start = clock::now();
    status_is(&log.replay(&["--rate", "200"]), 0);
    // The first tenth of a second may come at once.
    assert!(start.elapsed().as_secs_f64() >= 1.3, "{:?}", start.elapsed());
    assert!(start.elapsed() < PATIENCE);
    peer.has_got(keys("key", 300));
}

#[test]
fn a_folder_that_is_not_there_is_an_error() {
    let nowhere = Path::new("/proc/nowhere");
    let output = subject::replayer().args(["--async-dir"]).arg(nowhere).output().expect("run");
    let (_, said) = status_is(&output, 71);
    assert!(said.contains("read /proc/nowhere: No such file"), "{said}");
}
