//! A terminal's other screen, with keys that arrive at once; dropping it brings the first one back.

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::{Frame, Terminal};
use std::io::{self, BufWriter, Write};
use std::panic;
use std::sync::{Mutex, Once, PoisonError};
use std::time::Duration;

/// The screen, from [`Screen::enter`] until it is dropped.
pub struct Screen {
    /// A picture is one write: half of one is never seen.
    terminal: Terminal<CrosstermBackend<BufWriter<ScreenOutput>>>,
}

/// Where the terminal is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScreenOutput {
    /// Standard output.
    Stdout,
    /// Standard error, where standard output has a result.
    Stderr,
}

/// What the user in front of it asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserKey {
    /// The program is to end: q, Ctrl-C, Ctrl-D.
    Leave,
    /// The terminal has another size.
    Redraw,
}

/// Where there is something to put back.
static ENTERED: Mutex<Option<ScreenOutput>> = Mutex::new(None);
/// Whether it is still put back after a panic.
static HAS_HOOK: Once = Once::new();

impl Screen {
    /// Shows the other screen.
    pub fn enter(output: ScreenOutput) -> io::Result<Screen> {
        // A panic ends the process: its words belong to the first screen.
        HAS_HOOK.call_once(|| {
            let before = panic::take_hook();
            panic::set_hook(Box::new(move |why| {
                leave();
                before(why);
            }));
        });
        *ENTERED.lock().unwrap_or_else(PoisonError::into_inner) = Some(output);
        let mut entered = output;
        let entered = enable_raw_mode()
            .and_then(|()| execute!(entered, EnterAlternateScreen, Hide))
            .and_then(|()| Terminal::new(CrosstermBackend::new(BufWriter::new(output))));
        match entered {
            Ok(terminal) => Ok(Screen { terminal }),
            Err(error) => {
                leave();
                Err(error)
            }
        }
    }

    /// Shows a picture.
    pub fn draw(&mut self, picture: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.terminal.draw(picture).map(drop)
    }

    /// What was asked for since the last call; waits so long for a key if there was none.
    pub fn asked(&self, wait: Duration) -> io::Result<Option<UserKey>> {
        let (mut asked, mut wait) = (None, wait);
        while event::poll(wait)? {
            match event::read()? {
                Event::Key(key) if is_leave(key) => return Ok(Some(UserKey::Leave)),
                Event::Resize(..) => asked = Some(UserKey::Redraw),
                _ => {}
            }
            wait = Duration::ZERO;
        }
        Ok(asked)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        leave();
    }
}

impl Write for ScreenOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            ScreenOutput::Stdout => io::stdout().write(bytes),
            ScreenOutput::Stderr => io::stderr().write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            ScreenOutput::Stdout => io::stdout().flush(),
            ScreenOutput::Stderr => io::stderr().flush(),
        }
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
    let entered = ENTERED.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(mut output) = entered {
        let _ = execute!(output, Show, LeaveAlternateScreen);
        let _ = disable_raw_mode();
    }
}
