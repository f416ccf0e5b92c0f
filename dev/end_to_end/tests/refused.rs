//! Refused system calls, as in containers: io_uring, where the server uses epoll and reports why, TCP Fast Open, and time
//! slices of the workers.

use std::io::{Read, Write};
use std::process::Command;

use end_to_end::clock;
use end_to_end::server::Server;
use end_to_end::subject::{ServerUnderTest, SocketDriver};

/// Executes its arguments after the first two, with a system call forbidden with the error of the first one. The second
/// one names the call by its number, then perhaps some of its arguments and their values: `54 1=6 2=23`. A seccomp filter
/// loads each, compares, and returns.
const FORBID: &str = "
import ctypes, os, struct, sys
number, *arguments = sys.argv[2].split()
pairs = [argument.split('=') for argument in arguments]
checks = [(0, int(number))] + [(16 + 8 * int(at), int(value)) for at, value in pairs]
rules = []
for at, (offset, value) in enumerate(checks):
    rules += [(0x20, 0, 0, offset), (0x15, 0, 2 * (len(checks) - at - 1) + 1, value)]
rules += [(0x06, 0, 0, 0x50000 | int(sys.argv[1])), (0x06, 0, 0, 0x7fff0000)]
code = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *rule) for rule in rules))
program = struct.pack('HxxxxxxP', len(rules), ctypes.addressof(code))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, program, 0, 0) == 0, ctypes.get_errno()
os.execv(sys.argv[3], sys.argv[3:])
";

/// io_uring_setup, which has this number on all architectures.
const IO_URING_SETUP: &str = "425";

/// setsockopt(2) of the option TCP_FASTOPEN.
const SET_FAST_OPEN: &str = if cfg!(target_arch = "x86_64") { "54 1=6 2=23" } else { "208 1=6 2=23" };

/// sched_setattr(2).
const SET_SCHEDULING: &str = if cfg!(target_arch = "x86_64") { "314" } else { "274" };

/// Evenkeel on a host where `call` is refused with `errno`.
fn subject(call: &str, errno: i32, driver: &str) -> ServerUnderTest {
    let evenkeel = ServerUnderTest::evenkeel(SocketDriver::Epoll).program.display().to_string();
    let words = ["-c", FORBID, &errno.to_string(), call, &evenkeel, "serve", "--driver", driver];
    ServerUnderTest {
        name: format!("evenkeel without {call} ({errno})"),
        program: "/usr/bin/python3".into(),
        arguments: words.map(str::to_owned).to_vec(),
        tls: false,
        routed: false,
        memcached: None,
    }
}

#[track_caller]
fn check_service(server: &Server) {
    let mut stream = server.connect().expect("a connection");
    stream.write_all(b"set a 0 0 1\r\nx\r\nquit\r\n").expect("send");
    let mut reply = String::new();
    stream.read_to_string(&mut reply).expect("receive");
    assert_eq!(reply, "STORED\r\n");
}

#[track_caller]
fn check(errno: i32, expected: &str) {
    let server = Server::start::<&str>(&subject(IO_URING_SETUP, errno, "auto"), &[]).expect("a server");
    check_service(&server);
    // Workers may answer before the line is written.
    let said = clock::wait_for(|| Some(server.said()).filter(|said| said.ends_with('\n'))).expect("a line");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("driven by epoll (io_uring: ") && said.contains(expected), "{said}");
}

#[test]
fn a_server_without_io_uring_reports_the_reason_and_a_remedy() {
    check(1, "Operation not permitted");
    check(38, "seccomp profile hides it; allow io_uring_setup");
}

#[test]
fn a_server_that_requires_io_uring_ends_with_the_reason() {
    let subject = subject(IO_URING_SETUP, 38, "uring");
    let mut command = Command::new(&subject.program);
    let output =
        command.args(&subject.arguments).args(["-l", "127.0.0.1", "-p", "-1", "-u", "root"]).output();
    let output = output.expect("run it");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("Function not implemented"), "{said}");
}

#[test]
fn a_server_without_fast_open_reports_it_and_serves() {
    for (errno, why) in [(92, "Protocol not available"), (1, "Operation not permitted")] {
        let subject = subject(SET_FAST_OPEN, errno, "epoll");
        let server = Server::start(&subject, &["--fast-open", "64"]).expect("a server");
        check_service(&server);
        let lines = clock::wait_for(|| Some(server.said()).filter(|said| said.lines().count() == 2));
        let lines = lines.expect("a line about it, and that it serves");
        let refused =
            format!("Z warning serve: the kernel refuses TCP Fast Open: {why} (os error {errno})\n");
        let (first, _) = lines.split_at(lines.find('\n').expect("two lines") + 1);
        assert!(first.ends_with(&refused), "{lines}");
    }
}

/// Lines of a server without slices of its own.
#[track_caller]
fn lines_without_slices(errno: i32, flags: &[&str]) -> String {
    let server = Server::start(&subject(SET_SCHEDULING, errno, "epoll"), flags).expect("a server");
    check_service(&server);
    let ends =
        |said: &String| said.ends_with("replies take longer\n") || flags.is_empty() && said.ends_with('\n');
    clock::wait_for(|| Some(server.said()).filter(ends)).expect("its lines")
}

#[test]
fn a_server_whose_threads_get_no_slices_of_their_own_serves_and_reports_it_with_v_only() {
    for (errno, why) in
        [(1, "Operation not permitted (os error 1); a seccomp profile"), (38, "it needs Linux 6.12 or later")]
    {
        let said = lines_without_slices(errno, &["-v"]);
        let lines: Vec<&str> = said.lines().filter(|line| line.contains("time slices")).collect();
        assert!(lines.len() == 1 && lines[0].contains(why), "{said}");
        let said = lines_without_slices(errno, &[]);
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}
