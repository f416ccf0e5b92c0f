//! State that all workers of a router share: the plan in force, the health of servers, settings.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use net::ClientConfig;
use stdx::clock::Now;

use crate::health::{Health, HealthChange, HealthRecovery, HealthSettings, PoolGuard};
use crate::names::NameTable;
use crate::notices::ServerNotices;
use crate::outcome::Outcome;
use crate::plan::RoutePlan;
use crate::udp::UdpCounts;

/// Settings of a router that do not change while it runs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// When servers are unavailable.
    pub health: HealthSettings,
    /// A key of a multiget that fails is a miss (`--partial-multiget`).
    pub partial_multiget: bool,
    /// Connections to servers that were not used for so long, in milliseconds, are closed; 0 for never
    /// (`--reset-inactive-connection-interval`).
    pub reset_inactive_ms: u32,
    /// Receives lines for the operator.
    pub notice: net::Notice,
}

impl Default for Settings {
    /// mcrouter's defaults.
    fn default() -> Settings {
        Settings {
            health: HealthSettings::default(),
            partial_multiget: false,
            reset_inactive_ms: 60_000,
            notice: |_| {},
        }
    }
}

/// State of all workers.
#[derive(Debug)]
pub struct RouterShared {
    pub(crate) settings: Settings,
    plan: Mutex<Arc<RoutePlan>>,
    /// Settings for TLS to servers.
    tls: RwLock<Option<Arc<ClientConfig>>>,
    /// The generation of `plan`: workers look at this first.
    generation: AtomicU64,
    health: Mutex<HealthTable>,
    /// Servers that are unavailable.
    unavailable: AtomicU32,
    pub(crate) notices: ServerNotices,
    pub(crate) names: NameTable,
    pub(crate) udp: UdpCounts,
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
            health: Mutex::new(health),
            unavailable: AtomicU32::new(0),
        }
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
    pub fn set_tls(&self, settings: Arc<ClientConfig>) {
        *self.tls.write().unwrap_or_else(PoisonError::into_inner) = Some(settings);
    }

    pub(crate) fn tls(&self) -> Option<Arc<ClientConfig>> {
        self.tls.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The plan in force.
    pub fn plan(&self) -> Arc<RoutePlan> {
        Arc::clone(&self.plan.lock().unwrap_or_else(PoisonError::into_inner))
    }

    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Relaxed)
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
