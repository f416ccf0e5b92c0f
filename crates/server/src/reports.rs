//! Reports: answers about the server and its items (`stats`, dumps, crawls), of which a worker makes one step in a turn.
//!
//! A step takes 10 to 500 µs, and a client that asks for many reports need not read one. If each connection made a step in
//! each turn, the others would wait for as many steps as there are such clients. So connections take turns: who finds that
//! it is not its turn waits ([`net::Next::Wait`]), and is woken when it is.

use std::collections::VecDeque;

use net::{Link, Turn};
use protocol::request::StatsTopic;
use store::DumpCursor;

use crate::dump::{self, Dump};
use crate::execute::Flow;
use crate::prefixes::PrefixDump;
use crate::stats::{Connections, Sizes};
use crate::worker::{Held, Output, Worker};

/// A report on its way.
pub(crate) enum Report {
    /// Statistics that need one step.
    Statistics(StatsTopic),
    /// All connections.
    Connections(Connections),
    /// Items counted by size.
    Sizes(Sizes),
    /// Items, one by one.
    Dump(Dump),
    /// Counts by prefix.
    Prefixes(PrefixDump),
    /// Nothing to be said: a crawl takes the dead items out.
    Crawl(DumpCursor),
}

impl Report {
    /// Makes the next step. `asking` is the number of the connection that asks.
    pub(crate) fn serve(&mut self, worker: &mut Worker, asking: u64, output: &mut Output) -> Flow {
        match self {
            Report::Statistics(topic) => worker.statistics(*topic, output),
            Report::Connections(list) => list.serve(worker, asking, output),
            Report::Sizes(sizes) => sizes.serve(worker, output),
            Report::Dump(dump) => dump.serve(worker, output),
            Report::Prefixes(dump) => dump.serve(worker, output),
            Report::Crawl(cursor) => dump::crawl(cursor, worker),
        }
    }
}

/// Whose step is next.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    /// The step of this turn has been made.
    made: bool,
    /// Who has been woken to make the next one.
    next: Option<Link>,
    /// Who waits, in the order of coming: each connection once, and some that are closed by now.
    waiting: VecDeque<Link>,
}

impl Steps {
    /// Whether `link` may make a step now, which it does then.
    pub(crate) fn take(&mut self, link: Link) -> bool {
        if self.made || self.next.is_some_and(|next| next != link) {
            return false;
        }
        (self.made, self.next) = (true, None);
        true
    }

    /// `link` is to be woken when it is its turn. It has no output: a client that does not read would keep its turn.
    pub(crate) fn wait(&mut self, link: Link) {
        self.waiting.push_back(link);
    }

    /// Wakes who makes the next step.
    #[inline]
    pub(crate) fn end_turn(&mut self, turn: &mut Turn<Held>) {
        self.made = false;
        while self.next.is_none()
            && let Some(link) = self.waiting.pop_front()
        {
            if turn.is_open(link) {
                turn.wake(link);
                self.next = Some(link);
            }
        }
    }

    /// Whether somebody waits: the next turn has to come at once.
    #[inline]
    pub(crate) fn are_wanted(&self) -> bool {
        self.next.is_some() || !self.waiting.is_empty()
    }

    /// `link` is closed.
    pub(crate) fn closed(&mut self, link: Link) {
        self.next = self.next.filter(|next| *next != link);
    }
}
