//! Files with the members of clusters: what servers tell clients that have auto-discovery (`serve --cluster-file`).
//!
//! They follow from the target: the number of its generation is the revision, and the members are in the order of their slots.
//! They are given when all routers have loaded the generation, so that clients which ask servers change after those which ask
//! routers, and not to a generation that is taken back in a canary.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use fleet::{ClusterName, ClusterRecord, Generation, GenerationNumber, TextDigest};
use protocol::discovery::DiscoveryList;

use crate::controller::observing::agents::Agents;
use crate::controller::register_mirror::FleetView;
use crate::routers::router_client::digest_of;
use crate::service::turn::MemberReport;

/// Files of the target's clusters.
#[derive(Default)]
pub(crate) struct ClusterFiles {
    digests: BTreeMap<ClusterName, TextDigest>,
    /// Clusters whose list no server accepts, and why.
    refused: BTreeMap<ClusterName, String>,
    /// All routers have loaded the target, at one moment at least: a router that appears later does not take files back.
    is_loaded: bool,
}

impl ClusterFiles {
    /// Makes the files of a new target, which wait until its routers have loaded it. Returns their texts.
    pub(crate) fn follow(&mut self, target: Option<&Generation>) -> Vec<(TextDigest, Arc<str>)> {
        *self = ClusterFiles::default();
        let mut texts = Vec::new();
        let clusters = target
            .into_iter()
            .flat_map(|target| target.content.clusters.iter().map(|cluster| (target.number, cluster)));
        for (number, cluster) in clusters {
            match text(number, cluster) {
                Ok(text) => {
                    let digest = digest_of(text.as_bytes());
                    self.digests.insert(cluster.name.clone(), digest.clone());
                    texts.push((digest, text.into()));
                }
                Err(why) => {
                    self.refused.insert(cluster.name.clone(), why);
                }
            }
        }
        texts
    }

    /// Gives the files, when all routers have loaded the target. Returns what is said then: why clusters have none, if servers
    /// want one.
    pub(crate) fn release(&mut self, is_rolled_out: bool, agents: &Agents) -> Vec<String> {
        if !is_rolled_out || self.is_loaded {
            return Vec::new();
        }
        self.is_loaded = true;
        if !agents.members().any(|report| report.has_cluster_file) {
            return Vec::new();
        }
        let line = |(cluster, why)| format!("cluster {cluster} has no file for auto-discovery: {why}");
        self.refused.iter().map(line).collect()
    }

    /// The file that a member shall have: that of the cluster in which it has a slot.
    pub(crate) fn file_of(&self, report: &MemberReport, view: &FleetView) -> Option<TextDigest> {
        if !report.has_cluster_file || !self.is_loaded {
            return None;
        }
        let (cluster, _) = view.slot_of(&report.member)?;
        self.digests.get(&cluster.name).cloned()
    }
}

/// The text of a cluster's file, if servers accept it.
fn text(number: GenerationNumber, cluster: &ClusterRecord) -> Result<String, String> {
    let lines = cluster.read_slots().iter().map(|slot| line(&slot.address));
    let text = format!("{number}\n{}", lines.collect::<String>());
    DiscoveryList::parse(text.as_bytes()).map(|_| text).map_err(|error| error.to_string())
}

/// `host|ip|port`. A name has no address here: clients resolve it.
pub(crate) fn line(address: &str) -> String {
    let (host, port) = address.rsplit_once(':').unwrap_or((address, ""));
    let host = host.trim_start_matches('[').trim_end_matches(']');
    match host.parse::<IpAddr>() {
        Ok(ip) => format!("{ip}|{ip}|{port}\n"),
        Err(_) => format!("{host}||{port}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fleet::SlotRecord;
    use protocol::discovery::DISCOVERY_MEMBERS_MAX;

    fn cluster(addresses: &[String]) -> ClusterRecord {
        let slots = addresses.iter().enumerate().map(|(number, address)| SlotRecord {
            id: format!("s{number}").parse().expect("a name"),
            member: format!("m{number}").parse().expect("a name"),
            address: address.clone(),
            is_cold: false,
            drain: None,
        });
        ClusterRecord {
            name: "web".parse().expect("a name"),
            pool: Default::default(),
            gutter: None,
            warm_up: None,
            shadow: None,
            resize: None,
            slots: slots.collect(),
        }
    }

    #[track_caller]
    fn check(address: &str, expected: Result<&str, &str>) {
        let found = text(GenerationNumber(7), &cluster(&[address.to_owned()]));
        match (found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected),
            (Err(found), Err(expected)) => assert!(found.contains(expected), "{found}"),
            (found, _) => panic!("{address}: {found:?}"),
        }
    }

    #[test]
    fn addresses_and_names_are_written_as_clients_read_them() {
        check("10.0.0.1:11211", Ok("7\n10.0.0.1|10.0.0.1|11211\n"));
        check("[2001:db8::1]:11211", Ok("7\n2001:db8::1|2001:db8::1|11211\n"));
        check("cache-1.example:11211", Ok("7\ncache-1.example||11211\n"));
        check("/run/cache.sock", Err("expected host|ip|port"));
    }

    #[test]
    fn a_cluster_that_is_too_large_for_clients_has_no_file() {
        let addresses = |count: usize| -> Vec<String> {
            (0..count).map(|number| format!("10.0.{}.{}:1", number / 256, number % 256)).collect()
        };
        let most = text(GenerationNumber(7), &cluster(&addresses(DISCOVERY_MEMBERS_MAX)));
        assert_eq!(most.expect("a text").lines().count(), DISCOVERY_MEMBERS_MAX + 1);
        let more = text(GenerationNumber(7), &cluster(&addresses(DISCOVERY_MEMBERS_MAX + 1)));
        assert!(more.expect_err("refused").contains("at most 1000 members"));
    }
}
