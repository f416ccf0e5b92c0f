//! Requests as a fluid: hits, misses and errors of all slots in steps of a second.
//!
//! A dead server's requests go to its replica or to a gutter. A slot with a new member has a warm-up route: what it misses is
//! asked there. The items of both are those of a window of recent requests, so the longer window has all of the shorter one,
//! and the hit ratio of both together is the larger one.

mod curve;
mod database;

use fleet::health::HitCounts;

use self::curve::WarmthCurve;
use self::database::Database;
use crate::hosts::SimulatedHost;
use crate::shape::FleetShape;

/// Items in a gutter expire after this.
const GUTTER_TTL_S: f64 = 60.0;

/// A slot: who has it, and how warm that member is.
#[derive(Clone, Debug)]
pub(crate) struct FluidSlot {
    pub(crate) host: usize,
    /// The generation that gave it to this member.
    pub(crate) generation: u64,
    /// The member before works, so that routers with an older file still ask it.
    pub(crate) before: Option<usize>,
    /// A warm-up route is in front of it.
    pub(crate) warms_up: bool,
    /// Requests since the member was empty.
    pub(crate) requests: f64,
    /// Hits and misses since it has the slot.
    pub(crate) counts: HitCounts,
    gutter_requests: f64,
    asked: f64,
}

/// What a step of a second has found.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FluidStep {
    /// Requests at databases, as a multiple of the usual.
    pub(crate) database: f64,
    /// The same of the worst cluster.
    pub(crate) worst_database: f64,
    /// Hits of all requests.
    pub(crate) hit_ratio: f64,
    /// Requests without an answer from any cache or database.
    pub(crate) errors: f64,
}

/// The slots of all clusters, and their databases.
#[derive(Debug)]
pub(crate) struct FluidLoad {
    shape: FleetShape,
    curve: WarmthCurve,
    pub(crate) slots: Vec<FluidSlot>,
    databases: Vec<Database>,
    /// The last step of each cluster; one that was steady is not computed again.
    steady: Vec<Option<ClusterStep>>,
}

#[derive(Clone, Copy, Debug)]
struct ClusterStep {
    demand: f64,
    misses: f64,
    errors: f64,
}

impl FluidLoad {
    /// All servers are warm.
    pub(crate) fn new(shape: &FleetShape) -> FluidLoad {
        let curve = WarmthCurve::new(shape.items, shape.exponent, shape.hit_ratio);
        let slot = |host| FluidSlot {
            host,
            generation: 1,
            before: None,
            warms_up: false,
            requests: curve.window(),
            counts: HitCounts::default(),
            gutter_requests: 0.0,
            asked: shape.slot_rate,
        };
        FluidLoad {
            slots: (0..shape.servers()).map(slot).collect(),
            databases: vec![Database::new(shape.usual_misses() * shape.database_capacity); shape.clusters],
            steady: vec![None; shape.clusters],
            shape: shape.clone(),
            curve,
        }
    }

    /// The state of a host of this cluster has changed.
    pub(crate) fn disturb(&mut self, cluster: usize) {
        self.steady[cluster] = None;
    }

    /// The hit ratio that the slot's member has alone.
    pub(crate) fn own_hit_ratio(&self, slot: usize) -> f64 {
        self.curve.hit_ratio(self.slots[slot].requests)
    }

    /// The slot's server was restarted: it is empty.
    pub(crate) fn empty(&mut self, slot: usize) {
        (self.slots[slot].requests, self.slots[slot].counts) = (0.0, HitCounts::default());
        self.disturb(slot / self.shape.slots);
    }

    /// Another member, empty, has the slot from this generation on.
    pub(crate) fn replace(&mut self, slot: usize, host: usize, generation: u64, was_working: bool) {
        let old = &mut self.slots[slot];
        old.before = was_working.then_some(old.host);
        (old.host, old.generation, old.warms_up) = (host, generation, true);
        self.empty(slot);
    }

    /// One second. `loaded` tells the part of the routers that have a generation.
    pub(crate) fn step(&mut self, hosts: &[SimulatedHost], loaded: impl Fn(u64) -> f64) -> FluidStep {
        let (mut total, mut worst) = (ClusterStep { demand: 0.0, misses: 0.0, errors: 0.0 }, 0.0_f64);
        let usual = self.shape.usual_misses();
        for cluster in 0..self.shape.clusters {
            let step = match self.steady[cluster] {
                Some(step) => step,
                None => self.step_cluster(cluster, hosts, &loaded),
            };
            total.demand += step.demand;
            total.misses += step.misses;
            total.errors += step.errors;
            worst = worst.max(step.demand / usual);
        }
        let requests = self.shape.slot_rate * self.slots.len() as f64;
        FluidStep {
            database: total.demand / (usual * self.shape.clusters as f64),
            worst_database: worst,
            hit_ratio: 1.0 - total.misses / requests,
            errors: total.errors / requests,
        }
    }

    fn step_cluster(
        &mut self,
        cluster: usize,
        hosts: &[SimulatedHost],
        loaded: &impl Fn(u64) -> f64,
    ) -> ClusterStep {
        let (count, rate) = (self.shape.slots, self.shape.slot_rate);
        let answered = self.databases[cluster].answered();
        let slots = &mut self.slots[cluster * count..][..count];
        let (mut misses, mut is_steady, mut asked) = (0.0, true, vec![0.0; count]);
        for at in 0..count {
            let replica = (at + 1) % count;
            let replica_hit = (self.shape.has_replicas && hosts[slots[replica].host].works)
                .then(|| self.curve.hit_ratio(slots[replica].requests));
            let slot = &mut slots[at];
            let host = &hosts[slot.host];
            // Routers with an older file ask the member before.
            let share = loaded(slot.generation);
            let before = slot.before.filter(|before| share < 1.0 && hosts[*before].works);
            if share == 1.0 {
                slot.before = None;
            }
            let capacity = self.shape.server_capacity / host.slowness;
            let works = if host.works { share * (capacity / slot.asked.max(1.0)).min(1.0) } else { 0.0 };
            let old = if before.is_some() { 1.0 - share } else { 0.0 };
            let fallback = (1.0 - works - old).max(0.0);
            let fallback_hit = replica_hit.unwrap_or_else(|| self.curve.hit_ratio(slot.gutter_requests));
            let own_hit = self.curve.hit_ratio(slot.requests);
            let hit = if slot.warms_up { own_hit.max(fallback_hit) } else { own_hit };
            misses += rate
                * (works * (1.0 - hit)
                    + fallback * (1.0 - fallback_hit)
                    + old * (1.0 - self.shape.hit_ratio));
            asked[at] += rate * if host.works { share } else { 0.0 };
            if replica_hit.is_some() {
                asked[replica] += rate * fallback;
            }
            let window = self.curve.window();
            let uses_gutter = replica_hit.is_none() && (fallback > 0.0 || slot.warms_up);
            is_steady &= fallback == 0.0 && old == 0.0 && !slot.warms_up && slot.requests >= window;
            // What the database does not answer is not stored either.
            let learnt = rate * (hit + (1.0 - hit) * answered);
            slot.requests = (slot.requests + works * learnt).min(window);
            slot.gutter_requests =
                if uses_gutter { (slot.gutter_requests + learnt).min(rate * GUTTER_TTL_S) } else { 0.0 };
            slot.counts.hits += (rate * works * own_hit) as u64;
            slot.counts.misses += (rate * works * (1.0 - own_hit)) as u64;
        }
        slots.iter_mut().zip(&asked).for_each(|(slot, asked)| slot.asked = *asked);
        let database = &mut self.databases[cluster];
        let demand = database.step(misses, 1.0);
        let step = ClusterStep { demand, misses, errors: misses * (1.0 - database.answered()) };
        let is_overloaded = asked.iter().any(|asked| *asked > rate * 1.001);
        self.steady[cluster] = (is_steady && database.is_calm() && !is_overloaded).then_some(step);
        step
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosts;

    /// The first second after so many of 71 servers have become empty: misses as a multiple of the usual.
    #[track_caller]
    fn check(hit_ratio: f64, empty: usize, expected: f64) {
        let shape = FleetShape { clusters: 1, hit_ratio, database_capacity: 1e3, ..FleetShape::published() };
        let mut load = FluidLoad::new(&shape);
        (0..empty).for_each(|slot| load.empty(slot));
        let step = load.step(&hosts::hosts(&shape), |_| 1.0);
        assert!(
            (step.database / expected - 1.0).abs() < 0.03,
            "h {hit_ratio}, {empty} empty: {step:?}, not {expected}"
        );
    }

    #[test]
    fn empty_servers_multiply_the_misses_as_computed() {
        for (hit_ratio, expected) in
            [(0.90, [1.13, 1.25, 1.51, 3.3]), (0.95, [1.27, 1.54, 2.07, 5.8]), (0.99, [2.4, 3.8, 6.6, 26.0])]
        {
            for (empty, expected) in [1, 2, 4, 18].into_iter().zip(expected) {
                check(hit_ratio, empty, expected);
            }
        }
    }

    /// A quarter of a cluster becomes empty: the database's load after half an hour.
    #[track_caller]
    fn check_half_an_hour_later(database_capacity: f64, recovers: bool) {
        let shape = FleetShape { clusters: 1, database_capacity, ..FleetShape::published() };
        let (mut load, hosts) = (FluidLoad::new(&shape), hosts::hosts(&shape));
        (0..18).for_each(|slot| load.empty(slot));
        let last = (0..1800).map(|_| load.step(&hosts, |_| 1.0)).last().expect("a step");
        assert_eq!(last.errors == 0.0, recovers, "{last:?}");
    }

    #[test]
    fn a_database_without_reserve_does_not_recover_by_itself() {
        check_half_an_hour_later(30.0, true);
        check_half_an_hour_later(1.5, false);
    }

    #[test]
    fn a_replica_answers_for_a_dead_server_and_a_gutter_only_after_a_while() {
        let misses = |has_replicas, seconds| {
            let shape =
                FleetShape { clusters: 1, has_replicas, database_capacity: 9.0, ..FleetShape::published() };
            let (mut load, mut hosts) = (FluidLoad::new(&shape), hosts::hosts(&shape));
            hosts[3].works = false;
            (0..seconds).map(|_| load.step(&hosts, |_| 1.0).database).last().expect("a step")
        };
        assert!((misses(true, 1) - 1.0).abs() < 0.01);
        let (first, later) = (misses(false, 1), misses(false, 90));
        assert!(first > 2.0 && later < 1.6, "{first}, then {later}");
    }
}
