//! The start while the process may still be root: all that is done before privileges are dropped, and what is left to the
//! user.
//!
//! ```text
//!  ParsedCommand::of    environment and command line; the file of users (-Y); inherited sockets
//!         bind          user database; limits; fork (-d); FILE.meta (-e); the other server (--takeover); block devices;
//!                       certificates and keys; listening sockets; the endpoint of metrics
//!  drop_privileges      sockets in the file system are given to the user; groups, group and user are changed, irrevocably
//! ```
//!
//! No thread is started here, and no client is answered. [`LeftByRoot`] is all that goes on.

use std::cell::Cell;
use std::iter;
use std::os::fd::OwnedFd;
use std::path::Path;

use net::clock::Clock;
use os::signals;
use rustix::process::{Resource, geteuid, getrlimit};
use server::options::{MemoryFound, Options};
use server::{Beginning, Bound, Server, flags};
use stdx::clock::Now;
use succession::memory_file::{self, FoundItems};
use succession::takeover::Predecessor;

use super::as_user::UnprivilegedServer;
use super::devices::DevicesAtStart;
use super::lines::{notice, refused};
use super::reload::{FileLooks, read_users};
use super::serving_process::ServingProcess;
use crate::failure::Failure;
use crate::peers::endpoint::Endpoint;
use crate::process::activation;
use crate::process::background::Background;
use crate::process::privileges::{self, TargetUser};
use crate::process::resources;
use crate::process::supervisor::Supervisor;
use crate::process::sys;
use crate::process::watched::WatchedFiles;
use crate::terminal::log;

/// A command line that can be meant so, and the sockets that it names and the process was started with.
pub(super) struct ParsedCommand {
    supervisor: Supervisor,
    /// The file of users, as it looked before it was read.
    users: WatchedFiles,
    options: Options,
    inherited: Vec<OwnedFd>,
}

/// A server whose sockets are bound. Nothing below needs root's privileges.
pub(super) struct BoundServer(LeftByRoot);

/// What root leaves to the user. If nothing comes of it, sockets are closed before the other server learns of that.
pub(super) struct LeftByRoot {
    pub(super) endpoint: Option<Endpoint>,
    pub(super) bound: Bound,
    pub(super) looks: FileLooks,
    pub(super) devices: DevicesAtStart,
    /// A server that is to be taken over. It still serves.
    pub(super) predecessor: Option<Predecessor>,
    /// What the last server has left beside its memory file.
    pub(super) found: FoundItems,
    pub(super) process: ServingProcess,
    /// So that no other file can make one.
    _of_root: (),
}

impl ParsedCommand {
    /// Reads the environment and the command line. There must be no other thread yet, and no descriptor of the process's own.
    pub(super) fn of(mut low: flags::LowArgs) -> Result<ParsedCommand, Failure> {
        // A log that has reached the limit on file sizes must not end the server.
        signals::survive_file_size_limit();
        if getrlimit(Resource::As).current.is_some() {
            sys::share_one_heap();
        }
        let supervisor = Supervisor::of_environment();
        low.activated = activation::passed()?.collect();
        low.memory_found = memory_found();
        let users = Cell::new(WatchedFiles::default());
        let read = |path: &Path| {
            users.set(WatchedFiles::of(iter::once(path)));
            read_users(path)
        };
        let options = Options::new(low, &read).map_err(refused)?;
        let inherited = activation::take(&options.listeners)?;
        if options.verbosity > 0 {
            options.notes.iter().for_each(|note| log::info("serve", note));
        }
        options.warnings.iter().for_each(|line| log::warning("serve", line));
        Ok(ParsedCommand { supervisor, users: users.take(), options, inherited })
    }

    /// Raises limits, goes to the background, asks the server before for what it has, and opens and binds what only root may.
    pub(super) fn bind(self) -> Result<BoundServer, Failure> {
        let ParsedCommand { supervisor, users, mut options, inherited } = self;
        let identity = privileges::identity(options.process.user.as_deref())?;
        if let Some(line) = resources::raise(&mut options)? {
            log::warning("serve", line);
        }
        let background =
            options.process.daemonize.then(|| Background::enter(&supervisor, "serve")).transpose()?;
        let process = ServingProcess::new(options, identity, supervisor, background);
        let options = process.options();
        Server::check(options).map_err(Failure::other)?;
        let user = process.identity().map_or(geteuid().as_raw(), TargetUser::user);
        let found =
            options.memory_file.as_deref().map_or(Ok(None), |path| memory_file::read_left(path, user));
        let asked = options.takeover.as_deref().map(|path| Predecessor::ask(path, &[user], notice));
        let mut predecessor = asked.transpose()?.flatten();
        let devices = match &mut predecessor {
            Some(predecessor) => DevicesAtStart::handed(predecessor.devices(&options.flash)?),
            None => DevicesAtStart::open_block_devices(&options.flash)?,
        };
        let looks = FileLooks::of(users, options);
        let beginning = beginning(predecessor.as_mut(), &found);
        let bound = Server::bind(options, inherited, beginning, notice).map_err(Failure::other)?;
        let passed = predecessor.as_mut().map(Predecessor::take_metrics).unwrap_or_default();
        let endpoint =
            options.metrics.as_ref().map(|address| Endpoint::take_or_bind(address, passed)).transpose()?;
        let left = LeftByRoot { endpoint, bound, looks, devices, predecessor, found, process, _of_root: () };
        Ok(BoundServer(left))
    }
}

/// What `-m auto` and `-m 80%` are a share of. A limit above what the host has is none.
fn memory_found() -> Option<MemoryFound> {
    let (limit, host) = (os::memory::limit(), os::memory::of_host());
    let limit = limit.filter(|limit| host.is_none_or(|host| *limit < host));
    limit.map(MemoryFound::Limit).or_else(|| host.map(MemoryFound::Host))
}

/// The clock goes on from that of the server that is taken over, or whose items are `found`: they expire when they would have.
fn beginning(predecessor: Option<&mut Predecessor>, found: &FoundItems) -> Beginning {
    if let Some(predecessor) = predecessor {
        let (clock, zero_unix_ms) = predecessor.clock();
        // Those that this server does not have are closed with what remains of them: nobody would answer there.
        let adopted = predecessor.take_listeners();
        return Beginning { clock, zero_unix_ms, adopted, tickets: predecessor.tickets() };
    }
    let now_ms = os::clock::unix_time().as_millis() as u64;
    let zero_unix_ms = found.as_ref().ok().and_then(Option::as_ref).map_or(now_ms, |left| left.zero_unix_ms);
    let clock = Clock::resume(Now { us: now_ms.saturating_sub(zero_unix_ms) * 1000 });
    Beginning { clock, zero_unix_ms, adopted: Vec::new(), tickets: None }
}

impl BoundServer {
    /// Becomes the user, if this is root.
    pub(super) fn drop_privileges(self) -> Result<UnprivilegedServer, Failure> {
        let BoundServer(left) = self;
        if let Some(identity) = left.process.identity() {
            identity.own_sockets(&left.process.options().listeners)?;
            identity.assume()?;
        }
        UnprivilegedServer::of(left)
    }
}
