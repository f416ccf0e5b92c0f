//! Miniature caches against the simple version of each policy.

use std::collections::{HashMap, VecDeque};

use super::*;
use crate::reclaim::policy::Optimise;
use stdx::prng::Prng;

/// One policy as it is described: queues that are searched, items by their hashes.
struct Simple {
    policy: EvictionPolicy,
    room: u64,
    bytes: HashMap<u64, u64>,
    /// From the oldest to the newest, with their frequencies.
    small: VecDeque<(u64, u64)>,
    main: VecDeque<(u64, u64)>,
    ghosts: VecDeque<u64>,
    steps: u64,
}

impl Simple {
    fn new(policy: EvictionPolicy, room: u64) -> Simple {
        let (small, main, ghosts) = Default::default();
        Simple { policy, room, bytes: HashMap::new(), small, main, ghosts, steps: 0 }
    }

    fn has(&self, hash: u64) -> bool {
        self.small.iter().chain(&self.main).any(|(other, _)| *other == hash)
    }

    fn sum(&self, hashes: impl Iterator<Item = u64>) -> u64 {
        hashes.map(|hash| self.bytes[&hash]).sum()
    }

    fn small_bytes(&self) -> u64 {
        self.sum(self.small.iter().map(|item| item.0))
    }

    fn main_bytes(&self) -> u64 {
        self.sum(self.main.iter().map(|item| item.0))
    }

    /// Whether a get finds it; otherwise it is stored.
    fn get(&mut self, hash: u64, bytes: u64) -> bool {
        if let Some(item) = self.small.iter_mut().chain(&mut self.main).find(|item| item.0 == hash) {
            item.1 = (item.1 + 1).min(3);
            return true;
        }
        self.bytes.insert(hash, bytes);
        let ghost = self.ghosts.iter().position(|ghost| *ghost == hash);
        if let Some(place) = ghost {
            self.ghosts.remove(place);
        }
        while self.small_bytes() + self.main_bytes() + bytes > self.room {
            self.evict();
        }
        if ghost.is_some() {
            self.main.push_back((hash, 0))
        } else {
            self.small.push_back((hash, 0))
        }
        false
    }

    fn evict(&mut self) {
        self.steps += 1;
        let (small, main) = (self.small_bytes(), self.main_bytes());
        let mean = (small + main) / (self.small.len() + self.main.len()) as u64;
        let share = self.room / 100 * u64::from(self.policy.small_percent);
        if !self.small.is_empty() && (self.main.is_empty() || small > share) {
            let (hash, frequency) = self.small.pop_front().unwrap();
            if self.policy.promotes(frequency, self.bytes[&hash], mean, mix(hash ^ self.steps)) {
                self.main.push_back((hash, 0));
            } else {
                self.ghosts.push_back(hash);
                let most = self.room / 5 * u64::from(self.policy.ghost_fifths);
                while self.sum(self.ghosts.iter().copied()) > most {
                    self.ghosts.pop_front();
                }
            }
            return;
        }
        let (hash, frequency) = self.main.pop_front().unwrap();
        if let Some(left) = self.policy.survives(frequency, self.bytes[&hash], mean, mix(hash ^ self.steps)) {
            self.main.push_back((hash, left));
        }
    }
}

impl Miniatures {
    fn has(&self, number: usize, hash: u64) -> bool {
        self.find(hash).is_some_and(|row| matches!(self.queue_of(number, row), SMALL | MAIN))
    }

    /// Walks everything, and compares it with what is counted.
    fn check(&self) {
        let mut in_use = 0;
        for mut row in self.heads.iter().copied() {
            while row != 0 {
                let entry = self.rows[usize::from(row)];
                assert!(entry.states != [0; SIMULATED], "it is in some cache");
                assert_eq!(entry.hash & self.mask(), 0);
                in_use += 1;
                row = entry.chain;
            }
        }
        assert_eq!(in_use + self.free.len() + 1, self.rows.len());
        assert!(self.rows.len() <= self.rows_max + 1);
        for (number, cache) in self.caches.iter().enumerate() {
            for (queue, list) in cache.queues.iter().enumerate().skip(SMALL) {
                let (mut row, mut older, mut rows, mut bytes) = (list.newest, 0, 0, 0);
                while row != 0 {
                    assert_eq!(self.queue_of(number, row), queue);
                    assert_eq!(self.rows[usize::from(row)].links[number][NEWER], older);
                    bytes += u64::from(self.rows[usize::from(row)].bytes);
                    (older, rows) = (row, rows + 1);
                    row = self.rows[usize::from(row)].links[number][OLDER];
                }
                assert_eq!((older, rows, bytes), (list.oldest, list.rows, list.bytes));
            }
        }
    }
}

/// Some keys are asked for much more often than others; their sizes have nothing to do with it.
fn some_key(prng: &mut Prng, keys: u64) -> (u64, u32) {
    let number = (prng.unit().powi(3) * keys as f64) as u64;
    (mix(number + 1), 100 + (mix(number) % 3900) as u32)
}

fn found(bytes: u32) -> KeyUse {
    KeyUse::Found { bytes, main: true }
}

#[test]
fn each_miniature_has_what_the_simple_policy_has() {
    const ROOM: u64 = 200_000;
    for optimise in [Optimise::Objects, Optimise::Bytes] {
        let mut miniatures = Miniatures::new(64 << 20, optimise);
        miniatures.set_capacity(ROOM);
        let mut simple = optimise.candidates().map(|policy| Simple::new(policy, ROOM));
        let mut prng = Prng::new(7);
        let mut hits = [0; SIMULATED];
        for step in 0..6000 {
            let (hash, bytes) = some_key(&mut prng, 600);
            miniatures.note(hash, found(bytes), 0);
            for (number, simple) in simple.iter_mut().enumerate() {
                hits[number] += u32::from(simple.get(hash, bytes.into()));
                assert!(miniatures.has(number, hash));
            }
            if step % 100 == 0 {
                miniatures.check();
                for key in 0..600 {
                    let hash = mix(key + 1);
                    let both =
                        (0..SIMULATED).map(|number| (miniatures.has(number, hash), simple[number].has(hash)));
                    assert!(
                        both.clone().all(|(one, other)| one == other),
                        "step {step}, key {key}: {both:?}"
                    );
                }
            }
        }
        assert_eq!(miniatures.mask(), 0, "all keys were sampled");
        assert!(hits.iter().all(|hits| (2000..6000).contains(hits)), "{hits:?}");
    }
}

#[test]
fn a_full_table_samples_half_as_many_keys() {
    let mut miniatures = Miniatures::new(4 << 20, Optimise::Objects);
    let mut prng = Prng::new(3);
    for step in 0..60_000_u64 {
        if step == 20_000 {
            miniatures.set_capacity(3 << 20);
        }
        let (hash, bytes) = some_key(&mut prng, 20_000);
        match prng.below(10) {
            0 => miniatures.note(hash, KeyUse::Gone, step as u32 / 1000),
            1 => miniatures.note(hash, KeyUse::Missed, step as u32 / 1000),
            2 => miniatures.note(hash, KeyUse::Stored { bytes: bytes / 2, new: false }, step as u32 / 1000),
            _ => miniatures.note(hash, found(bytes), step as u32 / 1000),
        }
        if step % 1000 == 0 {
            miniatures.check();
        }
    }
    assert!((4..12).contains(&miniatures.rate_log2), "one key in 2^{}", miniatures.rate_log2);
    let used = (0..SIMULATED).map(|number| miniatures.used(number)).collect::<Vec<_>>();
    assert!(used.iter().all(|used| *used <= miniatures.room()), "{used:?} of {}", miniatures.room());
    miniatures.clear();
    miniatures.check();
}

#[test]
fn keys_that_are_used_very_often_are_sampled_less() {
    let mut miniatures = Miniatures::new(64 << 20, Optimise::Objects);
    for second in 0..5 {
        for _ in 0..USES_PER_SECOND {
            miniatures.note(mix(1) << RATE_LOG2_MAX, found(1000), second);
        }
    }
    assert_eq!(miniatures.rate_log2, 0, "it was not too much in any second");
    (0..4 * USES_PER_SECOND + 4).for_each(|_| miniatures.note(mix(1) << RATE_LOG2_MAX, found(1000), 5));
    assert_eq!(miniatures.rate_log2, 4);
    miniatures.check();
}

#[test]
fn the_policy_that_misses_less_is_chosen_and_a_small_difference_changes_nothing() {
    const ROOM: u64 = 1_000_000;
    let mut miniatures = Miniatures::new(64 << 20, Optimise::Objects);
    miniatures.set_capacity(ROOM);
    let get = |miniatures: &mut Miniatures, number: u64| {
        miniatures.note(mix(number + 1), found(1000), number as u32 / 1000)
    };
    // The same few keys again and again: nothing is missed, whatever the policy.
    (0..20_000).for_each(|number| get(&mut miniatures, number % 500));
    assert_eq!((miniatures.chosen(), miniatures.changes()), (0, 0));
    // Each key twice, and a sixth of the memory in between: only a large small queue still has it then.
    for number in 1000..40_000 {
        get(&mut miniatures, number);
        get(&mut miniatures, number - 150);
    }
    let chosen = Optimise::Objects.candidates()[miniatures.chosen()];
    assert_eq!((chosen.small_percent, miniatures.changes()), (20, 1));
}
