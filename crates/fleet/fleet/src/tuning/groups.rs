//! Groups of hosts whose plans are equal, and hosts within them that could be compared as pairs.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::answer::AnswerDigest;
use super::plan::{HostPlan, PlanRefused};
use super::scope::HostPlace;
use crate::{ClusterName, HostId, ZoneName};

/// A host that has planned.
#[derive(Clone, Copy, Debug)]
pub struct PlannedHost<'a> {
    /// Where it is.
    pub place: &'a HostPlace,
    /// Its kind, in words.
    pub kind: &'a str,
    /// Its plan.
    pub plan: &'a HostPlan,
}

/// Hosts whose plans are equal but for the names that each host has for the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanGroup {
    /// The digest of their plans' form; none of plans that have none.
    pub form: Option<AnswerDigest>,
    /// The hosts, by name.
    pub hosts: Vec<HostId>,
    /// The plan of the first of them.
    pub plan: HostPlan,
    /// What is not planned on some of them, and on how many.
    pub refused: Vec<(PlanRefused, usize)>,
    /// Hosts that could be compared with each other, the largest set first.
    pub similar: Vec<SimilarHosts>,
}

/// Hosts of a group that are of equal clusters, zone, class and kind: one of two could be changed, and the other one be compared with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SimilarHosts {
    /// Clusters that their members have slots in.
    pub clusters: BTreeSet<ClusterName>,
    /// Their zone.
    pub zone: Option<ZoneName>,
    /// Classes of their members.
    pub classes: BTreeSet<String>,
    /// Their kind.
    pub kind: String,
    /// The hosts, by name.
    pub hosts: Vec<HostId>,
}

impl PlanGroup {
    /// How many pairs of its hosts can be made.
    pub fn pairs(&self) -> usize {
        self.similar.iter().map(|similar| similar.hosts.len() / 2).sum()
    }

    /// Hosts that no other one of the group is like.
    pub fn alone(&self) -> impl Iterator<Item = &HostId> {
        self.similar.iter().filter(|similar| similar.hosts.len() == 1).flat_map(|similar| &similar.hosts)
    }
}

/// The groups of these hosts, the largest first; hosts where nothing is to be changed are a group as well.
pub fn plan_groups(hosts: &[PlannedHost<'_>]) -> Vec<PlanGroup> {
    let mut by_form: BTreeMap<Option<&AnswerDigest>, Vec<&PlannedHost<'_>>> = BTreeMap::new();
    for host in hosts {
        by_form.entry(host.plan.form.as_ref()).or_default().push(host);
    }
    let mut groups: Vec<PlanGroup> = by_form.into_values().filter_map(group).collect();
    groups.sort_by_key(|group| Reverse(group.hosts.len()));
    groups
}

fn group(mut hosts: Vec<&PlannedHost<'_>>) -> Option<PlanGroup> {
    hosts.sort_by(|one, other| one.place.host.cmp(&other.place.host));
    let first = hosts.first()?.plan;
    let mut refused: BTreeMap<&PlanRefused, usize> = BTreeMap::new();
    let mut similar: BTreeMap<_, Vec<HostId>> = BTreeMap::new();
    for host in &hosts {
        host.plan.refused.iter().for_each(|one| *refused.entry(one).or_default() += 1);
        let HostPlace { host: name, zone, clusters, classes } = host.place;
        similar.entry((clusters, zone, classes, host.kind)).or_default().push(name.clone());
    }
    let similar = similar.into_iter().map(|((clusters, zone, classes, kind), hosts)| SimilarHosts {
        clusters: clusters.clone(),
        zone: zone.clone(),
        classes: classes.clone(),
        kind: kind.to_owned(),
        hosts,
    });
    let mut similar: Vec<SimilarHosts> = similar.collect();
    similar.sort_by_key(|similar| Reverse(similar.hosts.len()));
    Some(PlanGroup {
        form: first.form.clone(),
        hosts: hosts.iter().map(|host| host.place.host.clone()).collect(),
        plan: first.clone(),
        refused: refused.into_iter().map(|(one, count)| (one.clone(), count)).collect(),
        similar,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(host: &str, zone: &str, cluster: &str) -> HostPlace {
        HostPlace {
            host: host.parse().expect("a name"),
            zone: Some(zone.parse().expect("a name")),
            clusters: [cluster.parse().expect("a name")].into(),
            classes: BTreeSet::new(),
        }
    }

    fn plan(letter: &str) -> HostPlan {
        HostPlan {
            form: Some(letter.repeat(64).parse().expect("a digest")),
            changes: 1,
            ..HostPlan::default()
        }
    }

    #[test]
    fn equal_plans_are_a_group_and_equal_hosts_of_it_could_be_pairs() {
        let refused =
            PlanRefused { asked_by: "xps".into(), subject: "eth1".into(), reason: "one queue".into() };
        let (one, other) = (plan("a"), plan("b"));
        let lacking = HostPlan { refused: vec![refused.clone()], ..plan("a") };
        let places: Vec<HostPlace> = [("h5", "a"), ("h1", "a"), ("h2", "a"), ("h3", "b"), ("h4", "b")]
            .map(|(host, zone)| place(host, zone, "web"))
            .into();
        let planned = |number: usize, plan, kind| PlannedHost { place: &places[number], kind, plan };
        let hosts = [
            planned(0, &other, "ena"),
            planned(1, &one, "ena"),
            planned(2, &lacking, "ena"),
            planned(3, &one, "ena"),
            planned(4, &one, "virtio"),
        ];
        let groups = plan_groups(&hosts);
        let names = |hosts: &[HostId]| hosts.iter().map(HostId::as_str).collect::<Vec<_>>().join(" ");
        assert_eq!(groups.iter().map(|group| names(&group.hosts)).collect::<Vec<_>>(), ["h1 h2 h3 h4", "h5"]);
        let first = &groups[0];
        assert_eq!(
            first.similar.iter().map(|one| names(&one.hosts)).collect::<Vec<_>>(),
            ["h1 h2", "h3", "h4"]
        );
        assert_eq!((first.pairs(), first.alone().count()), (1, 2));
        assert_eq!(first.refused, [(refused, 1)]);
    }
}
