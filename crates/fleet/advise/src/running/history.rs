//! History of what is used: range queries of Prometheus for the largest value of each day, and its answers.
//!
//! Prometheus finds the largest values itself, so that a day is one point. A day counts with three quarters of its points: a peak of the
//! morning is not that of the day.

use std::collections::{BTreeMap, BTreeSet};

use fleet::advise::running::{AllowanceMet, DayPeak, HostUse, ResourceState, UsedResource, use_trend};
use serde_json::Value;
use stdx::calendar::{DAY_S, utc};
use stdx::words::counted;

use super::RunningGroup;
use super::limits::{HostKnown, of_setting};
use crate::catalogue::Catalogue;

/// What a query is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistorySubject {
    /// How much of a resource is used.
    Use(UsedResource),
    /// How many bytes of flash servers may use.
    FlashLimit,
    /// Packets that were held back because an allowance was used up.
    Allowances,
}

/// What is asked of Prometheus.
#[derive(Clone, Debug, PartialEq)]
pub struct HistoryQuery {
    /// What it is about.
    pub subject: HistorySubject,
    /// In Prometheus' language; a series for each `instance`, and for allowances for each `allowance`.
    pub expression: String,
}

/// Rates are over ten minutes: what a limit has to carry for longer than a spike.
const WINDOW: &str = "10m";
/// Points of a day, of which three quarters have to be there.
const POINTS_OF_DAY_MIN: u32 = 144 / 4 * 3;
/// Days of a week.
const WEEK_DAYS: usize = 7;
/// Days after which an allowance that was used up says nothing about now.
const ALLOWANCE_DAYS: u64 = 7;

/// The questions for all resources, each for a range with one point a day, at midnight in UTC. `select` are matchers of labels.
pub fn history_queries(select: &str) -> Vec<HistoryQuery> {
    let rate = |family: &str| format!("rate({family}{{{select}}}[{WINDOW}])");
    let (read, written) = (rate("memcached_read_bytes_total"), rate("memcached_written_bytes_total"));
    let (user, system) = (
        rate("memcached_process_user_cpu_seconds_total"),
        rate("memcached_process_system_cpu_seconds_total"),
    );
    let packets = rate("evenkeel_host_nic_packets_total");
    let of = |resource, expression: String| HistoryQuery {
        subject: HistorySubject::Use(resource),
        expression: day_peaks(&format!("max by (instance) ({expression})")),
    };
    let allowances = format!("evenkeel_host_allowance_exceeded_total{{{select}}}");
    vec![
        of(UsedResource::Cpu, format!("{user} + {system}")),
        of(UsedResource::Packets, format!("sum by (instance, nic) ({packets})")),
        of(UsedResource::Bandwidth, format!("({read} > {written}) or {written}")),
        of(UsedResource::Memory, format!("memcached_current_bytes{{{select}}}")),
        of(UsedResource::Connections, format!("memcached_current_connections{{{select}}}")),
        of(UsedResource::Flash, format!("memcached_extstore_bytes_used{{{select}}}")),
        of(UsedResource::DiskRequests, rate("evenkeel_host_disk_requests_total")),
        HistoryQuery {
            subject: HistorySubject::FlashLimit,
            expression: format!("max by (instance) (memcached_extstore_bytes_limit{{{select}}})"),
        },
        HistoryQuery {
            subject: HistorySubject::Allowances,
            expression: format!("sum by (instance, allowance) (increase({allowances}[1d]))"),
        },
    ]
}

fn day_peaks(expression: &str) -> String {
    let of_day = format!("({expression})[1d:{WINDOW}]");
    format!("max_over_time({of_day}) and count_over_time({of_day}) >= {POINTS_OF_DAY_MIN}")
}

/// What Prometheus has kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UseHistory {
    /// By resource and instance.
    peaks: BTreeMap<(UsedResource, String), Vec<DayPeak>>,
    /// Bytes of flash, by instance.
    flash_limits: BTreeMap<String, Vec<DayPeak>>,
    /// Packets held back of a day, by instance and allowance.
    allowances: BTreeMap<(String, String), Vec<DayPeak>>,
}

impl UseHistory {
    /// Adds an answer to a query.
    ///
    /// # Errors
    /// What is wrong with it, as a clause for people.
    pub fn add(&mut self, query: &HistoryQuery, answer: &str) -> Result<(), String> {
        let json: Value =
            serde_json::from_str(answer).map_err(|error| format!("the answer is not JSON: {error}"))?;
        if json["status"] != "success" {
            let why = json["error"].as_str().unwrap_or("the answer has no `status` that is `success`");
            return Err(why.to_owned());
        }
        let result = json["data"]["result"].as_array().filter(|_| json["data"]["resultType"] == "matrix");
        for series in result.ok_or("expected a `matrix`, the result of a range query")? {
            let label = |name: &str| series["metric"][name].as_str().unwrap_or_default().to_owned();
            let values = series["values"].as_array().ok_or("the answer has a series without `values`")?;
            let points: Vec<DayPeak> = values.iter().map(day_of).collect::<Result<_, _>>()?;
            let kept = match query.subject {
                HistorySubject::Use(resource) => self.peaks.entry((resource, label("instance"))).or_default(),
                HistorySubject::FlashLimit => self.flash_limits.entry(label("instance")).or_default(),
                HistorySubject::Allowances => {
                    self.allowances.entry((label("instance"), label("allowance"))).or_default()
                }
            };
            kept.extend(points.into_iter().filter(|point| point.value.is_finite()));
        }
        Ok(())
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.peaks.is_empty() && self.allowances.is_empty()
    }

    /// Gives the hosts their trends, and what was held back in the last week before this day. The catalogue has limits of resources that
    /// only Prometheus knows of.
    pub fn put_into(&self, groups: &mut [RunningGroup], today: u64, catalogue: &Catalogue) {
        let shared = shared_pages(groups);
        for host in groups.iter_mut().flat_map(|group| &mut group.hosts) {
            let instances = self.instances_of(host, &shared);
            self.add_flash(host, &instances, catalogue);
            for state in &mut host.resources {
                let peaks = self.of_instances(state.resource, &instances);
                put_trend(state, &peaks);
            }
            for met in self.met(&instances, today) {
                host.note_allowance(met);
            }
        }
    }

    /// Flash and its disks, of a host whose servers have some, if nobody else has told of it.
    fn add_flash(&self, host: &mut HostUse, instances: &[&str], catalogue: &Catalogue) {
        let is_there = host.resources.iter().any(|state| state.resource == UsedResource::Flash);
        if is_there || self.of_instances(UsedResource::Flash, instances).is_empty() {
            return;
        }
        let last = |instance: &&str| Some(self.flash_limits.get(*instance)?.last()?.value);
        let limits: Option<Vec<f64>> = instances.iter().map(last).collect();
        let limit = limits.map(|limits| limits.iter().sum());
        let shape = host.shape.as_deref().and_then(|name| catalogue.shape(name));
        let known = HostKnown { shape: shape.map(|entry| &entry.shape), ..HostKnown::default() };
        host.resources.extend([
            ResourceState {
                limit: of_setting(limit, "ext_path"),
                ..ResourceState::unknown(UsedResource::Flash)
            },
            ResourceState {
                limit: known.limit(UsedResource::DiskRequests),
                ..ResourceState::unknown(UsedResource::DiskRequests)
            },
        ]);
    }

    /// Instances of Prometheus that are servers of this host.
    fn instances_of(&self, host: &HostUse, shared: &BTreeSet<String>) -> Vec<&str> {
        let mut all: Vec<&str> = self.peaks.keys().map(|(_, instance)| instance.as_str()).collect();
        all.extend(self.allowances.keys().map(|(instance, _)| instance.as_str()));
        all.sort_unstable();
        all.dedup();
        let is_own =
            |instance: &&str| host.instances.iter().any(|own| own == instance) && !shared.contains(*instance);
        let exact: Vec<&str> = all.iter().copied().filter(is_own).collect();
        match exact.is_empty() {
            false => exact,
            // A page at the loopback is scraped at another address.
            true => all.into_iter().filter(|instance| host_part(instance) == host.host).collect(),
        }
    }

    /// The peaks of several servers together. Those of one host lie at the same time, more or less: they add up. A day counts if all of
    /// them have it: a server that was not scraped is not one without load.
    fn of_instances(&self, resource: UsedResource, instances: &[&str]) -> Vec<DayPeak> {
        let is_of_host = matches!(resource, UsedResource::Packets | UsedResource::DiskRequests);
        let series: Vec<&Vec<DayPeak>> = instances
            .iter()
            .filter_map(|instance| self.peaks.get(&(resource, (*instance).to_owned())))
            .collect();
        let mut days: BTreeMap<u64, (f64, usize)> = BTreeMap::new();
        for peak in series.iter().copied().flatten() {
            let (value, count) = days.entry(peak.day).or_insert((0.0, 0));
            *value = if is_of_host { value.max(peak.value) } else { *value + peak.value };
            *count += 1;
        }
        let whole = days.into_iter().filter(|(_, (_, count))| is_of_host || *count == series.len());
        whole.map(|(day, (value, _))| DayPeak { day, value }).collect()
    }

    fn met(&self, instances: &[&str], today: u64) -> Vec<AllowanceMet> {
        let mut by_name: BTreeMap<&str, (f64, BTreeMap<u64, f64>)> = BTreeMap::new();
        for ((instance, allowance), days) in &self.allowances {
            // Several servers of a host see the same counters.
            if instances.contains(&instance.as_str()) {
                let of = by_name.entry(allowance).or_default();
                let recent = days.iter().filter(|day| day.value > 0.0 && day.day + ALLOWANCE_DAYS >= today);
                recent.for_each(|day| {
                    let most = of.1.entry(day.day).or_insert(0.0);
                    *most = most.max(day.value);
                });
            }
        }
        let met = |(name, (_, days)): (&str, (f64, BTreeMap<u64, f64>))| {
            let last = *days.keys().last()?;
            let when = format!("on {}, the last {}", counted(days.len(), "day"), date(last));
            Some(AllowanceMet { name: name.to_owned(), packets: Some(days.values().sum()), when })
        };
        by_name.into_iter().filter_map(met).collect()
    }
}

/// Addresses of pages that several hosts have, as those at the loopback: they say nothing about which host it is.
fn shared_pages(groups: &[RunningGroup]) -> BTreeSet<String> {
    let mut hosts: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for host in groups.iter().flat_map(|group| &group.hosts) {
        host.instances.iter().for_each(|page| {
            hosts.entry(page).or_default().insert(&host.host);
        });
    }
    let shared = hosts.into_iter().filter(|(_, hosts)| hosts.len() > 1);
    shared.map(|(page, _)| page.to_owned()).collect()
}

/// Where there is no trend, what the busiest of the last days had counts, too: now may be the quietest minute of the week.
fn put_trend(state: &mut ResourceState, peaks: &[DayPeak]) {
    let trend = use_trend(peaks);
    let recent = peaks.iter().rev().take(WEEK_DAYS).map(|peak| peak.value).reduce(f64::max);
    if trend.is_err() || state.used.is_none() {
        state.used = [state.used, recent].into_iter().flatten().reduce(f64::max);
    }
    state.trend = Some(trend);
}

/// A point at midnight is that of the day before.
fn day_of(point: &Value) -> Result<DayPeak, String> {
    let parts = point.as_array().filter(|parts| parts.len() == 2);
    let parsed = parts.and_then(|parts| Some((parts[0].as_f64()?, parts[1].as_str()?.parse::<f64>().ok()?)));
    let (unix_s, value) = parsed.ok_or_else(|| format!("expected [seconds, \"value\"], found {point}"))?;
    Ok(DayPeak { day: (unix_s.max(0.0) as u64).saturating_sub(1) / DAY_S, value })
}

fn date(day: u64) -> String {
    utc(day * DAY_S)[..10].to_owned()
}

/// `10.0.0.1` of `10.0.0.1:9150`.
fn host_part(instance: &str) -> &str {
    let (host, port) = instance.rsplit_once(':').unwrap_or((instance, ""));
    match port.is_empty() || port.bytes().all(|byte| byte.is_ascii_digit()) {
        true => host.trim_start_matches('[').trim_end_matches(']'),
        false => instance,
    }
}

#[cfg(test)]
mod tests {
    use fleet::advise::running::{NoTrend, UseLimit, UseOutlook, outlook};
    use serde_json::json;

    use super::*;

    const TODAY: u64 = 20_440;

    fn group(instances: &[&str]) -> RunningGroup {
        let limit = Some(UseLimit { value: 200.0, source: "a test".into() });
        let states = [UsedResource::Cpu, UsedResource::Packets];
        let host = HostUse {
            host: "h1".into(),
            shape: None,
            servers: vec!["m1".into()],
            instances: instances.iter().map(|name| (*name).to_owned()).collect(),
            resources: states
                .map(|resource| ResourceState { limit: limit.clone(), ..ResourceState::unknown(resource) })
                .into(),
            met: Vec::new(),
        };
        RunningGroup { cluster: None, hosts: vec![host] }
    }

    /// An answer with a series of so many days for each set of labels.
    fn answer(series: &[Value], days: u64, value: impl Fn(u64) -> f64) -> String {
        let points: Vec<Value> =
            (0..days).map(|day| json!([(TODAY - days + day + 1) * DAY_S, value(day).to_string()])).collect();
        let series: Vec<Value> =
            series.iter().map(|labels| json!({"metric": labels, "values": points})).collect();
        json!({"status": "success", "data": {"resultType": "matrix", "result": series}}).to_string()
    }

    fn history(answers: &[(HistorySubject, String)]) -> UseHistory {
        let mut history = UseHistory::default();
        for (subject, answer) in answers {
            let query = HistoryQuery { subject: *subject, expression: String::new() };
            history.add(&query, answer).expect("an answer");
        }
        history
    }

    #[test]
    fn peaks_of_days_become_a_trend_of_the_host_that_they_are_of() {
        let labels = [json!({"instance": "10.0.0.1:9150"})];
        let history = history(&[(
            HistorySubject::Use(UsedResource::Packets),
            answer(&labels, 28, |day| 100.0 + day as f64),
        )]);
        let mut groups = [group(&["10.0.0.1:9150"])];
        history.put_into(&mut groups, TODAY, &Catalogue::default());
        let packets = &groups[0].hosts[0].resources[1];
        let UseOutlook::Binds { middle, .. } = outlook(packets) else { panic!("{packets:?}") };
        // 73 are left, and 7 more are used each week.
        assert!((middle - 73.0 / 7.0).abs() < 0.3, "{middle}");
        assert_eq!(packets.used, Some(127.0), "what no server says is what the busiest of the last days had");
        let cpu = &groups[0].hosts[0].resources[0];
        assert_eq!(cpu.trend, Some(Err(NoTrend::NoHistory)));
    }

    #[test]
    fn a_host_is_found_by_its_pages_or_by_its_name() {
        let labels =
            [json!({"instance": "h1:9150"}), json!({"instance": "h11:9150"}), json!({"instance": "h1:9151"})];
        let history = history(&[(HistorySubject::Use(UsedResource::Cpu), answer(&labels, 14, |_| 1.0))]);
        let level = |instances: &[&str]| {
            let mut groups = [group(instances)];
            history.put_into(&mut groups, TODAY, &Catalogue::default());
            groups[0].hosts[0].resources[0].most_used()
        };
        assert_eq!(level(&["127.0.0.1:9150"]), Some(2.0), "both servers of the host");
        assert_eq!(level(&["h1:9151"]), Some(1.0));
        // Two hosts with the same page are told apart by their names.
        let mut groups = [group(&["h11:9150"]), group(&["h11:9150"])];
        groups[1].hosts[0].host = "h2".into();
        history.put_into(&mut groups, TODAY, &Catalogue::default());
        let levels = groups.map(|group| group.hosts[0].resources[0].most_used());
        assert_eq!(levels, [Some(2.0), None]);
        assert_eq!(
            (host_part("[::1]:9150"), host_part("cache-1"), host_part("a:b")),
            ("::1", "cache-1", "a:b")
        );
    }

    #[test]
    fn allowances_of_the_last_week_are_proof_and_older_ones_are_not() {
        let labels = [
            json!({"instance": "a:1", "allowance": "pps"}),
            json!({"instance": "b:1", "allowance": "pps"}),
            json!({"instance": "c:1", "allowance": "bw_in"}),
        ];
        let late = |day| if day >= 25 { 7.0 } else { 0.0 };
        let one = history(&[(HistorySubject::Allowances, answer(&labels, 28, late))]);
        let mut groups = [group(&["a:1", "b:1"])];
        one.put_into(&mut groups, TODAY, &Catalogue::default());
        let met = &groups[0].hosts[0].resources[1].met;
        assert_eq!((met.len(), met[0].packets), (1, Some(21.0)), "two servers of a host see one counter");
        assert_eq!(met[0].when, "on 3 days, the last 2025-12-17");
        let early = history(&[(
            HistorySubject::Allowances,
            answer(&labels, 28, |day| if day < 20 { 7.0 } else { 0.0 }),
        )]);
        let mut groups = [group(&["a:1"])];
        early.put_into(&mut groups, TODAY, &Catalogue::default());
        assert!(groups[0].hosts[0].resources[1].met.is_empty());
    }

    #[test]
    fn a_day_that_one_of_two_servers_lacks_does_not_count() {
        let mut all = history(&[(
            HistorySubject::Use(UsedResource::Cpu),
            answer(&[json!({"instance": "a:1"})], 20, |_| 1.0),
        )]);
        let query =
            HistoryQuery { subject: HistorySubject::Use(UsedResource::Cpu), expression: String::new() };
        all.add(&query, &answer(&[json!({"instance": "b:1"})], 15, |_| 1.0)).expect("an answer");
        let mut groups = [group(&["a:1", "b:1"])];
        all.put_into(&mut groups, TODAY, &Catalogue::default());
        let trend = groups[0].hosts[0].resources[0].trend;
        assert_eq!(trend.and_then(Result::ok).map(|trend| (trend.days, trend.level)), Some((15, 2.0)));
    }

    #[test]
    fn flash_is_shown_of_servers_that_have_some() {
        let (one, other) = (json!({"instance": "a:1"}), json!({"instance": "b:1"}));
        let history = history(&[
            (HistorySubject::Use(UsedResource::Flash), answer(&[one.clone(), other.clone()], 20, |_| 30.0)),
            (HistorySubject::FlashLimit, answer(&[one, other], 20, |_| 40.0)),
        ]);
        let mut groups = [group(&["a:1", "b:1"])];
        history.put_into(&mut groups, TODAY, &Catalogue::default());
        let states: Vec<_> =
            groups[0].hosts[0].resources.iter().map(|state| (state.resource, state.share())).collect();
        assert_eq!(states[2..], [(UsedResource::Flash, Some(0.75)), (UsedResource::DiskRequests, None)]);
        let mut groups = [group(&["c:1"])];
        history.put_into(&mut groups, TODAY, &Catalogue::default());
        assert_eq!(groups[0].hosts[0].resources.len(), 2, "these have none");
    }

    #[test]
    fn answers_that_are_none_are_named() {
        let query = HistoryQuery { subject: HistorySubject::Allowances, expression: String::new() };
        let wrong = |answer: &str| UseHistory::default().add(&query, answer).expect_err(answer);
        assert!(wrong("<html>").starts_with("the answer is not JSON"));
        assert_eq!(wrong("{\"status\": \"error\", \"error\": \"parse error\"}"), "parse error");
        let vector = "{\"status\": \"success\", \"data\": {\"resultType\": \"vector\", \"result\": []}}";
        assert_eq!(wrong(vector), "expected a `matrix`, the result of a range query");
        assert!(
            wrong(&vector.replace("vector", "matrix").replace("[]", "[{\"values\": [[1, 2]]}]"))
                .contains("found [1,2]")
        );
    }

    #[test]
    fn questions_name_what_servers_export_and_whose_it_is() {
        let queries = history_queries("job=\"cache\"");
        assert_eq!(queries.len(), UsedResource::ALL.len() + 2);
        assert!(queries.iter().all(|query| query.expression.contains("{job=\"cache\"}")), "{queries:?}");
        assert_eq!(
            queries[3].expression,
            "max_over_time((max by (instance) (memcached_current_bytes{job=\"cache\"}))[1d:10m]) and \
             count_over_time((max by (instance) (memcached_current_bytes{job=\"cache\"}))[1d:10m]) >= 108"
        );
    }
}
