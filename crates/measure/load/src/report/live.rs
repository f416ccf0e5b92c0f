//! The live view: what the run is doing, on a terminal's other screen, second by second.
//!
//! `view.rs` renders it, with a picture of latencies (`heat.rs`), without a terminal; `screen.rs` is the terminal,
//! and restores it.

mod heat;
pub(crate) mod screen;
mod view;

use crate::measure::seconds::Whole;
use crate::report::follower::{AgentNow, Follower, GLANCE};
use crate::report::summary::Second;
use crate::types::clock::now_ns;
use crate::types::description::Description;
use crate::types::error::Error;
use screen::{Screen, ScreenOutput, UserKey};
use std::io::{self, IsTerminal};
use std::time::Duration;
use view::{Stage, View};

/// Shows a run to a user who may end it.
pub(crate) struct Live {
    view: View,
    /// Since there is something to show: errors before that are printed on the first screen.
    screen: Option<Screen>,
    has_left: bool,
}

impl Live {
    pub(crate) fn new(run: &Description) -> Result<Live, Error> {
        if !io::stderr().is_terminal() {
            return Err(Error::Arguments(String::from("--live needs a terminal on standard error")));
        }
        Ok(Live { view: View::new(run), screen: None, has_left: false })
    }

    fn show(&mut self) -> Result<(), Error> {
        let screen = match &mut self.screen {
            Some(screen) => screen,
            none => none.insert(Screen::enter(ScreenOutput::Stderr).map_err(Error::Terminal)?),
        };
        screen.draw(|frame| self.view.draw(frame)).map_err(Error::Terminal)
    }
}

impl Follower for Live {
    fn stored(&mut self, items: u64, of: u64) -> Result<(), Error> {
        self.view.stage = Stage::Prefill { items, of };
        self.show()?;
        if self.leaves()? { Err(Error::Left) } else { Ok(()) }
    }

    fn filled(&mut self, items: u64) -> Result<(), Error> {
        self.stored(items, items)
    }

    fn ready(&mut self, wait_ns: u64) -> Result<u64, Error> {
        self.view.stage = Stage::WarmUp;
        self.show()?;
        Ok(now_ns() + wait_ns)
    }

    fn second(&mut self, second: &Second, whole: Vec<Whole>) -> Result<(), Error> {
        self.view.pass(second, &whole);
        self.show()
    }

    fn agents(&mut self, agents: &[AgentNow]) -> Result<(), Error> {
        self.view.agents = agents.to_vec();
        self.show()
    }

    fn closed(&mut self, _: Vec<Whole>, _: f64) -> Result<(), Error> {
        // The summary belongs to the first screen.
        self.screen = None;
        Ok(())
    }

    fn asks_every(&self) -> Option<Duration> {
        Some(GLANCE)
    }

    fn leaves(&mut self) -> Result<bool, Error> {
        match self
            .screen
            .as_ref()
            .map(|screen| screen.asked(Duration::ZERO))
            .transpose()
            .map_err(Error::Terminal)?
            .flatten()
        {
            Some(UserKey::Leave) => self.has_left = true,
            Some(UserKey::Redraw) => self.show()?,
            None => {}
        }
        Ok(self.has_left)
    }
}
