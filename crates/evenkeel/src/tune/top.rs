//! `evenkeel tune top`: CPUs that handle packets and interrupts, live.

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;

use os::clock::{Stopwatch, pause};
use os::signals::Signals;
use ratatui::Frame;
use ratatui::widgets::Paragraph;
use tuner::{Capture, Facts, Reading, Root, Series, report};
use tuning::observe::observe;

use super::arguments::HostArguments;
use super::terminal;
use crate::failure::Failure;
use crate::terminal::live::{self, LivePicture};
use crate::terminal::output::{columns, print};
use crate::terminal::painted;

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
        print(picture(&facts, &series, columns(), usize::MAX).as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    let facts = host.facts()?;
    let watch = Stopwatch::start();
    let read = || tuner::read(&root, &facts, watch.ms()).map_err(Failure::other);
    let seconds = Duration::from_secs(arguments.seconds.into());
    let before = read()?;
    if !(io::stdin().is_terminal() && io::stdout().is_terminal()) {
        pause(seconds);
        print(picture(&facts, &between(before, read()?), columns(), usize::MAX).as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    let signals = Signals::block().map_err(|error| Failure::system("block signals", error))?;
    // The first window is that from the reading above to the first picture's.
    pause(FIRST_WINDOW);
    let series = between(before.clone(), read()?);
    live::show(&mut LiveHost { facts: &facts, read, before, series }, seconds, &signals)
}

/// The first picture is of this long, so that there is one at once.
const FIRST_WINDOW: Duration = Duration::from_millis(200);

/// The host between the last two readings.
struct LiveHost<'f, R> {
    facts: &'f Facts,
    read: R,
    before: Reading,
    series: Series,
}

impl<R: Fn() -> Result<Reading, Failure>> LivePicture for LiveHost<'_, R> {
    fn refresh(&mut self) -> Result<(), Failure> {
        let after = (self.read)()?;
        if let Some(series) = Series::new(vec![self.before.clone(), after.clone()]) {
            (self.series, self.before) = (series, after);
        }
        Ok(())
    }

    fn draw(&self, frame: &mut Frame<'_>) {
        let area = frame.area();
        let rows = usize::from(area.height).saturating_sub(ROWS_BESIDE).max(1);
        let picture = picture(self.facts, &self.series, area.width.into(), rows);
        frame.render_widget(Paragraph::new(painted::lines(&picture)), area);
    }
}

fn between(before: Reading, after: Reading) -> Series {
    Series::new(vec![before, after]).expect("time has passed between two readings")
}

fn picture(facts: &Facts, series: &Series, columns: usize, rows_max: usize) -> String {
    let style = terminal::style(columns);
    let threads: usize = facts.services.iter().map(|service| service.threads.len()).sum();
    let waits = threads.min(WAITS_MAX);
    // A heading, an empty line, and a line for the threads that are left out.
    let beside = if waits == 0 { 0 } else { waits + 3 };
    let heat = report::heat(facts, series, style, rows_max.saturating_sub(beside).max(1));
    let waits = report::waits(facts, series, style, waits);
    let gap = if waits.is_empty() { "" } else { "\n" };
    format!("evenkeel tune top: q ends\n\n{heat}{gap}{waits}")
}
