//! Routes inside of each other, at random.

use stdx::prng::Prng;

use super::{Events, FAILURES, play_history, seeds};

/// Routes inside of each other.
const DEPTH_MAX: u32 = 4;

/// A generator of routes.
struct RouteWriter {
    prng: Prng,
    /// Ends of keys that were given away: no two routes find each other's indices, marks and misses.
    suffixes: u32,
}

impl RouteWriter {
    /// A route.
    fn route(&mut self, depth: u32) -> String {
        if depth == 0 {
            return self.leaf();
        }
        let below = depth - 1;
        match self.prng.below(20) {
            0 => self.list("AllSyncRoute", below),
            1 => self.list("AllFastestRoute", below),
            2 => self.list("AllInitialRoute", below),
            3 => self.list("AllMajorityRoute", below),
            4 => self.list("MissFailoverRoute", below),
            5 => self.list("FailoverRoute", below),
            6 => self.list("RandomRoute", below),
            7 => self.list("HashRoute", below),
            8 => self.list("LatestRoute", below),
            9 | 10 => {
                let (threshold, batch) = (1000 + self.prng.below(6000), self.prng.below(5));
                let target = self.route(below);
                self.alone(&format!(
                    r#"{{"type": "BigValueRoute", "target": {target}, "split_threshold": {threshold}, "batch_size": {batch},
                        "hide_reply_flag": true}}"#
                ))
            }
            11 | 12 => {
                let (replicas, target) = (2 + self.prng.below(10), self.route(below));
                let (all_sync, first_hit) = (self.prng.below(3) > 0, self.prng.below(3) > 0);
                format!(
                    r#"{{"type": "KeySplitRoute", "destination": {target}, "replicas": {replicas}, "all_sync": {},
                        "first_hit": {first_hit}}}"#,
                    all_sync || first_hit
                )
            }
            13 => {
                let (cold, warm, meta) = (self.route(below), self.route(below), self.prng.below(2) == 0);
                format!(
                    r#"{{"type": "WarmUpRoute", "cold": {cold}, "warm": {warm}, "enable_metaget": {meta}}}"#
                )
            }
            14 => {
                let l1 = self.route(below);
                let (l1, l2) = (self.alone(&l1), self.route(below));
                format!(
                    r#"{{"type": "L1L2CacheRoute", "l1": {l1}, "l2": {l2}, "upgradingL1Exptime": 9, "ncacheExptime": 9,
                        "ncacheUpdatePeriod": 3}}"#
                )
            }
            15 => {
                let (l1, l2) = (self.route(below), self.route(below));
                let (l1, l2) = (self.alone(&l1), self.alone(&l2));
                format!(r#"{{"type": "L1L2SizeSplitRoute", "l1": {l1}, "l2": {l2}, "threshold": 5000}}"#)
            }
            16 => {
                let (warm, staging) = (self.route(below), self.route(below));
                format!(r#"{{"type": "StagingRoute", "warm": {warm}, "staging": {staging}}}"#)
            }
            17 => {
                let (from, to) = (self.route(below), self.route(below));
                let start = -1000 - self.prng.below(2000) as i64;
                format!(
                    r#"{{"type": "MigrateRoute", "from": {from}, "to": {to}, "start_time": {start}, "interval": 1000}}"#
                )
            }
            18 => {
                let child = self.route(below);
                format!(
                    r#"{{"type": "LatencyInjectionRoute", "before_latency_ms": {}, "child": {child}}}"#,
                    self.prng.below(9)
                )
            }
            _ => {
                let (normal, failover) = (self.route(below), self.route(below));
                format!(
                    r#"{{"type": "FailoverWithExptimeRoute", "normal": {normal}, "failover": {failover}}}"#
                )
            }
        }
    }

    fn leaf(&mut self) -> String {
        let pool = ["A", "B", "C"][self.prng.below(3) as usize];
        match self.prng.below(12) {
            0..6 => format!(r#""PoolRoute|{pool}""#),
            6..10 => format!(
                r#"{{"type": "PoolRoute", "pool": "{pool}", "max_outstanding": {}}}"#,
                1 + self.prng.below(4)
            ),
            10 => r#""NullRoute""#.to_owned(),
            _ => r#""ErrorRoute|no""#.to_owned(),
        }
    }

    fn list(&mut self, kind: &str, depth: u32) -> String {
        let children: Vec<String> = (0..2 + self.prng.below(2)).map(|_| self.route(depth)).collect();
        format!(r#"{{"type": "{kind}", "children": [{}]}}"#, children.join(", "))
    }

    /// A route whose items no other one finds.
    fn alone(&mut self, route: &str) -> String {
        self.suffixes += 1;
        format!(r#"{{"type": "ModifyKeyRoute", "target": {route}, "set_key_suffix": "@{}"}}"#, self.suffixes)
    }
}

fn plan(seed: u64) -> String {
    let mut writer = RouteWriter { prng: Prng::new(seed), suffixes: 0 };
    let route = writer.route(1 + (seed % u64::from(DEPTH_MAX)) as u32);
    format!(
        r#"{{"pools": {{"A": {{"servers": ["a:1", "b:1", "c:1"]}}, "B": {{"servers": ["b:1"]}},
            "C": {{"servers": ["c:1", "a:1"]}}}}, "route": {route}}}"#
    )
}

#[test]
fn routes_inside_of_each_other_lose_no_request() {
    for seed in seeds(600..605) {
        let events = Events { steps: 40, has_failures: seed % 2 == 0, ..FAILURES };
        play_history(seed, &[plan(seed)], events);
    }
}

/// Long values in parts, each part under several keys, at servers that take few requests at a time.
fn parts_and_replicas(seed: u64) -> String {
    let mut prng = Prng::new(seed);
    let (replicas, outstanding) = (2 + prng.below(10), 1 + prng.below(4));
    let (threshold, batch, all_sync) = (1000 + prng.below(6000), prng.below(5), prng.below(4) > 0);
    let big = |target: &str| {
        format!(
            r#"{{"type": "BigValueRoute", "target": {target}, "split_threshold": {threshold}, "batch_size": {batch},
                "hide_reply_flag": true}}"#
        )
    };
    let split = |target: &str| {
        format!(
            r#"{{"type": "KeySplitRoute", "destination": {target}, "replicas": {replicas}, "all_sync": {all_sync},
                "first_hit": {all_sync}}}"#
        )
    };
    let pool = format!(r#"{{"type": "PoolRoute", "pool": "A", "max_outstanding": {outstanding}}}"#);
    let route = if prng.below(3) > 0 { big(&split(&pool)) } else { split(&big(&pool)) };
    format!(r#"{{"pools": {{"A": {{"servers": ["a:1", "b:1", "c:1"]}}}}, "route": {route}}}"#)
}

#[test]
fn parts_of_values_with_replicas_lose_no_request() {
    for seed in seeds(700..703) {
        let events = Events { steps: 30, has_failures: !seed.is_multiple_of(3), ..FAILURES };
        play_history(seed, &[parts_and_replicas(seed)], events);
    }
}
