//! Files with the members of clusters: what servers tell clients that have auto-discovery (`serve --cluster-file`).
//!
//! They follow from the target: the number of its generation is the revision, and the members are in the order of their slots.
//! They are given when all routers have loaded the generation, so that clients which ask servers change after those which ask
//! routers, and not to a generation that is taken back in a canary.

use std::collections::BTreeMap;
use std::net::IpAddr;

use fleet::{ClusterName, ClusterRecord, GenerationNumber, TextDigest};
use protocol::discovery::DiscoveryList;
use stdx::log_level::LogLevel;

use super::Controller;
use crate::router_client::digest_of;
use crate::turn::MemberReport;

/// Files of the target's clusters.
#[derive(Default)]
pub(super) struct ClusterFiles {
    digests: BTreeMap<ClusterName, TextDigest>,
    /// Clusters whose list no server accepts, and why.
    refused: BTreeMap<ClusterName, String>,
    /// All routers have loaded the target, at one moment at least: a router that appears later does not take files back.
    is_loaded: bool,
}

impl Controller {
    /// Makes the files of a new target, which wait until its routers have loaded it.
    pub(super) fn set_cluster_files(&mut self) {
        let mut files = ClusterFiles::default();
        let mut texts = Vec::new();
        let clusters = self
            .register
            .view()
            .current()
            .into_iter()
            .flat_map(|current| current.content.clusters.iter().map(|cluster| (current.number, cluster)));
        for (number, cluster) in clusters {
            match text(number, cluster) {
                Ok(text) => {
                    let digest = digest_of(text.as_bytes());
                    files.digests.insert(cluster.name.clone(), digest.clone());
                    texts.push((digest, text.into()));
                }
                Err(why) => {
                    files.refused.insert(cluster.name.clone(), why);
                }
            }
        }
        self.seats.set_cluster_files(texts);
        self.cluster_files = files;
    }

    /// Gives the files, once all routers have loaded the target.
    pub(super) fn release_cluster_files(&mut self) {
        if !self.is_rolled_out() || self.cluster_files.is_loaded {
            return;
        }
        self.cluster_files.is_loaded = true;
        let mut reports = self.agents.members();
        if reports.any(|report| report.has_cluster_file) {
            for (cluster, why) in &self.cluster_files.refused {
                self.log.say(
                    LogLevel::Warning,
                    &format!("cluster {cluster} has no file for auto-discovery: {why}"),
                );
            }
        }
    }

    /// The file that a member shall have: that of the cluster in which it has a slot.
    pub(super) fn cluster_file_of(&self, report: &MemberReport) -> Option<TextDigest> {
        if !report.has_cluster_file || !self.cluster_files.is_loaded {
            return None;
        }
        let (cluster, _) = self.register.view().slot_of(&report.member)?;
        self.cluster_files.digests.get(&cluster.name).cloned()
    }
}

/// The text of a cluster's file, if servers accept it.
fn text(number: GenerationNumber, cluster: &ClusterRecord) -> Result<String, String> {
    let lines = cluster.slots.iter().map(|slot| line(&slot.address));
    let text = format!("{number}\n{}", lines.collect::<String>());
    DiscoveryList::parse(text.as_bytes()).map(|_| text).map_err(|error| error.to_string())
}

/// `host|ip|port`. A name has no address here: clients resolve it.
pub(super) fn line(address: &str) -> String {
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
