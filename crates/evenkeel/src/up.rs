//! `evenkeel up`: servers and a router on one machine, started, watched, and ended together.
//!
//! Each member is a process of its own, so that what happens to one of them in a fleet can be tried here: end it, stop it,
//! look at it with the tools for processes.

mod cluster;
mod encryption;
mod held_lines;
mod member;
mod place;
mod plane;
mod ports;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use os::clock::{Stopwatch, pause};
use os::signals::{Ignored, Signals};

use crate::failure::Failure;
use crate::terminal::output::print;
use cluster::Cluster;
use held_lines::HeldLines;
use place::Place;

/// Interval at which members and signals are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Start servers and a router on this machine
///
/// The servers and the router listen on 127.0.0.1 alone. A server that ends is started again, empty; until then the others
/// answer for its keys. It is a control plane with one host: `evenkeel control` shows and changes which server has which keys.
/// Ctrl-C ends them all.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How many servers
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=16))]
    servers: u16,
    /// How many more servers, which have no slot until `control replace` gives them one
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(0..=16))]
    spares: u16,
    /// Memory for the items of each server, in MB
    #[arg(long, value_name = "MB", default_value_t = 64, value_parser = clap::value_parser!(u32).range(8..))]
    memory: u32,
    /// Port of the router; if it is taken, the next one that is free
    #[arg(short, long, value_name = "PORT", default_value_t = 11_211, value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// Encrypt all connections, those of clients too, with certificates that are made for this run
    #[arg(long)]
    tls: bool,
    /// Folder for the router's configuration and the output of each process, which stays; without it, a new one that is
    /// removed at the end
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Runs a cluster until a signal ends it.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    // Before there are processes: a signal is to find the one that ends them.
    let signals = Signals::block().map_err(|error| Failure::system("block signals", error))?;
    let ignored = Ignored::now();
    let watch = Stopwatch::start();
    let is_asked_to_end = || signals.take().filter(|signal| !ignored.has(*signal));
    let place = Place::new(arguments.dir.as_deref())?;
    let mut cluster = Cluster::new(arguments, &place)?;
    let lines = Arc::new(HeldLines::default());
    let has_started = cluster.start(&place, &lines, &|| is_asked_to_end().is_some());
    if !matches!(has_started, Ok(true)) {
        lines.release();
    }
    if has_started? {
        print(cluster.welcome(&place, watch.passed()).as_bytes())?;
        lines.release();
        while is_asked_to_end().is_none() {
            pause(LOOK_EVERY);
            cluster.look_after();
        }
    }
    cluster.stop();
    Ok(ExitCode::SUCCESS)
}
