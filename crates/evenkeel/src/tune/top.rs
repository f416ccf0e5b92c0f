//! `evenkeel tune top`: CPUs that handle packets and interrupts, live.

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;

use os::clock::{Stopwatch, pause};
use tuner::{Capture, Facts, Reading, Root, Series, report};
use tuning::observe::observe;

use super::arguments::HostArguments;
use super::terminal;
use crate::failure::Failure;
use crate::output::{columns, draw, print};
use crate::screen::{Screen, rows};

/// Show where packets and interrupts are handled, live
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    host: HostArguments,
    /// Seconds between two pictures
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=60))]
    seconds: u32,
}

/// Rows that are not CPUs: the title, the heading and the line below.
const ROWS_BESIDE: usize = 4;
/// The most threads that are shown: those that wait longest are of interest.
const WAITS_MAX: usize = 8;

/// Pictures until `q`. Only one without a terminal, or of a captured host, which does not change.
pub(super) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let host = arguments.host.request();
    let root = Root::new(&host.root);
    if !root.is_live() {
        let Capture { facts, series } = observe(&host, arguments.seconds)?;
        print(picture(&facts, &series, usize::MAX).as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    let facts = host.facts()?;
    let watch = Stopwatch::start();
    let read = || tuner::read(&root, &facts, watch.ms()).map_err(Failure::other);
    let seconds = Duration::from_secs(arguments.seconds.into());
    let mut before = read()?;
    if !(io::stdin().is_terminal() && io::stdout().is_terminal()) {
        pause(seconds);
        print(picture(&facts, &between(before, read()?), usize::MAX).as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    let screen =
        Screen::enter("evenkeel tune top").map_err(|error| Failure::system("prepare the terminal", error))?;
    while !screen.left_within(seconds).map_err(|error| Failure::system("read the terminal", error))? {
        let after = read()?;
        let picture =
            picture(&facts, &between(before, after.clone()), rows().saturating_sub(ROWS_BESIDE).max(1));
        draw(&picture)?;
        before = after;
    }
    Ok(ExitCode::SUCCESS)
}

fn between(before: Reading, after: Reading) -> Series {
    Series::new(vec![before, after]).expect("time has passed between two readings")
}

fn picture(facts: &Facts, series: &Series, rows_max: usize) -> String {
    let style = terminal::style(columns());
    let threads: usize = facts.services.iter().map(|service| service.threads.len()).sum();
    let waits = threads.min(WAITS_MAX);
    // A heading, an empty line, and a line for the threads that are left out.
    let beside = if waits == 0 { 0 } else { waits + 3 };
    let heat = report::heat(facts, series, style, rows_max.saturating_sub(beside).max(1));
    let waits = report::waits(facts, series, style, waits);
    let gap = if waits.is_empty() { "" } else { "\n" };
    format!("evenkeel tune top: q ends\n\n{heat}{gap}{waits}")
}
