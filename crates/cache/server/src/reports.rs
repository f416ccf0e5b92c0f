//! Reports: replies about the server and its items (`stats`, dumps, crawls), of which a worker makes one step
//! per turn.
//!
//! A step takes 10 to 500 µs, and a client that requests many reports need not read one. If each connection
//! made a step in each turn, the other connections would wait for as many steps as there are such clients. So
//! reports take turns: a connection whose turn it is not waits ([`net::Next::Wait`]), and is woken when it
//! is.

use protocol::request::StatsTopic;
use store::DumpCursor;

use crate::commands::dump::{self, Dump};
use crate::connection::flow::Flow;
use crate::connection::output::Output;
use crate::figures::stats::{Connections, FlashPages, PrefixDump, Sizes, StatForm};
use crate::worker::Worker;

pub(crate) mod steps;

/// A report in progress.
pub(crate) enum Report {
    /// Statistics that need one step.
    Statistics(StatsTopic, StatForm),
    /// All connections.
    Connections(Connections),
    /// Items counted by size.
    Sizes(Sizes),
    /// Pages of the flash tier.
    FlashPages(FlashPages),
    /// Items, one by one.
    Dump(Dump),
    /// Counts by prefix.
    Prefixes(PrefixDump),
    /// No output: a crawl that removes dead items.
    Crawl(DumpCursor),
}

impl Report {
    /// Makes the next step. `asking` is the number of the requesting connection.
    pub(crate) fn serve(&mut self, worker: &mut Worker, asking: u64, output: &mut Output) -> Flow {
        match self {
            Report::Statistics(topic, form) => {
                worker.statistics(*topic, *form, output);
                Flow::Go
            }
            Report::Connections(list) => list.serve(worker, asking, output),
            Report::Sizes(sizes) => sizes.serve(worker, output),
            Report::FlashPages(pages) => pages.serve(output),
            Report::Dump(dump) => dump.serve(worker, output),
            Report::Prefixes(dump) => dump.serve(worker, output),
            Report::Crawl(cursor) => dump::crawl(cursor, worker),
        }
    }
}
