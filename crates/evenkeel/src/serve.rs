//! `evenkeel serve`: from a command line to a server that runs, and to its orderly end.
//!
//! The order matters. Limits are raised and sockets are bound while the process may still be root; it goes to the
//! background before there are threads, which would not follow; memory is locked before there is much of it; and
//! signals are blocked before threads start, so that only one place ever sees them.

use std::thread;

use rustix::process::{Resource, getrlimit};
use server::options::Options;
use server::{Bound, Running, Server, flags};

use crate::background::Background;
use crate::failure::{Failure, say};
use crate::output::print;
use crate::pidfile::PidFile;
use crate::privileges::{self, Identity};
use crate::reload::{Reload, read_users};
use crate::sys;
use crate::{resources, uring};
use os::signals::{self, Signal, Signals};

const LICENSE: &str = "\
evenkeel is free software under the Apache License, Version 2.0:
https://www.apache.org/licenses/LICENSE-2.0
";

/// Serves until it is told to stop.
pub(crate) fn run(low: flags::LowArgs) -> Result<(), Failure> {
    if low.license {
        return print(LICENSE.as_bytes());
    }
    // A log that has become as long as a file may be is no reason to end.
    signals::survive_file_size_limit();
    if getrlimit(Resource::As).current.is_some() {
        sys::share_one_heap();
    }
    let options = Options::new(low, &read_users).map_err(refused)?;
    if options.verbosity > 0 {
        options.notes.iter().for_each(|note| say(format_args!("evenkeel: serve: {note}")));
    }
    let identity = privileges::identity(options.process.user.as_deref())?;
    resources::raise(&options)?;
    let background = options.process.daemonize.then(Background::enter).transpose()?;
    let bound = bind(&options)?;
    if let Some(identity) = &identity {
        identity.own_sockets(&options.listeners)?;
        identity.assume()?;
    }
    if options.process.core_dumps {
        resources::allow_core_files();
    }
    if options.process.lock_memory {
        resources::lock_memory();
    }
    let pidfile = options.process.pidfile.as_deref().map(PidFile::write).transpose();
    let pidfile = pidfile.map_err(|failure| match &identity {
        Some(identity) => identity.explain(failure),
        None => failure,
    })?;
    let signals = Signals::block().map_err(|error| Failure::system("block signals", error))?;
    let addresses: Vec<_> = bound.addresses().iter().map(ToString::to_string).collect();
    let running = bound.start(random()?).map_err(Failure::other)?;
    let driver = match running.uring_refused() {
        None => running.driver().to_owned(),
        Some(error) => format!("{} ({})", running.driver(), uring::refused(&error)),
    };
    say(format_args!("{}", start_line(&options, &addresses, &driver, identity.as_ref())));
    if let Some(background) = background {
        background.detach(&options)?;
    }
    let reload = Reload::new(&options, running.user_registry());
    let ended = wait(running, signals, reload, options.verbosity);
    drop(pidfile);
    ended
}

/// A command line that was refused, with its hint.
pub(crate) fn refused(error: flags::Error) -> Failure {
    let hint = error.hint();
    Failure::usage(error, hint)
}

fn bind(options: &Options) -> Result<Bound, Failure> {
    let notice = |line: &str| say(format_args!("evenkeel: serve: {line}"));
    Server::bind(options, os::clock::unix_time().as_millis() as u64, notice).map_err(Failure::other)
}

/// A number that nobody can guess.
fn random() -> Result<u128, Failure> {
    let mut bytes = [0; 16];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(|error| Failure::system("draw a random number", error))?;
    Ok(u128::from_ne_bytes(bytes))
}

/// What an operator wants to see first.
fn start_line(options: &Options, addresses: &[String], driver: &str, identity: Option<&Identity>) -> String {
    let megabytes = options.memory_limit_bytes / stdx::units::MIB;
    let threads =
        if options.threads == 1 { "1 thread".to_owned() } else { format!("{} threads", options.threads) };
    format!(
        "evenkeel {} serves on {}: {megabytes} MB for items, {threads} driven by {driver}, at most {} connections{}",
        env!("CARGO_PKG_VERSION"),
        addresses.join(", "),
        options.connection_limit,
        identity.map(Identity::said).unwrap_or_default(),
    )
}

/// Waits for the end, which signals and the `shutdown` command can bring about.
fn wait(running: Running, signals: Signals, reload: Reload, verbosity: u8) -> Result<(), Failure> {
    let stop = running.stop();
    let answer = move || {
        answer_signals(&signals, || stop.stop(), &reload, verbosity);
    };
    let run_ahead = running.run_ahead();
    // Neither is joined: they wait until the process ends.
    start("signals", answer)?;
    start("ahead", || {
        // Without permission it competes with the workers, which still wait less than for the faults themselves.
        let _ = sys::become_idle();
        run_ahead();
    })?;
    running.wait().map_err(Failure::other)?;
    if verbosity > 0 {
        say(format_args!("evenkeel: serve: stopped"));
    }
    Ok(())
}

fn start(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    let started = thread::Builder::new().name(name.to_owned()).spawn(work);
    started.map(drop).map_err(|error| Failure::system(format!("start thread {name}"), error))
}

/// The first signal to end stops the server; a second one does not wait for it.
fn answer_signals(signals: &Signals, stop: impl Fn(), reload: &Reload, verbosity: u8) -> ! {
    let mut stopping = false;
    loop {
        match signals.wait() {
            Signal::Reload => reload.now(),
            Signal::Interrupt | Signal::Terminate | Signal::Graceful if stopping => std::process::exit(1),
            signal @ (Signal::Interrupt | Signal::Terminate | Signal::Graceful) => {
                if verbosity > 0 {
                    say(format_args!("evenkeel: serve: stopping ({signal:?})"));
                }
                stopping = true;
                stop();
            }
        }
    }
}
