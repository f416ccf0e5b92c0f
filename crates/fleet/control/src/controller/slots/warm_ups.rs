//! Warm-ups: routers ask for a new member's misses elsewhere until its hit ratio is that of its peers.

use std::collections::BTreeMap;

use fleet::health::{HitCounts, WarmUp, WarmUpStep};
use fleet::{ClusterRecord, FleetContent, MemberId, SlotRecord};
use stdx::clock::Now;

use crate::controller::observing::member_facts::MemberFacts;

/// Warm-ups of members that are cold in the target, since all routers have it.
#[derive(Default)]
pub(crate) struct WarmUps {
    running: BTreeMap<MemberId, WarmUp>,
}

/// What has become of warm-ups.
#[derive(Default)]
pub(crate) struct WarmUpNews {
    /// What is still warmed up, for people.
    pub(crate) notes: Vec<String>,
    /// Members whose warm-ups are over.
    pub(crate) over: Vec<MemberId>,
    /// Why they are.
    pub(crate) reasons: Vec<String>,
}

impl WarmUps {
    /// Finds the warm-ups of the content in force that are over. Routers that have not loaded the text yet do not warm a member.
    pub(crate) fn advance(
        &mut self,
        content: &FleetContent,
        is_rolled_out: bool,
        facts: MemberFacts<'_>,
    ) -> WarmUpNews {
        let cold: Vec<(&ClusterRecord, &SlotRecord)> = content
            .clusters
            .iter()
            .flat_map(|cluster| cluster.slots.iter().map(move |slot| (cluster, slot)))
            .filter(|(_, slot)| slot.is_cold)
            .collect();
        self.running.retain(|member, _| cold.iter().any(|(_, slot)| slot.member == *member));
        let mut news = WarmUpNews::default();
        if !is_rolled_out || cold.is_empty() {
            return news;
        }
        let counts = facts.hit_counts();
        for (cluster, slot) in cold {
            match self.step(cluster, slot, &counts, facts.now()) {
                Ok(note) => news.notes.push(note),
                Err(reason) => {
                    news.over.push(slot.member.clone());
                    news.reasons.push(reason);
                }
            }
        }
        news
    }

    /// A note about a warm-up that goes on, or why it is over.
    fn step(
        &mut self,
        cluster: &ClusterRecord,
        slot: &SlotRecord,
        counts: &BTreeMap<MemberId, HitCounts>,
        now: Now,
    ) -> Result<String, String> {
        let member = &slot.member;
        let what = format!("{member} in {}/{}", cluster.name, slot.id);
        let Some(source) = cluster.warm_source() else { return Err(format!("nothing warms {what}")) };
        let begin = || match source.is_gutter {
            true => WarmUp::from_gutter(now, source.exptime_s),
            false => WarmUp::new(now),
        };
        let warm_up = self.running.entry(member.clone()).or_insert_with(begin);
        let own = counts.get(member).copied().unwrap_or_default();
        // Another cold member is no measure.
        let peers = cluster.slots.iter().filter(|peer| !peer.is_cold);
        let peers =
            peers.filter_map(|peer| counts.get(&peer.member)).copied().fold(HitCounts::default(), sum);
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
}

/// Hits and misses of both.
pub(crate) fn sum(one: HitCounts, other: HitCounts) -> HitCounts {
    HitCounts { hits: one.hits.saturating_add(other.hits), misses: one.misses.saturating_add(other.misses) }
}
