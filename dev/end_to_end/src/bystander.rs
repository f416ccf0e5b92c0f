//! A well-behaved client beside misbehaving ones, and its measured waits.

use crate::clock;
use crate::process;
use crate::server::Server;
use anyhow::{Context, Result, ensure};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// The pause between two requests: short enough to detect a stall, long enough not to be a load.
const PACE: Duration = Duration::from_millis(2);

/// A client on a thread of its own, until [`Bystander::stop`].
pub struct Bystander {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Experience>>,
}

/// The results of a bystander.
#[derive(Debug, Clone, Copy)]
pub struct Experience {
    /// Requests with a correct answer.
    pub answered: usize,
    /// The longest time that the server worked for others while the bystander waited for an answer. Waits in which the
    /// server did not work are due to other load on the machine; a server that neither works nor answers fails at the
    /// client's timeout.
    pub longest: Duration,
}

impl Bystander {
    /// Connects and begins to store and fetch.
    ///
    /// # Errors
    /// If the server does not accept the connection.
    pub fn start(server: &Server) -> Result<Bystander> {
        let pid = server.pid();
        let mut client = Client::new(server.connect()?);
        client.round(0).context("the bystander, before anything happened")?;
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut experience = Experience { answered: 1, longest: Duration::ZERO };
            while !seen.load(Ordering::Relaxed) {
                let (started, worked) = (clock::now(), process::cpu_time(pid)?);
                client.round(experience.answered).context("the bystander")?;
                experience.answered += 1;
                let wait = started.elapsed().min(process::cpu_time(pid)?.saturating_sub(worked));
                experience.longest = experience.longest.max(wait);
                clock::pass(PACE);
            }
            Ok(experience)
        });
        Ok(Bystander { stop, thread })
    }

    /// Stops, and returns the results.
    ///
    /// # Errors
    /// If one of its requests had a wrong answer.
    pub fn stop(self) -> Result<Experience> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow::anyhow!("the bystander panicked"))?
    }
}

/// One connection, one answer at a time.
pub struct Client {
    reader: BufReader<TcpStream>,
}

impl Client {
    /// A client on a new connection.
    pub fn new(stream: TcpStream) -> Client {
        Client { reader: BufReader::new(stream) }
    }

    /// Sends, and reads one line without its end.
    ///
    /// # Errors
    /// If the server has closed or does not answer.
    pub fn ask(&mut self, request: &[u8]) -> Result<String> {
        self.reader.get_mut().write_all(request).context("send")?;
        self.line()
    }

    /// Reads one line without its end.
    ///
    /// # Errors
    /// If the server has closed or does not answer.
    pub fn line(&mut self) -> Result<String> {
        let mut line = Vec::new();
        self.reader.read_until(b'\n', &mut line).context("wait for an answer")?;
        ensure!(line.ends_with(b"\r\n"), "the connection ended after {}", line.escape_ascii());
        line.truncate(line.len() - 2);
        Ok(String::from_utf8_lossy(&line).into_owned())
    }

    /// Reads one line of a dump, some of which end with a line feed alone, without its end.
    ///
    /// # Errors
    /// If the server has closed or does not answer.
    pub fn dumped_line(&mut self) -> Result<String> {
        let mut line = Vec::new();
        self.reader.read_until(b'\n', &mut line).context("wait for an answer")?;
        ensure!(line.ends_with(b"\n"), "the connection ended after {}", line.escape_ascii());
        Ok(String::from_utf8_lossy(line.trim_ascii_end()).into_owned())
    }

    /// One number of `stats`.
    ///
    /// # Errors
    /// If it is missing.
    pub fn statistic(&mut self, name: &str) -> Result<u64> {
        self.statistic_of("", name)
    }

    /// One number of a group of `stats`.
    ///
    /// # Errors
    /// If it is missing.
    pub fn statistic_of(&mut self, group: &str, name: &str) -> Result<u64> {
        self.reader.get_mut().write_all(format!("stats {group}\r\n").as_bytes())?;
        let mut found = None;
        loop {
            let line = self.line()?;
            if line == "END" {
                return found.with_context(|| format!("find {name} in stats"));
            }
            let mut words = line.split(' ').skip(1);
            if words.next() == Some(name) {
                found = words.next().and_then(|value| value.parse().ok());
            }
        }
    }

    fn round(&mut self, number: usize) -> Result<()> {
        let key = format!("bystander{}", number % 16);
        let value = number.to_string();
        let stored = self.ask(format!("set {key} 0 0 {}\r\n{value}\r\n", value.len()).as_bytes())?;
        ensure!(stored == "STORED", "set was answered {stored}");
        let head = self.ask(format!("get {key}\r\n").as_bytes())?;
        // At the memory limit an item may be evicted between two requests, as in any cache.
        if head == "END" {
            return Ok(());
        }
        ensure!(head == format!("VALUE {key} 0 {}", value.len()), "get was answered {head}");
        ensure!(self.line()? == value && self.line()? == "END", "get brought another value");
        Ok(())
    }
}
