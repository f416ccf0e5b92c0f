//! A terminal's other screen, with keys that arrive at once; dropping it brings the first one back.

use super::view::View;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use std::io::{self, BufWriter, Stderr};
use std::panic;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub(super) struct Screen {
    /// A picture is one write: half of one is never seen.
    terminal: Terminal<CrosstermBackend<BufWriter<Stderr>>>,
}

/// What the user in front of it asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UserKey {
    /// The run is to end: q, Ctrl-C, Ctrl-D.
    Leave,
    /// The terminal has another size.
    Redraw,
}

/// Whether there is something to put back.
static ENTERED: AtomicBool = AtomicBool::new(false);

impl Screen {
    pub(super) fn enter() -> io::Result<Screen> {
        // A panic ends the process: its words belong to the first screen.
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let before = panic::take_hook();
            panic::set_hook(Box::new(move |why| {
                leave();
                before(why);
            }));
        });
        ENTERED.store(true, Ordering::Relaxed);
        let entered = enable_raw_mode()
            .and_then(|()| execute!(io::stderr(), EnterAlternateScreen, Hide))
            .and_then(|()| Terminal::new(CrosstermBackend::new(BufWriter::new(io::stderr()))));
        match entered {
            Ok(terminal) => Ok(Screen { terminal }),
            Err(error) => {
                leave();
                Err(error)
            }
        }
    }

    pub(super) fn draw(&mut self, view: &View) -> io::Result<()> {
        self.terminal.draw(|frame| view.draw(frame)).map(drop)
    }

    /// The keys since the last call.
    pub(super) fn asked(&self) -> io::Result<Option<UserKey>> {
        let mut asked = None;
        while event::poll(Duration::ZERO)? {
            match event::read()? {
                Event::Key(key) if is_leave(key) => return Ok(Some(UserKey::Leave)),
                Event::Resize(..) => asked = Some(UserKey::Redraw),
                _ => {}
            }
        }
        Ok(asked)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        leave();
    }
}

fn is_leave(key: KeyEvent) -> bool {
    let with_control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Char('c' | 'd') => with_control,
        KeyCode::Char('q' | 'Q') => true,
        _ => false,
    }
}

/// Restores the terminal, once. If it has gone away, the error cannot be reported.
fn leave() {
    if ENTERED.swap(false, Ordering::Relaxed) {
        let _ = execute!(io::stderr(), Show, LeaveAlternateScreen);
        let _ = disable_raw_mode();
    }
}
