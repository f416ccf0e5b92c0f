//! The shape of a simulated fleet: sizes, popularity and capacities.

/// Zones, and controllers.
pub(crate) const ZONES: usize = 3;

/// What a fleet is made of.
#[derive(Clone, Debug)]
pub struct FleetShape {
    /// Clusters, each with a database of its own behind it.
    pub clusters: usize,
    /// Slots of a cluster; the slot `i` is in the zone `i mod 3`.
    pub slots: usize,
    /// Hosts without a slot in each zone.
    pub spares: usize,
    /// Zones in which controllers are, each with as many.
    pub controller_zones: usize,
    /// Routers, over all zones.
    pub routers: usize,
    /// Turns that a controller begins in a second; others hear "retry after".
    pub admitted: u32,
    /// Requests a second to a slot.
    pub slot_rate: f64,
    /// Items that a server has room for.
    pub items: f64,
    /// Exponent of Zipf's law.
    pub exponent: f64,
    /// Hit ratio of a warm cluster.
    pub hit_ratio: f64,
    /// Requests a second that a server answers.
    pub server_capacity: f64,
    /// The database's capacity, in multiples of the usual misses.
    pub database_capacity: f64,
    /// The keys of a slot are also on the next slot, in another zone; without that, a gutter answers for a dead server.
    pub has_replicas: bool,
}

impl FleetShape {
    /// The fleet of the published report: 180 M requests/s, 460 TB, 220 GB/s, in 70 clusters.
    pub fn published() -> FleetShape {
        let (clusters, slots) = (70, 71);
        let servers = (clusters * slots) as f64;
        FleetShape {
            clusters,
            slots,
            spares: 10,
            controller_zones: ZONES,
            routers: 20_000,
            // 25,000 agents come within 10 s with that.
            admitted: 1_000,
            slot_rate: 180e6 / servers,
            items: 460e12 / servers / (220e9 / 180e6),
            exponent: 0.99,
            hit_ratio: 0.99,
            // A server of this load has nearly three times of it to give: a lost zone doubles what its neighbours get.
            server_capacity: 100_000.0,
            database_capacity: 3.0,
            has_replicas: false,
        }
    }

    /// A fleet of 288 servers with the same load for each, for tests.
    pub fn small() -> FleetShape {
        FleetShape { clusters: 8, slots: 36, routers: 900, ..FleetShape::published() }
    }

    pub(crate) fn servers(&self) -> usize {
        self.clusters * self.slots
    }

    pub(crate) fn hosts(&self) -> usize {
        self.servers() + self.spares * ZONES
    }

    /// Misses of a cluster while all is well.
    pub(crate) fn usual_misses(&self) -> f64 {
        self.slots as f64 * self.slot_rate * (1.0 - self.hit_ratio)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 0.02, "{found}, not {expected}");
    }

    #[test]
    fn the_published_fleet_has_the_reports_figures_per_server() {
        let shape = FleetShape::published();
        check(5000.0 / shape.clusters as f64, 71.0);
        check(shape.slot_rate, 36_000.0);
        check(shape.items * 1222.0, 92e9);
        check(shape.slot_rate * 1222.0, 44e6);
    }
}
