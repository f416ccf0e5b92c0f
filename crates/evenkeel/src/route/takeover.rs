//! The router before this one, from which it takes over, and the one after it (`--takeover`).

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use net::{Giver, Network, Stop};
use router::flags::RouteOptions;
use stdx::words::counted;
use succession::routers::{OfferedRouter, RouterBefore, RouterTakeovers, TakenConnections};
use succession::takeover::TakeoverSocket;

use super::lines::{TRANSIENT, inform, notice};
use super::threads::{ANSWERS_WITHIN, start};
use crate::failure::Failure;
use crate::process::background::{Background, Kept};
use crate::process::pidfile::PidFile;
use crate::process::supervisor::Supervisor;
use crate::terminal::line_queue::{LAST_LINES, LINES};

/// The file with the process id, of the router that is in force.
#[derive(Clone)]
pub(super) struct OwnPidFile {
    path: Option<PathBuf>,
    written: Arc<Mutex<Option<PidFile>>>,
}

impl OwnPidFile {
    pub(super) fn new(options: &RouteOptions) -> OwnPidFile {
        OwnPidFile { path: options.pidfile.clone(), written: Arc::default() }
    }

    /// Writes it.
    pub(super) fn write(&self) -> Result<(), Failure> {
        *self.lock() = self.path.as_deref().map(PidFile::write).transpose()?;
        Ok(())
    }

    fn write_or_tell(&self) {
        if let Err(failure) = self.write() {
            notice(&format!("the process id is in no file: {}", failure.in_one_line()));
        }
    }

    /// Removes it, unless it is another router's by now.
    pub(super) fn remove(&self) {
        drop(self.lock().take());
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<PidFile>> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who has started this process, and waits until it routes.
pub(super) struct Starter {
    supervisor: Supervisor,
    /// The parent that waits (`--background`).
    background: Option<Background>,
}

impl Starter {
    /// Goes to the background, if that was asked for. There must be no other thread yet.
    pub(super) fn begin(options: &RouteOptions) -> Result<Starter, Failure> {
        let supervisor = Supervisor::of_environment();
        let background = options.background.then(|| Background::enter(&supervisor, "route")).transpose()?;
        Ok(Starter { supervisor, background })
    }

    pub(super) fn supervisor(&self) -> &Supervisor {
        &self.supervisor
    }

    /// Tells whoever waits that this router routes. The supervisor knows already of one that has taken over.
    fn tell_ready(self, has_taken_over: bool, verbosity: u8) -> Result<(), Failure> {
        match (self.background, has_taken_over) {
            (Some(background), _) => {
                LINES.finish(LAST_LINES);
                // The configuration is read again later, by the path that it has.
                if !background.detach(&Kept { folder: true, output: verbosity > 0 })? {
                    self.supervisor.ready_in(rustix::process::getpid());
                }
            }
            (None, true) => {}
            (None, false) => self.supervisor.ready(),
        }
        Ok(())
    }
}

/// The part of a start that concerns other routers.
pub(super) struct RouterSuccession {
    before: Option<RouterBefore>,
    pidfile: OwnPidFile,
    path: Option<PathBuf>,
    /// For a successor, where there is no router before this one.
    socket: Option<TakeoverSocket>,
}

impl RouterSuccession {
    /// Asks the router before this one, which still routes.
    pub(super) fn begin(options: &RouteOptions) -> Result<RouterSuccession, Failure> {
        let failed = |error: succession::Error| Failure::from(error).with_status(TRANSIENT);
        let path = options.takeover.clone();
        let before = path.as_deref().map(|path| RouterBefore::ask(path, notice)).transpose();
        let before = before.map_err(failed)?.flatten();
        Ok(RouterSuccession { before, pidfile: OwnPidFile::new(options), path, socket: None })
    }

    /// The sockets of the listeners of the router before.
    pub(super) fn take_listeners(&mut self) -> Vec<Arc<OwnedFd>> {
        self.before.as_mut().map(RouterBefore::take_listeners).unwrap_or_default()
    }

    /// Those of its endpoint of metrics.
    pub(super) fn take_metrics(&mut self) -> Vec<OwnedFd> {
        self.before.as_mut().map(RouterBefore::take_metrics).unwrap_or_default()
    }

    /// What belongs to the router in force, if this one is it already: the file with its process id, and the socket for a successor.
    pub(super) fn claim(&mut self) -> Result<OwnPidFile, Failure> {
        if self.before.is_none() {
            let failed = |error: succession::Error| Failure::from(error).with_status(TRANSIENT);
            self.socket = self.path.as_deref().map(TakeoverSocket::listen).transpose().map_err(failed)?;
            self.pidfile.write().map_err(|failure| failure.with_status(TRANSIENT))?;
        }
        Ok(self.pidfile.clone())
    }

    /// This router routes: takes the connections of the one before, and offers itself to the next. `announce` shows the line of the start.
    pub(super) fn take_over(
        self,
        offered: OfferedNetwork,
        starter: Starter,
        verbosity: u8,
        announce: impl FnOnce(&str),
    ) -> Result<(), Failure> {
        let RouterSuccession { before, pidfile, path, mut socket } = self;
        let supervisor = starter.supervisor.clone();
        let has_taken_over = before.is_some();
        let mut shown = String::new();
        if let Some(before) = before {
            let begin = || {
                // Whoever starts meanwhile finds a router there, and waits until this one offers itself.
                let listen = path.as_deref().map(TakeoverSocket::listen).transpose();
                socket = listen.unwrap_or_else(|error| {
                    notice(&format!("nobody can take over from this router: {}", Failure::from(error)));
                    None
                });
                pidfile.write_or_tell();
                // Before the process ends that the supervisor watches.
                supervisor.ready_in(rustix::process::getpid());
            };
            let stop = &offered.stop;
            let taken = before.take(
                &offered.addresses,
                offered.giver.intake(),
                || stop.is_handing_over() || stop.is_stopped(),
                begin,
            );
            let TakenConnections { connections, dropped } =
                taken.map_err(|error| Failure::from(error).with_status(TRANSIENT))?;
            shown = format!(", with {} of the router before", counted(connections, "connection"));
            if dropped > 0 {
                notice(&format!(
                    "{dropped} connections were closed, because this router does not listen where they came"
                ));
            }
        }
        announce(&shown);
        starter.tell_ready(has_taken_over, verbosity)?;
        if let Some(socket) = socket {
            let OfferedNetwork { addresses, listeners, metrics, giver, stop } = offered;
            let router = OfferedRouter { addresses, listeners, metrics, giver };
            let leaving = Leaving { stop, pidfile, supervisor };
            start("takeover", move || router.offer_to_all(socket, notice, &leaving))?;
        }
        Ok(())
    }
}

/// What a router has for its successor, and its end.
pub(super) struct OfferedNetwork {
    addresses: Vec<String>,
    listeners: Vec<Arc<OwnedFd>>,
    metrics: Vec<OwnedFd>,
    giver: Giver,
    stop: Stop,
}

impl OfferedNetwork {
    pub(super) fn of(
        network: &Network,
        addresses: Vec<String>,
        metrics: Vec<OwnedFd>,
    ) -> Result<OfferedNetwork, net::Error> {
        let (listeners, giver, stop) = (network.sockets()?, network.giver(), network.stop());
        Ok(OfferedNetwork { addresses, listeners, metrics, giver, stop })
    }
}

/// The end of a router whose successor routes.
struct Leaving {
    stop: Stop,
    pidfile: OwnPidFile,
    supervisor: Supervisor,
}

impl RouterTakeovers for Leaving {
    fn taken(&self, left: usize) {
        if left > 0 {
            notice(&format!("{left} connections are closed, because their requests do not end"));
        }
        inform("another process routes from now on");
        self.stop.hand_over(ANSWERS_WITHIN);
    }

    fn goes_on(&self) {
        self.pidfile.write_or_tell();
        self.supervisor.ready_in(rustix::process::getpid());
    }
}
