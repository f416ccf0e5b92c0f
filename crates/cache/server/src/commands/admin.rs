//! Administrative commands, on the same connections as all others.

use net::{CloseReason, ConnectionId};
use protocol::Request;
use protocol::reply::{line, memlimit_too_small, version};
use protocol::request::{Cachedump, CrawlerClasses, DetailCommand, LruCrawlerCommand, StatsTopic, Streams};

use store::DumpCursor;

use crate::commands::dump::{Dump, DumpKind, ITEM_CLASS};
use crate::commands::remaining::Remaining;
use crate::commands::tune;
use crate::connection::output::Output;
use crate::figures::stats::{Connections, FlashPages, PrefixDump, Sizes, StatForm, is_about_tls};
use crate::reports::Report;
use crate::shared::VERSION;
use crate::worker::Worker;

/// One MiB, the unit of `cache_memlimit`.
const MIB: u64 = 1024 * 1024;

impl Worker {
    /// Executes requests that are not about items.
    pub(crate) fn administer(
        &mut self,
        id: ConnectionId,
        request: &Request<'_>,
        output: &mut Output,
    ) -> Option<Remaining> {
        let shared = &self.shared;
        let (reply, noreply) = match *request {
            Request::Version => {
                version(output.copied(), VERSION);
                return None;
            }
            Request::Discover => {
                match shared.discovery_list() {
                    Some(list) => list.config_reply(output.copied()),
                    None => output.copy(line::ERROR),
                }
                return None;
            }
            Request::Quit => return Some(Remaining::Close(CloseReason::Normal)),
            Request::Stats { topic: StatsTopic::Other, args } if is_about_tls(args) => {
                self.tls_statistics(output);
                return None;
            }
            Request::Stats { topic, .. } => {
                return Some(Remaining::Report(Box::new(self.report(topic, output))));
            }
            Request::Watch { streams } => return self.watch(id, streams, output),
            Request::FlushAll { delay, noreply } => (self.flush_all(delay), noreply),
            Request::Verbosity { level, noreply } => {
                shared.set_verbosity(level);
                (line::OK, noreply)
            }
            Request::Shutdown { .. } if !shared.options.shutdown => (line::SHUTDOWN_NOT_ENABLED, false),
            Request::Shutdown { mode: Err(error), noreply } => (error, noreply),
            Request::Shutdown { mode: Ok(_), .. } => {
                shared.stop.stop();
                return Some(Remaining::Close(CloseReason::Shutdown));
            }
            Request::CacheMemlimit { megabytes, noreply } => {
                match shared.store.set_memory_limit(u64::from(megabytes) * MIB) {
                    Ok(()) => (line::OK, noreply),
                    Err(store::Error::LimitTooSmall { least, .. }) if !noreply => {
                        memlimit_too_small(output.copied(), least.div_ceil(MIB));
                        return None;
                    }
                    Err(_) => (line::MEMLIMIT_FAILED, noreply),
                }
            }
            Request::LruCrawler { command, noreply } => match self.lru_crawler(command, noreply, output) {
                Ok(remaining) => return remaining,
                Err(reply) => (reply, noreply),
            },
            Request::Slabs { command, noreply } => (tune::slabs(&mut shared.echo(), command), noreply),
            Request::Lru { command, noreply } => (tune::lru(&mut shared.echo(), command), noreply),
            Request::Extstore { knob, noreply } => {
                (tune::extstore(&mut shared.echo(), &shared.store, knob), noreply)
            }
            Request::RefreshCerts { noreply } => match shared.tls.as_ref().map(|files| files.reload()) {
                None => (line::TLS_NOT_ENABLED, noreply),
                Some(Ok(())) => (line::OK, noreply),
                Some(Err(problem)) => {
                    if !noreply {
                        // memcached's replies begin with the same word.
                        output.copy(format!("Error {problem}\r\n").as_bytes());
                    }
                    return None;
                }
            },
            _ => unreachable!("requests about items are executed elsewhere"),
        };
        if !noreply {
            output.copy(reply);
        }
        None
    }

    fn flush_all(&mut self, delay: Result<i32, &'static [u8]>) -> &'static [u8] {
        // Counted also where it is not allowed.
        if let Err(error) = delay
            && self.shared.options.flush_all
        {
            self.counters.cmd_flush.add(1);
            return error;
        }
        if self.flush(delay.map_or(0, i64::from)) { line::OK } else { line::FLUSH_NOT_ALLOWED }
    }

    /// Flushes all items at `delay`, an expiration time; now if it is 0 or less. Returns whether that is allowed.
    pub(crate) fn flush(&mut self, delay: i64) -> bool {
        self.counters.cmd_flush.add(1);
        if !self.shared.options.flush_all {
            return false;
        }
        match delay {
            1.. => self.shared.flush(self.expiry(delay), self.now),
            _ => self.shared.flush(0, self.now),
        }
        true
    }

    /// The report for `stats` with `topic`.
    fn report(&self, topic: StatsTopic, output: &mut Output) -> Report {
        let options = &self.shared.options;
        let form = StatForm::Text;
        match topic {
            StatsTopic::Connections => {
                Report::Connections(Connections::begin(&self.shared, self.now, output))
            }
            StatsTopic::Sizes if options.track_sizes => Report::Sizes(Sizes::new(form)),
            StatsTopic::Extstore if options.flash.is_on() => {
                Report::FlashPages(FlashPages::new(self.shared.store.flash_segments()))
            }
            StatsTopic::Cachedump(Ok(Cachedump { class: ITEM_CLASS, limit })) if options.dumping => {
                Report::Dump(Dump::cachedump(limit))
            }
            StatsTopic::Detail(Ok(DetailCommand::Dump)) if options.dumping => {
                Report::Prefixes(PrefixDump::new(form))
            }
            topic => Report::Statistics(topic, form),
        }
    }

    /// A dump, or a fixed reply.
    fn lru_crawler(
        &mut self,
        command: LruCrawlerCommand,
        noreply: bool,
        output: &mut Output,
    ) -> Result<Option<Remaining>, &'static [u8]> {
        let allowed = self.shared.options.dumping;
        let (kind, classes) = match command {
            LruCrawlerCommand::Enable => {
                let was_enabled = std::mem::replace(&mut self.shared.echo().lru_crawler, true);
                return Err(if was_enabled { line::CRAWLER_START_FAILED } else { line::OK });
            }
            LruCrawlerCommand::Disable => {
                self.shared.echo().lru_crawler = false;
                return Err(line::OK);
            }
            LruCrawlerCommand::Tocrawl(count) => {
                self.shared.echo().lru_crawler_tocrawl = count;
                return Err(line::OK);
            }
            LruCrawlerCommand::Sleep(sleep_us) => {
                self.shared.echo().lru_crawler_sleep_us = sleep_us;
                return Err(line::OK);
            }
            _ if !self.shared.echo().lru_crawler => return Err(line::CRAWLER_DISABLED),
            LruCrawlerCommand::Metadump(_) if !allowed => return Err(line::METADUMP_NOT_ALLOWED),
            LruCrawlerCommand::Metadump(_) if !output.is_empty() => return Err(line::METADUMP_PIPELINED),
            LruCrawlerCommand::Mgdump(_) if !allowed => return Err(line::MGDUMP_NOT_ALLOWED),
            LruCrawlerCommand::Mgdump(_) if !output.is_empty() => return Err(line::MGDUMP_PIPELINED),
            // A list without a class (`,`): memcached starts nothing, and has no message for mgdump.
            LruCrawlerCommand::Mgdump(Some(CrawlerClasses::Some(0))) => return Err(line::CRAWLER_FAILED),
            LruCrawlerCommand::Metadump(Some(CrawlerClasses::Some(0)))
            | LruCrawlerCommand::Crawl(Some(CrawlerClasses::Some(0))) => return Err(line::CRAWLER_NOTHING),
            LruCrawlerCommand::Metadump(Some(classes)) => (DumpKind::Metadump, classes),
            LruCrawlerCommand::Mgdump(Some(classes)) => (DumpKind::Mgdump, classes),
            LruCrawlerCommand::Metadump(None)
            | LruCrawlerCommand::Mgdump(None)
            | LruCrawlerCommand::Crawl(None) => return Err(line::CRAWLER_BAD_CLASS),
            // memcached's crawler crawls classes; only dumps walk its hash table.
            LruCrawlerCommand::Crawl(Some(CrawlerClasses::Hash)) => return Err(line::CRAWLER_FAILED),
            LruCrawlerCommand::Crawl(Some(classes)) => {
                if !noreply {
                    output.copy(line::OK);
                }
                if !has_items(classes) {
                    return Ok(None);
                }
                self.counters.lru_crawler_starts.add(1);
                return Ok(Some(Remaining::Report(Box::new(Report::Crawl(DumpCursor::default())))));
            }
        };
        // As in memcached since 1.6.43.
        output.copy(line::OK);
        if !has_items(classes) {
            output.copy(kind.end());
            return Ok(None);
        }
        Ok(Some(Remaining::Report(Box::new(Report::Dump(Dump::new(kind))))))
    }

    fn watch(
        &mut self,
        id: ConnectionId,
        streams: Result<Streams, &'static [u8]>,
        output: &mut Output,
    ) -> Option<Remaining> {
        let shared = &self.shared;
        let reply = match streams {
            _ if !shared.options.watch => line::WATCH_NOT_ALLOWED,
            _ if !output.is_empty() => line::WATCH_PIPELINED,
            Err(error) => error,
            Ok(streams) => match shared.watch(id.0, streams) {
                Err(_) => line::WATCHER_TOO_MANY,
                Ok(()) => {
                    self.watched = shared.log.wanted();
                    output.copy(line::OK);
                    return Some(Remaining::Watch);
                }
            },
        };
        output.copy(reply);
        None
    }
}

/// Whether these classes include the class of all items.
fn has_items(classes: CrawlerClasses) -> bool {
    !matches!(classes, CrawlerClasses::Some(classes) if classes >> ITEM_CLASS & 1 == 0)
}
