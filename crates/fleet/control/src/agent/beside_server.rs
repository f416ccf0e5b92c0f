//! Beside one server: its process, its hits, emptying it, and sweeping it.

use std::sync::Arc;
use std::time::Duration;
use stdx::clock::Now;
use stdx::log_level::LogLevel;

use fleet::MemberId;
use fleet::figures::{MemberTally, ServerPageTally};
use serde::{Deserialize, Serialize};

use super::cluster_file::{ClusterFile, HeldText};
use super::pages::{MetricsPlace, PageTally, is_foreign};
use super::server_stats::tally_in;
use super::settings::AgentServer;
use super::state::{AgentStateError, AgentStore};
use super::sweep::Sweeper;
use crate::service::SayLine;
use crate::service::turn::{MemberOrder, MemberReport, ProcessReport};
use crate::wire::converse;
use crate::words::in_full;

/// Time for a server's answers.
const ANSWER_WITHIN: Duration = Duration::from_millis(500);
/// Bytes of an answer: `stats` has some 5 KB.
const ANSWER_LEN_MAX: usize = 64 * 1024;

/// A server and what is known of it.
pub(super) struct BesideServer {
    server: AgentServer,
    store: AgentStore,
    kept: Kept,
    page: Option<PageTally<ServerPageTally>>,
    /// By its last answer; none before the first.
    figures: Option<MemberTally>,
    has_foreign_page: bool,
    file: Option<ClusterFile>,
    sweeper: Sweeper,
}

/// What is not forgotten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    flushes: u64,
    #[serde(default)]
    is_kept_empty: bool,
}

impl BesideServer {
    /// With what was kept.
    pub(super) fn new(
        server: AgentServer,
        page: Option<PageTally<ServerPageTally>>,
        store: AgentStore,
    ) -> Result<BesideServer, AgentStateError> {
        let kept = store.load(&name(&server.member))?.unwrap_or_default();
        let file = server.cluster_file.clone().map(ClusterFile::new);
        let sweeper = Sweeper::new(server.place.clone());
        Ok(BesideServer { server, store, kept, page, figures: None, has_foreign_page: false, file, sweeper })
    }

    pub(super) fn id(&self) -> &MemberId {
        &self.server.member
    }

    /// The text of its cluster's file.
    pub(super) fn held(&self) -> Option<&HeldText> {
        self.file.as_ref()?.held()
    }

    /// Looks at the server.
    pub(super) fn look(&mut self, now: Now, say: &dyn Fn(LogLevel, &str)) -> MemberReport {
        let process = (self.server.process)();
        if matches!(process, ProcessReport::Running { .. })
            && let Ok(answer) = self.ask(b"stats\r\n", |answer| answer.ends_with(b"END\r\n"))
        {
            self.figures = Some(tally_in(&answer, now.ms()));
        }
        if let Some(figures) = &mut self.figures {
            let (page, pid) = (self.page.as_ref().and_then(PageTally::last), figures.pid);
            let is_foreign = page.as_ref().is_some_and(|page| is_foreign(page.pid, pid));
            if is_foreign && !self.has_foreign_page {
                say(LogLevel::Warning, &format!("{}: its page is another process's", self.server.member));
            }
            self.has_foreign_page = is_foreign;
            figures.page = page.filter(|_| !is_foreign);
        }
        let member = self.server.member.clone();
        let Kept { flushes, is_kept_empty } = self.kept;
        let has_cluster_file = self.file.is_some();
        let count = |of: fn(&MemberTally) -> Option<u64>| self.figures.as_ref().and_then(of).unwrap_or(0);
        let (hits, misses) = (count(|tally| tally.hits), count(|tally| tally.misses));
        let (sweep, figures) = (Some(self.sweeper.report()), self.figures.clone().map(Box::new));
        MemberReport {
            member,
            process,
            flushes,
            is_kept_empty,
            hits,
            misses,
            has_cluster_file,
            sweep,
            page: self.server.metrics.as_ref().map(MetricsPlace::address),
            figures,
        }
    }

    /// Carries out an order, with the text of the cluster's file if there is one.
    pub(super) fn on_order(&mut self, order: &MemberOrder, text: Option<Arc<str>>, say: &SayLine) {
        if let (Some(digest), Some(file)) = (&order.cluster_file, &mut self.file) {
            file.carry_out(self.server.member.as_str(), digest, text, &**say);
        }
        self.empty(order, &**say);
        if let Some(sweep) = &order.sweep {
            self.sweeper.on_order(sweep, self.server.member.as_str(), say);
        }
    }

    /// Empties the server, if that was not done yet or routers may have written to it since. It is done when the server says so
    /// and the disk has it.
    fn empty(&mut self, order: &MemberOrder, say: &dyn Fn(LogLevel, &str)) {
        let before = self.kept;
        if before.flushes >= order.flushes && !order.keep_empty && !before.is_kept_empty {
            return;
        }
        let emptied = self.ask(b"flush_all\r\n", |answer| answer.ends_with(b"\r\n"));
        if !emptied.is_ok_and(|answer| answer == b"OK\r\n") {
            return;
        }
        let kept = Kept { flushes: order.flushes.max(before.flushes), is_kept_empty: order.keep_empty };
        if kept == before {
            return;
        }
        match self.store.keep(&name(&self.server.member), &kept) {
            Ok(()) => {
                self.kept = kept;
                say(LogLevel::Info, &format!("{} is empty", self.server.member));
            }
            Err(error) => say(LogLevel::Warning, &format!("{}: {}", self.server.member, in_full(&error))),
        }
    }

    fn ask(&self, question: &[u8], is_whole: impl Fn(&[u8]) -> bool) -> std::io::Result<Vec<u8>> {
        converse(&self.server.place, question, ANSWER_WITHIN, ANSWER_LEN_MAX, is_whole)
    }
}

fn name(member: &MemberId) -> String {
    format!("server-{member}")
}
