//! State shared by all workers of a server.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use net::{Address, DiskFile, Notice, Stop, View};
use protocol::discovery::{DiscoveryList, DiscoveryState};
use stdx::clock::{FIRST_SECOND, Now};
use store::{FlashCounts, FlashStatistics, PerKind, Store};

use crate::connection::datagram::reply_limit::ReplyLimit;
use crate::figures::counters::{Counters, Totals};
use crate::figures::histogram::{TimeHistogram, Times};
use crate::figures::prefixes::Prefixes;
use crate::figures::service_times::ServiceTimes;
use crate::settings::options::auth::Users;
use crate::settings::options::{Echo, Options, Protocol};
use crate::settings::rights::Refusals;
use crate::settings::tls_files::TlsFiles;
use crate::watch::{Log, LogCounts, Streams, TooManyWatchers};
use ::hot_keys::HotTable;

/// memcached's own limit on `verbosity`.
const VERBOSITY_MAX: u32 = 10;

/// The memcached version whose behaviour is followed, and nothing else: clients take numbers out of it, some the last
/// three, to find out what the server can do.
pub(crate) const VERSION: &str = "1.6.45";

/// Our own version.
pub(crate) const EVENKEEL_VERSION: &str = env!("CARGO_PKG_VERSION");

pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) store: Arc<Store>,
    /// The devices of the flash tier, if there is one.
    pub(crate) flash_files: Vec<DiskFile>,
    /// Reads of these that have not ended, or whose bytes are still needed.
    pub(crate) flash_reads: Arc<AtomicU64>,
    pub(crate) network: View,
    /// Descriptor and address of each listener.
    pub(crate) listeners: Vec<(i32, Address)>,
    /// The protocol of each listener.
    pub(crate) protocols: Vec<Protocol>,
    pub(crate) stop: Stop,
    /// Sends a line to the operator.
    pub(crate) notice: Notice,
    /// Whether the operator has been notified of a client of the binary protocol that cannot log in.
    pub(crate) binary_noticed: AtomicBool,
    pub(crate) counters: Vec<Arc<Counters>>,
    /// By worker.
    pub(crate) service_times: Vec<Arc<ServiceTimes>>,
    /// By worker: of input, on a sample of the connections.
    pub(crate) wait_times: Vec<Arc<Times>>,
    /// By worker.
    pub(crate) hot_tables: Vec<Arc<HotTable>>,
    pub(crate) log: Log,
    pub(crate) prefixes: Prefixes,
    pub(crate) reply_limit: ReplyLimit,
    /// The users that may log in, with `-Y`.
    pub(crate) users: RwLock<Users>,
    /// The files of TLS, with `-Z`.
    pub(crate) tls: Option<Arc<TlsFiles>>,
    /// The list of members, with `--cluster-file`.
    pub(crate) discovery: Option<RwLock<DiscoveryState>>,
    /// Requests that clients made whose role does not allow it.
    pub(crate) refusals: Refusals,
    /// All counts at the last `stats reset`.
    reset: Mutex<Figures>,
    /// Items stored up to this second were flushed by the last `flush_all`, as memcached counts it; 0: there
    /// was none.
    oldest: AtomicU32,
    /// The time of day when the server's clock showed 0.
    pub(crate) started_unix_ms: u64,
    /// What the clock showed at the start of this process.
    began: Now,
    /// Items that an earlier process has left in the memory of this one; `None` if its memory ends with it, so that it can have none.
    pub(crate) restored_items: Option<u64>,
    verbosity: AtomicU32,
    /// Settings of memcached subsystems that do not exist here, last changed by commands.
    echo: Mutex<Echo>,
}

/// All statistics, since the start or since a reset.
#[derive(Clone, Copy, Default)]
pub(crate) struct Figures {
    pub(crate) totals: Totals,
    pub(crate) network: net::Counts,
    pub(crate) store: store::Statistics,
    /// Of the flash tier, if there is one: since the start.
    pub(crate) flash: Option<FlashStatistics>,
    /// Reads of it under way.
    pub(crate) flash_reads: u64,
    /// Its counts at the reset.
    pub(crate) flash_reset: FlashCounts,
    pub(crate) log: LogCounts,
}

impl Figures {
    fn since(&self, earlier: &Figures) -> Figures {
        Figures {
            totals: self.totals.since(&earlier.totals),
            network: self.network.since(&earlier.network),
            store: store::Statistics { counts: self.store.counts.since(&earlier.store.counts), ..self.store },
            flash: self.flash,
            flash_reads: self.flash_reads,
            flash_reset: earlier.flash.map(|flash| flash.counts).unwrap_or_default(),
            log: self.log.since(&earlier.log),
        }
    }
}

impl Shared {
    /// The protocol that is spoken at a listener.
    #[inline]
    pub(crate) fn protocol_at(&self, listener: u16) -> Protocol {
        self.protocols.get(usize::from(listener)).copied().unwrap_or(self.options.protocol)
    }

    pub(crate) fn new(
        options: Options,
        store: Arc<Store>,
        network: &net::Network,
        tls: Option<Arc<TlsFiles>>,
        started_unix_ms: u64,
        began: Now,
    ) -> Shared {
        Shared {
            store,
            flash_files: Vec::new(),
            flash_reads: Arc::default(),
            network: network.view(),
            listeners: network.descriptors().into_iter().zip(network.addresses()).collect(),
            protocols: Vec::new(),
            stop: network.stop(),
            notice: network.notice(),
            binary_noticed: AtomicBool::new(false),
            counters: (0..options.threads).map(|_| Arc::default()).collect(),
            service_times: (0..options.threads).map(|_| Arc::default()).collect(),
            wait_times: (0..options.threads).map(|_| Arc::default()).collect(),
            hot_tables: (0..options.threads).map(|_| Arc::default()).collect(),
            log: Log::default(),
            prefixes: Prefixes::new(options.detail, options.prefix_delimiter),
            reply_limit: ReplyLimit::new(options.udp.reply_bytes_per_second),
            users: RwLock::new(options.auth.as_ref().map(|auth| auth.users.clone()).unwrap_or_default()),
            tls,
            discovery: options.cluster_file.is_some().then(RwLock::default),
            refusals: Refusals::default(),
            reset: Mutex::default(),
            oldest: AtomicU32::new(0),
            started_unix_ms,
            began,
            restored_items: None,
            verbosity: AtomicU32::new(u32::from(options.verbosity)),
            echo: Mutex::new(options.echo.clone()),
            options,
        }
    }

    /// What is known of the list of members; `None` without `--cluster-file`. Its lock is taken for `config get cluster` and
    /// the like only.
    pub(crate) fn discovery(&self) -> Option<DiscoveryState> {
        let state = self.discovery.as_ref()?;
        Some(state.read().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// The list of members, if there is one.
    pub(crate) fn discovery_list(&self) -> Option<Arc<DiscoveryList>> {
        self.discovery()?.list
    }

    pub(crate) fn verbosity(&self) -> u32 {
        self.verbosity.load(Relaxed)
    }

    pub(crate) fn set_verbosity(&self, level: u32) {
        self.verbosity.store(level.min(VERBOSITY_MAX), Relaxed);
    }

    /// Settings of memcached subsystems that do not exist here.
    pub(crate) fn echo(&self) -> MutexGuard<'_, Echo> {
        self.echo.lock().expect("no panic while noting something down")
    }

    /// Makes a connection a watcher.
    pub(crate) fn watch(&self, connection: u64, streams: Streams) -> Result<(), TooManyWatchers> {
        let room = self.options.watcher_log_bytes as usize;
        self.log.add(connection, streams, room, |wanted| self.watch_store(wanted))
    }

    /// The connection of a watcher has closed.
    pub(crate) fn unwatch(&self, connection: u64) {
        self.log.remove(connection, |wanted| self.watch_store(wanted));
    }

    fn watch_store(&self, wanted: Streams) {
        let kinds = PerKind {
            evictions: wanted.intersects(Streams::EVICTIONS),
            segments: wanted.intersects(Streams::SYSTEM_EVENTS),
        };
        self.store.watch(kinds, self.options.worker_log_bytes as usize);
    }

    /// Gauges, and counts since the last `stats reset`.
    pub(crate) fn figures(&self) -> Figures {
        // The lock is taken first, so that a concurrent reset has not read later values than those read here.
        let earlier = self.reset.lock().expect("no panic while copying");
        self.since_start().since(&earlier)
    }

    /// `stats reset`: counts start over.
    pub(crate) fn reset(&self) {
        let mut earlier = self.reset.lock().expect("no panic while copying");
        *earlier = self.since_start();
        drop(earlier);
        self.prefixes.clear();
    }

    /// Gauges, and counts since the start. Takes no lock that `stats` holds.
    pub(crate) fn since_start(&self) -> Figures {
        let totals = Totals::of(&self.counters);
        let (network, store, log) = (self.network.counts(), self.store.statistics(), self.log.counts());
        let (flash, flash_reset) = (self.store.flash_statistics(), FlashCounts::default());
        let flash_reads = self.flash_reads.load(Relaxed);
        Figures { totals, network, store, flash, flash_reads, flash_reset, log }
    }

    /// How long input waited for a worker, over all workers.
    pub(crate) fn waits(&self) -> TimeHistogram {
        TimeHistogram::of(self.wait_times.iter().map(|times| &**times))
    }

    /// Flushes everything stored so far: now (0), or at `second`.
    pub(crate) fn flush(&self, second: u32, now: Now) {
        self.store.flush(second);
        self.oldest.store(if second == 0 { now.second() } else { second } - 1, Relaxed);
    }

    /// Items stored up to this second have been flushed, or will be; 0: none.
    pub(crate) fn oldest(&self) -> u32 {
        self.oldest.load(Relaxed)
    }

    /// The time since the start of this process.
    pub(crate) fn uptime(&self, now: Now) -> Now {
        Now { us: now.us.saturating_sub(self.began.us) }
    }

    /// The time of day at `now`, in milliseconds since 1970.
    pub(crate) fn unix_ms(&self, now: Now) -> u64 {
        self.started_unix_ms + now.ms()
    }

    /// The time of day at the beginning of the cache's second 0.
    pub(crate) fn epoch_unix_s(&self) -> i64 {
        self.started_unix_ms as i64 / 1000 - i64::from(FIRST_SECOND)
    }

    /// The second at which an item with `exptime` expires that is stored at `now`; 0 for never.
    pub(crate) fn expiry(&self, exptime: i64, now: Now) -> u32 {
        expiry(exptime, now.second(), self.epoch_unix_s())
    }
}

/// Up to this many seconds (30 days) an expiration time counts from now; beyond, it is a time of day
/// (protocol.txt, "Expiration times").
const RELATIVE_MAX: i64 = 60 * 60 * 24 * 30;

/// A second before the start of the process.
const LONG_AGO: u32 = 1;

fn expiry(exptime: i64, now_second: u32, epoch_unix_s: i64) -> u32 {
    match exptime {
        0 => 0,
        ..0 => LONG_AGO,
        1..=RELATIVE_MAX => now_second.saturating_add(exptime as u32),
        _ => u32::try_from(exptime - epoch_unix_s).map_or(LONG_AGO, |second| second.max(LONG_AGO)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One thread counts, one resets, and a third one never reads a number near 2^64.
    #[test]
    fn statistics_beside_a_reset_are_never_below_zero() {
        let options = Options { threads: 2, ..Options::default() };
        let store = crate::open_store(&options, 1, 0).expect("a store");
        let network = net::Network::bind(&[], net::Options::default()).expect("a network");
        let shared = Shared::new(options, store, &network, None, 0, Now::default());
        let done = AtomicBool::new(false);
        let read = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    shared.counters[0].cmd_get.add(1);
                    shared.counters[1].get_hits.add(1);
                }
            });
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    shared.reset();
                }
            });
            let read: Vec<Figures> = (0..20_000).map(|_| shared.figures()).collect();
            done.store(true, Relaxed);
            read
        });
        let most = read.iter().map(|figures| figures.totals.cmd_get.max(figures.totals.get_hits)).max();
        assert!(most.is_some_and(|most| most < u64::MAX / 2), "{most:?}");
    }

    #[test]
    fn expiration_times_are_relative_up_to_thirty_days_and_absolute_beyond() {
        let epoch = 1_700_000_000;
        let check = |exptime, expected| assert_eq!(expiry(exptime, 100, epoch), expected, "{exptime}");
        check(0, 0);
        check(-1, LONG_AGO);
        check(10, 110);
        check(RELATIVE_MAX, 100 + RELATIVE_MAX as u32);
        check(RELATIVE_MAX + 1, LONG_AGO);
        check(epoch + 500, 500);
        check(epoch - 500, LONG_AGO);
    }
}
