//! A network: listeners, an acceptor, workers.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, SyncSender, channel, sync_channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use os::clock::{Stopwatch, pause};
use rustix::io::Errno;
use xdp::AttachError;

use crate::event_loop::{EventLoop, WorkerSetup};
use crate::handler::Handler;
use crate::kernel::driver::IoDriver;
use crate::kernel::frame_ports::FramePorts;
use crate::network::acceptor::AcceptLoop;
use crate::network::connection_table::{ConnectionTable, TableWriter, code};
use crate::network::dealer::Dealer;
use crate::network::departure::Departure;
use crate::network::giver::{Giver, Intake};
use crate::network::handed::HandedConnection;
use crate::network::limit::ConnectionLimit;
use crate::network::message_queue::{MessageQueue, WorkerMessage, notify};
use crate::network::view::View;
use crate::network::worker_choice::WorkerChoice;
use crate::options::{Notice, Options};
use crate::secure::handshakes::{
    self, Acceptors, Candidate, DialHandshakes, HandshakeDealer, HandshakeSetup, HandshakeThread,
};
use crate::sockets::accept_queue::{QueueLength, QueueSettings};
use crate::sockets::address::Address;
use crate::sockets::fast_open::set_fast_open;
use crate::sockets::inherited;
use crate::sockets::listener::{Listen, Listener, RECEIVE_BUFFER, bind_udp, buffer_line};

/// An error of a network as a whole.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Listening at an address failed.
    #[error("listen on {place}")]
    Listen {
        /// The address.
        place: Listen,
        /// The cause.
        source: io::Error,
    },
    /// The system refused an epoll set or an eventfd.
    #[error("set up event waiting")]
    Waiting(#[source] io::Error),
    /// Datagrams cannot be taken from an interface below the sockets.
    #[error("take datagrams from {interface}")]
    Frames {
        /// Its name.
        interface: String,
        /// The cause.
        source: AttachError,
    },
    /// A thread could not be started.
    #[error("start thread {name}")]
    Thread {
        /// Its name.
        name: String,
        /// The cause.
        source: io::Error,
    },
}

impl From<Errno> for Error {
    fn from(error: Errno) -> Error {
        Error::Waiting(error.into())
    }
}

/// How long an address is tried that a killed process may still have.
const IN_USE_FOR: Duration = Duration::from_secs(1);
const IN_USE_AGAIN: Duration = Duration::from_millis(10);

/// Bound sockets that are not served yet.
pub struct Network {
    listeners: Vec<Bound>,
    backlog: u32,
    options: Options,
    view: View,
    stop: Stop,
    /// Below the sockets of its first UDP address.
    ports: Option<Arc<FramePorts>>,
}

/// A bound address.
enum Bound {
    Stream(Listener),
    /// With a socket for each worker.
    Datagrams(SocketAddr, Vec<OwnedFd>),
}

impl Bound {
    /// Its address, if it is one for datagrams.
    fn datagrams_at(&self) -> Option<SocketAddr> {
        match self {
            Bound::Stream(_) => None,
            Bound::Datagrams(at, _) => Some(*at),
        }
    }
}

impl Network {
    /// Binds all of `places`. Clients can connect from now on, and wait until the network is started.
    ///
    /// A queue that the kernel does not make as long as requested is no error: the operator is told.
    pub fn bind(places: &[Listen], mut options: Options) -> Result<Network, Error> {
        assert!(options.workers > 0, "a network needs a worker");
        let cpus = options.placement.cpus.len();
        assert!(cpus == 0 || cpus == options.workers, "a CPU for each worker, or none");
        let settings = QueueSettings::read();
        let backlog = settings.backlog(options.backlog);
        let failed = |place: &Listen, source| Error::Listen { place: place.clone(), source };
        inherited::check_distinct(places).map_err(|(place, source)| failed(place, source))?;
        let least_buffer = Cell::new(RECEIVE_BUFFER);
        let bind = |place: &Listen| {
            let bound = match place {
                Listen::Udp(address) => {
                    let adopted = inherited::datagrams_at(*address, &options.adopted, options.workers);
                    adopted
                        .and_then(|adopted| match adopted {
                            Some(sockets) => Ok((*address, sockets)),
                            None => bind_udp(*address, options.workers).map(|(at, sockets, granted)| {
                                least_buffer.set(least_buffer.get().min(granted));
                                (at, sockets)
                            }),
                        })
                        .map(|(at, sockets)| Bound::Datagrams(at, sockets))
                }
                Listen::Inherited(fd) => {
                    inherited::take(fd, options.backlog.map(|_| backlog)).map(Bound::Stream)
                }
                _ => match inherited::at(place, &options.adopted) {
                    Some(fd) => inherited::adopt(fd, backlog).map(Bound::Stream),
                    None => listen(place, backlog, options.follows_another).map(Bound::Stream),
                },
            };
            bound.map_err(|source| failed(place, source))
        };
        let listeners = places.iter().map(bind).collect::<Result<Vec<_>, _>>()?;
        let ports = match (&options.frames, listeners.iter().find_map(Bound::datagrams_at)) {
            (Some(from), Some(at)) => {
                let failed = |(interface, source)| Error::Frames { interface, source };
                Some(Arc::new(FramePorts::open(from, at, options.workers).map_err(failed)?))
            }
            _ => None,
        };
        // One that is at none of the places is closed: clients must not wait where nobody accepts them.
        options.adopted = Vec::new();
        let fast_open = open_fast(&listeners, settings.fast_open(options.fast_open));
        let told = settings.backlog_line(options.backlog).into_iter();
        let told = told.chain(settings.fast_open_lines(options.fast_open, fast_open));
        told.chain(buffer_line(least_buffer.get())).for_each(|line| (options.notice)(&line));
        let limit = Arc::new(ConnectionLimit::new(options.connections_max)?);
        let tables =
            (0..options.workers).map(|_| Arc::new(ConnectionTable::for_listeners(places.len()))).collect();
        let message_queues =
            (0..options.workers).map(|_| MessageQueue::new().map(Arc::new)).collect::<Result<Vec<_>, _>>()?;
        let is_secure = options.secure_dials || options.acceptors.iter().any(Option::is_some);
        let candidates = handshakes::queues(if is_secure { options.handshake_threads.max(1) } else { 0 })?;
        let stop = Stop {
            stopping: Arc::default(),
            ended: Arc::default(),
            message_queues: message_queues.into(),
            candidates: candidates.into(),
            limit: Arc::clone(&limit),
            departure: Arc::new(Departure::new(options.workers)),
            ports: ports.clone(),
        };
        let choice = Arc::new(WorkerChoice::new(&options.placement, options.workers));
        let view = View { limit, tables, handshakes: Arc::default(), choice, ports: ports.clone() };
        Ok(Network { listeners, backlog: backlog.granted, options, view, stop, ports })
    }

    /// The addresses in the order of `places`, with the ports that the kernel chose.
    pub fn addresses(&self) -> Vec<Address> {
        let address = |bound: &Bound| match bound {
            Bound::Stream(listener) => listener.address.clone(),
            Bound::Datagrams(address, _) => Address::Udp(*address),
        };
        self.listeners.iter().map(address).collect()
    }

    /// The descriptor numbers of the listening sockets, in the same order, for reports only. For datagrams, the first
    /// worker's.
    pub fn descriptors(&self) -> Vec<i32> {
        let descriptor = |bound: &Bound| match bound {
            Bound::Stream(listener) => listener.fd.as_raw_fd(),
            Bound::Datagrams(_, sockets) => sockets[0].as_raw_fd(),
        };
        self.listeners.iter().map(descriptor).collect()
    }

    /// Connections that may wait at each listener, as far as is known: the kernel cuts the requested number to a limit
    /// that may not be readable.
    pub fn backlog(&self) -> u32 {
        self.backlog
    }

    /// The function that tells the operator.
    pub fn notice(&self) -> Notice {
        self.options.notice
    }

    /// A view for handlers and others that report on the network.
    pub fn view(&self) -> View {
        self.view.clone()
    }

    /// A handle that ends it.
    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// A handle for other threads that have something new for the handlers.
    pub fn nudge(&self) -> Nudge {
        Nudge { message_queues: Arc::clone(&self.stop.message_queues) }
    }

    /// The sockets of all places, for another network's [`Options::adopted`].
    pub fn sockets(&self) -> Result<Vec<Arc<OwnedFd>>, Error> {
        let mut all = Vec::new();
        for bound in &self.listeners {
            match bound {
                Bound::Stream(listener) => all.push(Arc::clone(&listener.fd)),
                Bound::Datagrams(_, sockets) => {
                    for socket in sockets {
                        all.push(Arc::new(socket.try_clone().map_err(Error::Waiting)?));
                    }
                }
            }
        }
        Ok(all)
    }

    /// The same network, to be started once more when this one has ended.
    fn again(&self) -> Result<Network, Error> {
        let again = |bound: &Bound| -> io::Result<Bound> {
            Ok(match bound {
                Bound::Stream(listener) => Bound::Stream(listener.again()),
                Bound::Datagrams(address, sockets) => {
                    let sockets = sockets.iter().map(OwnedFd::try_clone).collect::<io::Result<_>>()?;
                    Bound::Datagrams(*address, sockets)
                }
            })
        };
        let listeners =
            self.listeners.iter().map(again).collect::<io::Result<_>>().map_err(Error::Waiting)?;
        let (options, view, stop, ports) =
            (self.options.clone(), self.view(), self.stop(), self.ports.clone());
        Ok(Network { listeners, backlog: self.backlog, options, view, stop, ports })
    }

    /// Starts to serve: one worker for each of `handlers`, of which there must be [`Options::workers`].
    pub fn start<H: Handler + Send + 'static>(self, handlers: Vec<H>) -> Result<Running<H>, Error> {
        self.start_with(handlers, Vec::new(), |_| Ok(()))
    }

    /// The same, with connections of another network. The listener of each is a place of this one.
    ///
    /// `begin` is called when all threads are there, and nothing else can fail: they serve from its success on. If anything fails,
    /// nobody has been served.
    pub fn start_with<H: Handler + Send + 'static, E: From<Error>>(
        self,
        handlers: Vec<H>,
        connections: Vec<HandedConnection>,
        begin: impl FnOnce(&View) -> Result<(), E>,
    ) -> Result<Running<H>, E> {
        assert_eq!(handlers.len(), self.options.workers, "one handler for each worker");
        let mut running = Running {
            workers: Vec::new(),
            others: Vec::new(),
            stop: self.stop.clone(),
            network: Some(self.again()?),
        };
        let (view, notice) = (self.view(), self.options.notice);
        let mut starts = Vec::new();
        let prepared = self.prepare(&mut running, &mut starts, handlers, connections).map_err(E::from);
        if let Err(why) = prepared.and_then(|()| begin(&view)) {
            drop(starts);
            running.give_up();
            return Err(why);
        }
        // Each thread waits for it.
        for start in starts {
            // One that has panicked does not need it.
            let _ = start.send(());
        }
        view.refusal_lines().iter().for_each(|line| notice(line));
        Ok(running)
    }

    /// Makes all threads, which wait for `starts`.
    fn prepare<H: Handler + Send + 'static>(
        self,
        running: &mut Running<H>,
        starts: &mut Vec<SyncSender<()>>,
        handlers: Vec<H>,
        connections: Vec<HandedConnection>,
    ) -> Result<(), Error> {
        let mut gate = || {
            let (start, started) = sync_channel(1);
            starts.push(start);
            move || started.recv().map_err(|_| Errno::CANCELED)
        };
        if !connections.is_empty() {
            self.intake().deal(connections);
        }
        let handshakes = self.start_handshakes(running)?;
        let placement = self.options.placement.clone();
        let Options { driver, dialled_max, reads_max, idle_timeout_s, clock, at_limit, notice, .. } =
            self.options;
        let (preparing, all_prepared) = channel::<Errno>();
        let (mut listeners, mut datagram_sockets) = (Vec::new(), Vec::new());
        datagram_sockets.resize_with(self.options.workers, Vec::new);
        let ports_at = self.listeners.iter().position(|bound| bound.datagrams_at().is_some());
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
            let mut ports = self.ports.as_ref().map(|ports| ports.take(number)).unwrap_or_default();
            if let Some(at) = ports_at {
                let watched = ports.watched().map_err(Error::Waiting)?;
                datagram_sockets[number].extend(watched.into_iter().map(|fd| (at as u16, fd)));
            }
            let secured = Some(&self.stop.candidates).filter(|threads| !threads.is_empty()).cloned();
            let setup = WorkerSetup {
                messages: Arc::clone(&self.stop.message_queues[number]),
                limit: Arc::clone(&self.view.limit),
                table: TableWriter::new(Arc::clone(&self.view.tables[number])),
                number,
                departure: Arc::clone(&self.stop.departure),
                datagram_sockets: std::mem::take(&mut datagram_sockets[number]),
                ports,
                dialled_max,
                reads_max,
                handshakes: secured.map(|threads| DialHandshakes::new(threads, number)),
                idle_timeout_s,
                busy_poll_us: placement.busy_poll_us,
                notice,
            };
            let ends_all = EndsAll(self.stop.clone());
            let preparing = preparing.clone();
            let cpu = placement.cpus.get(number).copied();
            let gate = gate();
            let work = move || {
                let _ends_all = ends_all;
                // Before it allocates: its memory then is its CPU's.
                let pinned = cpu.map_or(Ok(()), placement::pin);
                setup.table.counters().pin_refused.set(code(pinned.err()));
                let worker = EventLoop::on_system(handler, IoDriver::choose(driver), setup, clock);
                let worker = worker.inspect_err(|why| tell(&preparing, *why))?;
                drop(preparing);
                gate()?;
                worker.run()
            };
            running.workers.push(spawn(format!("worker-{number}"), work)?);
        }
        let dealer = Dealer::new(self.stop.message_queues.to_vec(), 0, Arc::clone(&self.view.choice));
        let stopping = Arc::clone(&self.stop.stopping);
        let ends_all = EndsAll(self.stop.clone());
        let departure = Arc::clone(&self.stop.departure);
        let (limit, gate, accepting) = (self.view.limit, gate(), preparing.clone());
        let accept = move || {
            let _ends_all = ends_all;
            let accept_loop =
                AcceptLoop::new(listeners, dealer, handshakes, limit, at_limit, notice, stopping);
            let accept_loop = accept_loop.inspect_err(|why| tell(&accepting, *why))?;
            drop(accepting);
            gate()?;
            let listeners = accept_loop.run()?;
            if departure.is_leaving() {
                listeners.into_iter().for_each(Listener::leave_file);
                departure.note_end_of_acceptor();
            } else {
                listeners.into_iter().for_each(Listener::remove_file);
            }
            Ok(())
        };
        running.others.push(spawn("acceptor".to_owned(), accept)?);
        // Returns when the last thread has dropped its sender: from now on the view knows the drivers.
        drop(preparing);
        all_prepared.recv().map_or(Ok(()), |why| Err(why.into()))
    }

    /// The way for connections of another network into this one.
    pub fn intake(&self) -> Intake {
        let again = |bound: &Bound| match bound {
            Bound::Stream(listener) => Some(listener.again()),
            Bound::Datagrams(..) => None,
        };
        let listeners = self.listeners.iter().map(again).collect();
        let (queues, choice) = (Arc::clone(&self.stop.message_queues), Arc::clone(&self.view.choice));
        Intake::new(listeners, queues, choice, Arc::clone(&self.view.limit))
    }

    /// A handle that gives its connections to another network while both serve.
    pub fn giver(&self) -> Giver {
        Giver::new(self.stop(), &self.view, self.intake())
    }

    /// Starts the threads that do TLS handshakes, if there is a listener that needs them.
    fn start_handshakes<H>(&self, running: &mut Running<H>) -> Result<Option<HandshakeDealer>, Error> {
        let Options { acceptors, handshakes_max, handshake_timeout_ms, at_limit, notice, .. } = &self.options;
        let mut acceptors = acceptors.clone();
        acceptors.resize(self.listeners.len(), None);
        let acceptors: Acceptors = acceptors.into();
        let threads = self.stop.candidates.to_vec();
        if threads.is_empty() {
            return Ok(None);
        }
        for (number, candidates) in threads.iter().enumerate() {
            let setup = HandshakeSetup {
                acceptors: Arc::clone(&acceptors),
                candidates: Arc::clone(candidates),
                workers: Arc::clone(&self.stop.message_queues),
                counters: Arc::clone(&self.view.handshakes),
                dealer: Dealer::new(self.stop.message_queues.to_vec(), number, Arc::clone(&self.view.choice)),
                limit: Arc::clone(&self.view.limit),
                at_limit: *at_limit,
                handshakes_max: handshakes_max.div_ceil(threads.len()).max(1),
                timeout_ms: *handshake_timeout_ms,
                notice: *notice,
                stopping: Arc::clone(&self.stop.stopping),
            };
            let ends_all = EndsAll(self.stop.clone());
            let work = move || {
                let _ends_all = ends_all;
                HandshakeThread::new(setup)?.run()
            };
            running.others.push(spawn(format!("handshake-{number}"), work)?);
        }
        Ok(Some(HandshakeDealer::new(acceptors, threads, Arc::clone(&self.view.handshakes))))
    }
}

/// Sets TCP Fast Open on all TCP listeners: the first error, or `None` without such a listener.
fn open_fast(listeners: &[Bound], length: QueueLength) -> Option<Result<(), Errno>> {
    let tcp = listeners.iter().filter_map(|bound| match bound {
        Bound::Stream(listener) if !listener.is_unix() => Some(&listener.fd),
        _ => None,
    });
    // An inherited socket may have Fast Open already: it stays so unless a length is given.
    if length.asked == 0 {
        return None;
    }
    tcp.map(|fd| set_fast_open(fd, length.for_kernel())).reduce(Result::and)
}

/// Tells whoever waits for all threads why one of them cannot begin.
fn tell(preparing: &Sender<Errno>, why: Errno) {
    // After the first one, nobody waits any more.
    let _ = preparing.send(why);
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
    /// The threads end.
    stopping: Arc<AtomicBool>,
    /// The network ends for good: it does not go on if nobody takes what it hands over.
    ended: Arc<AtomicBool>,
    message_queues: Arc<[Arc<MessageQueue>]>,
    candidates: Arc<[Arc<MessageQueue<Candidate>>]>,
    limit: Arc<ConnectionLimit>,
    departure: Arc<Departure>,
    ports: Option<Arc<FramePorts>>,
}

/// Time for what has been accepted to reach the workers.
const ACCEPTOR_PATIENCE: Duration = Duration::from_secs(1);

impl Stop {
    /// Ends the network so that [`Running::leave`] has its connections for another one. Listeners stay open. Waits until all
    /// connections are at rest, at most `patience`; those that are not are closed then. Until then all are served. A network that has
    /// been stopped is not handed over.
    pub fn hand_over(&self, patience: Duration) {
        if self.is_stopped() {
            return;
        }
        self.departure.begin();
        // The other network has the sockets, and another program of its own.
        if let Some(ports) = &self.ports {
            ports.close();
        }
        self.stop_accepting();
        self.departure.wait_for_acceptor(ACCEPTOR_PATIENCE);
        self.post(|| WorkerMessage::Drain);
        let are_at_rest = self.departure.wait_for_rest(patience);
        self.departure.decide(are_at_rest);
        self.post(|| WorkerMessage::Stop);
    }

    /// Whether [`Stop::hand_over`] has been called.
    pub fn is_handing_over(&self) -> bool {
        self.departure.is_leaving()
    }

    fn stop_accepting(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        notify(&self.limit.wake_up);
        self.candidates.iter().for_each(|candidates| notify(&candidates.wake_up));
    }

    fn post(&self, message: impl Fn() -> WorkerMessage) {
        for messages in self.message_queues.iter() {
            messages.post(&mut vec![message()]);
        }
    }

    /// Makes the acceptor close its listeners, and every worker finish its round and close its connections. While the network is handed
    /// over, this waits until that has succeeded, and there is nothing left to stop, or until the network goes on.
    pub fn stop(&self) {
        self.ended.store(true, Ordering::SeqCst);
        if !self.is_handing_over() {
            self.end_threads();
        }
    }

    /// Whether [`Stop::stop`] has been called.
    pub fn is_stopped(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    fn end_threads(&self) {
        self.stop_accepting();
        self.post(|| WorkerMessage::Stop);
    }
}

/// Makes workers begin a turn. Cheap to clone; can be used from any thread, any number of times.
#[derive(Clone)]
pub struct Nudge {
    message_queues: Arc<[Arc<MessageQueue>]>,
}

impl Nudge {
    /// [`Handler::begin_turn`] of this worker follows soon, once for all nudges that it has not seen yet. It sees what
    /// was written before the nudge.
    pub fn nudge(&self, worker: usize) {
        notify(&self.message_queues[worker].wake_up);
    }
}

/// Held by every thread: a thread that ends, by an error or a panic too, ends the others; but not where each ends in its turn.
struct EndsAll(Stop);

impl Drop for EndsAll {
    fn drop(&mut self) {
        if !self.0.is_handing_over() || std::thread::panicking() {
            self.0.end_threads();
        }
    }
}

/// A network that has handed itself over: what another one needs, or the same once more.
pub struct LeftNetwork<H> {
    handlers: Vec<H>,
    connections: Vec<HandedConnection>,
    network: Network,
    is_handed_over: bool,
}

impl<H: Handler + Send + 'static> LeftNetwork<H> {
    /// Whether that was the reason for its end.
    pub fn is_handed_over(&self) -> bool {
        self.is_handed_over
    }

    /// The handlers.
    pub fn handlers(&mut self) -> &mut [H] {
        &mut self.handlers
    }

    /// The connections that were at rest.
    pub fn connections(&self) -> &[HandedConnection] {
        &self.connections
    }

    /// Goes on as before, with the same connections.
    pub fn go_on(self) -> Result<Running<H>, Error> {
        let (notice, had_ports) = (self.network.options.notice, self.network.ports.is_some());
        let running = self.network.start_with(self.handlers, self.connections, |_| Ok::<_, Error>(()))?;
        if had_ports {
            notice(
                "sockets serve datagrams from now on: the program below them was taken away for the other server",
            );
        }
        // It may have been stopped while it was handed over.
        if running.stop.is_stopped() {
            running.stop.end_threads();
        }
        Ok(running)
    }
}

/// A worker's handler, and the connections that it hands over.
type EndOfWorker<H> = (H, Vec<HandedConnection>);

/// A network that serves.
pub struct Running<H> {
    workers: Vec<JoinHandle<Result<EndOfWorker<H>, Errno>>>,
    /// The acceptor, and the threads that do handshakes.
    others: Vec<JoinHandle<Result<(), Errno>>>,
    stop: Stop,
    /// The same network, not started; `None` when it has left.
    network: Option<Network>,
}

impl<H> Running<H> {
    /// Waits until the network has been stopped, and gives the handlers back. A panic of a worker is passed on.
    pub fn join(self) -> Result<Vec<H>, Error> {
        self.leave().map(|left| left.handlers)
    }

    /// Waits until the network has been stopped, and gives back all that is left of it. A panic of a worker is passed on. There are
    /// connections only after [`Stop::hand_over`].
    pub fn leave(mut self) -> Result<LeftNetwork<H>, Error> {
        let workers = std::mem::take(&mut self.workers).into_iter().map(finish);
        let ended = workers.collect::<Result<Vec<_>, Errno>>();
        std::mem::take(&mut self.others).into_iter().try_for_each(finish)?;
        let (handlers, connections): (Vec<H>, Vec<_>) = ended?.into_iter().unzip();
        let network = self.network.take().expect("it leaves once");
        let is_handed_over = self.stop.is_handing_over();
        if is_handed_over {
            // The next start is told nothing of this end; what comes from now on is for it.
            self.stop.message_queues.iter().for_each(|messages| drop(messages.take()));
            self.stop.stopping.store(false, Ordering::SeqCst);
            self.stop.departure.reset();
        }
        let connections = connections.into_iter().flatten().collect();
        Ok(LeftNetwork { handlers, connections, network, is_handed_over })
    }
}

impl<H> Running<H> {
    /// Ends threads that have not begun.
    fn give_up(mut self) {
        self.stop.end_threads();
        let workers = std::mem::take(&mut self.workers).into_iter().map(|worker| worker.join().is_ok());
        let others = std::mem::take(&mut self.others).into_iter().map(|other| other.join().is_ok());
        // Whatever they say: the failure is known.
        workers.chain(others).for_each(drop);
    }
}

impl<H> Drop for Running<H> {
    /// Nothing else could end a network that was never joined.
    fn drop(&mut self) {
        if self.network.is_some() {
            self.stop.end_threads();
        }
    }
}

/// A new listener. Where another process may just have been killed, an address that is in use is tried again.
fn listen(place: &Listen, backlog: QueueLength, follows_another: bool) -> io::Result<Listener> {
    let watch = Stopwatch::start();
    loop {
        match Listener::bind(place, backlog) {
            Err(error)
                if follows_another
                    && error.kind() == io::ErrorKind::AddrInUse
                    && watch.passed() < IN_USE_FOR =>
            {
                pause(IN_USE_AGAIN);
            }
            bound => return bound,
        }
    }
}

fn finish<T>(thread: JoinHandle<T>) -> T {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

pub(crate) mod acceptor;
pub(crate) mod connection_table;
pub(crate) mod dealer;
pub(crate) mod departure;
pub mod giver;
pub mod handed;
pub(crate) mod limit;
pub(crate) mod message_queue;
pub mod placement;
#[cfg(test)]
mod tests;
pub(crate) mod time_slice;
pub mod view;
pub(crate) mod worker_choice;
