//! Clients of all routers: without requests, routers know nothing of their servers. What becomes of the requests is counted.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};
use end_to_end::clock;
use end_to_end::fleet::Fleet;

use crate::clients::reply::read_reply;

/// Between two requests at each router.
const EVERY: Duration = Duration::from_millis(2);
/// Between two attempts to reach a router that does not listen.
const AGAIN: Duration = Duration::from_millis(20);
/// Keys of all servers.
const KEYS: u64 = 1000;
/// A request that has no answer by then is lost. Servers have a second, and there is one after the other.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// What has become of the requests at one router.
#[derive(Default)]
pub(crate) struct RequestCounts {
    pub(crate) answered: AtomicU64,
    /// Answers other than values, misses and `STORED`.
    pub(crate) errors: AtomicU64,
    /// Requests whose connection has ended, or that had no answer in time.
    pub(crate) lost: AtomicU64,
}

/// Requests that go on until this value ends.
pub(crate) struct FleetTraffic {
    ends: Arc<AtomicBool>,
    /// Of each router, in the order of their hosts.
    pub(crate) counts: Vec<Arc<RequestCounts>>,
    clients: Vec<JoinHandle<()>>,
}

impl FleetTraffic {
    /// A client for each router: a third of its requests are sets.
    pub(crate) fn begin(fleet: &Fleet) -> Result<FleetTraffic> {
        let mut traffic = FleetTraffic { ends: Arc::default(), counts: Vec::new(), clients: Vec::new() };
        for router in fleet.hosts.iter().filter_map(|host| host.router.as_ref()) {
            let counts: Arc<RequestCounts> = Arc::default();
            traffic.counts.push(Arc::clone(&counts));
            let client = Client { place: router.address(), ends: Arc::clone(&traffic.ends), counts };
            let client = std::thread::Builder::new().spawn(move || client.run());
            traffic.clients.push(client.context("start a thread")?);
        }
        Ok(traffic)
    }

    /// Answered requests, those with errors, and those that were lost, at these routers.
    pub(crate) fn sum(&self, routers: impl Iterator<Item = usize>) -> [u64; 3] {
        let mut sum = [0; 3];
        for at in routers {
            let counts = &self.counts[at];
            for (sum, count) in sum.iter_mut().zip([&counts.answered, &counts.errors, &counts.lost]) {
                *sum += count.load(Ordering::Relaxed);
            }
        }
        sum
    }
}

impl Drop for FleetTraffic {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        for client in self.clients.drain(..) {
            // It has said what it had to say.
            let _ = client.join();
        }
    }
}

struct Client {
    place: SocketAddr,
    ends: Arc<AtomicBool>,
    counts: Arc<RequestCounts>,
}

impl Client {
    fn run(&self) {
        let (mut stream, mut number) = (None, 0);
        while !self.ends.load(Ordering::Relaxed) {
            let Some(open) = stream.as_mut() else {
                stream = self.connect().ok();
                if stream.is_none() {
                    clock::pass(AGAIN);
                }
                continue;
            };
            match ask(open, number) {
                Ok(false) => self.counts.answered.fetch_add(1, Ordering::Relaxed),
                Ok(true) => self.counts.errors.fetch_add(1, Ordering::Relaxed),
                Err(_) => {
                    stream = None;
                    self.counts.lost.fetch_add(1, Ordering::Relaxed)
                }
            };
            number += 1;
            clock::pass(EVERY);
        }
    }
}

impl Client {
    fn connect(&self) -> std::io::Result<TcpStream> {
        let stream = TcpStream::connect(self.place)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_WITHIN))?;
        Ok(stream)
    }
}

/// Whether the answer is an error.
fn ask(stream: &mut TcpStream, number: u64) -> std::io::Result<bool> {
    let key = number % KEYS;
    // In one piece: the second part of a request would wait for the acknowledgement of the first.
    let request = match number % 3 {
        0 => format!("set key{key} 0 0 1\r\nx\r\n"),
        _ => format!("get key{key}\r\n"),
    };
    stream.write_all(request.as_bytes())?;
    let reply = read_reply(stream)?;
    Ok(!reply.ends_with(b"END\r\n") && reply != b"STORED\r\n")
}
