//! The cache server: connections, requests, replies.
//!
//! A request's trip, with the functions on the way:
//!
//! ```text
//!  net's worker          worker.rs             connection.rs            execute.rs, meta.rs     store
//!  ───────────────────────────────────────────────────────────────────────────────────────────────────
//!  receive a batch ──►  Worker::prefetch ──►  (the first key of every connection's input) ──►  prefetch
//!                  ──►  Worker::on_bytes ──►  serve: by state
//!                                               Start     is it text? (refused, if it is the binary protocol)
//!                                               Login     before anything else, with -Y
//!                                               Commands  protocol::parse, up to 16 at once ─►  prefetch
//!                                                         then one after the other  ─► execute ─► get, store…
//!                                               Keys      a get line longer than the turn
//!                                               Body      ◄── Worker::body: receive here
//!                                               Swallow   what a refused head announced
//!                                               Dump, Prefixes, Sizes, Watch   output without end, in pieces
//!                  ◄──  Gather: small values copied, large ones held   ◄─────────────────────── Item
//!  send a batch
//! ```
//!
//! The server makes no system call and reads no clock: sockets are `net`'s, and time is an argument.

pub mod flags;
mod join;
pub mod options;
pub mod sim;

mod admin;
mod classic;
mod connection;
mod counters;
mod dump;
mod execute;
mod flow;
mod handler;
mod login;
mod meta;
mod notes;
mod output;
mod plan;
mod prefixes;
mod refusal;
mod remaining;
mod reports;
mod request;
mod retrieve;
mod shared;
mod stats;
mod tune;
mod upload;
mod watch;
mod worker;

use std::sync::Arc;

use net::{Address, AtLimit, DriverChoice, Network};

pub use net::Notice;
use store::Store;

use options::auth::Users;
use options::{Driver, Listen, Options};
use shared::Shared;

pub use worker::Worker;

/// What a client beyond the limit on connections is told before it is closed, as by memcached.
const TOO_MANY_CONNECTIONS: &[u8] = b"ERROR Too many open connections\r\n";

/// Why a server cannot start, or had to end.
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
    /// The network could not be set up, or ended by itself.
    #[error(transparent)]
    Network(#[from] net::Error),
    /// io_uring was asked for by name, and the kernel refuses it.
    #[error(
        "use io_uring: the kernel, or a container around the server, refuses it (`--driver auto` does without)"
    )]
    NoUring(#[source] Option<std::io::Error>),
    /// The store could not be set up.
    #[error("set up the store")]
    Store(#[from] store::Error),
}

/// A server whose sockets are bound: privileges can be dropped now.
pub struct Bound {
    network: Network,
    options: Options,
    clock: net::clock::Clock,
    started_unix_ms: u64,
}

/// A server that has all its memory: what runs beside it can be started, and nobody has been answered yet.
pub struct Provisioned {
    network: Network,
    shared: Arc<Shared>,
}

/// A server that serves.
pub struct Running {
    running: net::Running<Worker>,
    shared: Arc<Shared>,
}

/// Knows who may log in (`-Y`).
pub struct UserRegistry(Arc<Shared>);

/// The server as it is told to be by [`Options`].
pub struct Server;

impl Server {
    /// Binds all sockets. Clients can connect from now on and wait until [`Provisioned::start`].
    ///
    /// `started_unix_ms` is the time of day, in milliseconds since 1970: absolute expiration times are
    /// compared with it. `notice` tells the operator, in a line, what no client can be told.
    pub fn bind(options: &Options, started_unix_ms: u64, notice: Notice) -> Result<Bound, Error> {
        let clock = net::clock::Clock::start();
        let network = Network::bind(
            &places(&options.listeners)?,
            net::Options {
                workers: options.threads,
                driver: match options.driver {
                    Driver::Auto => DriverChoice::Auto,
                    Driver::Epoll => DriverChoice::Epoll,
                    Driver::Uring => DriverChoice::Uring,
                },
                connections_max: options.connection_limit as usize,
                // A server calls nobody.
                dialled_max: 0,
                at_limit: match options.maxconns_fast {
                    true => AtLimit::Refuse(TOO_MANY_CONNECTIONS),
                    false => AtLimit::Wait,
                },
                backlog: options.backlog,
                idle_timeout_s: options.idle_timeout_s.unwrap_or(0),
                clock,
                notice,
            },
        )?;
        Ok(Bound { network, options: options.clone(), clock, started_unix_ms })
    }
}

fn places(listeners: &[Listen]) -> Result<Vec<net::Listen>, Error> {
    let mut places = Vec::new();
    for listener in listeners {
        match listener {
            Listen::Unix { path, mask } => places.push(net::Listen::Unix { path: path.clone(), mode: *mask }),
            Listen::Tcp { host, port } => {
                let addresses = net::listener::resolve(host.as_deref(), *port).map_err(|source| {
                    Error::Resolve { host: host.clone().unwrap_or_else(|| "*".into()), source }
                })?;
                places.extend(addresses.into_iter().map(net::Listen::Tcp));
            }
        }
    }
    Ok(places)
}

fn open_store(options: &Options, hash_secret: u128, started_unix_ms: u64) -> Result<Arc<Store>, Error> {
    let config = store::Config {
        memory_limit_bytes: options.memory_limit_bytes,
        item_size_max_bytes: options.item_size_max_bytes,
        evict: options.evictions,
        cas: options.cas,
        workers: options.threads,
        hash_secret,
        started_unix_ms,
    };
    Ok(Store::new(config)?)
}

impl Bound {
    /// Where the server listens, with the ports that the kernel chose.
    pub fn addresses(&self) -> Vec<Address> {
        self.network.addresses()
    }

    /// Takes the memory. `hash_secret` should be random, so that nobody can choose keys that collide.
    pub fn prepare(self, hash_secret: u128) -> Result<Provisioned, Error> {
        let store = open_store(&self.options, hash_secret, self.started_unix_ms)?;
        let shared = Arc::new(Shared::new(self.options, store, &self.network, self.started_unix_ms));
        Ok(Provisioned { network: self.network, shared })
    }

    /// The clock that the workers will see.
    pub fn clock(&self) -> net::clock::Clock {
        self.clock
    }
}

impl Provisioned {
    /// Ends the server, from any thread; it may come before the start.
    pub fn stop(&self) -> net::Stop {
        self.shared.stop.clone()
    }

    /// What a thread of the lowest priority should do all the time: take the page faults of a growing store, so
    /// that no request waits for them. Ends with the server, or at once where there is nothing to do.
    pub fn prefault(&self) -> impl FnOnce() + Send + 'static {
        let store = Arc::downgrade(&self.shared.store);
        move || Store::prefault(&store)
    }

    /// To say who may log in, from any thread.
    pub fn user_registry(&self) -> UserRegistry {
        UserRegistry(Arc::clone(&self.shared))
    }

    /// Starts the workers.
    pub fn start(self) -> Result<Running, Error> {
        let Provisioned { network, shared } = self;
        let worker = |number| Worker::new(Arc::clone(&shared), number);
        let workers = (0..shared.options.threads).map(worker).collect();
        let running = Running { running: network.start(workers)?, shared };
        let demanded = running.shared.options.driver == Driver::Uring;
        if demanded && running.shared.network.driver(0) != DriverChoice::Uring {
            return Err(Error::NoUring(running.uring_refused()));
        }
        Ok(running)
    }
}

impl Running {
    /// How sockets are driven: `"io_uring"` or `"epoll"`.
    pub fn driver(&self) -> &'static str {
        match self.shared.network.driver(0) {
            DriverChoice::Uring => "io_uring",
            DriverChoice::Epoll | DriverChoice::Auto => "epoll",
        }
    }

    /// Why the kernel does not allow io_uring, if it was wanted.
    pub fn uring_refused(&self) -> Option<std::io::Error> {
        self.shared.network.uring_refused(0)
    }

    /// Waits until the server has been ended.
    pub fn wait(self) -> Result<(), Error> {
        self.running.join()?;
        Ok(())
    }
}

impl UserRegistry {
    /// From now on these may log in, and no one else. Who has logged in before stays.
    pub fn replace(&self, users: Users) {
        *self.0.users.write().expect("no panic while users are replaced") = users;
    }
}
