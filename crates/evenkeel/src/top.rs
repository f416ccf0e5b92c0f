//! `evenkeel top`: servers and routers, live, from the reports of their `--metrics-listen`.

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;

use os::clock::pause;
use os::signals::Signals;

use crate::failure::Failure;
use crate::terminal::live;
use crate::terminal::output::{columns, print};
use crate::tune::paint;

mod fetch;
mod figures;
pub(crate) mod fleet;
mod host;
mod json;
mod picture;
mod reading;
mod router;
mod view;
mod watcher;

use host::LocalHost;
use view::View;
use watcher::{ServerState, Watcher};

/// With `--once`, a server is asked this often before it counts as one without rates: rates need two readings of the same
/// run, and a server may have been started again in between.
const ROUNDS_MAX: u64 = 4;

/// The exit status of `--once` if figures of a server are missing.
const NOT_ALL_SEEN: u8 = 1;

/// Exit statuses.
pub(crate) const STATUSES: [(&str, &str); 4] = [
    ("0", "With --once: the figures of all servers and routers are shown."),
    (
        "1",
        "With --once: one of them cannot be reached, or its uptime stands still. What is known of the others is shown.",
    ),
    ("64", "The command line is wrong."),
    ("71", "The system refused something."),
];

/// Watch servers and routers that were started with `--metrics-listen`
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Where their metrics are served: HOST, HOST:PORT or http://HOST:PORT, as given to `--metrics-listen`; without a port 9150, a
    /// server's. A router's is 9442 unless it has another one
    #[arg(value_name = "ADDR", default_value = "127.0.0.1:9150", value_parser = fetch::Place::parse)]
    servers: Vec<fetch::Place>,
    /// Seconds between two pictures, over which rates are computed
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=60))]
    seconds: u32,
    /// Print one picture and end, also on a terminal
    #[arg(long)]
    once: bool,
    /// With `--once`: JSON, an object for each server and each router
    #[arg(long, requires = "once")]
    json: bool,
}

/// Pictures until `q`; one without a terminal.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let interval = Duration::from_secs(arguments.seconds.into());
    let is_live = !arguments.once && io::stdin().is_terminal() && io::stdout().is_terminal();
    // Before there are threads: a signal is to find the one that restores the terminal.
    let signals = is_live.then(Signals::block).transpose();
    let signals = signals.map_err(|error| Failure::system("block signals", error))?;
    let start = |place: &fetch::Place| Watcher::start(place.clone(), interval);
    let watchers = arguments.servers.iter().map(start).collect::<io::Result<Vec<Watcher>>>();
    let watchers = watchers.map_err(|error| Failure::system("start a thread for each server", error))?;
    if let Some(signals) = signals {
        let host = LocalHost::start(arguments.servers.clone(), interval);
        let host = host.map_err(|error| Failure::system("start thread host", error))?;
        return live::show(&mut View::new(watchers, host, paint()), interval, &signals);
    }
    // A server whose uptime stands still, or that is started again and again, never has rates.
    while !watchers.iter().all(|watcher| watcher.has_rates() || watcher.rounds() >= ROUNDS_MAX) {
        pause(Duration::from_millis(10));
    }
    let states: Vec<_> = watchers.iter().map(Watcher::state).collect();
    let text = match arguments.json {
        true => json::report(&states),
        false => picture::picture(&states, columns(), usize::MAX),
    };
    print(text.as_bytes())?;
    Ok(match states.iter().all(ServerState::has_figures) {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(NOT_ALL_SEEN),
    })
}
