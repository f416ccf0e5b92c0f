//! A cluster that grows or shrinks: the keys that move have two owners for a while, without a lost delete.
//!
//! | phase | keys that move are read from | deletes of them |
//! |---|---|---|
//! | [`ReadOld`](DrainPhase::ReadOld) | their old owner | both |
//! | [`ReadNew`](DrainPhase::ReadNew) | the new one, which is warmed up from the old one | both |
//! | [`NewOnly`](DrainPhase::NewOnly) | the new one | both |
//!
//! A record that is resized has the slots of the larger layout. With a hash that only gives keys to slots that are added, or takes
//! them from slots that go, the keys that move are those of the last slots of the larger layout. So the routes of all other keys
//! stay as they are, and cost what they did.
//!
//! Before the new owners are read they have nothing from earlier: members of added slots are emptied, and members that stay are
//! swept of the keys that are not theirs, which they may have from before an earlier resize ([`ClusterResize::gains`]).
//!
//! What a generation says is all there is to know of a resize, so whichever controller reads it goes on with it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ClusterName;
use crate::drain::DrainPhase;
use crate::generation::{ClusterRecord, FleetContent, SlotRecord};

/// Attributes of a pool with a value for each of its servers: another number of slots needs others.
pub const PER_SLOT_ATTRIBUTES: [&str; 4] = ["weights", "failure_domains", "tags", "hostnames"];

/// How a cluster is resized.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClusterResize {
    /// How far it has come.
    pub phase: DrainPhase,
    /// Slots before.
    pub from: usize,
    /// Slots afterwards.
    pub to: usize,
    /// Attributes of the pool with the fewer slots; the record has those of the one with more.
    pub fewer_pool: BTreeMap<String, Value>,
    /// How long the new owners are warmed up, in seconds.
    pub warm_up_s: u32,
}

/// What is done with the members that get keys before they are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GainedKeys {
    /// They have no other keys: they are emptied.
    Emptied,
    /// They keep their own keys, and lose those that are not theirs.
    Swept,
}

impl ClusterResize {
    /// Whether slots are added.
    pub fn grows(&self) -> bool {
        self.to > self.from
    }

    /// Slots of the smaller layout.
    pub fn fewer(&self) -> usize {
        self.from.min(self.to)
    }

    /// What is done with the members that get keys.
    pub fn gains(&self) -> GainedKeys {
        if self.grows() { GainedKeys::Emptied } else { GainedKeys::Swept }
    }
}

impl ClusterRecord {
    /// The slots of which members get keys by the resize that is going on.
    pub fn gaining(&self) -> &[SlotRecord] {
        match &self.resize {
            None => &[],
            Some(resize) if resize.grows() => &self.slots[resize.from.min(self.slots.len())..],
            Some(resize) => &self.slots[..resize.to.min(self.slots.len())],
        }
    }

    /// The slots that keys are read from: those of the layout before or after the resize that is going on.
    pub fn read_slots(&self) -> &[SlotRecord] {
        let read = match &self.resize {
            None => self.slots.len(),
            Some(resize) if resize.phase == DrainPhase::ReadOld => resize.from,
            Some(resize) => resize.to,
        };
        &self.slots[..read.min(self.slots.len())]
    }

    /// The same with this many slots, without a resize.
    fn settled_at(&mut self, slots: usize) {
        let Some(resize) = self.resize.take() else { return };
        if slots == resize.fewer() {
            self.pool = resize.fewer_pool;
            self.slots.truncate(slots);
        }
    }
}

impl FleetContent {
    /// The cluster that is resized.
    pub fn resizing(&self) -> Option<(&ClusterRecord, &ClusterResize)> {
        self.clusters.iter().find_map(|cluster| Some((cluster, cluster.resize.as_ref()?)))
    }

    /// The same, with a cluster in the first phase on its way to how it is wanted.
    #[must_use]
    pub fn with_resize(mut self, wanted: &ClusterRecord, warm_up_s: u32) -> FleetContent {
        for cluster in self.clusters.iter_mut().filter(|cluster| cluster.name == wanted.name) {
            let (from, to) = (cluster.slots.len(), wanted.slots.len());
            let fewer_pool = if to > from { cluster.pool.clone() } else { wanted.pool.clone() };
            if to > from {
                cluster.pool.clone_from(&wanted.pool);
                cluster.slots.extend_from_slice(&wanted.slots[from..]);
            }
            cluster.resize =
                Some(ClusterResize { phase: DrainPhase::ReadOld, from, to, fewer_pool, warm_up_s });
        }
        self
    }

    /// The same, with the resize in this phase.
    #[must_use]
    pub fn in_resize_phase(mut self, phase: DrainPhase) -> FleetContent {
        self.clusters
            .iter_mut()
            .filter_map(|cluster| cluster.resize.as_mut())
            .for_each(|resize| resize.phase = phase);
        self
    }

    /// The same, with the resize done.
    #[must_use]
    pub fn with_resize_done(mut self) -> FleetContent {
        for cluster in &mut self.clusters {
            let to = cluster.resize.as_ref().map_or(0, |resize| resize.to);
            cluster.settled_at(to);
        }
        self
    }

    /// The same, with the resize turned back. As long as the new owners are not read, it only ends. Afterwards the old ones may lack what
    /// the new ones have got, so they get their keys back as new ones do: by the same phases.
    #[must_use]
    pub fn with_resize_turned_back(mut self) -> FleetContent {
        for cluster in &mut self.clusters {
            match &mut cluster.resize {
                Some(resize) if resize.phase != DrainPhase::ReadOld => {
                    std::mem::swap(&mut resize.from, &mut resize.to);
                    resize.phase = DrainPhase::ReadOld;
                }
                Some(resize) => {
                    let from = resize.from;
                    cluster.settled_at(from);
                }
                None => {}
            }
        }
        self
    }

    /// The same, with the larger layout of the cluster that is resized.
    #[must_use]
    pub fn without_resize(mut self) -> FleetContent {
        self.clusters.iter_mut().for_each(|cluster| cluster.resize = None);
        self
    }

    /// The clusters that have another number of slots in a later content, and are in both.
    pub fn resized_in<'l>(&'l self, later: &'l FleetContent) -> impl Iterator<Item = &'l ClusterName> {
        let pairs = self.clusters.iter().filter_map(|old| Some((old, later.cluster(&old.name)?)));
        pairs.filter(|(old, new)| old.slots.len() != new.slots.len()).map(|(old, _)| &old.name)
    }

    /// A later content, with this cluster as it is here: what else differs between the two.
    pub fn beside_resize(&self, later: &FleetContent, name: &ClusterName) -> FleetContent {
        let mut beside = later.clone();
        for cluster in beside.clusters.iter_mut().filter(|cluster| cluster.name == *name) {
            let Some(old) = self.cluster(name) else { continue };
            let is_common = |name: &&String| !PER_SLOT_ATTRIBUTES.contains(&name.as_str());
            let common = |pool: &BTreeMap<String, Value>| -> Vec<(String, Value)> {
                let names = pool.keys().filter(is_common);
                names.map(|name| (name.clone(), pool[name].clone())).collect()
            };
            if common(&old.pool) == common(&cluster.pool) {
                cluster.pool.clone_from(&old.pool);
            }
            let kept = cluster.slots.len().min(old.slots.len());
            cluster.slots.extend_from_slice(&old.slots[kept..]);
            cluster.slots.truncate(old.slots.len());
        }
        beside
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use DrainPhase::*;
    use serde_json::json;

    fn slot(at: usize) -> SlotRecord {
        SlotRecord {
            id: format!("s{at}").parse().expect("a name"),
            member: format!("m{at}").parse().expect("a name"),
            address: format!("m{at}:1"),
            is_cold: false,
            drain: None,
        }
    }

    fn content(slots: usize) -> FleetContent {
        let pool = [("weights".to_owned(), json!(vec![1; slots])), ("a".to_owned(), json!(7))].into();
        let (name, slots) = ("web".parse().expect("a name"), (0..slots).map(slot).collect());
        let web =
            ClusterRecord { name, pool, gutter: None, warm_up: None, shadow: None, resize: None, slots };
        FleetContent { clusters: vec![web], views: Vec::new() }
    }

    fn resized(from: usize, to: usize) -> FleetContent {
        content(from).with_resize(&content(to).clusters[0], 60)
    }

    /// `4>6 ReadOld 6`: from, to, the phase, and the slots of the record.
    fn words(content: &FleetContent) -> String {
        let web = &content.clusters[0];
        let weights = web.pool["weights"].as_array().expect("a list").len();
        assert_eq!(weights, web.slots.len(), "weights are those of the slots");
        match &web.resize {
            None => format!("{weights}"),
            Some(resize) => {
                let fewer = resize.fewer_pool["weights"].as_array().expect("a list").len();
                assert_eq!(fewer, resize.fewer());
                format!("{}>{} {:?} {weights}", resize.from, resize.to, resize.phase)
            }
        }
    }

    #[test]
    fn a_resize_has_the_slots_of_the_larger_layout_until_it_is_done() {
        for (from, to) in [(4, 6), (6, 4)] {
            let first = resized(from, to);
            assert_eq!(words(&first), format!("{from}>{to} ReadOld 6"));
            assert_eq!(first.clusters[0].read_slots().len(), from);
            let last = first.clone().in_resize_phase(ReadNew).in_resize_phase(NewOnly);
            assert_eq!(words(&last), format!("{from}>{to} NewOnly 6"));
            assert_eq!(last.clusters[0].read_slots().len(), to);
            assert_eq!(last.with_resize_done(), content(to));
            assert_eq!(first.with_resize_turned_back(), content(from));
        }
    }

    #[test]
    fn a_resize_is_turned_back_by_the_same_phases_once_new_owners_are_read() {
        for (from, to) in [(4, 6), (6, 4)] {
            for phase in [ReadNew, NewOnly] {
                let back = resized(from, to).in_resize_phase(phase).with_resize_turned_back();
                assert_eq!(words(&back), format!("{to}>{from} ReadOld 6"));
                assert_eq!(back.with_resize_done(), content(from));
            }
        }
    }

    #[test]
    fn members_that_get_keys_are_emptied_or_swept() {
        let gaining = |content: FleetContent| {
            let web = &content.clusters[0];
            let names: Vec<String> = web.gaining().iter().map(|slot| slot.member.to_string()).collect();
            (names.join(" "), web.resize.as_ref().map(ClusterResize::gains))
        };
        assert_eq!(gaining(resized(2, 4)), ("m2 m3".to_owned(), Some(GainedKeys::Emptied)));
        assert_eq!(gaining(resized(4, 2)), ("m0 m1".to_owned(), Some(GainedKeys::Swept)));
        assert_eq!(gaining(content(2)), (String::new(), None));
    }

    #[test]
    fn what_changes_beside_a_resize_is_found() {
        let web = "web".parse().expect("a name");
        for (from, to) in [(4, 6), (6, 4)] {
            let (old, mut new) = (content(from), content(to));
            assert_eq!(old.resized_in(&new).collect::<Vec<_>>(), [&web]);
            assert_eq!(old.beside_resize(&new, &web), old);
            new.clusters[0].pool.insert("a".to_owned(), json!(8));
            assert_ne!(old.beside_resize(&new, &web), old);
        }
    }
}
