//! The summary of the fleet: sums of clusters, and what needs a person. It is for a page that is drawn every few seconds, so it has nothing
//! of single members but a letter for each slot. Nor has it a time: of a fleet in which nothing has changed it is the same, and is not sent again.

use std::collections::BTreeMap;

use admin::api::ApiReply;
use fleet::figures::FigureBook;
use fleet::{ClusterRecord, MemberId};
use serde::Serialize;
use serde_json::json;

use super::needs::needs;
use crate::controller::Controller;
use crate::controller::answers::changes::change_brief;
use crate::controller::answers::figures::LevelFields;
use crate::controller::answers::standards::standards_status;
use crate::controller::observing::member_facts::MemberCode;
use crate::controller::tuning::standards::HostStandards;

/// Entries of what needs a person that are listed: a screen or two. The others are counted.
const NEEDS_MAX: usize = 50;

/// A cluster, summed over the members of its slots.
#[derive(Debug, Default, PartialEq, Serialize)]
struct ClusterSums {
    name: String,
    slots: usize,
    /// A letter for the member of each slot, in the order of the slots.
    slot_states: String,
    /// Members of the sums.
    known: usize,
    requests_per_s: Option<f64>,
    hits_per_s: Option<f64>,
    misses_per_s: Option<f64>,
    hit_ratio: Option<f64>,
    evictions_per_s: Option<f64>,
    memory_used_bytes: Option<f64>,
    memory_limit_bytes: Option<f64>,
    /// Memory used of its limit, of the slot that is fullest.
    fullest_share: Option<f64>,
    /// Requests of the slot with the most, over those of the mean slot.
    skew: Option<f64>,
    /// Of the slot where it is longest.
    service_p99_us: Option<f64>,
    wait_p99_us: Option<f64>,
}

/// Members of a zone.
#[derive(Debug, Default, PartialEq, Serialize)]
struct ZoneSums {
    members: usize,
    serving: usize,
    spare: usize,
}

impl Controller {
    /// The summary, for the console and other programs.
    pub(crate) fn summary(&self) -> ApiReply {
        let (view, book) = (self.register.view(), self.agents.figures().book());
        let codes = self.facts().codes();
        let standards = HostStandards::of(view, &self.agents);
        let needs = needs(self, &codes, &standards);
        let tunings = view.policy().map_or(&[][..], |policy| &policy.tunings);
        let (_, standards) = standards_status(tunings, &standards, &self.tuning.standards);
        let content = view.current().map(|current| &current.content);
        let clusters: Vec<ClusterSums> = content
            .map_or(&[][..], |content| &content.clusters)
            .iter()
            .map(|one| sums(one, &codes, book))
            .collect();
        let mut zones: BTreeMap<&str, ZoneSums> = BTreeMap::new();
        let mut members: BTreeMap<&str, usize> = MemberCode::ALL.map(|code| (code.word(), 0)).into();
        for member in view.inventory().members() {
            let Some(code) = codes.get(&member.id) else { continue };
            *members.entry(code.word()).or_default() += 1;
            let zone = zones.entry(member.zone.as_str()).or_default();
            zone.members += 1;
            zone.serving += usize::from(matches!(code, MemberCode::Serving | MemberCode::Draining));
            zone.spare += usize::from(*code == MemberCode::Spare);
        }
        let levels: Vec<LevelFields<'_>> = book.levels(self.now).map(LevelFields::of).collect();
        let listed = needs.len().min(NEEDS_MAX);
        let json = json!({
            "fleet": self.settings.fleet.as_str(),
            "controller": self.settings.host,
            "generation": view.target(),
            "reason": view.current().map(|current| &current.reason),
            "rollout": self.rollout_fields(),
            "register_away": self.register.away(),
            "certificate_end_s": self.signing.certificate_end_s(),
            "needs": &needs[..listed],
            "needs_left_out": needs.len() - listed,
            "clusters": clusters,
            "members": members,
            "zones": zones,
            "routers": self.router_codes(),
            "changes": self.tuning.changes.iter().map(|(_, open)| change_brief(open.change())).collect::<Vec<_>>(),
            "standards": standards,
            "frozen": view.frozen(),
            "levels": levels,
            "levels_left_out": book.levels_left_out(),
        });
        ApiReply::new(200, json.to_string())
    }
}

/// The letter of a slot's member. A member that is not in the inventory is as unknown as one that nothing was heard of.
fn letter(code: Option<MemberCode>) -> char {
    match code {
        Some(MemberCode::Serving) => 's',
        Some(MemberCode::Draining) => 'd',
        Some(MemberCode::Suspect) => 'u',
        Some(MemberCode::Lost) => 'l',
        Some(MemberCode::Held) => 'h',
        Some(MemberCode::Spare | MemberCode::Unfit | MemberCode::Emptying | MemberCode::Unknown) | None => {
            '?'
        }
    }
}

fn sums(cluster: &ClusterRecord, codes: &BTreeMap<MemberId, MemberCode>, book: &FigureBook) -> ClusterSums {
    let mut sums =
        ClusterSums { name: cluster.name.to_string(), slots: cluster.slots.len(), ..ClusterSums::default() };
    let mut most: f64 = 0.0;
    for slot in &cluster.slots {
        sums.slot_states.push(letter(codes.get(&slot.member).copied()));
        let Some(points) = book.server(&slot.member) else { continue };
        let rates = points.latest().server();
        sums.known += 1;
        add(&mut sums.requests_per_s, rates.requests_per_s);
        add(&mut sums.hits_per_s, rates.hits_per_s);
        add(&mut sums.misses_per_s, rates.misses_per_s);
        add(&mut sums.evictions_per_s, rates.evictions_per_s);
        add(&mut sums.memory_used_bytes, rates.memory_used_bytes);
        add(&mut sums.memory_limit_bytes, rates.memory_limit_bytes);
        raise(&mut sums.fullest_share, rates.memory_share());
        raise(&mut sums.service_p99_us, rates.service_p99_us);
        raise(&mut sums.wait_p99_us, rates.wait_p99_us);
        most = most.max(rates.requests_per_s.unwrap_or(0.0));
    }
    let gets = sums.hits_per_s.zip(sums.misses_per_s).map(|(hits, misses)| (hits, hits + misses));
    sums.hit_ratio = gets.filter(|(_, all)| *all > 0.0).map(|(hits, all)| hits / all);
    let mean = sums.requests_per_s.filter(|all| *all > 0.0).map(|all| all / sums.known as f64);
    sums.skew = mean.map(|mean| most / mean);
    sums
}

/// What is not known of one member leaves the sum of the others.
fn add(sum: &mut Option<f64>, value: Option<f64>) {
    if let Some(value) = value {
        *sum = Some(sum.unwrap_or(0.0) + value);
    }
}

fn raise(most: &mut Option<f64>, value: Option<f64>) {
    if let Some(value) = value {
        *most = Some(most.unwrap_or(value).max(value));
    }
}
