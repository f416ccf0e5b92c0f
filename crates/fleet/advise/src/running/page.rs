//! Pages of a server at `--metrics-listen`: counters of its host in `/metrics`, and `/api/v1/stats` with times and ghost hits.

use std::collections::BTreeMap;

use serde_json::Value;
use stdx::exposition::{SampleRead, read};

/// Counters of a host since its start, by device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostCounters {
    /// Packets in and out, by interface.
    pub(crate) packets: BTreeMap<String, f64>,
    /// Packets that were held back, by allowance.
    pub(crate) allowances: BTreeMap<String, f64>,
    /// Reads and writes, by disk.
    pub(crate) disk_requests: BTreeMap<String, f64>,
}

impl HostCounters {
    /// Reads the page `/metrics`; none if it has no families of a host, as the page of an exporter has none.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(page: &str) -> Result<Option<HostCounters>, String> {
        let families = read(page)?;
        let mut counters = HostCounters::default();
        let mut is_sampled = false;
        for sample in families.iter().flat_map(|family| &family.samples) {
            let (counts, label) = match sample.name.as_str() {
                "evenkeel_host_nic_packets_total" => (&mut counters.packets, "nic"),
                "evenkeel_host_allowance_exceeded_total" => (&mut counters.allowances, "allowance"),
                "evenkeel_host_disk_requests_total" => (&mut counters.disk_requests, "disk"),
                "evenkeel_host_sampled" => {
                    is_sampled = sample.value > 0.0;
                    continue;
                }
                _ => continue,
            };
            add(counts, sample, label);
        }
        Ok(is_sampled.then_some(counters))
    }
}

fn add(counts: &mut BTreeMap<String, f64>, sample: &SampleRead, label: &str) {
    if let Some(name) = sample.label(label) {
        *counts.entry(name.to_owned()).or_insert(0.0) += sample.value;
    }
}

/// What each device has counted between two readings; a counter that went back belongs to another device of the same name.
pub(crate) fn grown(before: &BTreeMap<String, f64>, after: &BTreeMap<String, f64>) -> BTreeMap<String, f64> {
    let grown = |(name, after): (&String, &f64)| {
        let grown = after - before.get(name)?;
        (grown >= 0.0).then(|| (name.clone(), grown))
    };
    after.iter().filter_map(grown).collect()
}

/// The busiest device.
pub(crate) fn busiest(grown: &BTreeMap<String, f64>) -> Option<f64> {
    grown.values().copied().reduce(f64::max)
}

/// A reading of `/api/v1/stats`: what `stats` does not have.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerPageReading {
    ghost_hits: Option<f64>,
    stored: Option<f64>,
    /// Of all classes, by the end of a bucket in µs.
    service: BTreeMap<u64, f64>,
}

impl ServerPageReading {
    /// Reads the document.
    ///
    /// # Errors
    /// If it is none of a server.
    pub fn parse(page: &str) -> Result<ServerPageReading, String> {
        let not_ours = "expected the report of a server at --metrics-listen";
        let report: Value = serde_json::from_str(page).map_err(|_| not_ours)?;
        let services = report["service"].as_object().ok_or(not_ours)?;
        let mut service = BTreeMap::new();
        for pair in services.values().flat_map(|class| class["buckets"].as_array().into_iter().flatten()) {
            if let Some((end, count)) = pair[0].as_u64().zip(pair[1].as_f64()) {
                *service.entry(end).or_insert(0.0) += count;
            }
        }
        Ok(ServerPageReading {
            ghost_hits: report["ghost_hits"].as_f64(),
            stored: report["stats"]["cmd_set"].as_f64(),
            service,
        })
    }

    /// The share of what was stored since an earlier reading that had been evicted a short time before.
    pub fn ghost_share(&self, before: &ServerPageReading) -> Option<f64> {
        let stored = self.stored? - before.stored?;
        let hits = self.ghost_hits? - before.ghost_hits?;
        (stored > 0.0 && hits >= 0.0).then(|| (hits / stored).min(1.0))
    }

    /// Time in µs that 99 % of the requests since an earlier reading took less in the server, once it was their turn.
    pub fn service_p99_us(&self, before: &ServerPageReading) -> Option<u64> {
        let since = |(end, count): (&u64, &f64)| (*end, count - before.service.get(end).unwrap_or(&0.0));
        let counts: Vec<(u64, f64)> =
            self.service.iter().map(since).filter(|(_, count)| *count > 0.0).collect();
        let all: f64 = counts.iter().map(|(_, count)| count).sum();
        let mut seen = 0.0;
        counts
            .into_iter()
            .find(|(_, count)| {
                seen += count;
                all > 0.0 && seen >= 0.99 * all
            })
            .map(|(end, _)| end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_those_of_the_host_by_device() {
        let page = "# HELP evenkeel_host_sampled x\n# TYPE evenkeel_host_sampled gauge\nevenkeel_host_sampled 1\n\
            # HELP evenkeel_host_nic_packets_total x\n# TYPE evenkeel_host_nic_packets_total counter\n\
            evenkeel_host_nic_packets_total{nic=\"eth0\",direction=\"receive\"} 7\n\
            evenkeel_host_nic_packets_total{nic=\"eth0\",direction=\"transmit\"} 5\n\
            # HELP evenkeel_host_allowance_exceeded_total x\n# TYPE evenkeel_host_allowance_exceeded_total counter\n\
            evenkeel_host_allowance_exceeded_total{nic=\"eth0\",allowance=\"pps\"} 3\n";
        let found = HostCounters::parse(page).expect("a page").expect("of a host");
        assert_eq!((found.packets["eth0"], found.allowances["pps"]), (12.0, 3.0));
        assert!(found.disk_requests.is_empty());
        // The host could not be read, or the page is that of an exporter.
        assert_eq!(HostCounters::parse(&page.replace("sampled 1", "sampled 0")), Ok(None));
        assert_eq!(HostCounters::parse(""), Ok(None));
        assert!(HostCounters::parse("no metrics").is_err());
    }

    #[test]
    fn what_has_grown_is_known_of_devices_that_were_there_before() {
        let counts = |pairs: &[(&str, f64)]| -> BTreeMap<String, f64> {
            pairs.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
        };
        let (before, after) =
            (counts(&[("a", 1.0), ("b", 9.0)]), counts(&[("a", 4.0), ("b", 2.0), ("c", 100.0)]));
        assert_eq!(grown(&before, &after), counts(&[("a", 3.0)]));
        assert_eq!((busiest(&grown(&before, &after)), busiest(&BTreeMap::new())), (Some(3.0), None));
    }

    #[test]
    fn times_and_ghosts_are_those_between_two_readings() {
        let page = |ghosts: u32, sets: u32, slow: u32| {
            let text = format!(
                "{{\"ghost_hits\": {ghosts}, \"stats\": {{\"cmd_set\": {sets}}}, \"service\": \
                 {{\"get\": {{\"buckets\": [[8, {}], [900, {slow}]]}}, \"set\": {{\"buckets\": []}}}}}}",
                sets * 10
            );
            ServerPageReading::parse(&text).expect("a report")
        };
        let (before, after) = (page(10, 100, 500), page(30, 300, 510));
        assert_eq!((after.ghost_share(&before), after.service_p99_us(&before)), (Some(0.1), Some(8)));
        assert_eq!(page(30, 300, 900).service_p99_us(&before), Some(900));
        assert_eq!((before.ghost_share(&before), before.service_p99_us(&before)), (None, None));
        assert!(ServerPageReading::parse("{\"route\": {}}").is_err());
    }
}
