//! Refused io_uring, as in containers: the server uses epoll and reports why.

use std::io::{Read, Write};
use std::process::Command;

use end_to_end::clock;
use end_to_end::server::Server;
use end_to_end::subject::{ServerUnderTest, SocketDriver};

/// Executes its arguments after the first one, with io_uring_setup (425 on all architectures) forbidden with that
/// error: a seccomp filter loads the number of the call, compares, and returns.
const FORBID: &str = "
import ctypes, os, struct, sys
rules = [(0x20, 0, 0, 0), (0x15, 0, 1, 425), (0x06, 0, 0, 0x50000 | int(sys.argv[1])), (0x06, 0, 0, 0x7fff0000)]
code = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *rule) for rule in rules))
program = struct.pack('HxxxxxxP', len(rules), ctypes.addressof(code))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, program, 0, 0) == 0, ctypes.get_errno()
os.execv(sys.argv[2], sys.argv[2:])
";

/// Evenkeel on a host where io_uring is refused with `errno`.
fn subject(errno: i32, driver: &str) -> ServerUnderTest {
    let evenkeel = ServerUnderTest::evenkeel(SocketDriver::Epoll).program.display().to_string();
    let words = ["-c", FORBID, &errno.to_string(), &evenkeel, "serve", "--driver", driver];
    ServerUnderTest {
        name: format!("evenkeel without io_uring ({errno})"),
        program: "/usr/bin/python3".into(),
        arguments: words.map(str::to_owned).to_vec(),
        memcached: None,
    }
}

#[track_caller]
fn check(errno: i32, expected: &str) {
    let server = Server::start::<&str>(&subject(errno, "auto"), &[]).expect("a server");
    let mut stream = server.connect().expect("a connection");
    stream.write_all(b"set a 0 0 1\r\nx\r\nquit\r\n").expect("send");
    let mut reply = String::new();
    stream.read_to_string(&mut reply).expect("receive");
    assert_eq!(reply, "STORED\r\n");
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
    let subject = subject(38, "uring");
    let mut command = Command::new(&subject.program);
    let output =
        command.args(&subject.arguments).args(["-l", "127.0.0.1", "-p", "-1", "-u", "root"]).output();
    let output = output.expect("run it");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("Function not implemented"), "{said}");
}
