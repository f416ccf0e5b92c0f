//! State that all workers of a router share: the plan in force, the health of servers, settings.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use crate::health::{Health, HealthSettings};
use crate::plan::RoutePlan;

/// Settings of a router that do not change while it runs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// When servers are unavailable.
    pub health: HealthSettings,
    /// A key of a multiget that fails is a miss (`--partial-multiget`).
    pub partial_multiget: bool,
    /// Requests for shadows without a reply, for each server and worker; 0 for any number (`--target-max-shadow-requests`).
    pub shadows_max: usize,
    /// Receives lines for the operator.
    pub notice: net::Notice,
}

impl Default for Settings {
    /// mcrouter's defaults.
    fn default() -> Settings {
        Settings {
            health: HealthSettings::default(),
            partial_multiget: false,
            shadows_max: 1000,
            notice: |_| {},
        }
    }
}

/// State of all workers.
#[derive(Debug)]
pub struct RouterShared {
    pub(crate) settings: Settings,
    plan: Mutex<Arc<RoutePlan>>,
    /// The generation of `plan`: workers look at this first.
    generation: AtomicU64,
    /// Seconds since 1970, as [`RouterShared::tell_time`] was told last.
    unix_s: AtomicI64,
    /// Workers that have been made.
    workers: AtomicUsize,
    /// By the server's name.
    health: Mutex<HashMap<String, Arc<Health>>>,
}

impl RouterShared {
    /// With a first plan.
    pub fn new(settings: Settings, plan: RoutePlan) -> RouterShared {
        let generation = AtomicU64::new(plan.generation);
        RouterShared {
            settings,
            plan: Mutex::new(Arc::new(plan)),
            generation,
            unix_s: AtomicI64::new(0),
            workers: AtomicUsize::new(0),
            health: Mutex::default(),
        }
    }

    /// Puts another plan in force. Requests that have begun end on theirs. Workers see it at their next turn.
    pub fn replace(&self, plan: RoutePlan) {
        let mut current = self.plan.lock().unwrap_or_else(PoisonError::into_inner);
        self.generation.store(plan.generation, Relaxed);
        *current = Arc::new(plan);
        // Of servers that no worker has, nothing is known any more.
        let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        health.retain(|_, health| Arc::strong_count(health) > 1);
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

    /// The number of the next worker.
    pub(crate) fn next_worker(&self) -> usize {
        self.workers.fetch_add(1, Relaxed)
    }

    /// The health of a server: the same for all workers and plans.
    pub(crate) fn health_of(&self, name: &str) -> Arc<Health> {
        let mut all = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        match all.get(name) {
            Some(health) => Arc::clone(health),
            None => Arc::clone(all.entry(name.to_owned()).or_default()),
        }
    }
}
