//! Survival of a router: full sockets on both sides, new configurations under load, input that is wrong, full disks,
//! crowds of clients.

use end_to_end::bystander::{Bystander, Client};
use end_to_end::clock;
use end_to_end::open_loop::OpenLoop;
use end_to_end::process;
use end_to_end::server::Server;
use end_to_end::subject::{self, ServerUnderTest, SocketDriver};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

mod changes;
mod crowds;
mod full_disk;
mod full_sockets;
mod input;

/// A folder for as long as this value exists.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("evenkeel-route-survival-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("make a folder");
        Folder(path)
    }

    /// Writes a file in one step.
    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(self.0.join("new"), text).expect("write");
        std::fs::rename(self.0.join("new"), &path).expect("rename");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // If it fails, the files do no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Room for values of 1 MB and more.
const ROOM: [&str; 4] = ["-m", "256", "-I", "8m"];

fn evenkeel() -> Server {
    Server::start(&ServerUnderTest::evenkeel(SocketDriver::Epoll), &ROOM).expect("a server")
}

/// A list of servers, as a configuration has it.
fn list<'s>(servers: impl IntoIterator<Item = &'s Server>) -> String {
    let servers: Vec<_> = servers.into_iter().map(|server| format!("\"{}\"", server.address())).collect();
    format!("[{}]", servers.join(", "))
}

/// One pool of these servers.
fn pool<'s>(servers: impl IntoIterator<Item = &'s Server>) -> String {
    format!(r#"{{"pools": {{"A": {{"servers": {}}}}}, "route": "PoolRoute|A"}}"#, list(servers))
}

/// A router that gives servers a minute, unless the configuration says otherwise: delays are this machine's.
fn router(configuration: &str, flags: &[&str]) -> Server {
    let flags = [&["--config", configuration, "-t", "60000"], flags].concat();
    Server::start_router(&flags).expect("a router")
}

fn client(server: &Server) -> Client {
    Client::new(server.connect().expect("a connection"))
}

/// Waits for a line of the router.
#[track_caller]
fn says(router: &Server, line: &str) {
    let said = clock::wait_for(|| router.said().contains(line).then_some(()));
    assert!(said.is_some(), "expected {line:?} in {}", router.said());
}
