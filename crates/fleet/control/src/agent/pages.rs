//! Pages of servers and routers (`metrics` in the agent's file): `/api/v1/stats`, which memcached and mcrouter do not have.
//!
//! One thread reads all of them, each on its own time: a page that hangs, lies or is long holds up neither the others nor the agent's look
//! at servers and routers, which takes the last tally. That keeps the time at which it was read.

mod router;
mod server;
mod times;

use std::collections::VecDeque;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_client::{HttpClient, HttpPlace, Method, StatusCode};
use os::clock::Stopwatch;
use rustls::ClientConfig;
use stdx::log_level::LogLevel;
use tokio::time::{sleep, timeout};

use super::figures::AgentFigures;
use crate::service::SayLine;
use crate::words::in_full;

pub(super) use router::RouterPage;
pub(super) use server::ServerPage;

/// Interval of readings: a few between two turns. Each costs the server or router some tenths of a millisecond.
const READ_EVERY: Duration = Duration::from_secs(5);
/// Time for a whole page.
const PAGE_WITHIN: Duration = Duration::from_secs(2);
/// Longest page in bytes. A server's has some 20 KB; that of a router with 10,000 servers has 2 MB.
const PAGE_LEN_MAX: usize = 4 * 1024 * 1024;
/// Readings that are held: percentiles are those since the oldest, of 15 s.
const READINGS_HELD: usize = 4;
/// A page that has not answered for so long is not told any more.
const FORGOTTEN: Duration = Duration::from_secs(60);
/// Readings that fail before it is said: a process that is started listens a moment later.
const SAID_AFTER: u32 = 2;
/// What is read.
const PATH: &str = "/api/v1/stats";

/// Where a page is: `HOST:PORT`, as `--metrics-listen` has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsPlace(HttpPlace);

impl FromStr for MetricsPlace {
    type Err = String;

    fn from_str(text: &str) -> Result<MetricsPlace, String> {
        let wrong = || format!("expected HOST:PORT, found {text:?}");
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let is_host = match bare {
            Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
            None => !host.is_empty() && !host.contains([':', '/', '@', '[', ']', ' ', '?', '#']),
        };
        let port = port.parse().ok().filter(|port| *port > 0 && is_host).ok_or_else(wrong)?;
        let host = bare.unwrap_or(host).to_owned();
        Ok(MetricsPlace(HttpPlace::Network { is_tls: false, host, port }))
    }
}

impl MetricsPlace {
    /// `HOST:PORT`
    pub(super) fn address(&self) -> String {
        self.0.to_string().trim_start_matches("http://").to_owned()
    }
}

impl From<SocketAddr> for MetricsPlace {
    fn from(address: SocketAddr) -> MetricsPlace {
        let host = address.ip().to_string();
        MetricsPlace(HttpPlace::Network { is_tls: false, host, port: address.port() })
    }
}

/// A page of some kind.
pub(super) trait WatchedPage: Sized + Send + 'static {
    /// What travels with a turn.
    type Tally: Clone + Send + 'static;

    /// Reads a page. The error is a clause for people.
    fn parse(page: &[u8]) -> Result<Self, String>;

    /// How long the process runs, by its own clock.
    fn uptime_us(&self) -> u64;

    /// What is told of it, with percentiles since an earlier reading of the same process; `at_ms` is when it was read.
    fn tally(&self, since: Option<&Self>, at_ms: u64) -> Self::Tally;
}

/// Whether a page is that of another process than the one beside it, as far as both are known: then its figures are none of it.
pub(super) fn is_foreign(page: Option<u64>, beside: Option<u64>) -> bool {
    page.zip(beside).is_some_and(|(page, beside)| page != beside)
}

/// The last tally of a page.
pub(super) struct PageTally<T>(Arc<Mutex<Option<T>>>);

impl<T: Clone> PageTally<T> {
    /// What was read last; none before the first reading, and of a page that has not answered for a minute.
    pub(super) fn last(&self) -> Option<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The pages of a host.
pub(super) struct Pages {
    tasks: Vec<Task>,
    tls: Arc<ClientConfig>,
    clock: Stopwatch,
    figures: Arc<AgentFigures>,
    say: SayLine,
}

impl Pages {
    /// None yet. `clock` is the agent's.
    pub(super) fn new(
        tls: Arc<ClientConfig>,
        clock: Stopwatch,
        figures: Arc<AgentFigures>,
        say: SayLine,
    ) -> Pages {
        Pages { tasks: Vec::new(), tls, clock, figures, say }
    }

    /// Will read a page; `name` is whose it is.
    pub(super) fn watch<P: WatchedPage>(&mut self, name: &str, place: &MetricsPlace) -> PageTally<P::Tally> {
        let last = Arc::new(Mutex::new(None));
        let reader = PageReader::<P> {
            name: name.to_owned(),
            place: place.clone(),
            tls: Arc::clone(&self.tls),
            clock: self.clock,
            figures: Arc::clone(&self.figures),
            say: Arc::clone(&self.say),
            readings: VecDeque::new(),
            failures: 0,
            trouble: None,
            last: Arc::clone(&last),
        };
        self.tasks.push(Box::pin(reader.run()));
        PageTally(last)
    }

    /// Starts the thread, if there are pages. It ends with the process.
    pub(super) fn start(self) -> std::io::Result<()> {
        if self.tasks.is_empty() {
            return Ok(());
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        std::thread::Builder::new().name("pages".to_owned()).spawn(move || {
            runtime.block_on(async {
                let tasks: Vec<_> = self.tasks.into_iter().map(tokio::spawn).collect();
                for task in tasks {
                    let _ = task.await;
                }
            });
        })?;
        Ok(())
    }
}

/// The reader of one page.
struct PageReader<P: WatchedPage> {
    name: String,
    place: MetricsPlace,
    tls: Arc<ClientConfig>,
    clock: Stopwatch,
    figures: Arc<AgentFigures>,
    say: SayLine,
    /// The newest one last, all of one process.
    readings: VecDeque<P>,
    /// Why the last reading failed, and since when readings do.
    trouble: Option<Stopwatch>,
    /// Readings that have failed, one after the other.
    failures: u32,
    last: Arc<Mutex<Option<P::Tally>>>,
}

impl<P: WatchedPage> PageReader<P> {
    async fn run(mut self) {
        let client = match HttpClient::new(self.place.0.clone(), Arc::clone(&self.tls), PAGE_WITHIN) {
            Ok(client) => client,
            Err(error) => {
                // There is no other reading.
                self.failures = SAID_AFTER;
                return self.fail(&in_full(&error));
            }
        };
        loop {
            let begun = Stopwatch::start();
            let page = timeout(PAGE_WITHIN, read(&client)).await;
            let page =
                page.unwrap_or_else(|_| Err(format!("no whole page within {} s", PAGE_WITHIN.as_secs())));
            match page.and_then(|page| P::parse(&page)) {
                Ok(page) => self.take(page),
                Err(why) => self.fail(&why),
            }
            sleep(READ_EVERY.saturating_sub(begun.passed())).await;
        }
    }

    fn take(&mut self, page: P) {
        self.figures.note_page(true);
        self.failures = 0;
        if self.trouble.take().is_some() {
            (self.say)(LogLevel::Info, &format!("{}: its page answers again", self.name));
        }
        if self.readings.back().is_some_and(|before| before.uptime_us() >= page.uptime_us()) {
            // It was started again.
            self.readings.clear();
        }
        let tally = page.tally(self.readings.front(), self.clock.ms());
        self.readings.push_back(page);
        if self.readings.len() == READINGS_HELD {
            self.readings.pop_front();
        }
        self.set(Some(tally));
    }

    /// The last tally stays for a while: it says when it was read.
    fn fail(&mut self, why: &str) {
        self.figures.note_page(false);
        self.failures = self.failures.saturating_add(1);
        match &self.trouble {
            None if self.failures < SAID_AFTER => {}
            None => {
                let place = &self.place.0;
                (self.say)(
                    LogLevel::Warning,
                    &format!("{}: no figures from {place}{PATH}: {why}", self.name),
                );
                self.trouble = Some(Stopwatch::start());
            }
            Some(since) if since.passed() >= FORGOTTEN => self.set(None),
            Some(_) => {}
        }
    }

    fn set(&self, tally: Option<P::Tally>) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = tally;
    }
}

async fn read(client: &HttpClient) -> Result<Vec<u8>, String> {
    let sent = client.send(Method::GET, PATH, None, Vec::new()).await;
    let mut answer = sent.map_err(|fault| in_full(&fault))?;
    if answer.status != StatusCode::OK {
        return Err(format!("expected status 200, found {}", answer.status.as_u16()));
    }
    let page = answer.whole(PAGE_LEN_MAX).await.map_err(|fault| in_full(&fault))?;
    page.ok_or_else(|| format!("expected {PAGE_LEN_MAX} bytes at most, found more"))
}

#[cfg(test)]
mod tests;
