//! Threads beside the workers: signals, reloading, the list of members, flash, page faults, metrics.

use std::sync::Arc;
use std::thread;

use net::clock::Clock;
use os::signals::{Signal, Signals};
use server::Provisioned;

use super::lines::hint_at_limits;
use super::reload::{FileLooks, Reload};
use super::serving_process::ServingProcess;
use crate::failure::Failure;
use crate::peers::cluster_file::ClusterFile;
use crate::peers::endpoint::Endpoint;
use crate::peers::host_sampler::HostSampler;
use crate::process::sys;
use crate::terminal::log;

/// Starts the threads beside the workers before any client is answered: if the system refuses one, the server has not
/// begun. Neither is joined: they run until the process ends.
pub(super) fn start_companions(
    prepared: &Provisioned,
    signals: Signals,
    looks: FileLooks,
    process: &ServingProcess,
) -> Result<(), Failure> {
    let options = process.options();
    let (stop, prefault) = (prepared.stop(), prepared.prefault());
    let reload = Arc::new(Reload::new(options, prepared.user_registry(), prepared.tls_files()));
    if !looks.is_empty() {
        let reload = Arc::clone(&reload);
        start_thread("file-watch", move || reload.watch(looks))?;
    }
    let (verbosity, supervisor) = (options.verbosity, process.supervisor().clone());
    let stop = move || {
        supervisor.stopping();
        stop.stop();
    };
    start_thread("signals", move || answer_signals(&signals, stop, &reload, verbosity))?;
    if let Some((board, path)) = prepared.discovery_board().zip(options.cluster_file.clone()) {
        let file = ClusterFile::start(path, "serve", move |state| board.replace(state));
        start_thread("cluster-file", move || file.run())?;
    }
    if let Some(keep) = prepared.flash_thread() {
        start_thread("flash", keep)?;
    }
    start_thread("ahead", || {
        // Without permission it competes with the workers, which still wait less than for the faults themselves.
        let _ = sys::become_idle();
        prefault();
    })
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

fn start_thread(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    let started = thread::Builder::new().name(name.to_owned()).spawn(work);
    started.map(drop).map_err(|error| Failure::system(format!("start thread {name}"), error))
}

/// Starts the threads that answer whoever asks for metrics.
pub(super) fn start_metrics(endpoint: Endpoint, prepared: &Provisioned, clock: Clock) -> Result<(), Failure> {
    let monitor = prepared.monitor();
    let host = HostSampler::start(tuner::Root::new("/"));
    let host = host.map_err(|error| Failure::system("start thread host", error)).map_err(hint_at_limits)?;
    start_thread("admin", move || endpoint.serve(monitor, host, move || clock.now())).map_err(hint_at_limits)
}
