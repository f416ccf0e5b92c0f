//! Clients of all routers: without requests, routers know nothing of their servers.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};
use end_to_end::clock;
use end_to_end::fleet::Fleet;

/// Between two gets at each router.
const EVERY: Duration = Duration::from_millis(2);

/// Requests that go on until this value ends.
pub(super) struct Traffic {
    ends: Arc<AtomicBool>,
    clients: Vec<JoinHandle<()>>,
}

impl Traffic {
    /// A client for each router, with keys of all servers.
    pub(super) fn begin(fleet: &Fleet) -> Result<Traffic> {
        let mut traffic = Traffic { ends: Arc::default(), clients: Vec::new() };
        for router in fleet.hosts.iter().filter_map(|host| host.router.as_ref()) {
            let (stream, ends) = (router.connect()?, Arc::clone(&traffic.ends));
            let client = std::thread::Builder::new().spawn(move || {
                // A router that closes the connection is missing in the figures that stand on it.
                let _ = ask(stream, &ends);
            });
            traffic.clients.push(client.context("start a thread")?);
        }
        Ok(traffic)
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        for client in self.clients.drain(..) {
            // It has said what it had to say.
            let _ = client.join();
        }
    }
}

fn ask(mut stream: TcpStream, ends: &AtomicBool) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut part = [0; 4096];
    for number in 0_u64.. {
        if ends.load(Ordering::Relaxed) {
            break;
        }
        write!(stream, "get key{}\r\n", number % 1000)?;
        if stream.read(&mut part)? == 0 {
            break;
        }
        clock::pass(EVERY);
    }
    Ok(())
}
