//! Connects to a server or router, one after the other, while it is replaced: how many were refused, and the longest wait.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use os::clock::{Stopwatch, pause};

use crate::wire::{PeerPlace, converse};

/// Fifty connects a second: a listener that is away for 40 ms is met at least once.
const CONNECT_EVERY: Duration = Duration::from_millis(20);
/// Time for an answer. A server that pauses for longer is one that hangs.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// Bytes of an answer to `version`.
const ANSWER_LEN_MAX: usize = 256;

/// What connects have met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Connects {
    /// How many there were.
    pub(super) all: u32,
    /// Nobody listened.
    pub(super) refused: u32,
    /// Somebody listened, and gave no answer.
    pub(super) unanswered: u32,
    /// The longest time until an answer.
    pub(super) longest: Duration,
}

/// Connects until it is taken.
pub(super) struct Connecting {
    end: Arc<AtomicBool>,
    thread: JoinHandle<Connects>,
}

impl Connecting {
    /// Begins.
    pub(super) fn begin(place: &PeerPlace) -> Result<Connecting, String> {
        let end = Arc::new(AtomicBool::new(false));
        let (of_thread, place) = (Arc::clone(&end), place.clone());
        let work = move || {
            let mut connects = Connects::default();
            while !of_thread.load(Ordering::Acquire) {
                connects.add(&place);
                pause(CONNECT_EVERY);
            }
            connects
        };
        let thread = std::thread::Builder::new().name("connects".to_owned()).spawn(work);
        Ok(Connecting { end, thread: thread.map_err(|error| format!("start a thread: {error}"))? })
    }

    /// Ends it, after the connect that is under way.
    pub(super) fn taken(self) -> Connects {
        self.end.store(true, Ordering::Release);
        self.thread.join().unwrap_or_default()
    }
}

impl Connects {
    fn add(&mut self, place: &PeerPlace) {
        let watch = Stopwatch::start();
        let answer =
            converse(place, b"version\r\n", ANSWER_WITHIN, ANSWER_LEN_MAX, |answer| answer.ends_with(b"\n"));
        self.all += 1;
        match answer {
            Ok(answer) if !answer.is_empty() => self.longest = self.longest.max(watch.passed()),
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::NotFound) => {
                self.refused += 1;
            }
            Ok(_) | Err(_) => self.unanswered += 1,
        }
    }
}
