//! A controller that a test plays on a unix socket: it answers turns with the orders that the test says, and notes what agents say.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use end_to_end::clock;
use serde_json::{Value, json};

/// The wait of a turn without news.
const WAIT: Duration = Duration::from_millis(100);

#[derive(Default)]
struct State {
    /// What it answers; none to answer nothing.
    orders: Option<Value>,
    version: u64,
    /// The last report.
    said: Value,
    /// Agents that have said something, by the number of their process, the newest last.
    boots: Vec<Value>,
}

impl State {
    /// An agent takes its turns on several connections: a report may arrive after a later one, and one of an agent that was killed after
    /// those of the next. As a real controller, this one believes no older report.
    fn note(&mut self, report: Value) {
        let boot = report["boot"].clone();
        if self.boots.last() == Some(&boot) {
            if report["turn"].as_u64() > self.said["turn"].as_u64() {
                self.said = report;
            }
        } else if !self.boots.contains(&boot) {
            self.boots.push(boot);
            self.said = report;
        }
    }
}

/// The controller. Its thread ends with the process.
#[derive(Clone)]
pub(super) struct PlayedController(Arc<Mutex<State>>);

impl PlayedController {
    pub(super) fn begin(path: &Path) -> PlayedController {
        let listener = UnixListener::bind(path).expect("a socket");
        let played = PlayedController(Arc::default());
        let own = played.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let own = own.clone();
                // Whatever is wrong with a connection, the agent makes another one.
                std::thread::spawn(move || own.serve(stream));
            }
        });
        played
    }

    /// From now on, it answers this; with `None` it closes every connection. Returns the version of these orders.
    pub(super) fn order(&self, orders: Option<Value>) -> u64 {
        let mut state = self.lock();
        state.version += 1;
        state.orders = orders;
        state.version
    }

    /// The last report.
    pub(super) fn said(&self) -> Value {
        self.lock().said.clone()
    }

    /// Waits for a report of this kind.
    #[track_caller]
    pub(super) fn until<T>(&self, is_so: impl Fn(&Value) -> Option<T>) -> T {
        clock::wait_for(|| is_so(&self.said())).unwrap_or_else(|| panic!("it says {}", self.said()))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers the requests of one connection.
    fn serve(&self, stream: UnixStream) -> Option<()> {
        let mut reader = BufReader::new(stream.try_clone().ok()?);
        loop {
            let mut len = 0;
            loop {
                let mut line = String::new();
                if reader.read_line(&mut line).ok()? == 0 {
                    return None;
                }
                let line = line.trim().to_ascii_lowercase();
                if line.is_empty() {
                    break;
                }
                if let Some(found) = line.strip_prefix("content-length:") {
                    len = found.trim().parse().ok()?;
                }
            }
            let mut body = vec![0; len];
            reader.read_exact(&mut body).ok()?;
            let report: Value = serde_json::from_slice(&body).ok()?;
            let answer = self.answer(report)?.to_string();
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length:";
            write!(&stream, "{head} {}\r\n\r\n{answer}", answer.len()).ok()?;
        }
    }

    fn answer(&self, report: Value) -> Option<Value> {
        let (seen, wait) = (report["seen"].as_u64(), report["wait_ms"] != 0);
        self.lock().note(report);
        if wait && seen == Some(self.lock().version) {
            clock::pass(WAIT);
        }
        let state = self.lock();
        let mut orders = state.orders.clone()?;
        orders["version"] = json!(state.version);
        Some(orders)
    }
}
