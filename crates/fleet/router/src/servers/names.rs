//! Names of servers: the addresses that a resolver outside of this crate has found, and the names that it is to look up.
//!
//! A lookup may take minutes, so no worker waits for one. Of the addresses of a name, one of each family (IPv4, IPv6) counts:
//! the one that a hash of name and address puts first. So all routers that see the same addresses use the same one, in
//! whatever order they come, and another one only when it is gone or a better one has come.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::plan::hash::spooky64;

/// Lines for the operator in [`LINES_S`].
const LINES_MAX: u32 = 10;

/// Seconds for which lines are counted.
const LINES_S: u64 = 10;

/// What is known of a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KnownHost {
    /// At most one of each family; the one that the resolver put first is the first. Empty if it has never been found.
    pub(crate) addresses: Vec<IpAddr>,
    /// Lookups that have ended.
    pub(crate) lookups: u64,
}

/// The names of all servers of a router.
#[derive(Debug, Default)]
pub struct NameTable {
    hosts: Mutex<Hosts>,
    /// Counts the lookups that have ended: workers look at this first.
    version: AtomicU64,
    /// There is an order.
    ordered: Condvar,
}

/// Names that a thread looks up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupKind {
    /// All of them.
    Any,
    /// Those whose last lookup has not failed. A lookup that fails may take half a minute: however many do, the addresses of
    /// others are found.
    Sound,
}

#[derive(Debug, Default)]
struct Hosts {
    by_name: HashMap<Arc<str>, HostEntry>,
    /// Names to look up.
    orders: VecDeque<Arc<str>>,
    /// The same, of names whose last lookup has failed: perhaps their name server does not answer, and the next takes as long.
    doubtful: VecDeque<Arc<str>>,
    /// Threads in [`NameTable::next`] that take any name, and those that take no doubtful one.
    idle: [usize; 2],
    /// Counted by [`NameTable::tick`].
    second: u64,
    /// Lines that were handed out, and left out, since `lines_from`.
    lines: u32,
    left_out: u32,
    lines_from: u64,
}

#[derive(Debug, Default)]
struct HostEntry {
    known: KnownHost,
    /// Among the orders, or with the resolver.
    is_ordered: bool,
    /// To be ordered with the next second.
    is_wanted: bool,
    /// The second of the last order.
    ordered_s: u64,
    /// The last lookup has failed.
    has_failed: bool,
}

impl Hosts {
    /// Orders a lookup, unless one is under way.
    fn order(&mut self, name: &Arc<str>) -> bool {
        let Some(entry) = self.by_name.get_mut(name).filter(|entry| !entry.is_ordered) else { return false };
        (entry.is_ordered, entry.is_wanted, entry.ordered_s) = (true, false, self.second);
        let queue = if entry.has_failed { &mut self.doubtful } else { &mut self.orders };
        queue.push_back(Arc::clone(name));
        true
    }

    fn take(&mut self, kind: LookupKind) -> Option<Arc<str>> {
        let doubtful = &mut self.doubtful;
        self.orders.pop_front().or_else(|| (kind == LookupKind::Any).then(|| doubtful.pop_front()).flatten())
    }

    /// A line for the operator, or none where there were many.
    fn limited(&mut self, line: String) -> Option<String> {
        if self.lines < LINES_MAX {
            self.lines += 1;
            return Some(line);
        }
        self.left_out += 1;
        None
    }
}

/// For workers.
impl NameTable {
    fn hosts(&self) -> MutexGuard<'_, Hosts> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Relaxed)
    }

    /// Goes on with these names. New ones are looked up at once, before somebody asks for them.
    pub(crate) fn keep<'n>(&self, names: impl Iterator<Item = &'n Arc<str>>) {
        let mut hosts = self.hosts();
        let mut before = std::mem::take(&mut hosts.by_name);
        for name in names {
            if hosts.by_name.contains_key(name) {
                continue;
            }
            let known = before.remove(name);
            let is_new = known.is_none();
            hosts.by_name.insert(Arc::clone(name), known.unwrap_or_default());
            if is_new {
                hosts.order(name);
            }
        }
        self.ordered.notify_all();
    }

    /// What is known of a name.
    pub(crate) fn known(&self, name: &str) -> KnownHost {
        self.hosts().by_name.get(name).map(|entry| entry.known.clone()).unwrap_or_default()
    }

    /// Has a name looked up, at most once in a second.
    pub(crate) fn want(&self, name: &Arc<str>) {
        let mut hosts = self.hosts();
        let second = hosts.second;
        // A name that a request of an earlier configuration uses.
        let entry = hosts.by_name.entry(Arc::clone(name)).or_default();
        if entry.known.lookups > 0 && entry.ordered_s == second {
            entry.is_wanted = true;
        } else if hosts.order(name) {
            // Not every thread takes every name.
            self.ordered.notify_all();
        }
    }
}

/// For whoever looks names up.
impl NameTable {
    /// Waits for the next name to look up.
    pub fn next(&self, kind: LookupKind) -> Arc<str> {
        let mut hosts = self.hosts();
        hosts.idle[kind as usize] += 1;
        loop {
            if let Some(name) = hosts.take(kind) {
                hosts.idle[kind as usize] -= 1;
                return name;
            }
            hosts = self.ordered.wait(hosts).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Names that no thread takes, because all that could are busy.
    pub fn waiting(&self) -> usize {
        let hosts = self.hosts();
        match hosts.idle {
            [0, 0] => hosts.orders.len() + hosts.doubtful.len(),
            [0, _] => hosts.doubtful.len(),
            // About to take them.
            _ => 0,
        }
    }

    /// The next name to look up, if there is one.
    #[cfg(test)]
    pub(crate) fn try_next(&self) -> Option<Arc<str>> {
        self.hosts().take(LookupKind::Any)
    }

    /// The result of a lookup: addresses, in the order of preference of their families. Addresses that were found before stay
    /// after an error. Returns a line for the operator if something has changed.
    pub fn found(&self, name: &str, result: Result<&[IpAddr], &str>) -> Option<String> {
        let chosen = result.map(|addresses| chosen(name, addresses));
        let chosen =
            chosen.and_then(|found| if found.is_empty() { Err("it has no address") } else { Ok(found) });
        let mut hosts = self.hosts();
        let entry = hosts.by_name.get_mut(name)?;
        (entry.is_ordered, entry.known.lookups) = (false, entry.known.lookups + 1);
        let had_failed = std::mem::replace(&mut entry.has_failed, chosen.is_err());
        let line = match chosen {
            Err(error) => (!had_failed).then(|| match &entry.known.addresses[..] {
                [] => format!("cannot resolve {name}: {error}"),
                [address, ..] => format!("cannot resolve {name}: {error}; {address} stays in use"),
            }),
            Ok(found) => {
                let before = std::mem::replace(&mut entry.known.addresses, found);
                let now = entry.known.addresses[0];
                match before.first() {
                    Some(before) if *before != now => Some(format!("{name} was {before}, and is {now} now")),
                    _ => had_failed.then(|| format!("{name} is {now}")),
                }
            }
        };
        self.version.fetch_add(1, Relaxed);
        line.and_then(|line| hosts.limited(line))
    }

    /// To be called once in a second: orders lookups of names that somebody wants, and of all that were looked up
    /// `refresh_s` seconds ago, give or take a fifth; never for 0. Returns a line about lines that were left out.
    pub fn tick(&self, refresh_s: u64) -> Option<String> {
        let mut hosts = self.hosts();
        hosts.second += 1;
        let second = hosts.second;
        let is_due = |name: &str, entry: &HostEntry| {
            // Not all names of all routers in the same second.
            let fifth = (refresh_s / 5).max(1);
            let jitter = spooky64(name.as_bytes(), entry.known.lookups) % (2 * fifth);
            refresh_s > 0 && second >= entry.ordered_s + refresh_s + jitter - fifth
        };
        let due: Vec<Arc<str>> = hosts
            .by_name
            .iter()
            .filter(|(name, entry)| entry.is_wanted || is_due(name, entry))
            .map(|(name, _)| Arc::clone(name))
            .collect();
        for name in &due {
            hosts.order(name);
        }
        self.ordered.notify_all();
        if second < hosts.lines_from + LINES_S {
            return None;
        }
        let left_out = std::mem::take(&mut hosts.left_out);
        (hosts.lines, hosts.lines_from) = (0, second);
        (left_out > 0).then(|| format!("lines left out in {LINES_S} s: {left_out} about names of servers"))
    }
}

/// One address of each family, in the order in which the families come.
fn chosen(name: &str, addresses: &[IpAddr]) -> Vec<IpAddr> {
    let best = |is_v6: bool| {
        let of_family = addresses.iter().filter(|address| address.is_ipv6() == is_v6);
        of_family.max_by_key(|address| (rank(name, address), Reverse(**address))).copied()
    };
    let first_v6 = addresses.first().is_some_and(IpAddr::is_ipv6);
    [best(first_v6), best(!first_v6)].into_iter().flatten().collect()
}

/// Rendezvous hashing: the highest wins.
fn rank(name: &str, address: &IpAddr) -> u64 {
    spooky64(format!("{name} {address}").as_bytes(), 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().expect("an address")).collect()
    }

    fn table(names: &[&str]) -> NameTable {
        let table = NameTable::default();
        let names: Vec<Arc<str>> = names.iter().map(|name| Arc::from(*name)).collect();
        table.keep(names.iter());
        table
    }

    #[test]
    fn the_order_of_addresses_does_not_matter_and_others_do_not_either() {
        let all = addresses(&["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"]);
        let first = chosen("cache", &all)[0];
        let reversed: Vec<IpAddr> = all.iter().rev().copied().collect();
        assert_eq!(chosen("cache", &reversed), [first]);
        for gone in all.iter().filter(|address| **address != first) {
            let others: Vec<IpAddr> = all.iter().filter(|address| *address != gone).copied().collect();
            assert_eq!(chosen("cache", &others), [first], "without {gone}");
        }
        let names = (0..100).map(|number| chosen(&format!("cache-{number}"), &all)[0]);
        let mut used: Vec<IpAddr> = names.collect();
        used.sort_unstable();
        used.dedup();
        assert_eq!(used.len(), 4, "names share the addresses");
    }

    #[test]
    fn one_address_of_each_family_counts() {
        let both = addresses(&["::1", "127.0.0.1", "127.0.0.2"]);
        let found = chosen("localhost", &both);
        assert_eq!((found.len(), found[0]), (2, both[0]));
        assert!(found[1].is_ipv4());
        let many: Vec<IpAddr> = (0..1000u32).map(|number| IpAddr::from(number.to_be_bytes())).collect();
        assert_eq!(chosen("many", &many).len(), 1);
    }

    #[test]
    fn names_are_looked_up_once_at_a_time_and_once_in_a_second() {
        let table = table(&["a"]);
        let a: Arc<str> = Arc::from("a");
        assert_eq!(table.try_next().as_deref(), Some("a"), "before anybody asks");
        table.want(&a);
        assert_eq!(table.try_next(), None, "it is under way");
        assert_eq!(table.found("a", Ok(&addresses(&["10.0.0.1"]))), None);
        table.want(&a);
        assert_eq!(table.try_next(), None, "in the same second");
        table.tick(0);
        assert_eq!(table.try_next().as_deref(), Some("a"));
        table.found("a", Ok(&addresses(&["10.0.0.1"])));
        let ordered = (0..100).filter(|_| {
            table.tick(10);
            let next = table.try_next();
            next.iter().for_each(|name| drop(table.found(name, Ok(&addresses(&["10.0.0.1"])))));
            next.is_some()
        });
        assert!((8..=13).contains(&ordered.count()), "every 8 to 12 seconds");
    }

    #[test]
    fn a_resolver_that_hangs_is_not_asked_again() {
        let table = table(&["a", "b"]);
        assert_eq!([table.try_next(), table.try_next()].map(|next| next.is_some()), [true; 2]);
        for _ in 0..1000 {
            table.want(&Arc::from("a"));
            table.tick(1);
            assert_eq!(table.try_next(), None);
        }
    }

    #[test]
    fn names_that_have_failed_do_not_delay_others() {
        let table = table(&["bad", "good"]);
        assert_eq!(table.waiting(), 2, "there is no thread");
        while table.try_next().is_some() {}
        table.found("bad", Err("no answer"));
        table.found("good", Ok(&addresses(&["10.0.0.1"])));
        table.tick(0);
        ["bad", "good"].iter().for_each(|name| table.want(&Arc::from(*name)));
        assert_eq!(&*table.next(LookupKind::Sound), "good");
        assert_eq!(table.hosts().take(LookupKind::Sound), None);
        assert_eq!(table.waiting(), 1);
        assert_eq!(&*table.next(LookupKind::Any), "bad");
        assert_eq!((table.waiting(), table.hosts().idle), (0, [0, 0]));
        // Once it is found, it is like any other.
        table.found("bad", Ok(&addresses(&["10.0.0.2"])));
        table.tick(0);
        table.want(&Arc::from("bad"));
        assert_eq!(&*table.next(LookupKind::Sound), "bad");
    }

    #[test]
    fn a_failure_is_reported_once_and_leaves_the_addresses() {
        let table = table(&["a", "b"]);
        let line = |line: &str| Some(line.to_owned());
        assert_eq!(table.found("a", Err("no such name")), line("cannot resolve a: no such name"));
        assert_eq!(table.found("a", Ok(&[])), None, "again");
        assert_eq!(table.known("a"), KnownHost { addresses: Vec::new(), lookups: 2 });
        assert_eq!(table.found("a", Ok(&addresses(&["10.0.0.1"]))), line("a is 10.0.0.1"));
        let moved = "a was 10.0.0.1, and is 10.0.0.2 now";
        assert_eq!(table.found("a", Ok(&addresses(&["10.0.0.2"]))), line(moved));
        let gone = "cannot resolve a: it has no address; 10.0.0.2 stays in use";
        assert_eq!(table.found("a", Ok(&[])), line(gone));
        assert_eq!(table.known("a").addresses, addresses(&["10.0.0.2"]));
        assert_eq!(table.found("elsewhere", Ok(&[])), None, "no server has this name any more");
    }

    #[test]
    fn many_lines_are_counted() {
        let names: Vec<String> = (0..50).map(|number| format!("n{number}")).collect();
        let table = table(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let lines = names.iter().filter_map(|name| table.found(name, Err("no"))).count();
        assert_eq!(lines, 10);
        let counted: Vec<String> = (0..30).filter_map(|_| table.tick(0)).collect();
        assert_eq!(counted, ["lines left out in 10 s: 40 about names of servers"]);
    }

    #[test]
    fn another_configuration_keeps_what_is_known() {
        let table = table(&["a", "b"]);
        while table.try_next().is_some() {}
        table.found("a", Ok(&addresses(&["10.0.0.1"])));
        let names: [Arc<str>; 2] = ["a", "c"].map(Arc::from);
        table.keep(names.iter());
        assert_eq!(table.try_next().as_deref(), Some("c"));
        assert_eq!(table.try_next(), None);
        assert_eq!((table.known("a").lookups, table.known("b").lookups), (1, 0));
    }
}
