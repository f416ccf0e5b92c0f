//! A server without sockets, with operations of its peers.

use net::sim::{PeerId, SimHost};
use server::Worker;
use server::options::Options;

const STARTED_UNIX_MS: u64 = 1_800_000_000_000;

pub(crate) struct Server {
    pub(crate) host: SimHost<Worker>,
}

impl Server {
    pub(crate) fn new(options: &Options) -> Server {
        Server { host: server::sim::host(options, STARTED_UNIX_MS, 1) }
    }

    pub(crate) fn ask(&mut self, peer: PeerId, request: &str) -> String {
        self.host.send(peer, request.as_bytes());
        self.take(peer)
    }

    /// All pending output for `peer`, in as many pieces as its window requires.
    pub(crate) fn take(&mut self, peer: PeerId) -> String {
        let mut all = Vec::new();
        loop {
            let output = self.host.take_output(peer);
            if output.is_empty() {
                return String::from_utf8(all).expect("text");
            }
            all.extend_from_slice(&output);
        }
    }

    pub(crate) fn set(&mut self, peer: PeerId, key: &str, value: &str) {
        let reply = self.ask(peer, &format!("set {key} 0 0 {}\r\n{value}\r\n", value.len()));
        assert_eq!(reply, "STORED\r\n", "{key}");
    }
}
