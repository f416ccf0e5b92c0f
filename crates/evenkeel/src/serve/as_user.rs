//! The start as the user that the server stays: files of that user, the items, and threads, until clients are answered.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use flash::Devices;
use net::clock::Clock;
use os::signals::Signals;
use server::{Bound, Memory, Provisioned};
use succession::memory_file::{FoundItems, MemoryFile};
use succession::takeover::{self, Inheritance, OfferedServer, Predecessor, TakeoverSocket};

use super::as_root::LeftByRoot;
use super::companions::{start_companions, start_metrics};
use super::lines::{hint_at_limits, notice};
use super::port_file;
use super::reload::FileLooks;
use super::running::RunningServer;
use super::serving_process::{PredecessorFate, ServingProcess};
use super::start_line::announce;
use crate::failure::Failure;
use crate::peers::endpoint::Endpoint;
use crate::process::parent;
use crate::process::pidfile::PidFile;
use crate::process::resources;
use crate::terminal::line_queue::LINES;

/// A server that has its user, its files and its sockets. The one that it takes over still serves.
pub(super) struct UnprivilegedServer {
    process: ServingProcess,
    found: FoundItems,
    predecessor: Option<Predecessor>,
    looks: FileLooks,
    bound: Bound,
    endpoint: Option<Endpoint>,
    devices: Option<Devices>,
    pidfile: Option<PidFile>,
    signals: Signals,
    memory_file: Option<MemoryFile>,
    listening: Listening,
}

/// A server with its items and those of the one before it, which has stopped, and would go on if this one failed.
pub(super) struct PreparedServer {
    process: ServingProcess,
    predecessor: Option<Predecessor>,
    fate: PredecessorFate,
    looks: FileLooks,
    endpoint: Option<Endpoint>,
    pidfile: Option<PidFile>,
    signals: Signals,
    memory_file: Option<MemoryFile>,
    listening: Listening,
    taken: Option<Inheritance>,
    items: ItemMemory,
    prepared: Provisioned,
    takeover_socket: Option<TakeoverSocket>,
}

/// Where a server listens, and its clock: what it has for a successor before it has items.
struct Listening {
    addresses: Vec<String>,
    sockets: Vec<Arc<OwnedFd>>,
    clock: Clock,
    zero_unix_ms: u64,
}

/// The memory of the items, beside what the server itself has of it.
struct ItemMemory {
    /// The file with the items, for a server that takes over.
    shared: Option<Arc<File>>,
    /// Items of another server are in it.
    is_left: bool,
    /// A part of the start line about these.
    shown: String,
}

impl UnprivilegedServer {
    /// Opens and makes what belongs to the user, who this process is from now on.
    pub(super) fn of(left: LeftByRoot) -> Result<UnprivilegedServer, Failure> {
        let LeftByRoot { process, found, predecessor, devices, looks, bound, endpoint, .. } = left;
        process.warn_of_unreadable_files();
        parent::follow()?;
        let options = process.options();
        if options.process.core_dumps {
            resources::allow_core_files();
        }
        if options.process.lock_memory {
            resources::lock_memory();
        }
        let devices = devices.open_files().map_err(|failure| process.explain(failure))?;
        // It names the other server until that one is taken over.
        let pidfile = if predecessor.is_none() { process.write_pidfile() } else { None };
        let signals = Signals::block().map_err(|error| Failure::system("block signals", error))?;
        LINES
            .start()
            .map_err(|error| Failure::system("start thread lines", error))
            .map_err(hint_at_limits)?;
        let memory_file = options.memory_file.as_deref().map(MemoryFile::open).transpose();
        let memory_file = memory_file.map_err(|error| process.explain(error.into()))?;
        memory_file.iter().filter_map(MemoryFile::warning).for_each(|line| notice(&line));
        if let Some(failure) =
            port_file::of_environment().and_then(|file| file.write(&bound.addresses()).err())
        {
            notice(&format!("the ports are in no file: {failure}"));
        }
        let listening = Listening::of(&bound)?;
        Ok(UnprivilegedServer {
            process,
            found,
            predecessor,
            looks,
            bound,
            endpoint,
            devices,
            pidfile,
            signals,
            memory_file,
            listening,
        })
    }

    /// Stops the server that is taken over, and has the items: its own, those of the last one, or none.
    pub(super) fn prepare(self) -> Result<PreparedServer, Failure> {
        // Where this fails, all goes in the reverse order: sockets before the other server learns of it.
        let UnprivilegedServer {
            process,
            found,
            mut predecessor,
            looks,
            bound,
            endpoint,
            devices,
            mut pidfile,
            signals,
            memory_file,
            listening,
        } = self;
        let mut taken = predecessor.as_mut().map_or(Ok(None), |other| other.inherit(&listening.addresses))?;
        let fate = match (&predecessor, &taken) {
            (None, _) => PredecessorFate::None,
            (Some(_), None) => PredecessorFate::EndedEarly,
            (Some(_), Some(_)) => PredecessorFate::TakenOver,
        };
        if fate == PredecessorFate::EndedEarly {
            // Its memory goes with it, and nothing below waits for it.
            predecessor = None;
            pidfile = process.write_pidfile();
        }
        let (shared, memory, is_left) = match (&memory_file, &predecessor, &mut taken) {
            (Some(file), ..) => {
                let (memory, is_left) = file.take(found, notice)?;
                (None, memory, is_left)
            }
            (None, Some(predecessor), Some(Inheritance { manifest, .. })) => {
                let file = predecessor.memory();
                (Some(Arc::clone(&file)), Memory::Handed(file, std::mem::take(manifest)), true)
            }
            (None, ..) if process.options().takeover.is_some() => {
                let file = takeover::new_memory()?;
                (Some(Arc::clone(&file)), Memory::File(file), false)
            }
            (None, ..) => (None, Memory::Anonymous, false),
        };
        let prepared = bound.prepare(random()?, memory, devices).map_err(Failure::other);
        let prepared = prepared.inspect_err(|_| give_up(memory_file.as_ref(), is_left))?;
        let shown = if is_left { shown_items(&prepared, taken.as_ref()) } else { String::new() };
        let items = ItemMemory { shared, is_left, shown };
        let takeover_socket = match (&process.options().takeover, &predecessor) {
            (Some(path), None) => Some(TakeoverSocket::listen(path)?),
            _ => None,
        };
        Ok(PreparedServer {
            process,
            predecessor,
            fate,
            looks,
            endpoint,
            pidfile,
            signals,
            memory_file,
            listening,
            taken,
            items,
            prepared,
            takeover_socket,
        })
    }
}

impl PreparedServer {
    /// Starts all threads. Clients are answered from now on.
    pub(super) fn start(self) -> Result<RunningServer, Failure> {
        let PreparedServer {
            mut process,
            mut predecessor,
            fate,
            looks,
            endpoint,
            mut pidfile,
            signals,
            memory_file,
            listening,
            taken,
            items,
            prepared,
            mut takeover_socket,
        } = self;
        start_companions(&prepared, signals, looks, &process).map_err(hint_at_limits)?;
        let scraped = endpoint.as_ref().map(Endpoint::shown).unwrap_or_default();
        let metrics = endpoint.as_ref().map_or(Ok(Vec::new()), Endpoint::sockets);
        let metrics = metrics.map_err(|error| Failure::system("duplicate the sockets of metrics", error))?;
        if let Some(endpoint) = endpoint {
            start_metrics(endpoint, &prepared, listening.clock)?;
        }
        let (stop, hand_over) = (prepared.stop(), prepared.hand_over());
        let addresses = listening.addresses.clone();
        let (zero_unix_ms, offered) =
            (listening.zero_unix_ms, listening.offer(&prepared, &process, metrics)?);
        let (connections, dropped) =
            taken.map_or((Vec::new(), 0), |taken| (taken.connections, taken.dropped));
        // Nothing can fail any more but this: what another server has left stays as it is until then.
        let begin = || match (&memory_file, &mut predecessor) {
            (Some(file), _) => Ok(file.claim()?),
            (None, Some(predecessor)) if stop.is_stopped() => Err(predecessor.told_to_end().into()),
            (None, Some(predecessor)) => {
                predecessor.succeed()?;
                // Before the process ends that the supervisor watches.
                process.supervisor().ready_in(rustix::process::getpid());
                // Before the first request: the predecessor, whose view of the memory would then be wrong, must not go on.
                predecessor.taken();
                Ok(())
            }
            (None, None) => Ok(()),
        };
        let running = prepared.start_with(connections, begin);
        let running = running.inspect_err(|_| give_up(memory_file.as_ref(), items.is_left));
        let running = running.map_err(hint_at_limits)?;
        if fate == PredecessorFate::TakenOver {
            pidfile = process.write_pidfile();
            takeover_socket = listen_again(&process, dropped);
        }
        let (successors, kept) = match (takeover_socket, &items.shared) {
            (Some(socket), Some(memory)) => {
                let begun = socket.start(offered, memory, hand_over, notice);
                (Some(begun.map_err(|error| Failure::system("start thread takeover", error))?), None)
            }
            _ => (None, Some(offered)),
        };
        announce(&process, &addresses, &running, &format!("{}{scraped}", items.shown));
        process.tell_ready(fate)?;
        Ok(RunningServer::new(process, running, successors, kept, memory_file, pidfile, zero_unix_ms))
    }
}

impl Listening {
    fn of(bound: &Bound) -> Result<Listening, Failure> {
        let addresses = bound.addresses().iter().map(ToString::to_string).collect();
        let sockets = bound.sockets().map_err(Failure::other)?;
        Ok(Listening { addresses, sockets, clock: bound.clock(), zero_unix_ms: bound.zero_unix_ms() })
    }

    /// All that the server has for a successor, but for its memory.
    fn offer(
        self,
        prepared: &Provisioned,
        process: &ServingProcess,
        metrics: Vec<OwnedFd>,
    ) -> Result<OfferedServer, Failure> {
        let flash_files = prepared.flash_files();
        let flash_files =
            flash_files.map_err(|error| Failure::system("duplicate the descriptors of flash", error))?;
        Ok(OfferedServer {
            zero_unix_ms: self.zero_unix_ms,
            clock_us: self.clock.origin_us(),
            addresses: self.addresses,
            listeners: self.sockets,
            metrics,
            flash: prepared.flash_sizes().map(|sizes| (sizes, process.options().flash.clone())),
            flash_files,
            tls: prepared.tls_files(),
        })
    }
}

/// A part of the start line: whose items there are.
fn shown_items(prepared: &Provisioned, taken: Option<&Inheritance>) -> String {
    let items = prepared.items();
    match taken {
        Some(Inheritance { connections, .. }) => {
            let connections = connections.len();
            format!(", with {items} items and {connections} connections of the server before")
        }
        None => format!(", with {items} items of the last server"),
    }
}

/// No server came of it. A file that had no items has none.
fn give_up(memory_file: Option<&MemoryFile>, is_left: bool) {
    memory_file.filter(|_| !is_left).into_iter().for_each(MemoryFile::give_up);
}

/// Listens for a successor where the server before has listened. `dropped` of its connections were not taken.
fn listen_again(process: &ServingProcess, dropped: usize) -> Option<TakeoverSocket> {
    let socket = TakeoverSocket::listen(process.options().takeover.as_deref()?)
        .map_err(|error| notice(&format!("nobody can take over from this server: {}", Failure::from(error))))
        .ok();
    if dropped > 0 {
        notice(&format!(
            "{dropped} connections were closed, because this server does not listen where they came"
        ));
    }
    socket
}

/// An unpredictable number.
fn random() -> Result<u128, Failure> {
    let mut bytes = [0; 16];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(|error| Failure::system("draw a random number", error))?;
    Ok(u128::from_ne_bytes(bytes))
}
