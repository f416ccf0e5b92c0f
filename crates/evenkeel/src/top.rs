//! `evenkeel top`: servers, live, from the reports of their `--metrics-listen`.

use std::io::{self, IsTerminal};
use std::time::Duration;

use os::clock::pause;

use crate::failure::Failure;
use crate::output::{columns, draw, print};
use crate::screen::{Screen, rows};

mod fetch;
mod figures;
mod json;
mod picture;
mod reading;
mod watcher;

use watcher::Watcher;

const TITLE: &str = "evenkeel top";

/// Watch servers that were started with `--metrics-listen`
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Where their metrics are served: HOST, HOST:PORT or http://HOST:PORT, as given to `--metrics-listen`
    #[arg(value_name = "ADDR", default_value = "127.0.0.1:9150", value_parser = fetch::Place::parse)]
    servers: Vec<fetch::Place>,
    /// Seconds between two pictures, over which rates are computed
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=60))]
    seconds: u32,
    /// Print one picture and end, also on a terminal
    #[arg(long)]
    once: bool,
    /// With `--once`: JSON, an object for each server
    #[arg(long, requires = "once")]
    json: bool,
}

/// Pictures until `q`; one without a terminal.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let interval = Duration::from_secs(arguments.seconds.into());
    let start = |place: &fetch::Place| Watcher::start(place.clone(), interval);
    let watchers = arguments.servers.iter().map(start).collect::<io::Result<Vec<Watcher>>>();
    let watchers = watchers.map_err(|error| Failure::system("start a thread for each server", error))?;
    let states = || watchers.iter().map(Watcher::state).collect::<Vec<_>>();
    if arguments.once || !(io::stdin().is_terminal() && io::stdout().is_terminal()) {
        while !watchers.iter().all(Watcher::has_rates) {
            pause(Duration::from_millis(10));
        }
        return match arguments.json {
            true => print(json::report(&states()).as_bytes()),
            false => print(picture::picture(&states(), columns(), usize::MAX).as_bytes()),
        };
    }
    let screen = Screen::enter(TITLE).map_err(|error| Failure::system("prepare the terminal", error))?;
    while !screen.left_within(interval).map_err(|error| Failure::system("read the terminal", error))? {
        draw(&picture::picture(&states(), columns(), rows()))?;
    }
    Ok(())
}
