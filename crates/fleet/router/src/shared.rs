//! State that all workers of a router share: the plan in force, the health of servers, settings.

pub(crate) mod notices;
pub(crate) mod route_state;
pub(crate) mod token_bucket;
pub(crate) mod variables;

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use hot_keys::HotTable;
use net::{CertificateEnd, ClientConfig};
use protocol::discovery::DiscoveryState;
use stdx::clock::Now;

use crate::hot::marks::HotMarks;
use crate::message::outcome::Outcome;
use crate::plan::RoutePlan;
use crate::reports::desk::{ReportDesk, ReportTray};
use crate::reports::facts::{ConfigLoads, StartupFacts};
use crate::reports::service_texts::ServiceTexts;
use crate::servers::health::{Health, HealthChange, HealthRecovery, HealthSettings, PoolGuard};
use crate::servers::names::NameTable;
use crate::servers::spool::SpoolQueue;
use crate::servers::udp::UdpCounts;
use crate::shared::notices::{RouterNotice, ServerNotices};
use crate::stats::counted_pools::CountedPools;
use crate::stats::{RouteCells, RouteTotals, StatsWindow};

/// Settings of a router that do not change while it runs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// When servers are unavailable.
    pub health: HealthSettings,
    /// A key of a multiget that fails is a miss (`--partial-multiget`).
    pub partial_multiget: bool,
    /// Takes deletes that did not reach their server; `None` to answer them with their error (`--asynclog-disable`).
    pub spool: Option<Arc<SpoolQueue>>,
    /// Requests for shadows without a reply, for each server and worker; 0 for any number (`--target-max-shadow-requests`).
    pub shadows_max: usize,
    /// Connections to servers that were not used for so long, in milliseconds, are closed; 0 for never
    /// (`--reset-inactive-connection-interval`).
    pub reset_inactive_ms: u32,
    /// `flush_all` reaches all servers (`--enable-flush-cmd`).
    pub flush_enabled: bool,
    /// `shutdown` of any client ends the router (not with `--disable-shutdown-cmd`).
    pub shutdown_enabled: bool,
    /// Bytes of requests and replies on their way that each worker holds at most (`--buffer-memory-mb`).
    pub held_max: usize,
    /// Lists of the keys with most requests are made for whoever asks (`--hide-hot-keys`).
    pub shows_hot_keys: bool,
    /// Pools with statistics of their own (`--pool-stats-config-file`).
    pub counted_pools: Arc<CountedPools>,
    /// Clients with auto-discovery are told a list of members (`--cluster-file`).
    pub discovers: bool,
    /// Receives lines for the operator.
    pub notice: RouterNotice,
}

impl Default for Settings {
    /// mcrouter's defaults.
    fn default() -> Settings {
        Settings {
            health: HealthSettings::default(),
            partial_multiget: false,
            spool: None,
            shadows_max: 1000,
            reset_inactive_ms: 60_000,
            flush_enabled: false,
            shutdown_enabled: true,
            held_max: 512 << 20,
            shows_hot_keys: true,
            counted_pools: Arc::default(),
            discovers: false,
            notice: |_, _| {},
        }
    }
}

/// State of all workers.
pub struct RouterShared {
    pub(crate) settings: Settings,
    plan: Mutex<Arc<RoutePlan>>,
    /// TLS that later connections begin with.
    tls: RwLock<TlsInForce>,
    /// The generation of `plan`: workers look at this first.
    generation: AtomicU64,
    /// Seconds since 1970, as [`RouterShared::tell_time`] was told last.
    unix_s: AtomicI64,
    health: Mutex<HealthTable>,
    /// Servers that are unavailable.
    unavailable: AtomicU32,
    pub(crate) notices: ServerNotices,
    pub(crate) names: NameTable,
    pub(crate) udp: UdpCounts,
    /// Of each worker.
    workers: Mutex<Vec<WorkerShare>>,
    pub(crate) desk: ReportDesk,
    pub(crate) texts: ServiceTexts,
    window: Mutex<StatsWindow>,
    /// For samples of keys. Clients cannot predict it.
    pub(crate) key_hasher: RandomState,
    verbosity: AtomicU32,
    stop_asked: AtomicBool,
    startup: OnceLock<StartupFacts>,
    config_loads: Mutex<ConfigLoads>,
    discovery: RwLock<DiscoveryState>,
}

/// What connections with TLS begin with, and when its certificates end.
#[derive(Clone, Debug, Default)]
pub struct TlsInForce {
    /// Settings for connections to servers.
    pub to_servers: Option<Arc<ClientConfig>>,
    /// Of the certificates that servers and clients are shown.
    pub ends: Vec<CertificateEnd>,
}

/// The health of servers, and the guards of their pools.
#[derive(Debug, Default)]
struct HealthTable {
    /// By the server's name.
    servers: HashMap<String, Arc<Health>>,
    /// By the server's name.
    guards: HashMap<String, Arc<PoolGuard>>,
}

impl HealthTable {
    /// Goes on with the guards of `plan`. One whose pool stays goes on counting.
    fn guard(&mut self, plan: &RoutePlan) {
        let before = std::mem::take(&mut self.guards);
        let mut by_pool: HashMap<&str, Arc<PoolGuard>> =
            before.values().map(|guard| (&*guard.pool, Arc::clone(guard))).collect();
        for (pool, limits, servers) in &plan.guards {
            let guard = by_pool.entry(pool).or_insert_with(|| Arc::new(PoolGuard::new(pool, *limits)));
            guard.set_limits(*limits);
            self.guards.extend(servers.iter().map(|server| (server.clone(), Arc::clone(guard))));
        }
        for (name, health) in &self.servers {
            health.set_guard(self.guards.get(name).cloned());
        }
    }
}

/// What other threads have of a worker.
#[derive(Clone, Default)]
pub(crate) struct WorkerShare {
    pub(crate) cells: Arc<RouteCells>,
    pub(crate) tray: Arc<ReportTray>,
    pub(crate) hot_table: Arc<HotTable>,
    pub(crate) hot_marks: Arc<HotMarks>,
}

impl RouterShared {
    /// With a first plan.
    pub fn new(settings: Settings, plan: RoutePlan) -> RouterShared {
        let generation = AtomicU64::new(plan.generation);
        let mut health = HealthTable::default();
        health.guard(&plan);
        let names = NameTable::default();
        names.keep(plan.hosts());
        RouterShared {
            names,
            udp: UdpCounts::default(),
            notices: ServerNotices::new(settings.notice),
            settings,
            plan: Mutex::new(Arc::new(plan)),
            tls: RwLock::default(),
            generation,
            unix_s: AtomicI64::new(0),
            health: Mutex::new(health),
            unavailable: AtomicU32::new(0),
            workers: Mutex::default(),
            desk: ReportDesk::default(),
            texts: ServiceTexts::default(),
            window: Mutex::default(),
            key_hasher: RandomState::new(),
            verbosity: AtomicU32::default(),
            stop_asked: AtomicBool::default(),
            startup: OnceLock::new(),
            config_loads: Mutex::default(),
            discovery: RwLock::default(),
        }
    }

    /// Where workers leave deletes that fail, if there is a log.
    pub fn spool(&self) -> Option<Arc<SpoolQueue>> {
        self.settings.spool.clone()
    }

    /// Puts another plan in force. Requests that have begun end on theirs. Workers see it at their next turn.
    pub fn replace(&self, plan: RoutePlan) {
        let mut current = self.plan.lock().unwrap_or_else(PoisonError::into_inner);
        let plan = Arc::new(plan);
        self.names.keep(plan.hosts());
        self.generation.store(plan.generation, Relaxed);
        *current = Arc::clone(&plan);
        // Of servers that no worker has, nothing is known any more.
        let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        health.servers.retain(|_, health| Arc::strong_count(health) > 1);
        health.guard(&plan);
    }

    /// Counts of gets over UDP.
    pub fn udp_counts(&self) -> &UdpCounts {
        &self.udp
    }

    /// The names of servers, for whoever looks them up. After a lookup all workers are to be nudged.
    pub fn names(&self) -> &NameTable {
        &self.names
    }

    /// Sets what new connections with TLS begin with. Those that exist go on.
    pub fn set_tls(&self, tls: TlsInForce) {
        *self.tls.write().unwrap_or_else(PoisonError::into_inner) = tls;
    }

    pub(crate) fn tls(&self) -> Option<Arc<ClientConfig>> {
        self.tls.read().unwrap_or_else(PoisonError::into_inner).to_servers.clone()
    }

    pub(crate) fn certificate_ends(&self) -> Vec<CertificateEnd> {
        self.tls.read().unwrap_or_else(PoisonError::into_inner).ends.clone()
    }

    /// Sets the time of day, in seconds since 1970: for whoever has a clock, about once in a second. Until then it is
    /// unknown.
    pub fn tell_time(&self, unix_s: i64) {
        self.unix_s.store(unix_s, Relaxed);
    }

    /// Seconds since 1970; 0 if unknown.
    #[inline]
    pub(crate) fn unix_s(&self) -> i64 {
        self.unix_s.load(Relaxed)
    }

    /// The plan in force.
    pub fn plan(&self) -> Arc<RoutePlan> {
        Arc::clone(&self.plan.lock().unwrap_or_else(PoisonError::into_inner))
    }

    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Relaxed)
    }

    /// The number of one more worker, and what other threads have of it. Workers are made in the order of their numbers.
    pub(crate) fn add_worker(&self) -> (usize, WorkerShare) {
        let cells = RouteCells::with_pools(self.settings.counted_pools.names().len());
        let share = WorkerShare { cells: Arc::new(cells), ..WorkerShare::default() };
        let mut workers = lock(&self.workers);
        workers.push(share.clone());
        (workers.len() - 1, share)
    }

    /// The counters of all workers.
    pub(crate) fn cells(&self) -> Vec<Arc<RouteCells>> {
        lock(&self.workers).iter().map(|worker| Arc::clone(&worker.cells)).collect()
    }

    /// What each worker has sampled.
    pub(crate) fn hot_tables(&self) -> Vec<Arc<HotTable>> {
        lock(&self.workers).iter().map(|worker| Arc::clone(&worker.hot_table)).collect()
    }

    /// Whether hot values of a worker have answered gets for this key lately.
    pub(crate) fn has_hot_value(&self, key: &[u8], now: Now) -> bool {
        let hash = self.key_hasher.hash_one(key);
        lock(&self.workers).iter().any(|worker| worker.hot_marks.has(hash, now))
    }

    pub(crate) fn window(&self) -> MutexGuard<'_, StatsWindow> {
        lock(&self.window)
    }

    /// Facts of the start; once.
    pub fn started(&self, facts: StartupFacts) {
        // A second call would be a mistake that changes nothing.
        let _ = self.startup.set(facts);
    }

    pub(crate) fn startup(&self) -> &StartupFacts {
        static NONE: StartupFacts =
            StartupFacts { command_line: String::new(), started_s: 0, options: Vec::new(), host_id: 0 };
        self.startup.get().unwrap_or(&NONE)
    }

    /// How much is said on standard error (`-v`).
    #[inline]
    pub fn verbosity(&self) -> u32 {
        self.verbosity.load(Relaxed)
    }

    /// Sets it. Returns what it was.
    pub fn set_verbosity(&self, level: u32) -> u32 {
        self.verbosity.swap(level, Relaxed)
    }

    /// A client has sent `shutdown`.
    pub(crate) fn ask_to_stop(&self) {
        self.stop_asked.store(true, Relaxed);
        self.desk.ring();
    }

    /// Whether a client has sent `shutdown`.
    pub fn is_asked_to_stop(&self) -> bool {
        self.stop_asked.load(Relaxed)
    }

    /// Changes what is known of loads of configurations.
    pub fn note_config(&self, change: impl FnOnce(&mut ConfigLoads)) {
        change(&mut lock(&self.config_loads));
    }

    pub(crate) fn config_loads(&self) -> ConfigLoads {
        lock(&self.config_loads).clone()
    }

    /// Tells all workers the list of members.
    pub fn set_discovery(&self, state: DiscoveryState) {
        *self.discovery.write().unwrap_or_else(PoisonError::into_inner) = state;
    }

    /// What is known of the list of members. Its lock is taken for `config get cluster` and the like only.
    pub(crate) fn discovery(&self) -> DiscoveryState {
        self.discovery.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes the sums for averages; to be called every second.
    pub fn tick(&self, now: Now) {
        let totals = RouteTotals::of(&self.cells());
        self.window().tick(now, totals);
    }

    /// Waits until a client wants a report, at most this long.
    pub fn wait_for_orders(&self, at_most: Duration) {
        self.desk.wait(at_most);
    }

    /// Where reports for the clients of each worker are put.
    pub(crate) fn trays(&self) -> Vec<Arc<ReportTray>> {
        lock(&self.workers).iter().map(|worker| Arc::clone(&worker.tray)).collect()
    }

    /// Servers that have failed since their last reply, by name.
    pub(crate) fn suspects(&self) -> Vec<(String, Arc<Health>)> {
        let all = lock(&self.health);
        let failed = all.servers.iter().filter(|(_, health)| health.failures() > 0);
        let mut suspects: Vec<_> = failed.map(|(name, health)| (name.clone(), Arc::clone(health))).collect();
        suspects.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        suspects
    }

    /// The health of a server as far as a worker knows it.
    pub(crate) fn health_of_known(&self, name: &str) -> Arc<Health> {
        lock(&self.health).servers.get(name).map(Arc::clone).unwrap_or_default()
    }

    /// The health of a server: the same for all workers and plans.
    pub(crate) fn health_of(&self, name: &str) -> Arc<Health> {
        let mut all = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(health) = all.servers.get(name) {
            return Arc::clone(health);
        }
        let health = Arc::new(Health::default());
        health.set_guard(all.guards.get(name).cloned());
        all.servers.insert(name.to_owned(), Arc::clone(&health));
        health
    }

    /// A request for a server has failed. Also returned: how many servers are unavailable.
    pub(crate) fn failed(&self, health: &Health, outcome: Outcome, now: Now) -> (HealthChange, u32) {
        let change = health.failed(outcome, &self.settings.health, now);
        let count = match change {
            HealthChange::Unavailable => self.unavailable.fetch_add(1, Relaxed) + 1,
            HealthChange::None | HealthChange::GuardOpened(_) => 0,
        };
        (change, count)
    }

    /// A server is available again, or forgotten. Also returned: how many servers are unavailable.
    pub(crate) fn recovered(&self, health: &Health, now: Now) -> Option<(HealthRecovery, u32)> {
        let recovery = health.recovered(now)?;
        Some((recovery, self.unavailable.fetch_sub(1, Relaxed) - 1))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
