//! Start lines of public deployments (charts, units, compose files), each reduced, with what memcached 1.6.45 does: what starts
//! there starts here, with a line where a value was not taken as typed.

use std::fs::{self, File};
use std::net::{Ipv6Addr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use end_to_end::clock;
use end_to_end::subject::{ServerUnderTest, SocketDriver};

/// What a line leads to.
enum Outcome {
    /// Both start, and nothing has to be said.
    Starts,
    /// Both start, and this is said here.
    Says(&'static str),
    /// It starts here only.
    StartsHereOnly,
    /// It is refused here only, for this reason.
    RefusedHereOnly(&'static str),
    /// Both refuse it; this is said here.
    Refused(&'static str),
}
use Outcome::{Refused, RefusedHereOnly, Says, Starts, StartsHereOnly};

/// PORT and NEXT are free ports, DIR is a folder. Each line is for a server that stays root or is not root.
const LINES: &[(&str, Outcome)] = &[
    (
        "--extended=ext_path=DIR/ext:1G,ext_wbuf_size=8,ext_threads=4,ext_item_age=3600,ext_max_frag=0.9,ext_drop_unread,slab_automove=2,\
      lru_crawler,lru_maintainer -m 64 -p PORT -l 127.0.0.1",
        Starts,
    ),
    (
        "--extended=ext_path=DIR/ext:64M,ext_wbuf_size=8,ext_drop_unread=true,lru_crawler -m 64 -p PORT -l 127.0.0.1",
        Says("-o ext_drop_unread true: the value is ignored, because the option takes none"),
    ),
    (
        "--memory-limit=64 --max-item-size=1m --conn-limit=1024 --threads=4 --verbose --port=PORT --listen=127.0.0.1 \
      --extended=modern,track_sizes",
        Starts,
    ),
    (
        "-d -m 64 -p PORT -l 127.0.0.1 -o modern,maxconns_fast,idle_timeout=600,hash_algorithm=murmur3 -P DIR/pid",
        Starts,
    ),
    ("-m 1024m -p PORT -l 127.0.0.1 -I 1M --max-reqs-per-event=40", Starts),
    ("-m 128MB -p PORT -l 127.0.0.1", Says("-m 128MB: taken as 128m")),
    ("-m 2 -p PORT -l 127.0.0.1", Starts),
    ("-m 256 -I 8m -p PORT -l 127.0.0.1", Starts),
    ("-m 256M -p PORT -l 127.0.0.1", Starts),
    ("-m 512 -o slab_reassign,slab_automove=2 -p PORT -l 127.0.0.1", Starts),
    (
        "-m 64 -f 1.05 -n 88 -o slab_reassign,slab_automove,hash_algorithm=jenkins \
      -o modern,no_inline_ascii_resp,resp_obj_mem_limit=1048576 -p PORT -l 127.0.0.1",
        Starts,
    ),
    ("-m 64 -p PORT -l 127.0.0.1 -U PORT -d -P DIR/pid", Starts),
    ("-p PORT -l * -m 64", Starts),
    ("-p PORT -l 0.0.0.0 -U 0 -t 4 -m 64 -B ascii -o no_hashexpand,modern", Starts),
    ("-p PORT -l 127.0.0.1 -l ::1 -m 64", Starts),
    (
        "-p PORT -l 127.0.0.1,::1 -m 64 -o modern,drop_privileges",
        Says("-o drop_privileges has no effect: the server does not"),
    ),
    ("-p PORT -l 127.0.0.1 -m 64 -o relaxed_privileges", StartsHereOnly),
    (
        "-p PORT -l 127.0.0.1 -m 64 -o sock_cookie_id=7",
        Says("-o sock_cookie_id has no effect: sockets are not marked"),
    ),
    ("-p PORT -l 127.0.0.1 -m 64 -Z -o ssl_chain_cert=/x", Refused("/x")),
    ("-p PORT -l 127.0.0.1 -c 100000000 -m 64", Refused("-c: expected a number from 1 to 10000000")),
    ("-p PORT -l 127.0.0.1 -m 0", Refused("-m: expected a size in megabytes")),
    // A hundred terabytes: no machine has them, and memcached would end when they are used up.
    ("-p PORT -l 127.0.0.1 -m 100000000", RefusedHereOnly("-m: expected a size in megabytes")),
    ("-p PORT -l 127.0.0.1 -m 64 --disable-dumping --disable-flush-all --disable-watch", Starts),
    ("-p PORT -l 127.0.0.1 -m 64 --extended modern --enable-largepages", Starts),
    ("-p PORT -l 127.0.0.1 -m 64 -I 1073741824", Refused("-I 1g: expected at most half of the memory limit")),
    ("-p PORT -l 127.0.0.1 -m 64 -L -C -M", Starts),
    ("-p PORT -l 127.0.0.1 -m 64 -b 8192 -R 500 -t 64 -D :", Starts),
    ("-p PORT -l 127.0.0.1 -m 64 -c 0", Refused("-c: expected a number from 1")),
    ("-p PORT -l 127.0.0.1 -m 64 -o", Refused("-o: expected a value, found nothing")),
    ("-p PORT -l 127.0.0.1 -m 64 -o ext_path=DIR/ext:128M,ext_page_size=16", Starts),
    (
        "-p PORT -l 127.0.0.1 -m 64 -o ext_path=DIR/ext:64M,ext_page_size=16",
        Says("-o ext_page_size: pages of 8m are used"),
    ),
    ("-p PORT -l 127.0.0.1 -m 64 -o ext_path=DIR/ext:64M", Says("-o ext_page_size: pages of 8m are used")),
    ("-p PORT -l 127.0.0.1 -m 64 -M -o ext_path=DIR/ext:1G", Says("-o ext_path has no effect with -M")),
    (
        "-p PORT -l 127.0.0.1 -m 64 -o lru_maintainer,lru_crawler,hot_lru_pct=10,warm_lru_pct=30,maxconns_fast,slab_reassign",
        Starts,
    ),
    ("-p PORT -l 127.0.0.1 -m 64 -o maxconns_fast=1", Says("-o maxconns_fast 1: the value is ignored")),
    ("-p PORT -l 127.0.0.1 -m 64 -o modern,lru_crawler=1", Says("-o lru_crawler 1: the value is ignored")),
    (
        "-p PORT -l 127.0.0.1 -m 64 -o modern,no_lru_crawler,slab_chunk_max=16384",
        Refused("-o slab_chunk_max: expected a number"),
    ),
    ("-p PORT -l 127.0.0.1 -m 64 -o no_such", Refused("-o no_such: unknown option")),
    (
        "-p PORT -l 127.0.0.1 -m 64 -o tail_repair_time=0",
        Refused("-o tail_repair_time: expected a number from 10"),
    ),
    ("-p PORT -l 127.0.0.1 -m 64 -t 0", Refused("-t: expected a number from 1")),
    ("-p PORT -l 127.0.0.1 -m 64 -v -v", Starts),
    (
        "-p PORT -l 127.0.0.1 -m 64 -o modern maxconns_fast",
        Says("`maxconns_fast` is ignored: it belongs to no flag"),
    ),
    ("-p PORT -l 127.0.0.1 -m 64 -R 20;", Says("-R 20;: taken as 20")),
    ("-p PORT -l 127.0.0.1:PORT,127.0.0.1:NEXT -m 64", Starts),
    ("-p PORT -l ::1 -m 64", Starts),
    ("-p PORT -l [::1]:PORT -m 64", Starts),
    ("-p PORT -l no-such-name.invalid -m 64", Refused("no-such-name.invalid")),
    ("-p PORT -l interface:lo -m 64", Refused("-l interface:lo: expected a port")),
    ("-p PORT -l localhost -m 64 -k", Starts),
    ("-pPORT -l127.0.0.1 -m64 -omodern", Starts),
    ("-s DIR/socket -a 0770 -m 64", Starts),
    ("-s DIR/socket -a 770 -m 64 -P DIR/pid", Starts),
    ("-t 4 -c 2048 -n 64 -m 128 -p PORT -l 127.0.0.1 -o slab_reassign,slab_automove=2,hashpower=22", Starts),
    ("-vv -p PORT -l 127.0.0.1 -m64 -c2048 -t2", Starts),
    (
        "-p PORT -l 127.0.0.1 -m 64 -P DIR/none/pid",
        Says("the process id is in no file: write DIR/none/pid (-P)"),
    ),
];

/// A server that was started by a line, and a folder of its own.
struct Started {
    child: Child,
    folder: PathBuf,
    port: u16,
    is_unix: bool,
    is_ipv6: bool,
}

impl Started {
    /// `limits` are commands of the shell before it.
    fn by(limits: &str, line: &str, number: usize) -> Started {
        let folder = std::env::temp_dir().join(format!("evenkeel-start-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).expect("a mode");
        let [port, next] = free_ports();
        let shown = folder.display().to_string();
        let words =
            line.replace("PORT", &port.to_string()).replace("NEXT", &next.to_string()).replace("DIR", &shown);
        let said = File::create(folder.join("said")).expect("a file");
        // Root would raise its own limits.
        let is_root = rustix::process::getuid().is_root();
        let mut command = Command::new(if is_root { "setpriv" } else { "env" });
        if is_root {
            command.arg("--bounding-set=-sys_resource");
        }
        command.args(["sh", "-c", &format!("{limits} exec \"$@\""), "sh"]);
        command
            .arg(ServerUnderTest::evenkeel(SocketDriver::Epoll).program)
            .arg("serve")
            .args(words.split_whitespace());
        if is_root {
            command.args(["-u", "root"]);
        }
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said).spawn().expect("it runs");
        let is_ipv6 = line.contains("::1") && !line.contains("127.0.0.1");
        Started { child, folder, port, is_unix: line.starts_with("-s "), is_ipv6 }
    }

    fn said(&self) -> String {
        let said = fs::read_to_string(self.folder.join("said")).unwrap_or_default();
        said.replace(&self.folder.display().to_string(), "DIR")
    }

    fn is_reachable(&self) -> bool {
        match (self.is_unix, self.is_ipv6) {
            (true, _) => UnixStream::connect(self.folder.join("socket")).is_ok(),
            (_, true) => TcpStream::connect((Ipv6Addr::LOCALHOST, self.port)).is_ok(),
            _ => TcpStream::connect(("127.0.0.1", self.port)).is_ok(),
        }
    }

    /// Waits until it serves, or has ended with an error. Returns whether it serves.
    fn wait(&mut self) -> bool {
        clock::wait_for(|| match self.child.try_wait().expect("its state") {
            Some(status) if !status.success() => Some(false),
            _ => self.is_reachable().then_some(true),
        })
        .expect("it serves or ends within a minute")
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // In the background it is another process.
        let pid = fs::read_to_string(self.folder.join("pid")).ok().and_then(|pid| pid.trim().parse().ok());
        if let Some(pid) = pid.and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// They may be taken by another process until the server binds them; nothing else here does so.
fn free_ports() -> [u16; 2] {
    let bound = [(); 2].map(|()| TcpListener::bind("0.0.0.0:0").expect("a port"));
    bound.map(|listener| listener.local_addr().expect("an address").port())
}

#[track_caller]
fn check(number: usize, limits: &str, line: &str, outcome: &Outcome) {
    if line.contains("::1") && TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_err() {
        return;
    }
    let mut started = Started::by(limits, line, number);
    let serves = started.wait();
    let expected: &str = match outcome {
        Starts | StartsHereOnly => "",
        Says(line) | Refused(line) | RefusedHereOnly(line) => line,
    };
    assert_eq!(serves, !matches!(outcome, Refused(_) | RefusedHereOnly(_)), "{line}: {}", started.said());
    // It may be written after the first connection is accepted.
    let is_said = clock::wait_for(|| started.said().contains(expected).then_some(()));
    assert!(is_said.is_some(), "{line}: {}", started.said());
    if matches!(outcome, Starts) && !line.contains("-v") {
        let lines = started.said();
        let of_flags =
            lines.lines().filter(|line| line.contains("Z warning serve: -") || line.contains("taken as"));
        assert_eq!(of_flags.collect::<Vec<_>>(), [""; 0], "{line}: nothing to be said");
    }
}

/// What watches it may look at the process and at the file of ports alone.
#[test]
fn without_a_listener_it_runs_and_the_file_of_ports_is_empty() {
    let ports = std::env::temp_dir().join(format!("evenkeel-start-{}-ports", std::process::id()));
    let named = format!("export MEMCACHED_PORT_FILENAME={};", ports.display());
    let mut started = Started::by(&named, "-p 0 -m 64", LINES.len());
    let written = clock::wait_for(|| fs::read_to_string(&ports).ok()).expect("written within a minute");
    assert_eq!(written, "");
    fs::remove_file(&ports).expect("it is ours");
    for expected in ["no address is served, and no client can connect", "serves on no address: 64 MB"] {
        let is_said = clock::wait_for(|| started.said().contains(expected).then_some(()));
        assert!(is_said.is_some(), "{expected}: {}", started.said());
    }
    assert!(started.child.try_wait().expect("its state").is_none(), "it runs");
}

#[test]
fn what_memcached_starts_with_starts() {
    for (number, (line, outcome)) in LINES.iter().enumerate() {
        check(number, "", line, outcome);
    }
}

#[test]
fn the_default_number_of_connections_gives_way_to_the_limit_on_open_files() {
    let line = "-p PORT -l 127.0.0.1 -m 64";
    let says = "instead of 1024, because the limit on open files is 400 and";
    check(1000, "ulimit -n 400;", line, &Says(says));
    // As many as memcached needs: it counts its own files among them.
    check(
        1001,
        "ulimit -n 1024;",
        &format!("{line} -c 1024"),
        &Says("because the limit on open files is 1024"),
    );
    let refused = Refused("raise the limit on open files");
    check(1002, "ulimit -n 400;", &format!("{line} -c 1000"), &refused);
    check(1003, "ulimit -n 80;", line, &refused);
}

#[test]
fn little_address_space_is_enough_for_the_default_memory() {
    check(1010, "ulimit -v 300000;", "-p PORT -l 127.0.0.1 -m 64", &Starts);
}
