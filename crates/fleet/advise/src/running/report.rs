//! Report of what is left, for people and for programs.

use std::fmt::Write;

use fleet::advise::running::{
    AllowanceMet, HostUse, ResourceState, USE_HEADROOM, UseOutlook, UsedResource, outlook,
};
use serde_json::{Value, json};
use stdx::words::counted;

use super::RunningGroup;
use crate::report::amount::{bytes, percent, short};
use crate::report::text::table;

/// Hosts of a cluster that are shown, those first that bind soonest; JSON has all.
const HOSTS_SHOWN: usize = 10;
/// What is not known.
const UNKNOWN: &str = "not known";

/// The groups as text.
pub fn running_text(groups: &[RunningGroup]) -> String {
    let mut out = String::new();
    for group in groups {
        let mut hosts: Vec<&HostUse> = group.hosts.iter().collect();
        hosts.sort_by(|one, other| order(one).total_cmp(&order(other)).then(one.host.cmp(&other.host)));
        if !out.is_empty() {
            out.push('\n');
        }
        if let Some(cluster) = &group.cluster {
            let _ = writeln!(out, "{cluster}: {}; {}", counted(hosts.len(), "host"), first_words(group));
            let unknown = unknown_limits(group);
            if !unknown.is_empty() {
                let _ = writeln!(out, "  not counting what has no known limit: {}", unknown.join(", "));
            }
        }
        hosts.iter().take(HOSTS_SHOWN).for_each(|one| host(&mut out, one, group.cluster.is_some()));
        if let more @ 1.. = hosts.len().saturating_sub(HOSTS_SHOWN) {
            let _ = writeln!(
                out,
                "\nand {}, which bind later or are not known; --json has all",
                counted(more, "more host")
            );
        }
    }
    out
}

/// The resource of a group that binds first, as a clause.
fn first_words(group: &RunningGroup) -> String {
    let all = group.hosts.iter().flat_map(|host| host.resources.iter().map(move |state| (host, state)));
    let first = all.min_by(|one, other| outlook(one.1).order().total_cmp(&outlook(other.1).order()));
    match first {
        Some((host, state)) if is_foretold(&outlook(state)) => {
            format!("{}: {} on {}", outlook(state).words(), state.resource.as_str(), host.host)
        }
        _ => match fullest(group) {
            Some((host, state, share)) => format!(
                "when something binds is not known; the fullest is {} on {}, at {} of its limit",
                state.resource.as_str(),
                host.host,
                percent(share)
            ),
            None => "when something binds is not known".to_owned(),
        },
    }
}

/// Resources of which the limit is not known on some host: they may bind before those that are known.
fn unknown_limits(group: &RunningGroup) -> Vec<&'static str> {
    let has_none = |resource: &UsedResource| {
        let states = group.hosts.iter().flat_map(|host| &host.resources);
        states.filter(|state| state.resource == *resource).any(|state| state.limit.is_none())
    };
    UsedResource::ALL.iter().filter(|resource| has_none(resource)).map(|resource| resource.as_str()).collect()
}

fn is_foretold(outlook: &UseOutlook) -> bool {
    matches!(
        outlook,
        UseOutlook::AllowanceMet
            | UseOutlook::Reached
            | UseOutlook::Binds { .. }
            | UseOutlook::NotBefore(_)
            | UseOutlook::NotForAYear
    )
}

/// The largest known share of a limit, of what is not meant to be full.
fn fullest(group: &RunningGroup) -> Option<(&HostUse, &ResourceState, f64)> {
    let all = group.hosts.iter().flat_map(|host| host.resources.iter().map(move |state| (host, state)));
    all.filter(|(_, state)| !state.resource.may_be_full())
        .filter_map(|(host, state)| Some((host, state, state.share()?)))
        .max_by(|one, other| one.2.total_cmp(&other.2))
}

/// Of the resource that binds first.
fn order(host: &HostUse) -> f64 {
    let soonest = host.resources.iter().map(|state| outlook(state).order()).reduce(f64::min);
    soonest.unwrap_or(f64::INFINITY)
}

fn host(out: &mut String, host: &HostUse, is_in_cluster: bool) {
    let shape = host.shape.as_deref().map_or_else(|| "shape not known".to_owned(), str::to_owned);
    let servers = if is_in_cluster { format!(", {}", host.servers.join(", ")) } else { String::new() };
    let gap = if is_in_cluster { "\n" } else { "" };
    let _ = writeln!(out, "{gap}{} ({shape}{servers})", host.host);
    let row = |state: &ResourceState| {
        [
            state.resource.as_str().to_owned(),
            state.most_used().map_or(UNKNOWN.to_owned(), |used| amount(state.resource, used)),
            state.limit.as_ref().map_or(UNKNOWN.to_owned(), |limit| amount(state.resource, limit.value)),
            state.share().map_or(String::new(), percent),
            growth(state),
            outlook_words(state),
        ]
    };
    let head = ["resource", "used", "limit", "share", "a week", ""].map(str::to_owned);
    let rows: Vec<[String; 6]> = std::iter::once(head).chain(host.resources.iter().map(row)).collect();
    table(out, &rows, &[1, 2, 3, 4]);
    for state in &host.resources {
        let name = state.resource.as_str();
        state.met.iter().for_each(|met| allowance(out, name, met));
        if let Some(limit) = &state.limit {
            let _ = writeln!(out, "  {name}: the limit is {}", limit.source);
        }
        if let Some(note) = &state.note {
            let _ = writeln!(out, "  {name}: {note}");
        }
        if state.limit.is_none() && state.used.is_some() {
            let _ = writeln!(out, "  {name}: {}", measured_by(state.resource, host.shape.is_some()));
        }
    }
    host.met.iter().for_each(|met| allowance(out, "of the cloud", met));
}

fn outlook_words(state: &ResourceState) -> String {
    let words = outlook(state).words();
    let is_above = state.share().is_some_and(|share| (USE_HEADROOM..1.0).contains(&share));
    match is_above && !state.resource.may_be_full() {
        true => format!("above the headroom of {}; {words}", percent(USE_HEADROOM)),
        false => words,
    }
}

fn allowance(out: &mut String, name: &str, met: &AllowanceMet) {
    let packets = met.packets.map_or(String::new(), |packets| format!("{} packets ", short(packets)));
    let _ = writeln!(
        out,
        "  {name}: {packets}held back or dropped {}, because the allowance {} was used up",
        met.when, met.name
    );
}

fn growth(state: &ResourceState) -> String {
    match &state.trend {
        Some(Ok(trend)) => {
            let middle = trend.per_week.middle;
            // What is smaller is shown as nothing, without a sign.
            let sign = if middle > 0.0005 { "+" } else { "" };
            format!("{sign}{}", percent(if middle.abs() < 0.0005 { 0.0 } else { middle }))
        }
        _ => String::new(),
    }
}

/// How a limit becomes known.
fn measured_by(resource: UsedResource, has_shape: bool) -> &'static str {
    match resource {
        _ if !has_shape => "name the shape of the host (--shape) to compare it with a limit",
        UsedResource::Packets => {
            "to know the limit, `evenkeel load --udp` against such a host, until `evenkeel tune check` reports `allowance-exceeded`"
        }
        UsedResource::Connections => {
            "to know the limit, `evenkeel load --connections` against such a host, until `conntrack_allowance_exceeded` of `ethtool -S` grows"
        }
        UsedResource::DiskRequests => {
            "to know the limit, `evenkeel lab run experiments/fileio-matrix.toml` on such a host"
        }
        UsedResource::Cpu | UsedResource::Bandwidth | UsedResource::Memory | UsedResource::Flash => {
            "put the limit into a catalogue of your own (--catalogue)"
        }
    }
}

fn amount(resource: UsedResource, value: f64) -> String {
    match resource {
        UsedResource::Cpu => format!("{} CPUs", short(value)),
        UsedResource::Memory | UsedResource::Flash => bytes(value),
        UsedResource::Bandwidth => bytes(value) + "/s",
        UsedResource::Packets | UsedResource::Connections | UsedResource::DiskRequests => short(value),
    }
}

/// The groups for programs.
pub fn running_json(groups: &[RunningGroup]) -> String {
    let group = |group: &RunningGroup| {
        let hosts: Vec<Value> = group.hosts.iter().map(host_json).collect();
        json!({
            "cluster": group.cluster, "first": first_words(group), "unknown_limits": unknown_limits(group),
            "hosts": hosts,
        })
    };
    let groups: Vec<Value> = groups.iter().map(group).collect();
    format!("{:#}\n", json!({"headroom": USE_HEADROOM, "groups": groups}))
}

fn host_json(host: &HostUse) -> Value {
    json!({
        "host": host.host, "shape": host.shape, "servers": host.servers,
        "resources": host.resources.iter().map(state_json).collect::<Vec<_>>(),
        "allowances_met": host.met.iter().map(met_json).collect::<Vec<_>>(),
    })
}

fn met_json(met: &AllowanceMet) -> Value {
    json!({"name": met.name, "packets": met.packets, "when": met.when})
}

fn state_json(state: &ResourceState) -> Value {
    let outlook = outlook(state);
    let (soonest, middle, latest) = match outlook {
        UseOutlook::Binds { soonest, middle, latest } => (Some(soonest), Some(middle), latest),
        UseOutlook::NotBefore(weeks) => (Some(weeks), None, None),
        _ => (None, None, None),
    };
    let trend = state.trend.as_ref().and_then(|trend| trend.as_ref().ok());
    json!({
        "resource": state.resource.as_str(),
        "used": state.used,
        "most_used": state.most_used(),
        "limit": state.limit.as_ref().map(|limit| limit.value),
        "limit_source": state.limit.as_ref().map(|limit| &limit.source),
        "share": state.share(),
        "outlook": outlook.word(),
        "text": outlook_words(state),
        "weeks": {"soonest": soonest, "middle": middle, "latest": latest},
        "trend": trend.map(|trend| json!({
            "level": trend.level, "days": trend.days, "since_day": trend.since,
            "per_week": {"low": trend.per_week.low, "middle": trend.per_week.middle, "high": trend.per_week.high},
        })),
        "allowances_met": state.met.iter().map(met_json).collect::<Vec<_>>(),
        "note": state.note,
    })
}

#[cfg(test)]
mod tests {
    use fleet::advise::running::{GrowthRange, UseLimit, UseTrend};

    use super::*;

    fn state(resource: UsedResource, used: f64, limit: f64) -> ResourceState {
        let limit = Some(UseLimit { value: limit, source: "a test".into() });
        ResourceState { used: Some(used), limit, ..ResourceState::unknown(resource) }
    }

    fn group(states: Vec<ResourceState>) -> RunningGroup {
        let host = HostUse {
            host: "h17".into(),
            shape: Some("r5.2xlarge".into()),
            servers: vec!["m17".into()],
            instances: Vec::new(),
            resources: states,
            met: Vec::new(),
        };
        RunningGroup { cluster: Some("web".into()), hosts: vec![host] }
    }

    #[test]
    fn the_resource_that_binds_first_is_named_with_its_host() {
        let per_week = GrowthRange { low: 0.05, middle: 0.1, high: 0.15 };
        let trend = Some(Ok(UseTrend { level: 60_000.0, per_week, days: 28, since: None }));
        let packets = ResourceState { trend, ..state(UsedResource::Packets, 50_000.0, 100_000.0) };
        let text = running_text(&[group(vec![state(UsedResource::Cpu, 5.0, 6.4), packets])]);
        assert!(
            text.starts_with("web: 1 host; binds in 7 weeks (4 to 14): packets per second on h17\n"),
            "{text}"
        );
        assert!(text.contains("\nh17 (r5.2xlarge, m17)\n"), "{text}");
        assert!(
            text.contains("78 %          above the headroom of 75 %; no trend: no history (--prometheus)"),
            "{text}"
        );
        assert!(text.contains("60 k     100 k   60 %   +10 %  binds in 7 weeks (4 to 14)"), "{text}");
    }

    #[test]
    fn what_is_not_known_is_not_shown_as_a_number() {
        let unknown = ResourceState { used: Some(7.0), ..ResourceState::unknown(UsedResource::Packets) };
        let text = running_text(&[group(vec![unknown, ResourceState::unknown(UsedResource::Cpu)])]);
        let beginning = "web: 1 host; when something binds is not known\n  not counting what has no known limit: CPU, packets per second\n";
        assert!(text.starts_with(beginning), "{text}");
        assert!(text.contains("packets per second  ") && text.contains("not known"), "{text}");
        assert!(text.contains("until `evenkeel tune check` reports `allowance-exceeded`"), "{text}");
        let json: Value =
            serde_json::from_str(&running_json(&[group(vec![ResourceState::unknown(UsedResource::Cpu)])]))
                .expect("JSON");
        let state = &json["groups"][0]["hosts"][0]["resources"][0];
        assert_eq!(
            (&state["used"], &state["share"], &state["outlook"]),
            (&Value::Null, &Value::Null, &"use_unknown".into())
        );
    }

    #[test]
    fn an_allowance_is_shown_with_what_was_held_back() {
        let mut packets = state(UsedResource::Packets, 1.0, 100.0);
        packets.met.push(AllowanceMet { name: "pps".into(), packets: Some(7.0), when: "in 10 s".into() });
        let text = running_text(&[group(vec![packets])]);
        assert!(text.contains("packets per second: 7 packets held back or dropped in 10 s, because the allowance pps was used up"), "{text}");
        assert!(
            text.contains(
                "web: 1 host; binds now: the cloud has held packets back: packets per second on h17"
            ),
            "{text}"
        );
    }
}
