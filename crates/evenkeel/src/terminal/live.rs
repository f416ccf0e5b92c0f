//! Live pictures on the terminal, until the user or a signal ends them; the terminal is always restored.

use std::process::ExitCode;
use std::time::Duration;

use load::{Screen, ScreenOutput, UserKey};
use os::clock::Stopwatch;
use os::signals::{Ignored, Signals};
use ratatui::Frame;

use crate::failure::Failure;

/// How soon a signal ends the program. A key does at once.
const SIGNALS_EVERY: Duration = Duration::from_millis(100);

/// Something to look at.
pub(crate) trait LivePicture {
    /// Takes what is known now.
    fn refresh(&mut self) -> Result<(), Failure>;

    /// Draws it, on a terminal of any size.
    fn draw(&self, frame: &mut Frame<'_>);
}

/// Shows a picture, refreshed so often. `signals` are those of the whole process: they were blocked before it had threads.
pub(crate) fn show(
    picture: &mut impl LivePicture,
    interval: Duration,
    signals: &Signals,
) -> Result<ExitCode, Failure> {
    let (ignored, failed) = (Ignored::now(), |error| Failure::system("use the terminal", error));
    let mut screen = Screen::enter(ScreenOutput::Stdout).map_err(failed)?;
    loop {
        picture.refresh()?;
        screen.draw(|frame| picture.draw(frame)).map_err(failed)?;
        let watch = Stopwatch::start();
        loop {
            if let Some(signal) = signals.take().filter(|signal| !ignored.has(*signal)) {
                return Ok(ExitCode::from(signal.status()));
            }
            let left = interval.saturating_sub(watch.passed());
            if left.is_zero() {
                break;
            }
            match screen.asked(left.min(SIGNALS_EVERY)).map_err(failed)? {
                Some(UserKey::Leave) => return Ok(ExitCode::SUCCESS),
                Some(UserKey::Redraw) => screen.draw(|frame| picture.draw(frame)).map_err(failed)?,
                None => {}
            }
        }
    }
}
