//! The live picture, drawn on a terminal of any size: one server or router in full, or several in a line each.
//!
//! What matters most stands at the top, so that a small terminal shows that. No text of a server reaches the terminal
//! without its control characters being escaped.

use ratatui::Frame;
use ratatui::style::{Color, Style};
use tuner::report::{Paint, TextStyle};

use super::host::LocalHost;
use super::watcher::Watcher;
use crate::failure::Failure;
use crate::terminal::live::LivePicture;
use crate::terminal::painted;

mod all;
mod one;
mod one_router;
pub(super) mod page;

use page::{Page, ServerView};

/// Rows of the host's CPUs, with their heading, are at most this part of the terminal.
const HOST_PART: u16 = 4;

/// What is seen, and the rates before.
pub(super) struct View {
    watchers: Vec<Watcher>,
    host: LocalHost,
    servers: Vec<ServerView>,
    style: TextStyle,
}

impl View {
    pub(super) fn new(watchers: Vec<Watcher>, host: LocalHost, paint: Paint) -> View {
        let server = |watcher: &Watcher| ServerView::new(watcher.state());
        let servers = watchers.iter().map(server).collect();
        View { watchers, host, servers, style: TextStyle { columns: 0, paint } }
    }
}

impl LivePicture for View {
    fn refresh(&mut self) -> Result<(), Failure> {
        for (watcher, server) in self.watchers.iter().zip(&mut self.servers) {
            let round = watcher.rounds();
            if round != server.round {
                server.pass(watcher.state(), round);
            }
        }
        Ok(())
    }

    fn draw(&self, frame: &mut Frame<'_>) {
        let area = frame.area();
        let style = TextStyle { columns: area.width.into(), ..self.style };
        let host = self.host.heat(style, usize::from(area.height / HOST_PART).saturating_sub(1).max(1));
        draw(frame, &self.servers, &host, self.style.paint);
    }
}

/// Draws servers and routers, and the text of the host below them.
fn draw(frame: &mut Frame<'_>, servers: &[ServerView], host: &str, paint: Paint) {
    let mut page = Page { left: frame.area(), frame };
    let host = painted::lines(host);
    match servers {
        [router] if router.state.is_router => one_router::draw(&mut page, router, &host),
        [server] => one::draw(&mut page, server, &host),
        servers => all::draw(&mut page, servers, &host),
    }
    if paint == Paint::Plain {
        // Bold text is no colour.
        let area = page.frame.area();
        page.frame.buffer_mut().set_style(area, Style::new().fg(Color::Reset).bg(Color::Reset));
    }
}

#[cfg(test)]
mod tests;
