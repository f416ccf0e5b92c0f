//! A server's page says how many items it has of the server before it, and whether the file of its flags has changed: by both, an
//! upgrade is judged.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::net::sockopt::set_socket_reuseaddr;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with};
use serde_json::Value;

use crate::support::running::Running;
use crate::support::until::until;

/// A folder in memory, with a file of flags and one of items.
struct Place {
    folder: PathBuf,
    port: u16,
    pages: u16,
    _reserved: [OwnedFd; 2],
}

/// A port that nobody else gets while the socket exists. The socket does not listen, so that servers can, one after the other.
fn reserved_port() -> (OwnedFd, u16) {
    let socket =
        socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).expect("a socket");
    set_socket_reuseaddr(&socket, true).expect("an option");
    bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = SocketAddrV4::try_from(getsockname(&socket).expect("an address")).expect("an IPv4 address");
    (socket, address.port())
}

impl Place {
    fn new(name: &str, more: &str) -> Place {
        let folder = PathBuf::from(format!("/dev/shm/evenkeel-restored-{}-{name}", std::process::id()));
        fs::create_dir(&folder).expect("a folder in memory");
        let ((one, port), (other, pages)) = (reserved_port(), reserved_port());
        let place = Place { folder, port, pages, _reserved: [one, other] };
        let flags =
            format!("-l 127.0.0.1\n-m 16\n-u root\n-p {port}\n--metrics-listen 127.0.0.1:{pages}\n{more}\n");
        fs::write(place.flags(), flags.replace("ITEMS", &place.folder.join("items").display().to_string()))
            .expect("a file");
        place
    }

    fn flags(&self) -> PathBuf {
        self.folder.join("serve.conf")
    }

    fn start(&self) -> Running {
        let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
        command.arg("serve").arg(format!("@{}", self.flags().display()));
        command.stdin(Stdio::null()).stderr(Stdio::null());
        let server = Running(command.spawn().expect("a process"));
        until("it serves", || TcpStream::connect(("127.0.0.1", self.port)).is_ok());
        server
    }

    fn report(&self) -> Value {
        let page = self.page("/api/v1/stats");
        serde_json::from_str(&page).expect("JSON")
    }

    fn page(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.pages)).expect("a page");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").expect("a page");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("a page");
        answer.split_once("\r\n\r\n").expect("a head").1.to_owned()
    }

    fn store(&self, items: usize) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("a server");
        for at in 0..items {
            write!(stream, "set k{at} 0 0 1\r\nx\r\n").expect("a server");
            let mut answer = [0; 8];
            stream.read_exact(&mut answer).expect("a server");
            assert_eq!(&answer, b"STORED\r\n");
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Ends a server in an orderly way.
fn end(mut server: Running) {
    rustix::process::kill_process(rustix::process::Pid::from_child(&server.0), rustix::process::Signal::TERM)
        .expect("it lives");
    assert!(server.0.wait().expect("a child").success());
}

#[test]
fn items_of_the_server_before_are_told_and_none_are_told_as_none() {
    let place = Place::new("items", "-e ITEMS");
    let server = place.start();
    assert_eq!(place.report()["restored_items"], 0);
    place.store(3);
    end(server);
    let server = place.start();
    place.store(5);
    assert_eq!(
        (&place.report()["restored_items"], &place.report()["stats"]["curr_items"]),
        (&3.into(), &5.into())
    );
    assert!(place.page("/metrics").contains("\nevenkeel_restored_items 3\n"));
    // Without an orderly end, nothing is left.
    drop(server);
    let _server = place.start();
    assert_eq!(place.report()["restored_items"], 0);
}

#[test]
fn a_server_whose_items_end_with_it_says_that_it_does_not_know() {
    let place = Place::new("none", "");
    let _server = place.start();
    assert_eq!(place.report()["restored_items"], Value::Null);
    assert!(place.report().as_object().expect("an object").contains_key("restored_items"));
    assert!(!place.page("/metrics").contains("evenkeel_restored_items"));
}

#[test]
fn a_file_of_flags_that_has_changed_is_told() {
    let place = Place::new("flags", "-t 1");
    let _server = place.start();
    let files = |report: &Value| report["flag_files"].as_array().expect("a list").clone();
    let [begun] = files(&place.report()).try_into().expect("one file");
    assert_eq!(
        (begun["path"].as_str(), begun["sha256"].as_str()),
        (place.flags().to_str(), begun["sha256_now"].as_str())
    );
    fs::write(place.flags(), "-t 2\n").expect("a file");
    // A page is made at most every 0.1 s.
    until("it is told", || {
        let [now] = files(&place.report()).try_into().expect("one file");
        now["sha256"] == begun["sha256"] && now["sha256_now"] != begun["sha256"]
    });
    fs::remove_file(place.flags()).expect("it is there");
    until("it is told", || files(&place.report())[0]["sha256_now"] == Value::Null);
}
