//! The end of warm-ups: routers ask for a new member's misses elsewhere until its hit ratio is that of its peers.

use std::collections::BTreeMap;

use fleet::health::{HitCounts, WarmUp, WarmUpStep};
use fleet::{ClusterRecord, MemberId, SlotRecord};

use super::Controller;
use crate::authorise::ControlVerb;
use crate::turn::MemberReport;

impl Controller {
    /// Publishes a generation without the warm-ups that are over. The notes say what is still warmed up, for people.
    pub(super) fn end_warm_ups(&mut self) -> Vec<String> {
        let content = self.register.view().content();
        let cold: Vec<(&ClusterRecord, &SlotRecord)> = content
            .clusters
            .iter()
            .flat_map(|cluster| cluster.slots.iter().map(move |slot| (cluster, slot)))
            .filter(|(_, slot)| slot.is_cold)
            .collect();
        self.warm_ups.retain(|member, _| cold.iter().any(|(_, slot)| slot.member == *member));
        // Routers that have not loaded the text yet do not warm the member.
        if !self.is_rolled_out() || cold.is_empty() {
            return Vec::new();
        }
        let counts = self.hit_counts();
        let (mut notes, mut over, mut reasons) = (Vec::new(), Vec::new(), Vec::new());
        for (cluster, slot) in cold {
            match self.warm_up_step(cluster, slot, &counts) {
                Ok(note) => notes.push(note),
                Err(reason) => {
                    over.push(slot.member.clone());
                    reasons.push(reason);
                }
            }
        }
        if over.is_empty() {
            return notes;
        }
        let (reason, new) = (reasons.join("; "), content.without_warm_up(&over));
        if self.frozen_by(&new).is_some() {
            notes.push(format!("{reason}; the warm-up stays in the routes, because its scope is frozen"));
        } else if let Err(error) = self.publish_unasked(ControlVerb::Replace, &reason, new) {
            notes.push(format!("{reason}; the warm-up stays in the routes: {error}"));
        }
        notes
    }

    /// A note about a warm-up that goes on, or why it is over.
    fn warm_up_step(
        &mut self,
        cluster: &ClusterRecord,
        slot: &SlotRecord,
        counts: &BTreeMap<MemberId, HitCounts>,
    ) -> Result<String, String> {
        let (now, member) = (self.now, &slot.member);
        let what = format!("{member} in {}/{}", cluster.name, slot.id);
        let Some(source) = cluster.warm_source() else { return Err(format!("nothing warms {what}")) };
        let begin = || match source.is_gutter {
            true => WarmUp::from_gutter(now, source.exptime_s),
            false => WarmUp::new(now),
        };
        let warm_up = self.warm_ups.entry(member.clone()).or_insert_with(begin);
        let own = counts.get(member).copied().unwrap_or_default();
        // Another cold member is no measure.
        let peers = cluster.slots.iter().filter(|peer| !peer.is_cold);
        let peers = peers.filter_map(|peer| counts.get(&peer.member)).fold(HitCounts::default(), sum);
        match warm_up.step(now, own, peers) {
            WarmUpStep::Warm => Err(format!("{what} is as warm as its peers")),
            WarmUpStep::SourceEmpty => Err(format!("what the gutter had for {what} has expired")),
            WarmUpStep::TimedOut { note } => Err(format!("{what}: {note}")),
            WarmUpStep::Warming { warmth } => {
                let warmth = warmth.map_or("unknown".to_owned(), |warmth| format!("{:.3}", warmth.get()));
                Ok(format!(
                    "warm-up: {what} from {}; its part of its peers' hit ratio is {warmth}",
                    source.cluster
                ))
            }
        }
    }

    /// What agents say of hits and misses.
    pub(super) fn hit_counts(&self) -> BTreeMap<MemberId, HitCounts> {
        let reports =
            self.register.view().inventory().members().filter_map(|member| self.report_of(&member.id));
        let counts = |report: &MemberReport| HitCounts { hits: report.hits, misses: report.misses };
        reports.map(|report| (report.member.clone(), counts(report))).collect()
    }
}

fn sum(one: HitCounts, other: &HitCounts) -> HitCounts {
    HitCounts { hits: one.hits.saturating_add(other.hits), misses: one.misses.saturating_add(other.misses) }
}
