//! Clients of a server that is upgraded: they count what they miss, and measure how long they wait.

use os::clock::Stopwatch;
use std::io::{BufRead, BufReader, Result, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

/// A connection.
struct Client(BufReader<TcpStream>);

impl Client {
    fn connect(port: u16) -> Result<Client> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        // A server that does not answer must fail the test, not hang it.
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        stream.set_nodelay(true)?;
        Ok(Client(BufReader::new(stream)))
    }

    fn send(&mut self, text: &str) -> Result<()> {
        self.0.get_mut().write_all(text.as_bytes())
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        Ok(line)
    }

    /// Whether the server has the item of this number.
    fn has(&mut self, number: usize) -> Result<bool> {
        self.send(&format!("mg key-{number} v\r\n"))?;
        let value = format!("value of {number}");
        let head = self.line()?;
        if head == "EN\r\n" {
            return Ok(false);
        }
        assert_eq!((head, self.line()?), (format!("VA {}\r\n", value.len()), format!("{value}\r\n")));
        Ok(true)
    }
}

/// Stores items with the numbers below `count`.
pub(super) fn fill(port: u16, count: usize) {
    let mut client = Client::connect(port).expect("a server");
    for number in 0..count {
        let value = format!("value of {number}");
        client.send(&format!("ms key-{number} {} q\r\n{value}\r\n", value.len())).expect("a set");
    }
    client.send("mn\r\n").expect("a request");
    assert_eq!(client.line().expect("a reply"), "MN\r\n");
}

/// How many of the items with these numbers the server has.
pub(super) fn count(port: u16, count: usize) -> usize {
    let mut client = Client::connect(port).expect("a server");
    (0..count).filter(|number| client.has(*number).expect("a reply")).count()
}

/// What clients have seen.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) requests: usize,
    pub(super) misses: usize,
    /// Connects that failed.
    pub(super) refused: usize,
    /// Connections that ended before their client did.
    pub(super) lost: usize,
    /// The longest time from a request to its reply, connecting included.
    pub(super) longest: Duration,
}

/// Clients that ask until they are told to stop.
pub(super) struct Clients {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Seen>>,
}

impl Clients {
    /// Two with a connection that they keep, and one that connects for each request, for items with numbers below `count`.
    pub(super) fn start(port: u16, count: usize) -> Clients {
        let stop = Arc::new(AtomicBool::new(false));
        let client = |keeps: bool, first: usize| {
            let stop = Arc::clone(&stop);
            spawn(move || ask(port, count, first, keeps, &stop))
        };
        let threads = vec![client(true, 0), client(true, count / 2), client(false, count / 3)];
        Clients { stop, threads }
    }

    /// What all of them have seen.
    pub(super) fn stop(self) -> Seen {
        self.stop.store(true, Ordering::Relaxed);
        let seen = self.threads.into_iter().map(|thread| thread.join().expect("a client"));
        seen.fold(Seen::default(), |all, one| Seen {
            requests: all.requests + one.requests,
            misses: all.misses + one.misses,
            refused: all.refused + one.refused,
            lost: all.lost + one.lost,
            longest: all.longest.max(one.longest),
        })
    }
}

fn ask(port: u16, count: usize, first: usize, keeps: bool, stop: &AtomicBool) -> Seen {
    let mut seen = Seen::default();
    let mut kept = None;
    for number in (0..count).cycle().skip(first) {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let clock = Stopwatch::start();
        let Ok(mut client) = kept.take().map_or_else(|| Client::connect(port), Ok) else {
            seen.refused += 1;
            continue;
        };
        match client.has(number) {
            Ok(true) => {}
            Ok(false) => seen.misses += 1,
            Err(_) => seen.lost += 1,
        }
        seen.requests += 1;
        seen.longest = seen.longest.max(clock.passed());
        kept = keeps.then_some(client);
    }
    seen
}
