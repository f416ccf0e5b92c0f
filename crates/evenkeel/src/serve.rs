//! `evenkeel serve`: start of a server from a command line, and its orderly shutdown.
//!
//! The order matters. Inherited sockets are taken before the process opens anything that could be mistaken for one;
//! limits are raised and sockets are bound while the process may still be root; it goes to the background before there
//! are threads, which a fork does not copy; memory is locked before there is much of it; and signals are blocked before
//! threads start, so that only one thread receives them.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::iter;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use flash::{Devices, OpeningDevices};
use net::clock::Clock;
use os::DirectoryEntry;
use rustix::fs::{Mode, OFlags};
use rustix::process::{Resource, geteuid, getrlimit};
use server::options::Options;
use server::{Beginning, Bound, Memory, Provisioned, Server, Stopped, flags};
use stdx::clock::Now;
use stdx::words::counted;

use crate::activation;
use crate::background::Background;
use crate::cluster_file::ClusterFile;
use crate::endpoint::Endpoint;
use crate::failure::Failure;
use crate::host_sampler::HostSampler;
use crate::line_queue::{LAST_LINES, LINES};
use crate::log;
use crate::memory_file::{self, FoundItems, MemoryFile};
use crate::output::print;
use crate::parent;
use crate::pidfile::PidFile;
use crate::privileges::{self, TargetUser};
use crate::reload::{FileLooks, Reload, read_users};
use crate::route::watched::WatchedFiles;
use crate::supervisor::Supervisor;
use crate::sys;
use crate::takeover::{self, Inheritance, OfferedServer, Predecessor, TakeoverOutcome, TakeoverSocket};
use crate::{port_file, resources, uring};
use os::signals::{self, Signal, Signals};

/// Time for the devices of flash to take what waits for them at the end of a server with a memory file: eight write buffers.
const FLASH_REST: Duration = Duration::from_secs(10);

const LICENSE: &str = "\
evenkeel is free software under the Apache License, Version 2.0:
https://www.apache.org/licenses/LICENSE-2.0
";

/// Serves until a signal ends it.
pub(crate) fn run(mut low: flags::LowArgs) -> Result<(), Failure> {
    if low.license {
        return print(LICENSE.as_bytes());
    }
    // A log that has reached the limit on file sizes must not end the server.
    signals::survive_file_size_limit();
    if getrlimit(Resource::As).current.is_some() {
        sys::share_one_heap();
    }
    let supervisor = Supervisor::of_environment();
    low.activated = activation::passed()?.collect();
    let users = Cell::new(WatchedFiles::default());
    let read = |path: &Path| {
        users.set(WatchedFiles::of(iter::once(path)));
        read_users(path)
    };
    let mut options = Options::new(low, &read).map_err(refused)?;
    let inherited = activation::take(&options.listeners)?;
    if options.verbosity > 0 {
        options.notes.iter().for_each(|note| log::info("serve", note));
    }
    options.warnings.iter().for_each(|line| log::warning("serve", line));
    let identity = privileges::identity(options.process.user.as_deref())?;
    if let Some(line) = resources::raise(&mut options)? {
        log::warning("serve", line);
    }
    let options = options;
    let background = options.process.daemonize.then(|| Background::enter(&supervisor)).transpose()?;
    Server::check(&options).map_err(Failure::other)?;
    let user = identity.as_ref().map_or(geteuid().as_raw(), TargetUser::user);
    let found = options.memory_file.as_deref().map_or(Ok(None), |path| memory_file::read_left(path, user));
    let asked = options.takeover.as_deref().map(|path| Predecessor::ask(path, &[user]));
    let mut predecessor = asked.transpose()?.flatten();
    // As root, if it is that: a block device belongs to root. Files are opened as the user that the server becomes.
    let (handed_devices, opening) = match (&mut predecessor, &options.takeover) {
        (Some(predecessor), Some(path)) => (predecessor.devices(path, &options.flash)?, None),
        _ => (None, open_block_devices(&options)?),
    };
    let looks = FileLooks::of(users.take(), &options);
    let bound = bind(&options, inherited, beginning(predecessor.as_mut(), &found))?;
    let passed = predecessor.as_mut().map(|other| std::mem::take(&mut other.metrics)).unwrap_or_default();
    let endpoint =
        options.metrics.as_ref().map(|address| Endpoint::take_or_bind(address, passed)).transpose()?;
    if let Some(identity) = &identity {
        identity.own_sockets(&options.listeners)?;
        identity.assume()?;
        let files = options.tls.iter().flat_map(|tls| tls.settings.files());
        let files = files.chain(options.auth.iter().map(|auth| auth.file.as_path()));
        identity.cannot_read(files).into_iter().for_each(|line| log::warning("serve", line));
    }
    parent::follow()?;
    if options.process.core_dumps {
        resources::allow_core_files();
    }
    if options.process.lock_memory {
        resources::lock_memory();
    }
    let explain = |failure| match &identity {
        Some(identity) => identity.explain(failure),
        None => failure,
    };
    let devices = match opening {
        Some(opening) => Some(open_files(opening).map_err(explain)?),
        None => handed_devices,
    };
    // As in memcached, a folder that the user may not write to is no reason not to serve.
    let write_pidfile = || {
        let written = options.process.pidfile.as_deref().map(PidFile::write).transpose().map_err(explain);
        written.unwrap_or_else(|failure| {
            notice(format!("the process id is in no file: {}", failure.in_one_line()));
            None
        })
    };
    // It names the other server until that one is taken over.
    let mut pidfile = if predecessor.is_none() { write_pidfile() } else { None };
    let signals = Signals::block().map_err(|error| Failure::system("block signals", error))?;
    LINES.start().map_err(|error| Failure::system("start thread lines", error)).map_err(hint_at_limits)?;
    let (clock, zero_unix_ms) = (bound.clock(), bound.zero_unix_ms());
    let memory_file = open_memory_file(&options).map_err(explain)?;
    if let Some(failure) = port_file::of_environment().and_then(|file| file.write(&bound.addresses()).err()) {
        notice(format!("the ports are in no file: {failure}"));
    }
    let addresses: Vec<_> = bound.addresses().iter().map(ToString::to_string).collect();
    let sockets = bound.sockets().map_err(Failure::other)?;
    let mut taken = match (&mut predecessor, &options.takeover) {
        (Some(predecessor), Some(path)) => predecessor.inherit(path, &addresses)?,
        _ => None,
    };
    let is_successor = predecessor.is_some();
    if is_successor && taken.is_none() {
        // Its memory goes with it, and nothing below waits for it.
        predecessor = None;
        pidfile = write_pidfile();
    }
    let (shared_memory, memory, is_left) = match (&memory_file, &mut taken) {
        (Some(file), _) => {
            let (memory, is_left) = file.take(found, notice)?;
            (None, memory, is_left)
        }
        (None, Some(Inheritance { manifest, .. })) => {
            let file = Arc::clone(&predecessor.as_ref().expect("it has left something").memory);
            (Some(Arc::clone(&file)), Memory::Handed(file, std::mem::take(manifest)), true)
        }
        (None, None) if options.takeover.is_some() => {
            let file = takeover::new_memory()?;
            (Some(Arc::clone(&file)), Memory::File(file), false)
        }
        (None, None) => (None, Memory::Anonymous, false),
    };
    let prepared = bound.prepare(random()?, memory, devices).map_err(Failure::other);
    let give_up = || memory_file.iter().filter(|_| !is_left).for_each(MemoryFile::give_up);
    let prepared = prepared.inspect_err(|_| give_up())?;
    let left = match (is_left, &taken) {
        (true, Some(Inheritance { connections, .. })) => {
            let (items, connections) = (prepared.items(), connections.len());
            format!(", with {items} items and {connections} connections of the server before")
        }
        (true, None) => format!(", with {} items of the last server", prepared.items()),
        (false, _) => String::new(),
    };
    let mut takeover_socket = match (&options.takeover, &predecessor) {
        (Some(path), None) => Some(TakeoverSocket::listen(path)?),
        _ => None,
    };
    start_companions(&prepared, signals, looks, &options, &supervisor).map_err(hint_at_limits)?;
    let scraped = endpoint.as_ref().map(Endpoint::shown).unwrap_or_default();
    let metrics = endpoint.as_ref().map_or(Ok(Vec::new()), Endpoint::sockets);
    let metrics = metrics.map_err(|error| Failure::system("duplicate the sockets of metrics", error))?;
    if let Some(endpoint) = endpoint {
        let monitor = prepared.monitor();
        let host = HostSampler::start(tuner::Root::new("/"));
        let host =
            host.map_err(|error| Failure::system("start thread host", error)).map_err(hint_at_limits)?;
        start("admin", move || endpoint.serve(monitor, host, move || clock.now())).map_err(hint_at_limits)?;
    }
    let (stop, hand_over) = (prepared.stop(), prepared.hand_over());
    let flash = prepared.flash_sizes().map(|sizes| (sizes, options.flash.clone()));
    let tls = prepared.tls_files();
    let flash_files = prepared.flash_files();
    let flash_files =
        flash_files.map_err(|error| Failure::system("duplicate the descriptors of flash", error))?;
    let (connections, dropped) = taken.map_or((Vec::new(), 0), |taken| (taken.connections, taken.dropped));
    // Nothing can fail any more but this: what another server has left stays as it is until then.
    let begin = || match (&memory_file, &mut predecessor, &options.takeover) {
        (Some(file), _, _) => file.claim(),
        (None, Some(predecessor), Some(path)) if stop.is_stopped() => Err(predecessor.told_to_end(path)),
        (None, Some(predecessor), Some(path)) => {
            predecessor.succeed(path)?;
            // Before the process ends that the supervisor watches.
            supervisor.ready_in(rustix::process::getpid());
            // Before the first request: the predecessor, whose view of the memory would then be wrong, must not go on.
            predecessor.taken();
            Ok(())
        }
        _ => Ok(()),
    };
    let running = prepared.start_with(connections, begin).inspect_err(|_| give_up());
    let mut running = running.map_err(hint_at_limits)?;
    let took_over = predecessor.is_some();
    if let (true, Some(path)) = (took_over, &options.takeover) {
        pidfile = write_pidfile();
        takeover_socket = TakeoverSocket::listen(path)
            .map_err(|failure| notice(format!("nobody can take over from this server: {failure}")))
            .ok();
        if dropped > 0 {
            notice(format!(
                "{dropped} connections were closed, because this server does not listen where they came"
            ));
        }
    }
    let offered = |memory: &Arc<File>| -> io::Result<OfferedServer> {
        Ok(OfferedServer {
            zero_unix_ms,
            clock_us: clock.origin_us(),
            addresses: addresses.clone(),
            listeners: sockets,
            metrics,
            memory: OwnedFd::from(memory.try_clone()?),
            flash,
            flash_files,
            tls,
        })
    };
    let successors = match (takeover_socket, &shared_memory) {
        (Some(socket), Some(memory)) => {
            let begun = offered(memory).and_then(|offered| socket.start(offered, hand_over));
            Some(begun.map_err(|error| Failure::system("start thread takeover", error))?)
        }
        _ => None,
    };
    let driver = match running.uring_refused() {
        None => running.driver().to_owned(),
        Some(error) => format!("{} ({})", running.driver(), uring::refused(&error)),
    };
    let start = start_line(&options, &addresses, &driver, identity.as_ref());
    log::info("serve", format_args!("{start}{left}{scraped}"));
    if options.verbosity > 0
        && let Some(error) = running.slice_refused()
    {
        log::warning("serve", slice_refused(&error));
    }
    match background {
        Some(background) => {
            LINES.finish(LAST_LINES);
            background.detach(&options)?;
        }
        None if took_over => {}
        // The process that the supervisor has started is gone.
        None if is_successor => supervisor.ready_in(rustix::process::getpid()),
        None => supervisor.ready(),
    }
    let stopped = loop {
        let stopped = running.wait().map_err(Failure::other);
        match (stopped, &successors) {
            (Ok(stopped), Some(successors)) if stopped.is_handed_over() => {
                match successors.hand_over(stopped) {
                    TakeoverOutcome::Taken => {
                        log::info("serve", "another process serves from now on");
                        LINES.finish(LAST_LINES);
                        // Without an end of its own: sockets, files and memory are the other one's.
                        std::process::exit(0);
                    }
                    TakeoverOutcome::GoOn(stopped) => running = stopped.go_on().map_err(Failure::other)?,
                }
            }
            (stopped, _) => break stopped,
        }
    };
    // The `shutdown` command comes by no signal.
    supervisor.stopping();
    let ended = stopped.and_then(|stopped| match &memory_file {
        Some(file) => leave(file, stopped, zero_unix_ms),
        None => Ok(()),
    });
    if ended.is_ok() && options.verbosity > 0 {
        log::info("serve", "stopped");
    }
    LINES.finish(LAST_LINES);
    drop(pidfile);
    ended
}

/// A command line that was refused, with its hint.
pub(crate) fn refused(error: flags::Error) -> Failure {
    let hint = error.hint();
    Failure::usage(error, hint)
}

fn bind(options: &Options, inherited: Vec<OwnedFd>, beginning: Beginning) -> Result<Bound, Failure> {
    let notice = |line: &str| notice(line.to_owned());
    Server::bind(options, inherited, beginning, notice).map_err(Failure::other)
}

/// The clock goes on from that of the server that is taken over, or whose items are `found`: they expire when they would have.
fn beginning(predecessor: Option<&mut Predecessor>, found: &FoundItems) -> Beginning {
    if let Some(predecessor) = predecessor {
        let (clock, zero_unix_ms) = predecessor.clock();
        // Those that this server does not have are closed with what remains of them: nobody would answer there.
        let adopted = std::mem::take(&mut predecessor.listeners);
        return Beginning { clock, zero_unix_ms, adopted, tickets: predecessor.tickets() };
    }
    let now_ms = os::clock::unix_time().as_millis() as u64;
    let zero_unix_ms = found.as_ref().ok().and_then(Option::as_ref).map_or(now_ms, |left| left.zero_unix_ms);
    let clock = Clock::resume(Now { us: now_ms.saturating_sub(zero_unix_ms) * 1000 });
    Beginning { clock, zero_unix_ms, adopted: Vec::new(), tickets: None }
}

fn notice(line: String) {
    log::warning("serve", line);
}

fn open_memory_file(options: &Options) -> Result<Option<MemoryFile>, Failure> {
    let file = options.memory_file.as_deref().map(MemoryFile::open).transpose()?;
    file.iter().filter_map(MemoryFile::warning).for_each(notice);
    Ok(file)
}

/// Leaves the items of a server that has ended to the next one.
fn leave(file: &MemoryFile, mut stopped: Stopped, zero_unix_ms: u64) -> Result<(), Failure> {
    if !stopped.finish_flash(FLASH_REST) {
        let (seconds, lost) = (FLASH_REST.as_secs(), stopped.give_up_flash());
        notice(format!(
            "flash has taken no more within {seconds} s: {lost} items that waited to be written are lost"
        ));
    }
    let manifest = stopped.leave().expect("its items are in a file");
    file.leave(manifest, zero_unix_ms)?;
    log::info("serve", format_args!("{} left to the next server", counted(stopped.items() as usize, "item")));
    Ok(())
}

/// The effect of the kernel's refusal, in one line.
fn slice_refused(error: &io::Error) -> String {
    let why = match error.kind() {
        ErrorKind::Unsupported => "it needs Linux 6.12 or later".to_owned(),
        _ => format!("{error}; a seccomp profile may forbid sched_setattr"),
    };
    format!("threads have no time slices of their own ({why}): where they share CPUs, replies take longer")
}

/// An unpredictable number.
fn random() -> Result<u128, Failure> {
    let mut bytes = [0; 16];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(|error| Failure::system("draw a random number", error))?;
    Ok(u128::from_ne_bytes(bytes))
}

/// The first line for the operator.
fn start_line(
    options: &Options,
    addresses: &[String],
    driver: &str,
    identity: Option<&TargetUser>,
) -> String {
    let megabytes = options.memory_limit_bytes / stdx::units::MIB;
    let cpus = thread::available_parallelism().map_or(usize::MAX, usize::from);
    let threads = threads_on(options.threads, cpus);
    let places = if addresses.is_empty() { "no address".to_owned() } else { addresses.join(", ") };
    format!(
        "evenkeel {} serves on {places}: {megabytes} MB for items, {threads} driven by {driver}, at most {} connections{}",
        env!("CARGO_PKG_VERSION"),
        options.connection_limit,
        identity.map(TargetUser::said).unwrap_or_default(),
    )
}

/// `4 threads`; with the number of CPUs where threads have to share them, and replies wait for that.
fn threads_on(threads: usize, cpus: usize) -> String {
    match threads > cpus {
        true => format!("{} on {}", counted(threads, "thread"), counted(cpus, "CPU")),
        false => counted(threads, "thread"),
    }
}

/// Starts the threads beside the workers before any client is answered: if the system refuses one, the server has not
/// begun. Neither is joined: they run until the process ends.
fn start_companions(
    prepared: &Provisioned,
    signals: Signals,
    looks: FileLooks,
    options: &Options,
    supervisor: &Supervisor,
) -> Result<(), Failure> {
    let (stop, prefault) = (prepared.stop(), prepared.prefault());
    let reload = Arc::new(Reload::new(options, prepared.user_registry(), prepared.tls_files()));
    if !looks.is_empty() {
        let reload = Arc::clone(&reload);
        start("file-watch", move || reload.watch(looks))?;
    }
    let (verbosity, supervisor) = (options.verbosity, supervisor.clone());
    let stop = move || {
        supervisor.stopping();
        stop.stop();
    };
    start("signals", move || answer_signals(&signals, stop, &reload, verbosity))?;
    if let Some((board, path)) = prepared.discovery_board().zip(options.cluster_file.clone()) {
        let file = ClusterFile::start(path, "serve", move |state| board.replace(state));
        start("cluster-file", move || file.run())?;
    }
    if let Some(keep) = prepared.flash_thread() {
        start("flash", keep)?;
    }
    start("ahead", || {
        // Without permission it competes with the workers, which still wait less than for the faults themselves.
        let _ = sys::become_idle();
        prefault();
    })
}

/// Opens the block devices of the flash tier, if there is one.
fn open_block_devices(options: &Options) -> Result<Option<OpeningDevices>, Failure> {
    if !options.flash.is_on() {
        return Ok(None);
    }
    let opened = Devices::open_block_devices(&options.flash.paths, options.flash.segment_bytes, &open_path);
    opened.map(Some).map_err(Failure::other)
}

/// Opens the rest of the devices, which are files.
fn open_files(opening: OpeningDevices) -> Result<Devices, Failure> {
    let (devices, warnings) = opening.open_files(&open_path).map_err(Failure::other)?;
    warnings.into_iter().for_each(notice);
    Ok(devices)
}

/// A device's path usually leads over links, as in /dev/disk.
fn open_path(path: &Path, flags: OFlags, mode: Mode) -> io::Result<File> {
    DirectoryEntry::behind_links(path)?.open(flags, mode.as_raw_mode())
}

fn start(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    let started = thread::Builder::new().name(name.to_owned()).spawn(work);
    started.map(drop).map_err(|error| Failure::system(format!("start thread {name}"), error))
}

/// With a hint if the system has no threads or memory left.
fn hint_at_limits(failure: Failure) -> Failure {
    let exhausted =
        failure.io_kind().is_some_and(|kind| matches!(kind, ErrorKind::WouldBlock | ErrorKind::OutOfMemory));
    match exhausted {
        true => failure.hint("raise `ulimit -u` and `ulimit -v`, or ask for fewer threads with -t"),
        false => failure,
    }
}

/// The first terminating signal stops the server; a second one ends the process without waiting for it.
fn answer_signals(signals: &Signals, stop: impl Fn(), reload: &Reload, verbosity: u8) -> ! {
    let mut stopping = false;
    loop {
        match signals.wait() {
            Signal::Reload => reload.now(),
            Signal::Interrupt | Signal::Terminate | Signal::Graceful if stopping => std::process::exit(1),
            signal @ (Signal::Interrupt | Signal::Terminate | Signal::Graceful) => {
                if verbosity > 0 {
                    log::info("serve", format_args!("stopping ({})", signal.name()));
                }
                stopping = true;
                stop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::threads_on;

    #[test]
    fn threads_that_share_cpus_are_told_so() {
        let lines = [(1, 2), (4, 4), (4, 2), (2, 1)].map(|(threads, cpus)| threads_on(threads, cpus));
        assert_eq!(lines, ["1 thread", "4 threads", "4 threads on 2 CPUs", "2 threads on 1 CPU"]);
    }
}
