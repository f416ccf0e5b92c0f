//! The cache server: connections, requests, replies.
//!
//! The path of a request, with its functions:
//!
//! ```text
//!  net's worker          worker.rs             connection.rs            execute.rs, meta.rs     store
//!  ───────────────────────────────────────────────────────────────────────────────────────────────────
//!  receive a batch ──►  Worker::prefetch ──►  (the first key of every connection's input) ──►  prefetch
//!                  ──►  Worker::on_bytes ──►  serve: by state
//!                                               Start     the first byte decides: text or binary
//!                                               Login     required first, with -Y
//!                                               Commands  protocol::parse, up to 16 at once ─►  prefetch
//!                                                         then one after the other  ─► execute ─► get, store…
//!                                               Packets   the same for the binary protocol (binary.rs)
//!                                               Keys      a get line longer than the turn
//!                                               Body      ◄── Worker::body: receive here
//!                                               Swallow   the body of a refused request; Leave: then close
//!                                               Report, Watch   long output, in pieces
//!                  ◄──  Gather: small values copied, large ones held   ◄─────────────────────── Item
//!  send a batch
//! ```
//!
//! The server makes no system call and reads no clock: sockets are `net`'s, and time is an argument.

pub mod sim;

mod commands;
mod connection;
mod figures;
mod flash_tier;
mod handler;
mod reports;
mod settings;
mod shared;
mod watch;
mod worker;

use std::fs::File;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use flash::Devices;
use net::clock::Clock;
use net::{Address, AtLimit, DiskFile, DriverChoice, FramesFrom, LeftNetwork, Network};
use stdx::clock::Now;
use tls::{Acceptor, TlsServerError};

pub use net::{HandedConnection, Notice};
pub use store::{FlashSizes, LAYOUT_VERSION, Manifest, is_items_file};
use store::{Store, ThawError};

use figures::metrics::Monitor;
use settings::discovery::DiscoveryBoard;
use settings::options::auth::Users;
use settings::options::{Driver, Listen, Options, Protocol};
use shared::Shared;

pub use flash_tier::end::HandOver;
pub use settings::tls_files::TlsFiles;
pub use tls::HandedTickets;
pub use worker::Worker;

/// The reply to a client beyond the limit on connections before it is closed, as in memcached.
const TOO_MANY_CONNECTIONS: &[u8] = b"ERROR Too many open connections\r\n";

/// Errors at the start of a server, or at its end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A name to listen on could not be resolved.
    #[error("resolve {host}")]
    Resolve {
        /// The name.
        host: String,
        /// Why.
        source: std::io::Error,
    },
    /// The network could not be set up, or failed.
    #[error(transparent)]
    Network(#[from] net::Error),
    /// Datagrams for several addresses, or for all, cannot be taken below the sockets.
    #[error("--udp-xdp {interfaces}: expected one address of this host in -l, found {found}")]
    FramesAddress {
        /// Names of the interfaces.
        interfaces: String,
        /// The addresses.
        found: String,
    },
    /// io_uring was asked for by name, and the kernel refuses it.
    #[error(
        "use io_uring: the kernel, or a container around the server, refuses it (`--driver auto` does without)"
    )]
    NoUring(#[source] Option<std::io::Error>),
    /// The certificates, keys, tickets or roles cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsServerError),
    /// The CPUs of the process could not be read.
    #[error("read the CPUs that the process may use (--pin)")]
    Cpus(#[source] std::io::Error),
    /// There are more threads than CPUs to pin them to.
    #[error(
        "--pin: expected at most one thread for each CPU that the process may use (-t {count}), found -t {threads}; the CPUs are {usable}"
    )]
    TooFewCpus {
        /// `-t`
        threads: usize,
        /// The number of CPUs.
        count: usize,
        /// The CPUs.
        usable: os::CpuSet,
    },
    /// The file for items could not be emptied.
    #[error("empty the file for items (-e)")]
    Empty(#[source] std::io::Error),
    /// The items of another process cannot be used.
    #[error("use the other server's items")]
    Items(#[from] ThawError),
    /// The system has no descriptor for reading a device.
    #[error("duplicate the descriptor of a device")]
    Duplicate(#[source] std::io::Error),
    /// The store could not be set up.
    #[error("set up the store")]
    Store(#[from] store::Error),
}

/// A server whose sockets are bound: privileges can be dropped now.
pub struct Bound {
    network: Network,
    tls: Option<Arc<TlsFiles>>,
    options: Options,
    /// By listener.
    protocols: Vec<Protocol>,
    clock: Clock,
    began: Now,
    started_unix_ms: u64,
}

/// Where items are.
pub enum Memory {
    /// In memory that ends with the process.
    Anonymous,
    /// In an empty file.
    File(Arc<File>),
    /// In a file that an earlier process has left. What cannot be used is lost.
    Left(Arc<File>, Manifest),
    /// In the file of a process that goes on if this one fails.
    Handed(Arc<File>, Manifest),
}

/// What a server begins with.
pub struct Beginning {
    /// The clock of the workers.
    pub clock: Clock,
    /// The time of day, in milliseconds since 1970, when the clock showed 0: absolute expiration times are compared with it.
    pub zero_unix_ms: u64,
    /// Sockets of an earlier server, which are served where their addresses are those of listeners.
    pub adopted: Vec<Arc<OwnedFd>>,
    /// Secrets of TLS tickets of an earlier server.
    pub tickets: Option<HandedTickets>,
}

/// A server with its memory: threads beside the workers can be started, and no request has been answered yet.
pub struct Provisioned {
    network: Network,
    shared: Arc<Shared>,
    devices: Option<Arc<Devices>>,
}

/// A server whose workers run.
pub struct Running {
    running: net::Running<Worker>,
    shared: Arc<Shared>,
}

/// A server that has ended, with its items.
pub struct Stopped {
    left: LeftNetwork<Worker>,
    shared: Arc<Shared>,
}

/// The users that may log in (`-Y`).
pub struct UserRegistry(Arc<Shared>);

/// Entry point: [`Server::bind`] creates a server from [`Options`].
pub struct Server;

impl Server {
    /// Refuses sizes of memory and flash that do not go together, before anything is opened.
    pub fn check(options: &Options) -> Result<(), Error> {
        Ok(store_config(options, 0, 0).check()?)
    }

    /// Binds all sockets. Clients can connect from now on and wait until [`Provisioned::start`].
    ///
    /// `inherited` are the sockets of [`Listen::Inherited`], in their order. `notice` receives lines for the operator
    /// about listeners and clients.
    pub fn bind(
        options: &Options,
        inherited: Vec<OwnedFd>,
        beginning: Beginning,
        notice: Notice,
    ) -> Result<Bound, Error> {
        let Beginning { clock, zero_unix_ms: started_unix_ms, adopted, tickets } = beginning;
        let load = |tls| TlsFiles::load(tls, clock, notice, tickets.as_ref()).map(Arc::new);
        let tls = options.tls.as_ref().map(load).transpose()?;
        let (mut at, mut acceptors, mut protocols) = (Vec::new(), Vec::new(), Vec::new());
        for place in places(options, inherited, tls.as_deref())? {
            at.push(place.at);
            acceptors.push(place.acceptor);
            protocols.push(place.protocol);
        }
        if let Some(from) = &options.frames {
            frames_address(from, &at)?;
        }
        let handshakes = options.tls.as_ref();
        let network = Network::bind(
            &at,
            net::Options {
                adopted,
                follows_another: options.takeover.is_some(),
                frames: options.frames.clone(),
                acceptors,
                handshake_threads: handshakes.map_or(0, |tls| tls.handshake_threads),
                handshakes_max: handshakes.map_or(0, |tls| tls.handshakes_max),
                handshake_timeout_ms: handshakes.map_or(0, |tls| tls.handshake_timeout_ms),
                workers: options.threads,
                driver: match options.driver {
                    Driver::Auto => DriverChoice::Auto,
                    Driver::Epoll => DriverChoice::Epoll,
                    Driver::Uring => DriverChoice::Uring,
                },
                connections_max: options.connection_limit as usize,
                // A server makes no outgoing connections.
                dialled_max: 0,
                reads_max: if options.flash.is_on() { flash_tier::stage::READS_MAX } else { 0 },
                at_limit: match options.maxconns_fast {
                    true => AtLimit::Refuse(TOO_MANY_CONNECTIONS),
                    false => AtLimit::Wait,
                },
                backlog: options.backlog,
                fast_open: options.fast_open,
                idle_timeout_s: options.idle_timeout_s.unwrap_or(0),
                placement: settings::placement::of_options(options)?,
                clock,
                notice,
                ..net::Options::default()
            },
        )?;
        let options = Options { backlog_granted: Some(network.backlog()), ..options.clone() };
        Ok(Bound { network, tls, options, protocols, clock, began: clock.now(), started_unix_ms })
    }
}

/// Checks that there is one address whose datagrams can be told from those of other programs.
fn frames_address(from: &FramesFrom, places: &[net::Listen]) -> Result<(), Error> {
    let addresses = places.iter().filter_map(|place| match place {
        net::Listen::Udp(address) => Some(*address),
        _ => None,
    });
    let addresses: Vec<SocketAddr> = addresses.collect();
    match addresses[..] {
        [address] if !address.ip().is_unspecified() => Ok(()),
        _ => {
            let found = addresses.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(" and ");
            Err(Error::FramesAddress { interfaces: from.interfaces.join(","), found })
        }
    }
}

/// A place to listen at, what accepts its TLS sessions, and the protocol that is spoken there.
struct Place {
    at: net::Listen,
    acceptor: Option<Arc<Acceptor>>,
    protocol: Protocol,
}

/// The places of all listeners.
fn places(options: &Options, inherited: Vec<OwnedFd>, tls: Option<&TlsFiles>) -> Result<Vec<Place>, Error> {
    let acceptor = |check| tls.map(|tls| tls.acceptor(check)).transpose();
    let (mut places, mut inherited) = (Vec::new(), inherited.into_iter());
    for listener in &options.listeners {
        let protocol = listener.protocol().unwrap_or(options.protocol);
        let mut add = |at, acceptor| places.push(Place { at, acceptor, protocol });
        match listener {
            Listen::Unix { path, mask } => add(net::Listen::Unix { path: path.clone(), mode: *mask }, None),
            Listen::Inherited(_) => {
                let socket = inherited.next().expect("a socket for each that is inherited");
                let check = options.tls.as_ref().map(|tls| tls.default_check);
                add(net::Listen::Inherited(Arc::new(socket)), check.map_or(Ok(None), acceptor)?);
            }
            Listen::Tcp { host, port, secure, .. } => {
                let acceptor = secure.map_or(Ok(None), acceptor)?;
                for address in resolve(host.as_deref(), *port)? {
                    add(net::Listen::Tcp(address), acceptor.clone());
                }
            }
            Listen::Udp { host, port, .. } => {
                for address in resolve(host.as_deref(), *port)? {
                    add(net::Listen::Udp(address), None);
                }
            }
        }
    }
    Ok(places)
}

fn resolve(host: Option<&str>, port: u16) -> Result<Vec<SocketAddr>, Error> {
    net::listener::resolve(host, port)
        .map_err(|source| Error::Resolve { host: host.unwrap_or("*").to_owned(), source })
}

/// A store without devices: of a tier, no item can be read back.
fn open_store(options: &Options, hash_secret: u128, started_unix_ms: u64) -> Result<Arc<Store>, Error> {
    Ok(Store::new(store_config(options, hash_secret, started_unix_ms))?)
}

/// With a flash tier as large as the options say; the devices have their own sizes.
fn store_config(options: &Options, hash_secret: u128, started_unix_ms: u64) -> store::Config {
    let flash = &options.flash;
    store::Config {
        memory_limit_bytes: options.memory_limit_bytes,
        item_size_max_bytes: options.item_size_max_bytes,
        evict: options.evictions,
        cas: options.cas,
        optimise: options.optimise,
        policy: options.policy,
        workers: options.threads,
        hash_secret,
        started_unix_ms,
        flash: flash.is_on().then(|| flash.config(flash.paths.iter().map(|path| path.bytes))),
    }
}

/// The store of an earlier process, or an empty one in the same file.
fn take_over(
    config: store::Config,
    file: &Arc<File>,
    manifest: &Manifest,
    notice: Notice,
) -> Result<Arc<Store>, Error> {
    match Store::thaw_frozen(config.clone(), file, manifest) {
        Ok(store) => Ok(store),
        // This server is impossible, and another one may still have the items.
        Err(ThawError::Store(why)) => Err(why.into()),
        Err(why) => {
            notice(&format!("the items of the last server are lost: {why}"));
            file.set_len(0).map_err(Error::Empty)?;
            Ok(Store::in_file(config, file)?)
        }
    }
}

impl Bound {
    /// The addresses of the listeners, with the ports that the kernel chose.
    pub fn addresses(&self) -> Vec<Address> {
        self.network.addresses()
    }

    /// The sockets of all listeners, for a server that takes over.
    pub fn sockets(&self) -> Result<Vec<Arc<OwnedFd>>, Error> {
        Ok(self.network.sockets()?)
    }

    /// The time of day when the clock showed 0, in milliseconds since 1970.
    pub fn zero_unix_ms(&self) -> u64 {
        self.started_unix_ms
    }

    /// Sets up the store. `hash_secret` should be random, so that clients cannot choose colliding keys.
    /// `devices` are those of the options' flash tier, opened.
    pub fn prepare(
        self,
        hash_secret: u128,
        memory: Memory,
        devices: Option<Devices>,
    ) -> Result<Provisioned, Error> {
        let mut config = store_config(&self.options, hash_secret, self.started_unix_ms);
        let flash = &self.options.flash;
        config.flash =
            devices.as_ref().map(|devices| flash.config(devices.iter().map(|device| device.bytes())));
        let files = devices.iter().flat_map(|devices| devices.iter());
        let files = files.map(|device| device.file().map(DiskFile::from));
        let files: Vec<DiskFile> = files.collect::<Result<_, _>>().map_err(Error::Duplicate)?;
        let outlives_process = !matches!(memory, Memory::Anonymous);
        let store = match memory {
            Memory::Anonymous => Store::new(config)?,
            Memory::File(file) => Store::in_file(config, &file)?,
            Memory::Left(file, manifest) => take_over(config, &file, &manifest, self.network.notice())?,
            Memory::Handed(file, manifest) => Store::thaw_frozen(config, &file, &manifest)?,
        };
        let restored_items = outlives_process.then(|| store.statistics().counts.curr_items);
        let paths = flash.paths.iter().map(|path| path.path.clone()).collect();
        store.on_device_off(flash_tier::device_off::line(paths, self.network.notice()));
        let mut shared =
            Shared::new(self.options, store, &self.network, self.tls, self.started_unix_ms, self.began);
        shared.protocols = self.protocols;
        shared.restored_items = restored_items;
        shared.flash_files = files;
        Ok(Provisioned { network: self.network, shared: Arc::new(shared), devices: devices.map(Arc::new) })
    }

    /// The clock of the workers.
    pub fn clock(&self) -> Clock {
        self.clock
    }
}

impl Provisioned {
    /// Stops the server from any thread, even before the start.
    pub fn stop(&self) -> net::Stop {
        self.shared.stop.clone()
    }

    /// The body of a pre-faulting thread, which should have the lowest priority: it takes the page faults of
    /// a growing store, so that no request waits for them. Returns when the server ends, or at once where
    /// there are no huge pages.
    pub fn prefault(&self) -> impl FnOnce() + Send + 'static {
        let store = Arc::downgrade(&self.shared.store);
        move || Store::prefault(&store)
    }

    /// The body of the thread that writes to the devices of the flash tier and makes room on them. Returns when the server ends;
    /// `None` without a tier.
    pub fn flash_thread(&self) -> Option<impl FnOnce() + Send + 'static> {
        let store = Arc::downgrade(&self.shared.store);
        self.devices.clone().map(|devices| move || Store::keep_flash(&store, &*devices))
    }

    /// Descriptors of the devices of the flash tier, for a server that takes over. They keep the locks.
    pub fn flash_files(&self) -> std::io::Result<Vec<File>> {
        self.devices.iter().flat_map(|devices| devices.iter()).map(|device| device.file()).collect()
    }

    /// Access to the users that may log in, for any thread.
    pub fn user_registry(&self) -> UserRegistry {
        UserRegistry(Arc::clone(&self.shared))
    }

    /// Where any thread puts the list of members; `None` without `--cluster-file`.
    pub fn discovery_board(&self) -> Option<DiscoveryBoard> {
        self.shared.discovery.is_some().then(|| DiscoveryBoard(Arc::clone(&self.shared)))
    }

    /// Reads the server from any thread.
    pub fn monitor(&self) -> Monitor {
        Monitor::new(Arc::clone(&self.shared))
    }

    /// The files of TLS, to be read again from any thread; `None` without TLS.
    pub fn tls_files(&self) -> Option<Arc<TlsFiles>> {
        self.shared.tls.clone()
    }

    /// Starts the workers.
    pub fn start(self) -> Result<Running, Error> {
        self.start_with(Vec::new(), || Ok(()))
    }

    /// Starts the workers, with connections of an earlier server. `begin` is called when nothing else can fail, and before anybody is
    /// served: until it has succeeded, the items in a file are as that server has left them.
    pub fn start_with<E: From<Error> + From<net::Error>>(
        self,
        connections: Vec<HandedConnection>,
        begin: impl FnOnce() -> Result<(), E>,
    ) -> Result<Running, E> {
        let Provisioned { network, shared, .. } = self;
        let worker = |number| Worker::new(Arc::clone(&shared), number);
        let workers = (0..shared.options.threads).map(worker).collect();
        let options = &shared.options;
        let running = network.start_with(workers, connections, |view| -> Result<(), E> {
            if options.driver == Driver::Uring && view.driver(0) != DriverChoice::Uring {
                return Err(Error::NoUring(view.uring_refused(0)).into());
            }
            begin()?;
            // Whether the limit is possible has been found out already; without it the server has its predecessor's.
            let _ = shared.store.begin(options.memory_limit_bytes);
            Ok(())
        })?;
        Ok(Running { running, shared })
    }
}

impl Running {
    /// The driver of the sockets: `"io_uring"` or `"epoll"`.
    pub fn driver(&self) -> &'static str {
        match self.shared.network.driver(0) {
            DriverChoice::Uring => "io_uring",
            DriverChoice::Epoll | DriverChoice::Auto => "epoll",
        }
    }

    /// Why the kernel refuses io_uring, if it was requested.
    pub fn uring_refused(&self) -> Option<std::io::Error> {
        self.shared.network.uring_refused(0)
    }

    /// Why the kernel refuses short time slices, of which hosts with fewer CPUs than busy threads have lower latencies.
    pub fn slice_refused(&self) -> Option<std::io::Error> {
        self.shared.network.slice_refused(0)
    }

    /// Waits until the server has ended.
    pub fn wait(self) -> Result<Stopped, Error> {
        Ok(Stopped { left: self.running.leave()?, shared: self.shared })
    }
}

impl Stopped {
    /// Items that are there.
    pub fn items(&self) -> u64 {
        self.shared.store.statistics().counts.curr_items
    }

    /// Whether it has ended to hand itself over.
    pub fn is_handed_over(&self) -> bool {
        self.left.is_handed_over()
    }

    /// The connections that were at rest, for the next server.
    pub fn connections(&self) -> &[HandedConnection] {
        self.left.connections()
    }

    /// Waits until all items that are to go to flash are there. False: a device has not taken them within `patience`.
    pub fn finish_flash(&mut self, patience: Duration) -> bool {
        self.left.handlers().iter_mut().for_each(Worker::rest);
        flash_tier::end::finish(&self.shared.store, patience)
    }

    /// Gives up items that a device does not take. Returns how many there were.
    pub fn give_up_flash(&mut self) -> u64 {
        self.shared.store.give_up_flash()
    }

    /// What the next server needs beside the file; `None` if items were not in one. The file stays as it is from now on. What was to
    /// go to flash is there, or was given up.
    pub fn leave(&mut self) -> Option<Manifest> {
        self.left.handlers().iter_mut().for_each(Worker::rest);
        self.shared.store.freeze()
    }

    /// Goes on as before, with the same connections: nobody has taken over.
    pub fn go_on(self) -> Result<Running, Error> {
        self.shared.store.go_on();
        Ok(Running { running: self.left.go_on()?, shared: self.shared })
    }
}

impl Provisioned {
    /// Items that an earlier process has left.
    pub fn items(&self) -> u64 {
        self.shared.store.statistics().counts.curr_items
    }
}

impl UserRegistry {
    /// Replaces the users that may log in. Connections that have logged in stay.
    pub fn replace(&self, users: Users) {
        *self.0.users.write().expect("no panic while users are replaced") = users;
    }
}

pub use figures::metrics;

pub use settings::flags;

pub use settings::options;
