//! Servers: which of them answer, what waits for each, and when one that does not answer is asked again.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use os::clock::Stopwatch;
use stdx::log_level::LogLevel;
use wire::ServerAddress;

use super::courier::{Courier, CourierReport, Dialling, Errand, SpooledLine};
use super::options::{ReplayNotice, ReplayOptions};

/// Connections, and their threads, at a time. Beyond it one that has nothing to do ends, or a delete waits for that.
const COURIERS_MAX: usize = 256;

/// Servers that are remembered. A file that was written by somebody else may name as many as it has lines.
const SERVERS_MAX: usize = 10_000;

/// A server that does not answer is asked again after this time, then after twice as long, and so on up to the longest.
const ASK_AGAIN: Duration = Duration::from_secs(1);
const ASK_AGAIN_MAX: Duration = Duration::from_secs(30);

/// Lines about servers that are written in ten seconds.
const SAID_MAX: u32 = 10;
const SAID_TIME: Duration = Duration::from_secs(10);

/// What a delete may do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// Go on its way.
    Free,
    /// Wait for a report.
    Full,
    /// Stay in its file: its server does not answer.
    Away,
    /// Stay in its file: its server cannot be remembered now.
    TooMany,
}

pub(super) struct Fleet {
    dialling: Dialling,
    /// Deletes of one server on their way; as many wait.
    window: usize,
    notice: ReplayNotice,
    servers: HashMap<Arc<str>, Served>,
    couriers: usize,
    busy: usize,
    sender: Sender<CourierReport>,
    reports: Receiver<CourierReport>,
    clock: Stopwatch,
    said: (Duration, u32),
}

/// A server.
struct Served {
    address: ServerAddress,
    courier: Option<Courier>,
    is_busy: bool,
    waiting: Vec<SpooledLine>,
    away: Option<Away>,
    tally: ServerTally,
}

struct Away {
    /// By the fleet's clock.
    until: Duration,
    delay: Duration,
}

/// Counts of a server.
#[derive(Clone, Debug, Default)]
pub struct ServerTally {
    /// The server's address, as records name it.
    pub name: Arc<str>,
    /// Deletes that it has carried out.
    pub sent: u64,
    /// Answers that are errors, and broken connections.
    pub failures: u64,
    /// The last one.
    pub trouble: Option<String>,
    /// The server does not answer.
    pub is_away: bool,
}

impl Fleet {
    pub(super) fn new(options: &ReplayOptions) -> Fleet {
        let (sender, reports) = channel();
        Fleet {
            dialling: Dialling { tls: options.tls.clone(), within: options.timeout },
            window: options.window,
            notice: options.notice,
            servers: HashMap::new(),
            couriers: 0,
            busy: 0,
            sender,
            reports,
            clock: Stopwatch::start(),
            said: (Duration::ZERO, 0),
        }
    }

    /// What a delete for this server may do. The name is one that [`ServerAddress::parse`] takes.
    pub(super) fn room(&mut self, server: &str) -> Room {
        let known = self.servers.get(server);
        match known {
            Some(served) if served.away.is_some() => return Room::Away,
            Some(served) if served.waiting.len() >= self.window && served.is_busy => return Room::Full,
            Some(served) if served.courier.is_some() => return Room::Free,
            None if self.servers.len() >= SERVERS_MAX => return Room::TooMany,
            _ => {}
        }
        if self.couriers >= COURIERS_MAX && !self.dismiss_one() { Room::Full } else { Room::Free }
    }

    fn served(&mut self, server: &str) -> io::Result<&mut Served> {
        if !self.servers.contains_key(server) {
            let address = ServerAddress::parse(server);
            let address = address.ok_or_else(|| io::Error::other(format!("{server} is no address")))?;
            let served = Served {
                address,
                courier: None,
                is_busy: false,
                waiting: Vec::new(),
                away: None,
                tally: ServerTally::default(),
            };
            self.servers.insert(server.into(), served);
        }
        Ok(self.servers.get_mut(server).expect("it is there by now"))
    }

    /// Counts a delete that a dry run does not send.
    pub(super) fn would_send(&mut self, server: &str) -> io::Result<()> {
        if self.servers.len() < SERVERS_MAX || self.servers.contains_key(server) {
            self.served(server)?.tally.sent += 1;
        }
        Ok(())
    }

    /// Sends a delete, or lets it wait, after [`Room::Free`].
    pub(super) fn send(&mut self, server: &str, line: SpooledLine) -> io::Result<()> {
        self.served(server)?;
        self.start_courier(server)?;
        let served = self.served(server)?;
        served.waiting.push(line);
        if !served.is_busy {
            let lines = std::mem::take(&mut served.waiting);
            self.order(server, Errand::Send(lines));
        }
        Ok(())
    }

    fn start_courier(&mut self, server: &str) -> io::Result<()> {
        let Some((name, _)) = self.servers.get_key_value(server) else { return Ok(()) };
        let name = Arc::clone(name);
        let served = self.servers.get_mut(server).expect("it was there");
        if served.courier.is_none() {
            let (address, dialling) = (served.address.clone(), self.dialling.clone());
            served.courier = Some(Courier::start(name, address, dialling, self.sender.clone())?);
            self.couriers += 1;
        }
        Ok(())
    }

    fn order(&mut self, server: &str, errand: Errand) {
        let served = self.servers.get_mut(server).expect("only servers with a courier have errands");
        served.courier.as_ref().expect("it was started").send(errand);
        served.is_busy = true;
        self.busy += 1;
    }

    /// Ends the courier of a server that has nothing to do; whether there is one.
    fn dismiss_one(&mut self) -> bool {
        let idle = self.servers.values_mut().find(|served| served.courier.is_some() && !served.is_busy);
        let dismissed = idle.map(|served| served.courier = None);
        self.couriers -= usize::from(dismissed.is_some());
        dismissed.is_some()
    }

    /// Whether nothing is on its way.
    pub(super) fn is_idle(&self) -> bool {
        self.busy == 0
    }

    /// The next report, if one comes within this time. Deletes that waited for a server that has failed are in it.
    pub(super) fn report(&mut self, within: Duration) -> Option<CourierReport> {
        let mut report = self.reports.recv_timeout(within).ok()?;
        self.busy -= 1;
        let now = self.clock.passed();
        let served = self.servers.get_mut(&report.server).expect("servers with a courier are remembered");
        served.is_busy = false;
        served.tally.sent += report.done;
        let trouble = report.failure.as_ref().or(report.refusal.as_ref());
        served.tally.failures += u64::from(trouble.is_some());
        served.tally.trouble = trouble.cloned().or(served.tally.trouble.take());
        match &report.failure {
            Some(why) => {
                let delay =
                    served.away.as_ref().map_or(ASK_AGAIN, |away| (away.delay * 2).min(ASK_AGAIN_MAX));
                let is_new = served.away.is_none();
                served.away = Some(Away { until: now + delay, delay });
                report.undone.append(&mut served.waiting);
                if is_new {
                    let line =
                        format!("{} does not answer, its deletes stay meanwhile: {why}", report.server);
                    self.tell(&line);
                }
            }
            None => {
                let was_away = served.away.take().is_some();
                let lines = std::mem::take(&mut served.waiting);
                if !lines.is_empty() {
                    self.order(&report.server, Errand::Send(lines));
                }
                if was_away {
                    self.tell(&format!("{} answers again", report.server));
                }
            }
        }
        Some(report)
    }

    fn tell(&mut self, line: &str) {
        let now = self.clock.passed();
        if now.saturating_sub(self.said.0) >= SAID_TIME {
            self.said = (now, 0);
        }
        self.said.1 += 1;
        if self.said.1 <= SAID_MAX {
            (self.notice)(LogLevel::Warning, line);
        }
    }

    /// Whether this server is known not to answer.
    pub(super) fn is_away(&self, server: &str) -> bool {
        self.servers.get(server).is_some_and(|served| served.away.is_some())
    }

    /// Asks servers that are away and whose time has come, as far as there are couriers. Reports tell.
    pub(super) fn ask_again(&mut self) -> io::Result<()> {
        let now = self.clock.passed();
        let is_due = |served: &Served| served.away.as_ref().is_some_and(|away| away.until <= now);
        let due = self.servers.iter().filter(|(_, served)| is_due(served) && !served.is_busy);
        let due: Vec<Arc<str>> = due.map(|(name, _)| Arc::clone(name)).collect();
        for name in due {
            if self.servers[&name].courier.is_none() && self.couriers >= COURIERS_MAX && !self.dismiss_one() {
                break;
            }
            self.start_courier(&name)?;
            self.order(&name, Errand::Ask);
        }
        Ok(())
    }

    /// Closes connections, and forgets servers of which there is nothing to remember.
    pub(super) fn rest(&mut self) {
        for served in self.servers.values_mut().filter(|served| !served.is_busy) {
            self.couriers -= usize::from(served.courier.take().is_some());
        }
        if self.servers.len() >= SERVERS_MAX {
            self.servers.retain(|_, served| served.is_busy || served.away.is_some());
        }
    }

    /// Servers by name, with their counts.
    pub(super) fn tallies(&self) -> Vec<ServerTally> {
        let tally = |(name, served): (&Arc<str>, &Served)| ServerTally {
            name: Arc::clone(name),
            is_away: served.away.is_some(),
            ..served.tally.clone()
        };
        let mut all: Vec<_> = self.servers.iter().map(tally).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }
}
