//! Traffic of one client: it fills a server, and asks it all the time, each time on a connection of its own.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use os::clock::{Stopwatch, pause};

/// Items of a server, of 1 kB each.
pub(super) const ITEMS: usize = 100_000;

/// Between two requests.
const EVERY: Duration = Duration::from_millis(10);

/// What was seen.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) hits: usize,
    pub(super) misses: usize,
    /// Connects that were refused or timed out, and connections that were closed before the answer.
    pub(super) failures: usize,
    /// The longest time between two answers.
    pub(super) longest_gap: Duration,
}

/// A client that is asking.
pub(super) struct Asking {
    is_ended: Arc<AtomicBool>,
    thread: JoinHandle<Seen>,
}

/// Stores all items.
pub(super) fn fill(address: SocketAddr) {
    let stream = TcpStream::connect(address).expect("a server");
    let mut writer = std::io::BufWriter::with_capacity(1 << 20, &stream);
    let value = "x".repeat(1000);
    for at in 0..ITEMS {
        write!(writer, "set k{at} 0 0 1000 noreply\r\n{value}\r\n").expect("a server");
    }
    writer.write_all(b"mn\r\n").and_then(|()| writer.flush()).expect("a server");
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line).expect("a server");
    assert_eq!(line, "MN\r\n");
}

impl Asking {
    pub(super) fn start(address: SocketAddr) -> Asking {
        let is_ended = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&is_ended);
        let thread = thread::spawn(move || {
            let (mut seen, mut last, mut key) = (Seen::default(), Stopwatch::start(), 0);
            while !ended.load(Ordering::Relaxed) {
                // All of them in time, in an order that is none.
                key = (key + 7919) % ITEMS;
                match ask(address, key) {
                    Some(is_hit) => {
                        seen.hits += usize::from(is_hit);
                        seen.misses += usize::from(!is_hit);
                        seen.longest_gap = seen.longest_gap.max(last.passed());
                        last = Stopwatch::start();
                    }
                    None => seen.failures += 1,
                }
                pause(EVERY);
            }
            seen
        });
        Asking { is_ended, thread }
    }

    pub(super) fn end(self) -> Seen {
        self.is_ended.store(true, Ordering::Relaxed);
        self.thread.join().expect("the client")
    }
}

fn ask(address: SocketAddr, key: usize) -> Option<bool> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_millis(300)).ok()?;
    stream.set_read_timeout(Some(Duration::from_millis(300))).ok()?;
    write!(stream, "get k{key}\r\n").ok()?;
    let mut answer = [0; 5];
    stream.read_exact(&mut answer).ok()?;
    Some(&answer == b"VALUE")
}
