//! Published policies at the level of items: each stores what it does not find, in the same bytes.

mod adaptive;
mod by_frequency;
mod queues;

use crate::policy::PublishedPolicy;

/// Makes a policy for items below a number and a room of some bytes.
type Make = fn(items: usize, room: u64) -> Box<dyn PublishedPolicy>;

/// All policies by name.
pub(crate) const ALL: [(&str, Make); 9] = [
    ("LRU", |items, room| Box::new(queues::Lru::new(items, room))),
    ("SIEVE", |items, room| Box::new(queues::Sieve::new(items, room))),
    ("S3-FIFO", |items, room| Box::new(queues::S3Fifo::new(items, room, 2))),
    ("S3-FIFO 1", |items, room| Box::new(queues::S3Fifo::new(items, room, 1))),
    ("ARC", |items, room| Box::new(adaptive::Arc::new(items, room))),
    ("LIRS", |items, room| Box::new(adaptive::Lirs::new(items, room))),
    ("W-TinyLFU", |items, room| Box::new(by_frequency::WindowTinyLfu::new(items, room))),
    ("GDSF", |items, room| Box::new(by_frequency::Gdsf::new(items, room))),
    ("Belady", |items, room| Box::new(by_frequency::Belady::new(items, room))),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{ItemTrace, made};

    fn misses(make: Make, trace: &ItemTrace, room: u64) -> usize {
        let mut policy = make(trace.items, room);
        trace.requests.iter().filter(|request| !policy.get(request)).count()
    }

    fn requests(keys: &[u64]) -> ItemTrace {
        ItemTrace::new(keys.iter().map(|key| (*key, 100)))
    }

    #[track_caller]
    fn check(name: &str, keys: &[u64], items_that_fit: u64, expected: usize) {
        let (_, make) = ALL.into_iter().find(|(other, _)| *other == name).expect("a policy of this name");
        assert_eq!(misses(make, &requests(keys), items_that_fit * 100), expected, "{name}: {keys:?}");
    }

    #[test]
    fn each_policy_evicts_what_it_is_known_for() {
        // 1 was used last before 3 came: 2 goes.
        check("LRU", &[1, 2, 1, 3, 1, 2], 2, 4);
        // 1 was visited and stays; the hand takes 2.
        check("SIEVE", &[1, 2, 1, 3, 1, 2], 2, 4);
        // What is used next is kept.
        check("Belady", &[1, 2, 3, 1, 2, 3], 2, 4);
        check("Belady", &[1, 2, 3, 4, 1, 1, 1], 2, 4);
        // 1 is used more often than 2 and 3.
        check("GDSF", &[1, 1, 1, 1, 1, 1, 2, 3, 2, 3, 1], 2, 5);
        // A scan of new keys leaves what was used twice.
        for name in ["S3-FIFO 1", "ARC", "LIRS", "W-TinyLFU"] {
            let mut keys: Vec<u64> = (0..400).map(|number| number % 40).collect();
            keys.extend(1000..1300);
            keys.extend(0..40);
            check(name, &keys, 60, 340);
        }
    }

    #[test]
    fn no_policy_stores_more_than_there_is_room_for_or_beats_the_one_that_knows_the_future() {
        let trace = made::equal_sizes(30_000);
        let of = |name: &str, room| {
            let (_, make) = ALL.into_iter().find(|(other, _)| *other == name).expect("a policy of this name");
            misses(make, &trace, room)
        };
        for (name, _) in ALL {
            for room in [20_000, 100_000] {
                assert!(of(name, room) >= of("Belady", room), "{name} in {room} bytes");
            }
            // With room for all, each item is missed once.
            assert_eq!(of(name, 100 << 20), trace.items, "{name}");
        }
    }
}
