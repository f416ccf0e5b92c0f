//! The state of a fleet's hosts, from what a controller answers to `/v1/figures` and `/v1/tune/check`.

use std::collections::{BTreeMap, BTreeSet};

use fleet::advise::HostShape;
use fleet::advise::running::{AllowanceMet, HostUse, ResourceState, UsedResource};
use fleet::figures::ServerRates;
use fleet::tuning::HostFacts;
use serde_json::Value;
use stdx::words::counted;

use super::RunningGroup;
use super::limits::{HostKnown, of_setting};
use super::server::WITHOUT_HEADERS;
use crate::catalogue::Catalogue;
use crate::controller_answers::{AGE_S_MAX, ChecksAnswer, FiguresAnswer, HostChecked, ServerRow, sum};
use crate::report::amount::{percent, short};

/// What a controller has answered, and what people know besides.
#[derive(Clone, Copy, Debug)]
pub struct FleetDocuments<'a> {
    /// `/v1/figures` of all servers.
    pub figures: &'a Value,
    /// `/v1/tune/check` of the hosts of each cluster.
    pub checks: &'a [Value],
    /// Shapes, which hosts name as their product.
    pub catalogue: &'a Catalogue,
    /// The shape of all hosts, if somebody says it.
    pub shape: Option<&'a HostShape>,
    /// One cluster, or all of them.
    pub cluster: Option<&'a str>,
    /// The busiest minute as a multiple of what is measured now.
    pub peak: f64,
}

/// The clusters whose servers have figures, by name: hosts are asked for what they are by cluster, since an answer about more than some
/// hundred of them has them in a table only.
///
/// # Errors
/// If it is not what a controller says; the error is a clause for people.
pub fn fleet_clusters(figures: &Value) -> Result<BTreeSet<String>, String> {
    Ok(FiguresAnswer::parse(figures)?.servers.into_iter().filter_map(|row| row.cluster).collect())
}

/// The hosts of each cluster. A host with servers of several clusters is one of each, with all of its servers.
///
/// # Errors
/// If an answer is not what a controller says; the error is a clause for people.
pub fn fleet_groups(documents: &FleetDocuments<'_>) -> Result<Vec<RunningGroup>, String> {
    let figures = FiguresAnswer::parse(documents.figures)?;
    let checks: Vec<ChecksAnswer> =
        documents.checks.iter().map(ChecksAnswer::parse).collect::<Result<_, _>>()?;
    let checks: BTreeMap<&str, &HostChecked> = checks
        .iter()
        .flat_map(|answer| &answer.checks)
        .flatten()
        .map(|check| (check.host.as_str(), check))
        .collect();
    let mut by_host: BTreeMap<&str, Vec<&ServerRow>> = BTreeMap::new();
    let mut clusters: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for row in &figures.servers {
        by_host.entry(&row.host).or_default().push(row);
        if let Some(cluster) = &row.cluster {
            clusters.entry(cluster).or_default().insert(&row.host);
        }
    }
    let mut routers: BTreeMap<&str, Vec<Option<f64>>> = BTreeMap::new();
    for router in &figures.routers {
        routers.entry(&router.host).or_default().push(router.cpus());
    }
    let host = |name: &&str| {
        let routers = routers.get(name).map_or(&[][..], Vec::as_slice);
        host(name, (&by_host[name], routers), checks.get(name).copied(), documents)
    };
    let asked = clusters.iter().filter(|(name, _)| documents.cluster.is_none_or(|asked| asked == **name));
    Ok(asked
        .map(|(name, hosts)| RunningGroup {
            cluster: Some((*name).to_owned()),
            hosts: hosts.iter().map(host).collect(),
        })
        .collect())
}

fn host(
    name: &str,
    (rows, routers): (&[&ServerRow], &[Option<f64>]),
    checked: Option<&HostChecked>,
    documents: &FleetDocuments<'_>,
) -> HostUse {
    let facts = checked.and_then(|checked| checked.facts.as_ref());
    let product = facts.and_then(|facts| facts.product.as_deref());
    let in_catalogue = product.and_then(|product| documents.catalogue.shape(product));
    let shape = documents.shape.or(in_catalogue.map(|entry| &entry.shape));
    let known = HostKnown { shape, cpus: facts.and_then(HostFacts::cpu_count), workers: None };
    let rates: Option<Vec<&ServerRates>> = rows.iter().map(|row| row.fresh()).collect();
    let rates = rates.unwrap_or_default();
    let mut resources = vec![
        ResourceState {
            used: sum(&rates, |rates| rates.cpus)
                .map(|cpus| (cpus + routers.iter().flatten().sum::<f64>()) * documents.peak),
            limit: known.limit(UsedResource::Cpu),
            note: cpu_note(&rates, routers.iter().filter(|cpus| cpus.is_none()).count()),
            ..ResourceState::unknown(UsedResource::Cpu)
        },
        ResourceState {
            limit: known.limit(UsedResource::Packets),
            ..ResourceState::unknown(UsedResource::Packets)
        },
        ResourceState {
            used: bandwidth(&rates).map(|bytes| bytes * documents.peak),
            limit: known.limit(UsedResource::Bandwidth),
            note: Some(WITHOUT_HEADERS.to_owned()),
            ..ResourceState::unknown(UsedResource::Bandwidth)
        },
        ResourceState {
            used: sum(&rates, |rates| rates.memory_used_bytes),
            limit: of_setting(sum(&rates, |rates| rates.memory_limit_bytes), "-m"),
            note: evictions_note(&rates),
            ..ResourceState::unknown(UsedResource::Memory)
        },
        ResourceState {
            used: sum(&rates, |rates| rates.connections),
            limit: known.limit(UsedResource::Connections),
            ..ResourceState::unknown(UsedResource::Connections)
        },
    ];
    if rates.is_empty() {
        let note = format!("nothing was heard of {name} for {AGE_S_MAX} s");
        resources.iter_mut().for_each(|state| state.note = Some(note.clone()));
    }
    let mut host = HostUse {
        host: name.to_owned(),
        shape: shape.map(|shape| shape.name.clone()).or(product.map(str::to_owned)),
        servers: rows.iter().map(|row| row.id.clone()).collect(),
        instances: rows.iter().filter_map(|row| row.page.clone()).collect(),
        resources,
        met: Vec::new(),
    };
    let findings = checked.map_or(&[][..], |checked| &checked.check.findings);
    for finding in findings.iter().filter(|finding| finding.rule == ALLOWANCE_RULE) {
        let name = allowance_of(&finding.cause).to_owned();
        host.note_allowance(AllowanceMet {
            name,
            packets: None,
            when: "in the tuner's last look".to_owned(),
        });
    }
    host
}

/// The rule of the tuner that finds allowances.
const ALLOWANCE_RULE: &str = "allowance-exceeded";

/// Words of the tuner's finding, and the allowance that they stand for.
const ALLOWANCE_WORDS: [(&str, &str); 7] = [
    ("incoming bandwidth", "bw_in"),
    ("outgoing bandwidth", "bw_out"),
    ("packets per second", "pps"),
    ("tracked connections", "conntrack"),
    ("local services", "linklocal"),
    ("incoming traffic", "rx_hw_ratelimit"),
    ("outgoing traffic", "tx_hw_ratelimit"),
];

/// The allowance that a finding of the tuner is about, which it names in words.
fn allowance_of(cause: &str) -> &'static str {
    ALLOWANCE_WORDS.iter().find(|(words, _)| cause.contains(words)).map_or("an allowance", |(_, name)| name)
}

fn bandwidth(rates: &[&ServerRates]) -> Option<f64> {
    let received = sum(rates, |rates| rates.received_bytes_per_s)?;
    Some(received.max(sum(rates, |rates| rates.sent_bytes_per_s)?))
}

fn cpu_note(rates: &[&ServerRates], silent_routers: usize) -> Option<String> {
    let most =
        |of: fn(&ServerRates) -> Option<f64>| rates.iter().filter_map(|rates| of(rates)).reduce(f64::max);
    let mut notes: Vec<String> = Vec::new();
    notes.extend(
        most(|rates| rates.service_p99_us).map(|us| format!("99 % of the gets took less than {us:.0} µs")),
    );
    let waits = most(|rates| rates.scheduling_wait_share).filter(|share| *share >= 0.01);
    notes.extend(
        waits.map(|share| format!("workers were ready without a CPU for {} of the time", percent(share))),
    );
    if silent_routers > 0 {
        notes.push(format!("not counting {}, of which it is not known", counted(silent_routers, "router")));
    }
    (!notes.is_empty()).then(|| notes.join("; "))
}

fn evictions_note(rates: &[&ServerRates]) -> Option<String> {
    let evictions = sum(rates, |rates| rates.evictions_per_s).filter(|rate| *rate > 0.0)?;
    Some(format!("{} items are evicted in a second", short(evictions)))
}

#[cfg(test)]
mod tests {
    use fleet::advise::running::{UseOutlook, outlook};
    use serde_json::json;

    use super::*;

    fn row(id: &str, host: &str, cluster: Option<&str>, age_s: i64) -> Value {
        json!({"id": id, "host": host, "zone": "a", "cluster": cluster, "page": format!("10.0.0.1:{}", 9150),
               "points": [{"at_unix": 1, "age_s": age_s, "cpus": 1.0, "received_bytes_per_s": 1000.0,
                           "sent_bytes_per_s": 300_000_000.0, "memory_used_bytes": 50.0, "memory_limit_bytes": 100.0,
                           "connections": 7.0, "scheduling_wait_share": 0.04, "evictions_per_s": 0.0}]})
    }

    fn groups(figures: &Value, checks: &[Value], cluster: Option<&str>) -> Vec<RunningGroup> {
        let catalogue = Catalogue::built_in();
        let documents =
            FleetDocuments { figures, checks, catalogue: &catalogue, shape: None, cluster, peak: 1.0 };
        fleet_groups(&documents).expect("groups")
    }

    fn of(host: &HostUse, resource: UsedResource) -> &ResourceState {
        host.resources.iter().find(|state| state.resource == resource).expect("it is listed")
    }

    #[test]
    fn hosts_have_all_of_their_servers_and_limits_of_their_product() {
        let routers =
            json!([{"host": "h1", "points": [{"age_s": 5, "cpus": 0.5}]}, {"host": "h1", "points": []}]);
        let figures = json!({"routers": routers, "servers": [row("m1", "h1", Some("web"), 5), row("m2", "h1", Some("ads"), 5),
                                         row("m3", "h2", Some("web"), 5), row("m4", "h3", None, 5)]});
        let cause =
            "the instance's allowance for packets per second is used up, so packets are queued or dropped";
        let facts = json!({"product": "r5.2xlarge", "cpus": "0-7", "kernel": "6.1.0"});
        let checks = json!({"checks": [{"host": "h1", "kind": "…", "facts": facts,
            "check": {"findings": [{"rule": "allowance-exceeded", "cause": cause}, {"rule": "rps-missing", "cause": "x"}]}}]});
        let groups = groups(&figures, &[json!({"checks": null}), checks], None);
        let names: Vec<_> =
            groups.iter().map(|group| (group.cluster.as_deref(), group.hosts.len())).collect();
        assert_eq!(names, [(Some("ads"), 1), (Some("web"), 2)]);
        let h1 = &groups[1].hosts[0];
        assert_eq!((h1.servers.len(), h1.shape.as_deref()), (2, Some("r5.2xlarge")));
        assert_eq!(of(h1, UsedResource::Cpu).share(), Some(2.5 / 6.4), "with a router");
        let note = of(h1, UsedResource::Cpu).note.as_deref();
        assert!(
            note.is_some_and(|note| note.ends_with("; not counting 1 router, of which it is not known")),
            "{note:?}"
        );
        assert_eq!(outlook(of(h1, UsedResource::Packets)), UseOutlook::AllowanceMet);
        assert_eq!(outlook(of(h1, UsedResource::Bandwidth)), UseOutlook::Reached, "600 MB/s of 312");
        let h2 = &groups[1].hosts[1];
        assert_eq!((h2.shape.as_deref(), of(h2, UsedResource::Cpu).limit.as_ref()), (None, None));
        assert_eq!(of(h2, UsedResource::Memory).share(), Some(0.5));
    }

    #[test]
    fn what_is_old_or_unknown_of_one_server_is_unknown_of_its_host() {
        let mut figures =
            json!({"servers": [row("m1", "h1", Some("web"), 5), row("m2", "h1", Some("web"), 500)]});
        let found = groups(&figures, &[json!({"checks": null})], Some("web"));
        let cpu = of(&found[0].hosts[0], UsedResource::Cpu);
        assert_eq!((cpu.used, cpu.note.as_deref()), (None, Some("nothing was heard of h1 for 120 s")));
        figures["servers"][1]["points"][0] = json!({"at_unix": 1, "age_s": 5, "connections": 1.0});
        let found = groups(&figures, &[], None);
        assert_eq!(of(&found[0].hosts[0], UsedResource::Cpu).used, None);
        assert_eq!(of(&found[0].hosts[0], UsedResource::Connections).used, Some(8.0));
        assert!(groups(&figures, &[], Some("nowhere")).is_empty());
    }

    /// The tuner names what was used up in words; they are looked for where it writes them.
    #[test]
    fn words_of_allowances_are_those_of_the_tuner() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let rule = folder.join("../../host/tuner/src/diagnose/rules/limits.rs");
        let rule = std::fs::read_to_string(rule).expect("the rule of the tuner");
        assert!(rule.contains(&format!("rule: \"{ALLOWANCE_RULE}\"")));
        assert!(rule.contains("the instance's allowance for {what} is used up"));
        for (words, name) in ALLOWANCE_WORDS {
            assert!(rule.contains(words) && rule.contains(name), "{words}: {name}");
        }
        assert_eq!(allowance_of("the instance's allowance for an allowance is used up"), "an allowance");
    }

    #[test]
    fn an_answer_that_is_none_of_a_controller_is_refused() {
        let catalogue = Catalogue::built_in();
        let figures = json!({"servers": 7});
        let documents = FleetDocuments {
            figures: &figures,
            checks: &[],
            catalogue: &catalogue,
            shape: None,
            cluster: None,
            peak: 1.0,
        };
        let error = fleet_groups(&documents).expect_err("no list");
        assert!(error.starts_with("understand the controller's figures: "), "{error}");
    }
}
