//! The state of one server and its host, from two readings of `stats` and, if it has one, of its page.

use fleet::advise::HostShape;
use fleet::advise::running::{AllowanceMet, HostUse, ResourceState, UsedResource};

use super::RunningGroup;
use super::limits::{HostKnown, of_setting, smaller};
use super::page::{HostCounters, ServerPageReading, busiest, grown};
use super::seen::ghost_words;
use crate::report::amount::short;
use crate::server_stats::{ServerStats, ServerStatsError};

/// What was read of a server.
#[derive(Clone, Copy, Debug)]
pub struct ServerReadings<'a> {
    /// Where it was asked.
    pub name: &'a str,
    /// Its `stats`, before and after.
    pub stats: [&'a ServerStats; 2],
    /// Between them.
    pub seconds: f64,
    /// The busiest minute as a multiple of what was measured.
    pub peak: f64,
    /// Counters of its host, before and after; none if it has no page, or that does not have them.
    pub counters: Option<[&'a HostCounters; 2]>,
    /// Its report, before and after.
    pub pages: Option<[&'a ServerPageReading; 2]>,
    /// By which name Prometheus knows it.
    pub instance: Option<&'a str>,
    /// The shape of its host, if it is known.
    pub shape: Option<&'a HostShape>,
}

/// The group of one server.
///
/// # Errors
/// If a statistic is no number, or the server was started again in between.
pub fn server_group(readings: &ServerReadings<'_>) -> Result<RunningGroup, ServerStatsError> {
    let [before, after] = readings.stats;
    if !after.is_later_than(before)? {
        return Err(ServerStatsError::StartedAgain);
    }
    let mut resources = vec![
        cpu(readings)?,
        packets(readings),
        bandwidth(readings)?,
        memory(readings)?,
        connections(readings)?,
    ];
    if after.optional("extstore_limit_maxbytes")?.is_some() {
        resources.push(ResourceState {
            used: after.optional("extstore_bytes_used")?,
            limit: of_setting(after.optional("extstore_limit_maxbytes")?, "ext_path"),
            ..ResourceState::unknown(UsedResource::Flash)
        });
        resources.push(disk_requests(readings));
    }
    let allowances = readings.counters.map(|[before, after]| grown(&before.allowances, &after.allowances));
    let mut host = HostUse {
        host: readings.name.to_owned(),
        shape: readings.shape.map(|shape| shape.name.clone()),
        servers: vec![readings.name.to_owned()],
        instances: readings.instance.map(str::to_owned).into_iter().collect(),
        resources,
        met: Vec::new(),
    };
    for (name, packets) in allowances.into_iter().flatten().filter(|(_, packets)| *packets > 0.0) {
        let when = format!("in {:.0} s", readings.seconds);
        host.note_allowance(AllowanceMet { name, packets: Some(packets), when });
    }
    Ok(RunningGroup { cluster: None, hosts: vec![host] })
}

impl ServerReadings<'_> {
    fn known(&self) -> Result<HostKnown<'_>, ServerStatsError> {
        Ok(HostKnown { shape: self.shape, cpus: None, workers: self.stats[1].optional("threads")? })
    }

    /// Growth in a second, in the busiest minute; none of what the server does not count.
    fn rate(&self, name: &'static str) -> Result<Option<f64>, ServerStatsError> {
        let [before, after] = self.stats;
        let grown = before.optional(name)?.zip(after.optional(name)?).map(|(before, after)| after - before);
        Ok(grown.filter(|grown| *grown >= 0.0).map(|grown| grown / self.seconds * self.peak))
    }

    fn limit(&self, resource: UsedResource) -> Option<fleet::advise::running::UseLimit> {
        HostKnown { shape: self.shape, ..HostKnown::default() }.limit(resource)
    }
}

fn cpu(readings: &ServerReadings<'_>) -> Result<ResourceState, ServerStatsError> {
    let (user, system) = (readings.rate("rusage_user")?, readings.rate("rusage_system")?);
    let page = readings.pages.and_then(|[before, after]| after.service_p99_us(before));
    Ok(ResourceState {
        used: user.zip(system).map(|(user, system)| user + system),
        limit: readings.known()?.limit(UsedResource::Cpu),
        note: page.map(|us| {
            format!("99 % of the requests took less than {us} µs in the server, once it was their turn")
        }),
        ..ResourceState::unknown(UsedResource::Cpu)
    })
}

/// Of the busiest interface: bonds and bridges count the packets of others once more.
fn packets(readings: &ServerReadings<'_>) -> ResourceState {
    let counted = readings.counters.map(|[before, after]| grown(&before.packets, &after.packets));
    ResourceState {
        used: counted
            .and_then(|counted| busiest(&counted))
            .map(|count| count / readings.seconds * readings.peak),
        limit: readings.limit(UsedResource::Packets),
        ..ResourceState::unknown(UsedResource::Packets)
    }
}

fn bandwidth(readings: &ServerReadings<'_>) -> Result<ResourceState, ServerStatsError> {
    let (read, written) = (readings.rate("bytes_read")?, readings.rate("bytes_written")?);
    Ok(ResourceState {
        used: read.zip(written).map(|(read, written)| read.max(written)),
        limit: readings.limit(UsedResource::Bandwidth),
        note: Some(WITHOUT_HEADERS.to_owned()),
        ..ResourceState::unknown(UsedResource::Bandwidth)
    })
}

/// What servers count is what they read and wrote.
pub(crate) const WITHOUT_HEADERS: &str = "bytes of requests and replies, without the headers of packets";

fn memory(readings: &ServerReadings<'_>) -> Result<ResourceState, ServerStatsError> {
    let after = readings.stats[1];
    let evictions = readings.rate("evictions")?.filter(|rate| *rate > 0.0);
    let ghosts = readings.pages.and_then(|[before, after]| after.ghost_share(before));
    let mut notes: Vec<String> = Vec::new();
    notes.extend(evictions.map(|rate| format!("{} items are evicted in a second", short(rate))));
    notes.extend(ghosts.map(ghost_words));
    Ok(ResourceState {
        used: after.optional("bytes")?,
        limit: of_setting(after.optional("limit_maxbytes")?, "-m"),
        note: (!notes.is_empty()).then(|| notes.join("; ")),
        ..ResourceState::unknown(UsedResource::Memory)
    })
}

fn connections(readings: &ServerReadings<'_>) -> Result<ResourceState, ServerStatsError> {
    let after = readings.stats[1];
    let of_server = of_setting(after.optional("max_connections")?, "-c");
    Ok(ResourceState {
        used: after.optional("curr_connections")?,
        limit: smaller(readings.limit(UsedResource::Connections), of_server),
        ..ResourceState::unknown(UsedResource::Connections)
    })
}

fn disk_requests(readings: &ServerReadings<'_>) -> ResourceState {
    let counted = readings.counters.map(|[before, after]| grown(&before.disk_requests, &after.disk_requests));
    ResourceState {
        used: counted
            .and_then(|counted| busiest(&counted))
            .map(|count| count / readings.seconds * readings.peak),
        limit: readings.limit(UsedResource::DiskRequests),
        ..ResourceState::unknown(UsedResource::DiskRequests)
    }
}

#[cfg(test)]
mod tests {
    use fleet::advise::running::{UseOutlook, outlook};

    use super::*;

    fn stats(extra: &str, cpu: f64, bytes: u64, uptime: u32) -> ServerStats {
        let text = format!(
            "STAT pid 7\nSTAT uptime {uptime}\nSTAT threads 4\nSTAT rusage_user {cpu}\nSTAT rusage_system {cpu}\n\
             STAT bytes_read {bytes}\nSTAT bytes_written {}\nSTAT bytes 99000000\nSTAT limit_maxbytes 100000000\n\
             STAT curr_connections 41\nSTAT max_connections 1024\nSTAT evictions {bytes}\n{extra}END\n",
            bytes * 3
        );
        ServerStats::parse(&text).expect("statistics")
    }

    fn readings<'a>(stats: [&'a ServerStats; 2]) -> ServerReadings<'a> {
        ServerReadings {
            name: "c1",
            stats,
            seconds: 10.0,
            peak: 2.0,
            counters: None,
            pages: None,
            instance: None,
            shape: None,
        }
    }

    fn of(group: &RunningGroup, resource: UsedResource) -> &ResourceState {
        let resources = &group.hosts[0].resources;
        resources.iter().find(|state| state.resource == resource).expect("it is listed")
    }

    #[test]
    fn a_memcached_says_what_it_uses_and_what_it_does_not_know() {
        let (before, after) = (stats("", 1.0, 1000, 50), stats("", 3.0, 11_000, 60));
        let group = server_group(&readings([&before, &after])).expect("a group");
        let cpu = of(&group, UsedResource::Cpu);
        // 4 s of CPU time in 10 s, twice that at the peak, of 80 % of four workers.
        assert_eq!((cpu.used, cpu.share()), (Some(0.8), Some(0.25)));
        assert_eq!(of(&group, UsedResource::Bandwidth).used, Some(6000.0));
        assert_eq!(of(&group, UsedResource::Bandwidth).limit, None);
        assert_eq!(of(&group, UsedResource::Packets).used, None, "no statistic has them");
        assert_eq!(outlook(of(&group, UsedResource::Memory)), UseOutlook::Full);
        assert_eq!(
            of(&group, UsedResource::Memory).note.as_deref(),
            Some("2 k items are evicted in a second")
        );
        assert_eq!(of(&group, UsedResource::Connections).share(), Some(41.0 / 1024.0));
        assert_eq!(group.hosts[0].resources.len(), 5, "it has no flash");
    }

    #[test]
    fn a_page_has_packets_disks_and_allowances() {
        let flash = "STAT extstore_bytes_used 5\nSTAT extstore_limit_maxbytes 10\n";
        let (before, after) = (stats(flash, 1.0, 0, 50), stats(flash, 1.0, 0, 60));
        let counters = |packets: f64, held: f64| HostCounters {
            packets: [("eth0".to_owned(), packets), ("lo".to_owned(), 1.0)].into(),
            allowances: [("pps".to_owned(), held), ("linklocal".to_owned(), held), ("bw_in".to_owned(), 0.0)]
                .into(),
            disk_requests: [("nvme0n1".to_owned(), packets)].into(),
        };
        let (one, other) = (counters(100.0, 1.0), counters(1100.0, 8.0));
        let readings = ServerReadings { counters: Some([&one, &other]), ..readings([&before, &after]) };
        let group = server_group(&readings).expect("a group");
        let packets = of(&group, UsedResource::Packets);
        assert_eq!((packets.used, packets.met[0].packets), (Some(200.0), Some(7.0)));
        assert_eq!(outlook(packets), UseOutlook::AllowanceMet);
        assert_eq!(
            outlook(of(&group, UsedResource::Bandwidth)),
            UseOutlook::NoLimit,
            "a count that stays is no proof"
        );
        assert_eq!(group.hosts[0].met.len(), 1, "what is no resource of a server is told of the host");
        assert_eq!(of(&group, UsedResource::Flash).share(), Some(0.5));
        assert_eq!(of(&group, UsedResource::DiskRequests).used, Some(200.0));
    }

    #[test]
    fn a_server_that_was_started_again_is_no_measurement() {
        let (before, after) = (stats("", 9.0, 1000, 50), stats("", 1.0, 10, 2));
        let error = server_group(&readings([&before, &after])).expect_err("another process");
        assert!(error.to_string().contains("was started again"), "{error}");
    }
}
