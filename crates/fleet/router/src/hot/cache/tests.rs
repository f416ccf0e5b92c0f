//! Random orders of requests against a simple model, hostile keys, and what happens at the limits.

use stdx::prng::Prng;

use super::*;

fn settings(ttl_ms: u32, memory: usize, value_max: usize) -> Arc<HotCacheSettings> {
    Arc::new(HotCacheSettings { pool: "A".to_owned(), ttl_ms, memory, value_max })
}

fn at_ms(ms: u64) -> Now {
    Now::at_ms(ms)
}

/// A cache of one pool at one server.
struct Scene {
    cache: HotCache,
    server: u64,
}

impl Scene {
    fn new(settings: Arc<HotCacheSettings>) -> Scene {
        let mut cache = HotCache::new(RandomState::new(), 1);
        cache.set_pools([settings], ["a:1"]);
        let server = cache.server_of_pools("a:1").expect("a server of the pool");
        Scene { cache, server }
    }

    fn name<'k>(&self, key: &'k str) -> HotName<'k> {
        self.cache.name(self.server, key.as_bytes())
    }

    /// As many gets as make a key hot.
    fn warm(&mut self, key: &str, now: Now) {
        (0..HOT_SAMPLES_MIN).for_each(|_| self.cache.count(self.name(key), now));
        assert!(self.cache.ticket(self.name(key)).is_some(), "{key} is hot");
    }

    /// A get whose reply comes at once. Returns whether its value is kept.
    fn fill(&mut self, key: &str, value: &[u8], now: Now) -> bool {
        let Some((ticket, _)) = self.cache.ticket(self.name(key)) else { return false };
        self.reply(key, (ticket, now), value, now)
    }

    fn reply(&mut self, key: &str, (ticket, sent): (Ticket, Now), value: &[u8], now: Now) -> bool {
        let name = self.name(key);
        if !self.cache.is_latest(name, ticket) || !self.cache.keeps(name, 0, value.len(), sent, now) {
            return false;
        }
        self.cache.fill(
            name,
            0,
            (ticket, sent),
            HotValue { flags: 7, bytes: value.into(), is_fresh: false },
            now,
        );
        true
    }

    fn read(&mut self, key: &str, now: Now) -> Option<Vec<u8>> {
        self.cache.get(self.name(key), 0, false, now).map(|value| value.bytes.to_vec())
    }

    /// What is charged is what is there, and within the limit.
    #[track_caller]
    fn check_memory(&self) {
        let kept = self.cache.slots.values().filter_map(|slot| slot.kept.as_ref());
        let charged: usize = kept.map(|kept| kept.charged).sum();
        assert_eq!(self.cache.bytes(), charged);
        assert!(charged <= self.cache.pools[0].settings.memory, "{charged}");
        assert!(self.cache.pools[0].order.len() <= 2 * SLOTS_MAX);
        assert!(self.cache.slots.len() <= SLOTS_MAX);
    }
}

/// What a server has under a key: the number of the version, and when each of the earlier ones was replaced.
#[derive(Default)]
struct ModelItem {
    version: u64,
    replaced: Vec<Now>,
    /// No client may read less than this.
    answered: u64,
}

impl ModelItem {
    fn update(&mut self, now: Now) -> u64 {
        self.version += 1;
        self.replaced.push(now);
        self.version
    }
}

struct ModelGet {
    key: usize,
    ticket: Option<(Ticket, u64)>,
    sent: Now,
    /// What the server has read, once it has.
    read: Option<u64>,
}

struct ModelUpdate {
    key: usize,
    hash: u64,
    /// The version that it made, once it has.
    made: Option<u64>,
}

const KEYS: [&str; 5] = ["a", "b", "c", "d", "e"];

/// Gets and updates on their way, which the server executes and answers in any order, as over many connections; updates by
/// others; and a clock.
fn history(seed: u64) {
    let mut prng = Prng::new(seed);
    let ttl_ms = 20;
    // Room for three of five values.
    let mut scene = Scene::new(settings(ttl_ms, 3 * charge(b"a", 8), 8));
    let (mut gets, mut updates) = (Vec::<ModelGet>::new(), Vec::<ModelUpdate>::new());
    let mut items: Vec<ModelItem> = KEYS.iter().map(|_| ModelItem::default()).collect();
    let (mut now, mut hits, mut flush) = (at_ms(1000), 0, None::<Vec<u64>>);
    KEYS.iter().for_each(|key| scene.warm(key, now));
    for step in 0..20_000 {
        let key = prng.below(KEYS.len() as u64) as usize;
        let name = scene.name(KEYS[key]);
        match prng.below(100) {
            0..14 => {
                scene.cache.count(name, now);
                if let Some(found) = scene.read(KEYS[key], now) {
                    hits += 1;
                    let found = u64::from_le_bytes(found.try_into().expect("eight bytes"));
                    let is_updated = updates.iter().any(|update| update.key == key) || flush.is_some();
                    assert!(!is_updated, "seed {seed}, step {step}: an update is on its way");
                    assert!(
                        found >= items[key].answered,
                        "seed {seed}, step {step}: older than an answered update"
                    );
                    let replaced = items[key].replaced.get(found as usize);
                    let is_young = replaced.is_none_or(|at| at.us + u64::from(ttl_ms) * 1000 > now.us);
                    assert!(is_young, "seed {seed}, step {step}: {found} was replaced at {replaced:?}");
                } else {
                    gets.push(ModelGet { key, ticket: scene.cache.ticket(name), sent: now, read: None });
                }
            }
            14 | 15 => updates.push(ModelUpdate { key, hash: scene.cache.begin_update(name), made: None }),
            16 | 17 => _ = items[key].update(now),
            18..50 if !gets.is_empty() => {
                let place = prng.below(gets.len() as u64) as usize;
                let get = &mut gets[place];
                get.read.get_or_insert(items[get.key].version);
            }
            50..58 if !updates.is_empty() => {
                let place = prng.below(updates.len() as u64) as usize;
                let update = &mut updates[place];
                update.made.get_or_insert_with(|| items[update.key].update(now));
            }
            58..90 if !gets.is_empty() => {
                let place = prng.below(gets.len() as u64) as usize;
                if let Some(version) = gets[place].read {
                    let ModelGet { key, ticket, sent, .. } = gets.swap_remove(place);
                    if let Some((ticket, _)) = ticket {
                        scene.reply(KEYS[key], (ticket, sent), &version.to_le_bytes(), now);
                    }
                }
            }
            90..97 if !updates.is_empty() => {
                let place = prng.below(updates.len() as u64) as usize;
                if let Some(version) = updates[place].made {
                    let ModelUpdate { key, hash, .. } = updates.swap_remove(place);
                    scene.cache.end_update(hash);
                    items[key].answered = items[key].answered.max(version);
                }
            }
            _ => now.us += prng.below(2500),
        }
        match flush {
            None if prng.below(500) == 0 => {
                scene.cache.drop_server(scene.server);
                scene.cache.begin_sweep(scene.server);
                flush = Some(items.iter_mut().map(|item| item.update(now)).collect::<Vec<_>>());
            }
            Some(made) if prng.below(10) == 0 => {
                scene.cache.end_sweep(scene.server);
                for (item, version) in items.iter_mut().zip(made) {
                    item.answered = item.answered.max(version);
                }
                flush = None;
            }
            other => flush = other,
        }
        scene.check_memory();
    }
    let HotCounts { fills, dropped, evicted, .. } = scene.cache.take_counts();
    let counts = format!("seed {seed}: {hits} {fills} {dropped} {evicted}");
    assert!(hits > 100 && fills > 100 && dropped > 10 && evicted > 10, "{counts}");
    assert_eq!(
        scene.cache.updates.len(),
        updates.iter().map(|update| update.key).collect::<HashSet<_>>().len()
    );
}

#[test]
fn no_value_is_older_than_an_answered_update_or_than_its_time_whatever_the_order() {
    (0..30).for_each(history);
}

#[test]
fn a_key_is_hot_by_its_share_of_many_samples() {
    let mut scene = Scene::new(settings(100, 1 << 20, 1000));
    let mut now = at_ms(5000);
    for round in 0..4000 {
        now.us += 1000;
        scene.cache.count(scene.name(&format!("once{round}")), now);
        scene.cache.count(scene.name(&format!("cycle{}", round % 1000)), now);
        if round % 100 == 0 {
            scene.cache.count(scene.name("hot"), now);
        }
    }
    assert_eq!(scene.cache.slots.len(), 1, "of all keys");
    assert!(scene.fill("hot", b"x", now) && !scene.fill("once7", b"x", now));
}

#[test]
fn a_key_that_nobody_asks_for_any_more_makes_room() {
    let mut scene = Scene::new(settings(100, 1 << 20, 1000));
    let mut now = at_ms(1000);
    // A client that makes ever new keys hot.
    for number in 0..5 * SLOTS_MAX {
        let key = format!("k{number}");
        // Alone in its window.
        now.us += ::hot_keys::WINDOW_US / 200;
        (0..HOT_SAMPLES_MIN).for_each(|_| scene.cache.count(scene.name(&key), now));
        scene.fill(&key, &[0; 100], now);
        scene.check_memory();
    }
    now.us += 3 * HOT_US;
    scene.warm("last", now);
    assert!(scene.cache.slots.len() <= SLOTS_MAX);
    scene.check_memory();
}

#[test]
fn the_oldest_values_make_room() {
    let memory = 3 * charge(b"a", 100);
    let mut scene = Scene::new(settings(1000, memory, 1000));
    let now = at_ms(1000);
    KEYS.iter().for_each(|key| scene.warm(key, now));
    for (number, key) in KEYS[..3].iter().enumerate() {
        assert!(scene.fill(key, &[number as u8; 100], now));
    }
    assert_eq!(scene.cache.bytes(), memory);
    // The first is renewed, so the second is the oldest.
    assert!(scene.fill("a", &[9; 100], now) && scene.fill("d", &[3; 100], now));
    let there = KEYS.map(|key| scene.read(key, now).is_some());
    assert_eq!(there, [true, false, true, true, false]);
    // A longer one needs the room of two.
    assert!(scene.fill("e", &[4; 101], now));
    let there = KEYS.map(|key| scene.read(key, now).is_some());
    assert_eq!(there, [false, false, false, true, true], "{:?}", scene.cache.counts);
    scene.check_memory();
}

#[test]
fn long_values_are_not_kept_and_take_the_place_of_none() {
    let mut scene = Scene::new(settings(1000, 2000, 1500));
    let now = at_ms(1000);
    KEYS.iter().for_each(|key| scene.warm(key, now));
    assert!(scene.fill("a", &[1; 100], now));
    assert!(!scene.fill("b", &[1; 1501], now), "beyond value_max");
    assert!(!scene.fill("b", &[1; 1900], now), "beyond the memory");
    assert!(scene.read("a", now).is_some());
    // The item has grown: what it was before is no answer.
    assert!(!scene.fill("a", &[1; 1501], now));
    assert_eq!((scene.read("a", now), scene.cache.bytes()), (None, 0));
}

#[test]
fn age_counts_from_the_request() {
    let mut scene = Scene::new(settings(100, 1 << 20, 1000));
    scene.warm("a", at_ms(1000));
    let (ticket, _) = scene.cache.ticket(scene.name("a")).expect("a ticket");
    assert!(scene.reply("a", (ticket, at_ms(1000)), b"x", at_ms(1090)));
    assert!(scene.read("a", at_ms(1099)).is_some() && scene.read("a", at_ms(1100)).is_none());
    let (ticket, _) = scene.cache.ticket(scene.name("a")).expect("a ticket");
    assert!(!scene.reply("a", (ticket, at_ms(2000)), b"x", at_ms(2100)), "too late");
}

#[test]
fn a_meta_request_is_answered_only_by_what_a_meta_reply_has_called_fresh() {
    let mut scene = Scene::new(settings(1000, 1 << 20, 1000));
    let now = at_ms(1000);
    scene.warm("a", now);
    assert!(scene.fill("a", b"x", now));
    let found = |scene: &mut Scene| {
        [false, true].map(|is_meta| scene.cache.get(scene.name("a"), 0, is_meta, now).is_some())
    };
    assert_eq!(found(&mut scene), [true, false]);
    let (ticket, hash) = scene.cache.ticket(scene.name("a")).expect("a ticket");
    let name = HotCache::name_of(scene.server, hash);
    assert!(scene.cache.is_latest(name, ticket) && scene.cache.keeps(name, 0, 1, now, now));
    let value = HotValue { flags: 0, bytes: b"y".as_slice().into(), is_fresh: true };
    scene.cache.fill(name, 0, (ticket, now), value, now);
    assert_eq!(found(&mut scene), [true, true]);
    assert_eq!(scene.read("a", now).as_deref(), Some(&b"y"[..]));
    scene.check_memory();
}

#[test]
fn a_key_that_is_updated_again_and_again_takes_no_more_memory() {
    let mut scene = Scene::new(settings(10_000, 1 << 20, 1000));
    let now = at_ms(1000);
    scene.warm("a", now);
    scene.warm("b", now);
    assert!(scene.fill("b", b"first", now));
    for _ in 0..10 * SLOTS_MAX {
        assert!(scene.fill("a", b"x", now));
        let hash = scene.cache.begin_update(scene.name("a"));
        scene.cache.end_update(hash);
        scene.check_memory();
    }
    assert!(scene.read("b", now).is_some());
}

#[test]
fn other_settings_begin_without_values_and_updates_go_on() {
    let mut scene = Scene::new(settings(1000, 1 << 20, 1000));
    let now = at_ms(1000);
    scene.warm("a", now);
    assert!(scene.fill("a", b"x", now));
    let (get, _) = scene.cache.ticket(scene.name("a")).expect("a ticket");
    let hash = scene.cache.begin_update(scene.name("a"));
    scene.cache.set_pools([settings(500, 1 << 20, 1000)], ["a:1", "b:1"]);
    assert_eq!(scene.cache.bytes(), 0);
    scene.warm("a", now);
    assert!(!scene.fill("a", b"x", now), "the update has no answer");
    scene.cache.end_update(hash);
    assert!(!scene.reply("a", (get, now), b"x", now), "a get from before");
    assert!(scene.fill("a", b"y", now));
    assert!(scene.cache.server_of_pools("c:1").is_none());
}
