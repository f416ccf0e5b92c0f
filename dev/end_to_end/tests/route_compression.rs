//! Compression between a router and real servers, with dictionaries in files.

use end_to_end::bystander::Client;
use end_to_end::clock;
use end_to_end::server::Server;
use end_to_end::subject::{ServerUnderTest, SocketDriver};
use std::path::{Path, PathBuf};

/// A folder with a configuration and dictionaries, for as long as this value exists.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("evenkeel-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("make a folder");
        Folder(path)
    }

    /// In one step, as programs that write configurations do.
    fn write(&self, name: &str, bytes: &[u8]) {
        let new = self.0.join("being-written");
        std::fs::write(&new, bytes).expect("write a file");
        std::fs::rename(&new, self.0.join(name)).expect("rename a file");
    }

    fn configure(&self, servers: &[Server], compression: &str) {
        let servers: Vec<_> = servers.iter().map(|server| format!("\"{}\"", server.address())).collect();
        let servers = servers.join(", ");
        let text = format!(
            r#"{{"pools": {{"A": {{"servers": [{servers}]{compression}}}}}, "route": "PoolRoute|A"}}"#
        );
        self.write("route.json", text.as_bytes());
    }

    fn router(&self) -> Server {
        let flag = format!("--config=file:{}", self.file("route.json").display());
        Server::start_router(&[&flag, "--reconfiguration-delay-ms=0"]).expect("a router")
    }

    fn file(&self, name: &str) -> PathBuf {
        Path::new(&self.0).join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // If it fails, the files do no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn client(server: &Server) -> Client {
    Client::new(server.connect().expect("a connection"))
}

/// memcached and ours.
fn servers() -> [Server; 2] {
    let memcached = ServerUnderTest::memcached().expect("a memcached");
    let ours = ServerUnderTest::evenkeel(SocketDriver::Epoll);
    [&memcached, &ours].map(|subject| Server::start::<&str>(subject, &[]).expect("a server"))
}

/// Waits for a line of the router.
#[track_caller]
fn says(router: &Server, line: &str) {
    let said = clock::wait_for(|| router.said().contains(line).then_some(()));
    assert!(said.is_some(), "expected {line:?} in {}", router.said());
}

fn value(number: usize) -> String {
    format!("{{\"name\": \"user {number}\", \"language\": \"en\", \"address\": \"street {number}\"}} ")
        .repeat(20)
}

/// Stores values through the router, and reads them there.
#[track_caller]
fn store_and_read(router: &Server) {
    let mut asked = client(router);
    for number in 0..50 {
        let value = value(number);
        let set = format!("set key:{number} 5 0 {}\r\n{value}\r\n", value.len());
        assert_eq!(asked.ask(set.as_bytes()).expect("an answer"), "STORED");
    }
    read(router);
}

#[track_caller]
fn read(router: &Server) {
    let mut asked = client(router);
    for number in 0..50 {
        let value = value(number);
        let head = asked.ask(format!("get key:{number}\r\n").as_bytes()).expect("an answer");
        assert_eq!(head, format!("VALUE key:{number} 5 {}", value.len()));
        assert_eq!(asked.line().expect("a value"), value);
        assert_eq!(asked.line().expect("the end"), "END");
        let facts = asked.ask(format!("mg key:{number} s f\r\n").as_bytes()).expect("an answer");
        assert_eq!(facts, format!("HD s{} f5", value.len()));
    }
}

/// The sizes of what the servers have, and that each item has the bit.
fn stored(servers: &[Server]) -> Vec<usize> {
    let mut sizes = Vec::new();
    for server in servers {
        let mut asked = client(server);
        for number in 0..50 {
            let answer = asked.ask(format!("mg key:{number} s f\r\n").as_bytes()).expect("an answer");
            let Some(facts) = answer.strip_prefix("HD s") else { continue };
            let (size, flags) = facts.split_once(" f").expect("flags");
            assert_eq!(flags, ((1 << 30) + 5).to_string());
            sizes.push(size.parse().expect("a size"));
        }
    }
    sizes
}

#[test]
fn servers_have_less_than_clients_see() {
    let folder = Folder::new("compression");
    let servers = servers();
    for codec in ["zstd", "lz4"] {
        folder.configure(&servers, &format!(r#", "compression": {{"codec": "{codec}", "flag_bit": 30}}"#));
        let router = folder.router();
        store_and_read(&router);
        let sizes = stored(&servers);
        assert_eq!(sizes.len(), 50);
        assert!(sizes.iter().all(|size| *size < value(0).len() / 4), "{sizes:?}");
    }
}

#[test]
fn a_dictionary_is_rolled_over_while_the_router_runs() {
    let folder = Folder::new("dictionaries");
    let servers = servers();
    folder.write("old", value(1).as_bytes());
    let compression = |files: &str| {
        format!(r#", "compression": {{"codec": "zstd", "flag_bit": 30, "dictionaries": [{files}]}}"#)
    };
    folder.configure(&servers, &compression("\"old\""));
    let router = folder.router();
    store_and_read(&router);

    // One that is not there leaves everything as it was, until it is.
    folder.configure(&servers, &compression("\"new\", \"old\""));
    says(&router, "route.json:1: expected a dictionary that can be read, found: read ");
    read(&router);
    folder.write("new", value(2).as_bytes());
    says(&router, "a new configuration is in force");
    read(&router);

    // Without the old one, what it has made is gone.
    folder.configure(&servers, &compression("\"new\""));
    let mut asked = client(&router);
    let gone = clock::wait_for(|| {
        (asked.ask(b"mg key:1 v\r\n").expect("an answer") == "EN").then_some(()).or_else(|| {
            asked.line().expect("a value");
            None
        })
    });
    assert!(gone.is_some(), "{}", router.said());
    store_and_read(&router);
}
