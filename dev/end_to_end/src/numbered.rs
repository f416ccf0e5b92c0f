//! Clients that write numbers through routers, each number once, and notice a value that is older than one that was
//! acknowledged before they asked.

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::clock;
use crate::fleet::Fleet;
use crate::network::{FleetHost, FleetNetwork};

/// Keys: each has one client that writes it.
pub const KEYS: usize = 60;
/// The pause of a client between two requests: 200 a second and client.
const PAUSE: Duration = Duration::from_millis(5);
/// Longest wait for an answer; routers answer for a lost server much earlier.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Longest answer.
const ANSWER_LEN_MAX: usize = 4096;

/// The largest number of each key that a client was told is stored.
#[derive(Debug)]
pub struct Acknowledged([AtomicU64; KEYS]);

/// A client beside a router; it ends with this value.
#[derive(Debug)]
pub struct NumberedClient {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    seen: Arc<Seen>,
}

/// What a client has seen.
#[derive(Debug, Default)]
struct Seen {
    requests: AtomicUsize,
    hits: AtomicUsize,
    errors: Mutex<Vec<String>>,
    old: Mutex<Vec<String>>,
}

impl Acknowledged {
    /// Of keys that nobody has written.
    pub fn new() -> Arc<Acknowledged> {
        Arc::new(Acknowledged(std::array::from_fn(|_| AtomicU64::new(0))))
    }

    fn of(&self, key: usize) -> u64 {
        self.0[key].load(Ordering::SeqCst)
    }
}

/// The name of a key.
pub fn name(key: usize) -> String {
    format!("numbered{key}")
}

impl NumberedClient {
    /// A client on the host of a router, which writes every key whose number leaves `turn.0` when it is divided by `turn.1`.
    pub fn start(
        fleet: &Fleet,
        router: usize,
        turn: (usize, usize),
        all: &Arc<Acknowledged>,
    ) -> NumberedClient {
        let (stop, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(Seen::default()));
        let (stopped, noted, all) = (Arc::clone(&stop), Arc::clone(&seen), Arc::clone(all));
        let (network, place) = (fleet.network, FleetHost::Host(router));
        let connection = Connection { network, place, router: fleet.router_address(router), stream: None };
        let work = move || ask_on(connection, turn, &all, &stopped, &noted);
        NumberedClient { stop, thread: Some(std::thread::spawn(work)), seen }
    }

    /// Requests so far.
    pub fn requests(&self) -> usize {
        self.seen.requests.load(Ordering::SeqCst)
    }

    /// Gets that have found something.
    pub fn hits(&self) -> usize {
        self.seen.hits.load(Ordering::SeqCst)
    }

    /// Errors since the last call.
    pub fn take_errors(&self) -> Vec<String> {
        std::mem::take(&mut *self.seen.errors.lock().expect("no panic"))
    }

    /// Old values since the last call.
    pub fn take_old(&self) -> Vec<String> {
        std::mem::take(&mut *self.seen.old.lock().expect("no panic"))
    }
}

impl Drop for NumberedClient {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // It has panicked, and its test fails for want of requests.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// A get and a set in turns, until told to stop.
fn ask_on(
    mut connection: Connection,
    turn: (usize, usize),
    all: &Acknowledged,
    stop: &AtomicBool,
    seen: &Seen,
) {
    let mut number = 0;
    while !stop.load(Ordering::SeqCst) {
        number += 1;
        let step = usize::try_from(number).expect("a small number");
        let done = match number % 2 {
            0 => {
                let written = (step / 2 * turn.1 + turn.0) % KEYS;
                set(&mut connection, written, all.of(written).max(number) + 1, all)
            }
            _ => get(&mut connection, step / 2 % KEYS, all, seen),
        };
        seen.requests.fetch_add(1, Ordering::SeqCst);
        if let Err(error) = done {
            connection.stream = None;
            seen.errors.lock().expect("no panic").push(error.to_string());
        }
        clock::pass(PAUSE);
    }
}

fn set(connection: &mut Connection, key: usize, number: u64, all: &Acknowledged) -> Result<()> {
    let text = number.to_string();
    let request = format!("set {} 0 0 {}\r\n{text}\r\n", name(key), text.len());
    let answer = connection.ask(&request)?;
    if answer != "STORED\r\n" {
        return Err(Error::other(format!("set {key}: {}", answer.trim_end())));
    }
    all.0[key].fetch_max(number, Ordering::SeqCst);
    Ok(())
}

fn get(connection: &mut Connection, key: usize, all: &Acknowledged, seen: &Seen) -> Result<()> {
    let least = all.of(key);
    let answer = connection.ask(&format!("get {}\r\n", name(key)))?;
    if answer == "END\r\n" {
        return Ok(());
    }
    let found = answer.lines().nth(1).and_then(|value| value.parse::<u64>().ok());
    let found = found.ok_or_else(|| Error::other(format!("get {key}: {}", answer.trim_end())))?;
    seen.hits.fetch_add(1, Ordering::SeqCst);
    if found < least {
        let old = format!("{} is {found}, and {least} was stored before", name(key));
        seen.old.lock().expect("no panic").push(old);
    }
    Ok(())
}

/// A connection to a router, made when it is needed.
struct Connection {
    network: FleetNetwork,
    place: FleetHost,
    router: SocketAddr,
    stream: Option<TcpStream>,
}

impl Connection {
    fn ask(&mut self, request: &str) -> Result<String> {
        if self.stream.is_none() {
            let stream = self.network.within(self.place, || TcpStream::connect(self.router))?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(ANSWER_WITHIN))?;
            self.stream = Some(stream);
        }
        let stream = self.stream.as_mut().expect("a connection");
        stream.write_all(request.as_bytes())?;
        let (mut answer, mut part) = (Vec::new(), [0; 512]);
        let is_whole = |answer: &[u8]| {
            answer.ends_with(b"END\r\n") || answer.ends_with(b"\r\n") && !answer.starts_with(b"VALUE")
        };
        while !is_whole(&answer) && answer.len() < ANSWER_LEN_MAX {
            match stream.read(&mut part)? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                len => answer.extend_from_slice(&part[..len]),
            }
        }
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }
}
