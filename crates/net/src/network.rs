//! A network: listeners, an acceptor, workers.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::{Builder, JoinHandle};

use rustix::io::Errno;

use crate::acceptor::Acceptor;
use crate::address::Address;
use crate::driver::Driver;
use crate::handler::Handler;
use crate::limit::Limit;
use crate::listener::{Listen, Listener, bind_udp};
use crate::mailbox::{Letter, Mailbox, ring};
use crate::options::{Notice, Options};
use crate::roster::{Keeper, Roster};
use crate::view::View;
use crate::worker::{Surroundings, Worker};

/// What can go wrong with a network as a whole.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An address could not be listened on.
    #[error("listen on {place}")]
    Listen {
        /// The address.
        place: Listen,
        /// Why.
        source: io::Error,
    },
    /// The system refused what every thread needs (an epoll set, an event descriptor).
    #[error("set up event waiting")]
    Waiting(#[source] io::Error),
    /// A thread could not be started.
    #[error("start thread {name}")]
    Thread {
        /// Its name.
        name: String,
        /// Why.
        source: io::Error,
    },
}

impl From<Errno> for Error {
    fn from(error: Errno) -> Error {
        Error::Waiting(error.into())
    }
}

/// Bound sockets, not served yet.
pub struct Network {
    listeners: Vec<Bound>,
    options: Options,
    view: View,
    stop: Stop,
}

/// What one of the places has become.
enum Bound {
    Stream(Listener),
    /// A socket for each worker.
    Datagrams(SocketAddr, Vec<OwnedFd>),
}

impl Network {
    /// Binds all of `places`. Clients can connect from now on, and wait until the network is started.
    pub fn bind(places: &[Listen], options: Options) -> Result<Network, Error> {
        assert!(options.workers > 0, "a network needs a worker");
        let bind = |place: &Listen| {
            let bound = match place {
                Listen::Udp(address) => {
                    bind_udp(*address, options.workers).map(|(at, sockets)| Bound::Datagrams(at, sockets))
                }
                _ => Listener::bind(place, options.backlog).map(Bound::Stream),
            };
            bound.map_err(|source| Error::Listen { place: place.clone(), source })
        };
        let listeners = places.iter().map(bind).collect::<Result<Vec<_>, _>>()?;
        let limit = Arc::new(Limit::new(options.connections_max)?);
        let rosters = (0..options.workers).map(|_| Arc::new(Roster::new())).collect();
        let mailboxes =
            (0..options.workers).map(|_| Mailbox::new().map(Arc::new)).collect::<Result<Vec<_>, _>>()?;
        let stop = Stop { stopping: Arc::default(), mailboxes: mailboxes.into(), limit: Arc::clone(&limit) };
        Ok(Network { listeners, options, view: View { limit, rosters }, stop })
    }

    /// Where it listens, in the order of `places`, with the ports that the kernel chose.
    pub fn addresses(&self) -> Vec<Address> {
        let address = |bound: &Bound| match bound {
            Bound::Stream(listener) => listener.address.clone(),
            Bound::Datagrams(address, _) => Address::Udp(*address),
        };
        self.listeners.iter().map(address).collect()
    }

    /// The descriptors of what listens, in the same order: names that people know from other tools, nothing to be
    /// used. For datagrams, the first worker's.
    pub fn descriptors(&self) -> Vec<i32> {
        let descriptor = |bound: &Bound| match bound {
            Bound::Stream(listener) => listener.fd.as_raw_fd(),
            Bound::Datagrams(_, sockets) => sockets[0].as_raw_fd(),
        };
        self.listeners.iter().map(descriptor).collect()
    }

    /// How the operator is told.
    pub fn notice(&self) -> Notice {
        self.options.notice
    }

    /// For handlers and others who report on the network.
    pub fn view(&self) -> View {
        self.view.clone()
    }

    /// For whoever may end it.
    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// For other threads that have something new for the handlers.
    pub fn nudge(&self) -> Nudge {
        Nudge { mailboxes: Arc::clone(&self.stop.mailboxes) }
    }

    /// Starts to serve: one worker for each of `handlers`, of which there must be [`Options::workers`].
    pub fn start<H: Handler + Send + 'static>(self, handlers: Vec<H>) -> Result<Running<H>, Error> {
        assert_eq!(handlers.len(), self.options.workers, "one handler for each worker");
        let mut running = Running { workers: Vec::new(), acceptor: None, stop: self.stop.clone() };
        let Options { driver, dialled_max, idle_timeout_s, clock, at_limit, notice, .. } = self.options;
        let (preparing, all_prepared) = channel::<()>();
        let (mut listeners, mut datagram_sockets) = (Vec::new(), Vec::new());
        datagram_sockets.resize_with(self.options.workers, Vec::new);
        for (bound, number) in self.listeners.into_iter().zip(0_u16..) {
            match bound {
                Bound::Stream(listener) => listeners.push((number, listener)),
                Bound::Datagrams(_, sockets) => {
                    let own = datagram_sockets.iter_mut().zip(sockets);
                    own.for_each(|(own, socket): (&mut Vec<_>, _)| own.push((number, socket)));
                }
            }
        }
        for (number, handler) in handlers.into_iter().enumerate() {
            let around = Surroundings {
                mailbox: Arc::clone(&self.stop.mailboxes[number]),
                limit: Arc::clone(&self.view.limit),
                keeper: Keeper::new(Arc::clone(&self.view.rosters[number])),
                datagram_sockets: std::mem::take(&mut datagram_sockets[number]),
                dialled_max,
                idle_timeout_s,
                notice,
            };
            let ends_all = EndsAll(self.stop.clone());
            let preparing = preparing.clone();
            let work = move || {
                let _ends_all = ends_all;
                let worker = Worker::on_system(handler, Driver::choose(driver), around)?;
                drop(preparing);
                worker.run(clock)
            };
            running.workers.push(spawn(format!("worker-{number}"), work)?);
        }
        let mailboxes = self.stop.mailboxes.to_vec();
        let stopping = Arc::clone(&self.stop.stopping);
        let ends_all = EndsAll(self.stop.clone());
        let accept = move || {
            let _ends_all = ends_all;
            Acceptor::new(listeners, mailboxes, self.view.limit, at_limit, stopping)?.run()
        };
        running.acceptor = Some(spawn("acceptor".to_owned(), accept)?);
        // Ends when the last worker has let go of its end: from now on the view can tell their drivers.
        drop(preparing);
        let _ = all_prepared.recv();
        Ok(running)
    }
}

fn spawn<T: Send + 'static>(
    name: String,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, Error> {
    Builder::new().name(name.clone()).spawn(work).map_err(|source| Error::Thread { name, source })
}

/// Ends a network. Cheap to clone; can be used from any thread, any number of times.
#[derive(Clone)]
pub struct Stop {
    stopping: Arc<AtomicBool>,
    mailboxes: Arc<[Arc<Mailbox>]>,
    limit: Arc<Limit>,
}

impl Stop {
    /// Lets the acceptor close its listeners and every worker finish its round and close its connections.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        ring(&self.limit.bell);
        for mailbox in self.mailboxes.iter() {
            mailbox.post(&mut vec![Letter::Stop]);
        }
    }
}

/// Has workers begin a turn. Cheap to clone; can be used from any thread, any number of times.
#[derive(Clone)]
pub struct Nudge {
    mailboxes: Arc<[Arc<Mailbox>]>,
}

impl Nudge {
    /// [`Handler::begin_turn`] of this worker comes soon, once for all nudges that it has not seen yet. What was written before
    /// the nudge is seen by then.
    pub fn nudge(&self, worker: usize) {
        ring(&self.mailboxes[worker].bell);
    }
}

/// Held by every thread: one that ends, be it by an error or a panic, ends the others.
struct EndsAll(Stop);

impl Drop for EndsAll {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// A network that serves.
pub struct Running<H> {
    workers: Vec<JoinHandle<Result<H, Errno>>>,
    acceptor: Option<JoinHandle<Result<(), Errno>>>,
    stop: Stop,
}

impl<H> Running<H> {
    /// Waits until the network has been stopped, and gives the handlers back. A panic of a worker is passed on.
    pub fn join(mut self) -> Result<Vec<H>, Error> {
        let workers = std::mem::take(&mut self.workers).into_iter().map(finish);
        let handlers = workers.collect::<Result<Vec<H>, Errno>>();
        self.acceptor.take().map_or(Ok(()), finish)?;
        Ok(handlers?)
    }
}

impl<H> Drop for Running<H> {
    /// Nobody can end what was never joined: it ends now.
    fn drop(&mut self) {
        self.stop.stop();
    }
}

fn finish<T>(thread: JoinHandle<T>) -> T {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

#[cfg(test)]
mod tests;
