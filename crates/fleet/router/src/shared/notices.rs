//! Lines for the operator about servers: a few in a time, and how many were left out, so that a fleet that goes down is
//! no flood.

use std::sync::{Mutex, PoisonError};

use stdx::clock::Now;
use stdx::log_level::LogLevel;

/// Lines in one [`WINDOW_US`]: enough for the names of those that fail first, few enough to read.
const LINES_MAX: u32 = 10;

/// Ten seconds: as long as the first probes take by default.
const WINDOW_US: u64 = 10_000_000;

/// What a line is about, for the count of those that are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoticeKind {
    /// A server has become unavailable.
    Unavailable,
    /// A server has become available.
    Available,
    /// Anything else.
    Other,
}

impl NoticeKind {
    fn level(self) -> LogLevel {
        match self {
            NoticeKind::Available => LogLevel::Info,
            NoticeKind::Unavailable | NoticeKind::Other => LogLevel::Warning,
        }
    }
}

/// Tells the operator something in a line of text.
pub(crate) type RouterNotice = fn(LogLevel, &str);

/// Lines of all workers.
#[derive(Debug)]
pub(crate) struct ServerNotices {
    notice: RouterNotice,
    state: Mutex<NoticeWindow>,
}

#[derive(Debug, Default)]
struct NoticeWindow {
    /// When the window began; `None` before the first line.
    began: Option<Now>,
    said: u32,
    /// By kind.
    left_out: [u32; 3],
}

impl ServerNotices {
    pub(crate) fn new(notice: RouterNotice) -> ServerNotices {
        ServerNotices { notice, state: Mutex::default() }
    }

    /// Says `line`, or counts it. A time that is returned is that of [`ServerNotices::sum_up`], for which the caller provides.
    #[must_use = "what is left out must be summed up"]
    pub(crate) fn say(&self, kind: NoticeKind, now: Now, line: impl FnOnce() -> String) -> Option<Now> {
        let mut window = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = window.began.is_none_or(|began| now.us >= began.us + WINDOW_US);
        if is_over && window.left_out == [0; 3] {
            *window = NoticeWindow { began: Some(now), ..NoticeWindow::default() };
        }
        if window.said < LINES_MAX {
            window.said += 1;
            drop(window);
            (self.notice)(kind.level(), &line());
            return None;
        }
        let is_first = window.left_out == [0; 3];
        window.left_out[kind as usize] += 1;
        let began = window.began.unwrap_or(now);
        is_first.then_some(Now { us: (began.us + WINDOW_US).max(now.us) })
    }

    /// Says how many lines the window has left out.
    pub(crate) fn sum_up(&self) {
        let mut window = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let [unavailable, available, other] = std::mem::take(&mut *window).left_out;
        drop(window);
        let part = |count: u32, what: &str| (count > 0).then(|| format!("{count} {what}"));
        let parts = [
            part(unavailable, "of servers that became unavailable"),
            part(available, "of servers that became available"),
            part(other, "about connections to servers"),
        ];
        let parts: Vec<_> = parts.into_iter().flatten().collect();
        if !parts.is_empty() {
            let seconds = WINDOW_US / 1_000_000;
            let line = format!("lines left out in {seconds} s: {}", parts.join(", "));
            (self.notice)(LogLevel::Warning, &line);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    thread_local! {
        static LINES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    }

    fn said() -> Vec<String> {
        LINES.take()
    }

    #[test]
    fn what_exceeds_the_limit_is_counted_and_reported_once() {
        let notices =
            ServerNotices::new(|_, line| LINES.with_borrow_mut(|lines| lines.push(line.to_owned())));
        let at = |s: u64| Now { us: s * 1_000_000 };
        for server in 0..10 {
            let due = notices.say(NoticeKind::Unavailable, at(3), || format!("server {server}"));
            assert_eq!(due, None);
        }
        assert_eq!(said().len(), 10);
        let none = || unreachable!("a line that is left out is not made");
        assert_eq!(notices.say(NoticeKind::Unavailable, at(4), none), Some(at(13)));
        assert_eq!(notices.say(NoticeKind::Unavailable, at(5), none), None, "it is provided for");
        assert_eq!(notices.say(NoticeKind::Available, at(14), none), None, "not summed up yet");
        assert!(said().is_empty());
        notices.sum_up();
        let line = "lines left out in 10 s: 2 of servers that became unavailable, 1 of servers that became available";
        assert_eq!(said(), [line]);
        assert_eq!(notices.say(NoticeKind::Other, at(14), || "more".to_owned()), None);
        assert_eq!(said(), ["more"]);
        notices.sum_up();
        assert!(said().is_empty());
    }
}
