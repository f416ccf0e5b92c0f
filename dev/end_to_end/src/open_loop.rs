//! An open loop over one connection: requests leave at a fixed pace, whatever became of the earlier ones, and each has its
//! answer noted.

use crate::bystander::Client;
use crate::clock;
use anyhow::{Context, Result, bail, ensure};
use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Requests in a second of an ordinary run: as many as a test binary without optimisation sends and checks on a busy machine.
/// `EVENKEEL_TEST_RATE` sets another number.
const RATE: u64 = 2_000;

fn rate() -> u64 {
    let text = std::env::var("EVENKEEL_TEST_RATE").ok();
    text.map_or(RATE, |text| text.parse().expect("EVENKEEL_TEST_RATE is a number of requests in a second"))
}

/// The pause between two looks at what is due.
const TICK: Duration = Duration::from_millis(2);
/// One request in this many rounds over the keys is a set, the others are gets.
const ROUNDS_PER_SET: usize = 4;

/// Sends gets and sets of its keys, each of which has its own name as the value.
pub struct OpenLoop {
    stop: Arc<AtomicBool>,
    counts: Arc<OpenLoopCounts>,
    sender: JoinHandle<Result<()>>,
    reader: JoinHandle<Result<Vec<AnsweredRequest>>>,
}

#[derive(Default)]
struct OpenLoopCounts {
    sent: AtomicUsize,
    answered: AtomicUsize,
}

/// A request and its answer.
#[derive(Debug)]
pub struct AnsweredRequest {
    /// Its key's number.
    pub key: usize,
    /// When it was sent.
    pub sent: Instant,
    /// When its answer was read.
    pub answered: Instant,
    /// The answer: `VALUE` for a hit, else its line.
    pub answer: String,
}

impl AnsweredRequest {
    /// Whether it has failed.
    pub fn is_error(&self) -> bool {
        self.answer.contains("ERROR")
    }

    /// How long it waited for its answer.
    pub fn waited(&self) -> Duration {
        self.answered.duration_since(self.sent)
    }
}

impl OpenLoop {
    /// Begins to send.
    ///
    /// # Errors
    /// If the connection cannot be shared.
    pub fn start(stream: TcpStream, keys: Vec<String>) -> Result<OpenLoop> {
        let (stop, counts) = (Arc::new(AtomicBool::new(false)), Arc::new(OpenLoopCounts::default()));
        let (moments, sent) = channel();
        let (writer, seen, names) = (stream.try_clone().context("share")?, Arc::clone(&stop), keys.clone());
        let count = Arc::clone(&counts);
        let sender = std::thread::spawn(move || send(writer, &names, &seen, (&moments, &count.sent)));
        let count = Arc::clone(&counts);
        let reader =
            std::thread::spawn(move || read(&mut Client::new(stream), &keys, (&sent, &count.answered)));
        Ok(OpenLoop { stop, counts, sender, reader })
    }

    /// Waits until so many requests that are sent from now on have their answers.
    ///
    /// # Errors
    /// If they do not come.
    pub fn go_on_for(&self, count: usize) -> Result<()> {
        let goal = self.counts.sent.load(Ordering::Relaxed) + count;
        let is_there = || {
            let is_over = self.reader.is_finished() || self.counts.answered.load(Ordering::Relaxed) >= goal;
            is_over.then_some(())
        };
        clock::wait_for(is_there).context("answers do not come")
    }

    /// Stops, and returns all requests in their order. Each has its own answer.
    ///
    /// # Errors
    /// If an answer was missing, or that of another request.
    pub fn stop(self) -> Result<Vec<AnsweredRequest>> {
        self.stop.store(true, Ordering::Relaxed);
        let panicked = |_| anyhow::anyhow!("the open loop panicked");
        self.sender.join().map_err(panicked)?.context("send")?;
        self.reader.join().map_err(panicked)?
    }
}

fn is_set(number: usize, keys: usize) -> bool {
    (number / keys).is_multiple_of(ROUNDS_PER_SET)
}

fn send(
    mut stream: TcpStream,
    keys: &[String],
    stop: &AtomicBool,
    (moments, count): (&Sender<Instant>, &AtomicUsize),
) -> Result<()> {
    let (began, rate, mut number, mut text) = (clock::now(), rate(), 0, Vec::new());
    while !stop.load(Ordering::Relaxed) {
        let due = began.elapsed().as_micros() as u64 * rate / 1_000_000;
        text.clear();
        let now = clock::now();
        while number < due as usize {
            let key = &keys[number % keys.len()];
            match is_set(number, keys.len()) {
                true => write!(text, "set {key} 0 0 {}\r\n{key}\r\n", key.len())?,
                false => write!(text, "get {key}\r\n")?,
            }
            // Whoever reads the answers may have stopped at a wrong one.
            let _ = moments.send(now);
            number += 1;
            count.store(number, Ordering::Relaxed);
        }
        stream.write_all(&text)?;
        clock::pass(TICK);
    }
    Ok(stream.write_all(b"mn\r\n")?)
}

fn read(
    client: &mut Client,
    keys: &[String],
    (sent, count): (&Receiver<Instant>, &AtomicUsize),
) -> Result<Vec<AnsweredRequest>> {
    let mut all = Vec::new();
    loop {
        let line = client.line()?;
        let number = all.len();
        let Ok(sent) = sent.recv() else {
            ensure!(line == "MN", "after the last answer came {line:?}");
            return Ok(all);
        };
        let key = &keys[number % keys.len()];
        let answer = match &*line {
            "STORED" if is_set(number, keys.len()) => line,
            "END" if !is_set(number, keys.len()) => line,
            _ if line.starts_with("SERVER_ERROR ") => line,
            _ if !is_set(number, keys.len()) && line == format!("VALUE {key} 0 {}", key.len()) => {
                ensure!(client.line()? == *key && client.line()? == "END", "another value for {key}");
                "VALUE".to_owned()
            }
            _ => bail!("request {number}, {key}, was answered {line:?}"),
        };
        all.push(AnsweredRequest { key: number % keys.len(), sent, answered: clock::now(), answer });
        count.fetch_add(1, Ordering::Relaxed);
    }
}
