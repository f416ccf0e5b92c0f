//! A well-behaved client and its measurements: wrong values, misses, errors and latency.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use stdx::prng::Prng;

use crate::bystander::Client;
use crate::clock;

/// Its items: about 2 MB, a small share of any cache.
const ITEMS: u64 = 10_000;
const VALUE_LEN: usize = 100;
/// The interval at which requests are due, whether the one before was slow or not.
const PACE: Duration = Duration::from_millis(2);
/// One request in this many is a set, the others are gets.
const SETS_SHARE: u64 = 10;

/// A client on a thread of its own, until [`Honest::stop`].
pub struct Honest {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Experience>>,
}

/// The results of an honest client.
#[derive(Clone, Debug, Default)]
pub struct Experience {
    /// Keys requested.
    pub gets: u64,
    /// Keys that were missing; they are stored again.
    pub misses: u64,
    /// Values stored.
    pub sets: u64,
    /// Wrong answers, closed connections included.
    pub errors: u64,
    /// The first error.
    pub first_error: Option<String>,
    /// The time from when a request was due to its answer, in µs.
    pub latencies_us: Vec<u32>,
}

impl Experience {
    /// The quantile of all latencies at this share, in µs.
    pub fn quantile_us(&mut self, share: f64) -> u32 {
        self.latencies_us.sort_unstable();
        let rank = (self.latencies_us.len() as f64 * share).ceil() as usize;
        self.latencies_us.get(rank.saturating_sub(1)).copied().unwrap_or(0)
    }
}

impl Honest {
    /// Stores its items and begins to fetch them.
    ///
    /// # Errors
    /// If the server does not store them.
    pub fn start(address: SocketAddr) -> Result<Honest> {
        let mut visit = Visit { address, client: connect(address)?, random: Prng::new(1) };
        (0..ITEMS).try_for_each(|number| visit.set(number)).context("store the honest client's items")?;
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let thread = std::thread::spawn(move || visit.until(&seen));
        Ok(Honest { stop, thread })
    }

    /// Stops, and returns the results.
    ///
    /// # Errors
    /// If the server could not be reached any more.
    pub fn stop(self) -> Result<Experience> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow::anyhow!("the honest client panicked"))?
    }
}

fn connect(address: SocketAddr) -> Result<Client> {
    let stream = std::net::TcpStream::connect_timeout(&address, clock::PATIENCE).context("connect")?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(clock::PATIENCE))?;
    stream.set_write_timeout(Some(clock::PATIENCE))?;
    Ok(Client::new(stream))
}

struct Visit {
    address: SocketAddr,
    client: Client,
    /// A fixed seed: the order of the keys does not matter.
    random: Prng,
}

impl Visit {
    fn until(mut self, stop: &AtomicBool) -> Result<Experience> {
        let mut experience = Experience::default();
        let mut due = clock::now();
        while !stop.load(Ordering::Relaxed) {
            due += PACE;
            clock::pass_until(due);
            if let Err(error) = self.request(&mut experience) {
                experience.errors += 1;
                experience.first_error.get_or_insert(format!("{error:#}"));
                self.client = connect(self.address).context("connect again")?;
            }
            let latency = clock::now().saturating_duration_since(due).as_micros();
            experience.latencies_us.push(u32::try_from(latency).unwrap_or(u32::MAX));
        }
        Ok(experience)
    }

    fn request(&mut self, experience: &mut Experience) -> Result<()> {
        let number = self.random.below(ITEMS);
        if self.random.below(SETS_SHARE) == 0 {
            experience.sets += 1;
            return self.set(number);
        }
        experience.gets += 1;
        let head = self.client.ask(format!("get honest{number}\r\n").as_bytes())?;
        if head == "END" {
            experience.misses += 1;
            return self.set(number);
        }
        ensure!(head == format!("VALUE honest{number} 0 {VALUE_LEN}"), "get was answered {head}");
        let (body, end) = (self.client.line()?, self.client.line()?);
        ensure!(body == value(number) && end == "END", "get honest{number} brought {body}");
        Ok(())
    }

    fn set(&mut self, number: u64) -> Result<()> {
        let request = format!("set honest{number} 0 0 {VALUE_LEN}\r\n{}\r\n", value(number));
        let answer = self.client.ask(request.as_bytes())?;
        ensure!(answer == "STORED", "set was answered {answer}");
        Ok(())
    }
}

fn value(number: u64) -> String {
    format!("{number:0VALUE_LEN$}")
}
