//! The mass-loss guard: freezes of clusters, zones and the fleet, and how many members each may have replaced.
//!
//! Two rules, each per scope and with the same limit. Losses: more than the limit within a minute, or at once, freeze the
//! scope. Replacements: no more than the limit within an hour, whatever anybody reports and thaws. The second rule needs no
//! observer to be honest: it counts what was granted.

use std::collections::{BTreeMap, VecDeque};

use stdx::clock::Now;

use super::decision::{EXAMPLES_MAX, GuardScope};
use super::roster::{MEMBERS_MAX, Roster, SlotMember};
use super::settings::GuardSettings;
use crate::ClusterName;
use crate::names::SlotId;

/// A request that is not repeated may still be under way to a generation for this long.
const GRANT_KEPT_MS: u64 = 60_000;

/// What the guard knows of a member.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Loss {
    /// The last pass in which it was suspect.
    pub(super) at: Option<Now>,
    /// The scopes in which a person has accepted its loss: bits of `Guarded::scopes`.
    excused: u8,
}

#[derive(Debug)]
struct Frozen {
    since: Now,
    evidence: String,
    calm_since: Option<Now>,
    by_person: bool,
}

#[derive(Debug)]
struct Replaced {
    at: Now,
    place: SlotMember,
    counts_as_loss: bool,
}

#[derive(Debug)]
struct Grant {
    requested: Now,
    place: SlotMember,
}

/// Why a member is not replaced now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// Its scope is frozen.
    Frozen,
    /// Its scope has used its limit; the first replacement leaves the window then.
    Used { scope: GuardScope, limit: u32, until: Now },
}

/// The guard of one controller.
#[derive(Debug, Default)]
pub(super) struct LossGuard {
    frozen: BTreeMap<GuardScope, Frozen>,
    replaced: VecDeque<Replaced>,
    grants: BTreeMap<(ClusterName, SlotId), Grant>,
    /// Per scope, of this pass: 0 is the fleet, then zones, then clusters.
    granted: Vec<u32>,
}

impl LossGuard {
    /// Notes that a slot has another member now, whoever decided it.
    pub(super) fn note_replaced(&mut self, place: SlotMember, at: Now, counts_as_loss: bool) {
        self.grants.remove(&(place.cluster.clone(), place.slot.clone()));
        // So many within the window exceed the fleet's limit, at most half of the members, with or without the oldest.
        if self.replaced.len() == MEMBERS_MAX {
            self.replaced.pop_front();
        }
        self.replaced.push_back(Replaced { at, place, counts_as_loss });
    }

    /// Begins a pass: forgets what is old, freezes and thaws.
    pub(super) fn begin_pass(
        &mut self,
        now: Now,
        roster: &Roster,
        losses: &mut [Loss],
        settings: &GuardSettings,
    ) {
        let kept = |at: Now, ms: u64| now.ms().saturating_sub(at.ms()) <= ms;
        self.replaced.retain(|replaced| kept(replaced.at, settings.replaced_window_ms));
        self.grants.retain(|_, grant| kept(grant.requested, GRANT_KEPT_MS));
        self.count_granted(roster);
        let lost = self.count_lost(now, roster, losses, settings);
        for (index, lost) in lost.iter().enumerate() {
            self.judge_scope(now, index, *lost, roster, losses, settings);
        }
    }

    fn count_granted(&mut self, roster: &Roster) {
        self.granted = vec![0; scope_count(roster)];
        let replaced = self.replaced.iter().map(|replaced| &replaced.place);
        for place in replaced.chain(self.grants.values().map(|grant| &grant.place)) {
            for index in scopes_of(roster, place).into_iter().flatten() {
                self.granted[index] += 1;
            }
        }
    }

    fn count_lost(
        &self,
        now: Now,
        roster: &Roster,
        losses: &mut [Loss],
        settings: &GuardSettings,
    ) -> Vec<u32> {
        let mut lost = vec![0; scope_count(roster)];
        let is_recent = |at: Now| now.ms().saturating_sub(at.ms()) <= settings.window_ms;
        for (member, loss) in losses.iter_mut().enumerate() {
            if !loss.at.is_some_and(is_recent) {
                *loss = Loss::default();
                continue;
            }
            for (bit, index) in scopes_at(roster, member).into_iter().enumerate() {
                lost[index] += u32::from(loss.excused & (1 << bit) == 0);
            }
        }
        for replaced in
            self.replaced.iter().filter(|replaced| replaced.counts_as_loss && is_recent(replaced.at))
        {
            for index in scopes_of(roster, &replaced.place).into_iter().flatten() {
                lost[index] += 1;
            }
        }
        lost
    }

    fn judge_scope(
        &mut self,
        now: Now,
        index: usize,
        lost: u32,
        roster: &Roster,
        losses: &[Loss],
        settings: &GuardSettings,
    ) {
        let (size, limit) = size_and_limit(roster, index, settings);
        if lost <= limit {
            let scope = scope_name(roster, index);
            let Some(frozen) = self.frozen.get_mut(&scope).filter(|frozen| !frozen.by_person) else { return };
            let calm = *frozen.calm_since.get_or_insert(now);
            if now.ms().saturating_sub(calm.ms()) >= settings.window_ms {
                self.frozen.remove(&scope);
            }
            return;
        }
        let frozen = self.frozen.entry(scope_name(roster, index)).or_insert_with(|| {
            let here = |at: &usize| losses[*at].at.is_some() && scopes_at(roster, *at).contains(&index);
            let names = (0..losses.len()).filter(here).take(EXAMPLES_MAX);
            let names: Vec<&str> = names.map(|at| roster.places[at].member.as_str()).collect();
            let evidence = format!(
                "{lost} of {size} members suspect or replaced within {} s, more than {limit}; among them {}",
                settings.window_ms / 1000,
                names.join(", ")
            );
            Frozen { since: now, evidence, calm_since: None, by_person: false }
        });
        frozen.calm_since = None;
    }

    /// Asks for one replacement. A request that was granted before is granted again.
    pub(super) fn grant(
        &mut self,
        now: Now,
        roster: &Roster,
        member: usize,
        settings: &GuardSettings,
    ) -> Result<(), Held> {
        let place = &roster.places[member];
        let scopes = scopes_at(roster, member);
        if self.is_frozen(roster, member) {
            return Err(Held::Frozen);
        }
        let slot = (place.cluster.clone(), place.slot.clone());
        if let Some(grant) = self.grants.get_mut(&slot) {
            grant.requested = now;
            return Ok(());
        }
        for index in scopes {
            let (_, limit) = size_and_limit(roster, index, settings);
            if self.granted[index] >= limit {
                let scope = scope_name(roster, index);
                let oldest =
                    self.replaced.iter().filter(|replaced| is_in(&scope, &replaced.place)).map(|r| r.at);
                let begin = oldest.min().unwrap_or(now);
                let until = Now::at_ms(begin.ms().saturating_add(settings.replaced_window_ms));
                return Err(Held::Used { scope, limit, until });
            }
        }
        scopes.into_iter().for_each(|index| self.granted[index] += 1);
        self.grants.insert(slot, Grant { requested: now, place: place.clone() });
        Ok(())
    }

    pub(super) fn is_granted(&self, place: &SlotMember) -> bool {
        self.grants.contains_key(&(place.cluster.clone(), place.slot.clone()))
    }

    pub(super) fn is_frozen(&self, roster: &Roster, member: usize) -> bool {
        let place = &roster.places[member];
        !self.frozen.is_empty() && self.frozen.keys().any(|scope| is_in(scope, place))
    }

    /// Freezes as a person or another controller asks. It ends by a thaw only.
    pub(super) fn freeze(&mut self, now: Now, scope: GuardScope, evidence: String) {
        let frozen = Frozen { since: now, evidence, calm_since: None, by_person: true };
        self.frozen.insert(scope, frozen);
    }

    /// Thaws as a person asks: present losses are accepted in this scope until the members return.
    pub(super) fn thaw(&mut self, scope: &GuardScope, roster: &Roster, losses: &mut [Loss]) -> bool {
        for (member, loss) in losses.iter_mut().enumerate().filter(|(_, loss)| loss.at.is_some()) {
            let names = scopes_at(roster, member).map(|index| scope_name(roster, index));
            for (bit, _) in names.iter().enumerate().filter(|(_, name)| *name == scope) {
                loss.excused |= 1 << bit;
            }
        }
        for replaced in self.replaced.iter_mut().filter(|replaced| is_in(scope, &replaced.place)) {
            replaced.counts_as_loss = false;
        }
        self.frozen.remove(scope).is_some()
    }

    /// Frozen scopes: since when, and why.
    pub(super) fn frozen(&self) -> impl Iterator<Item = (&GuardScope, Now, String)> {
        self.frozen.iter().map(|(scope, frozen)| {
            let end = match frozen.by_person {
                true => "Ends by `control thaw` only.".to_owned(),
                false => format!(
                    "Ends by itself when no more than the limit is lost for a minute. If the members are truly dead: \
                     `control thaw {} --why TEXT`; their replacements then come one after the other, within the limit per hour.",
                    // As the command writes it: `zone/a`.
                    scope.to_string().replace(' ', "/"),
                ),
            };
            let reason = format!("{scope} frozen, nothing in it is replaced: {}. {end}", frozen.evidence);
            (scope, frozen.since, reason)
        })
    }

    /// Forgets freezes of scopes that are no more.
    pub(super) fn keep_scopes_of(&mut self, roster: &Roster) {
        self.frozen.retain(|scope, _| exists(scope, roster));
    }
}

/// The scope has members.
pub(super) fn exists(scope: &GuardScope, roster: &Roster) -> bool {
    match scope {
        GuardScope::Fleet => true,
        GuardScope::Zone(zone) => roster.zones.iter().any(|(name, _)| name == zone),
        GuardScope::Cluster(cluster) => roster.cluster_index(cluster).is_some(),
    }
}

fn is_in(scope: &GuardScope, place: &SlotMember) -> bool {
    match scope {
        GuardScope::Fleet => true,
        GuardScope::Zone(zone) => *zone == place.zone,
        GuardScope::Cluster(cluster) => *cluster == place.cluster,
    }
}

fn scope_count(roster: &Roster) -> usize {
    1 + roster.zones.len() + roster.clusters.len()
}

/// The scopes of a member of the roster.
fn scopes_at(roster: &Roster, member: usize) -> [usize; 3] {
    let (cluster, zone) = roster.scopes[member];
    [0, 1 + zone, 1 + roster.zones.len() + cluster]
}

/// The scopes of a place that another roster may have had.
fn scopes_of(roster: &Roster, place: &SlotMember) -> [Option<usize>; 3] {
    let zone = roster.zones.binary_search_by(|(name, _)| name.cmp(&place.zone)).ok();
    let cluster = roster.cluster_index(&place.cluster);
    [Some(0), zone.map(|at| 1 + at), cluster.map(|at| 1 + roster.zones.len() + at)]
}

fn scope_name(roster: &Roster, index: usize) -> GuardScope {
    match index.checked_sub(1) {
        None => GuardScope::Fleet,
        Some(zone) if zone < roster.zones.len() => GuardScope::Zone(roster.zones[zone].0.clone()),
        Some(at) => GuardScope::Cluster(roster.clusters[at - roster.zones.len()].0.clone()),
    }
}

fn size_and_limit(roster: &Roster, index: usize, settings: &GuardSettings) -> (u32, u32) {
    let (size, floor, percent) = match index.checked_sub(1) {
        None => (roster.places.len() as u32, settings.fleet_floor, settings.fleet_percent),
        Some(zone) if zone < roster.zones.len() => {
            (roster.zones[zone].1, settings.zone_floor, settings.zone_percent)
        }
        Some(at) => {
            (roster.clusters[at - roster.zones.len()].1, settings.cluster_floor, settings.cluster_percent)
        }
    };
    (size, loss_limit(size, floor, percent))
}

/// Losses that a scope of this size may have. Never all of it, unless it has one member: a scope that is gone at once is
/// more often an error of the observers.
pub(super) fn loss_limit(size: u32, floor: u32, percent: u8) -> u32 {
    let share = (u64::from(size) * u64::from(percent) / 100) as u32;
    share.max(floor).min(size.saturating_sub(1)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(size: u32, floor: u32, percent: u8, expected: u32) {
        assert_eq!(loss_limit(size, floor, percent), expected, "{size} members");
    }

    #[test]
    fn a_scope_loses_its_floor_or_its_share_and_never_all() {
        check(71, 2, 5, 3);
        check(40, 2, 5, 2);
        check(1, 2, 5, 1);
        check(2, 2, 5, 1);
        check(3, 2, 5, 2);
        check(1667, 2, 20, 333);
        check(3, 2, 20, 2);
        check(5000, 2, 5, 250);
        check(25_000, 2, 5, 1250);
    }
}
