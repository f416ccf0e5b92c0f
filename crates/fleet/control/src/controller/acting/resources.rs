//! Resources of hosts that are used up, or nearly: CPUs by figures of servers, and allowances of the cloud by what the tuner finds.
//!
//! Whether use grows is not known here: figures of half an hour have no trend. `evenkeel advise --running` asks Prometheus for it.

use std::collections::BTreeMap;

use fleet::HostId;
use fleet::advise::running::{HOST_CPU_CEILING, USE_HEADROOM};
use fleet::figures::MemberPoints;
use fleet::tuning::{FindingLine, HostAnswer, HostFacts};
use stdx::words::counted;

use crate::controller::Controller;
use crate::controller::observing::agents::AgentRecord;
use crate::service::turn::TuneBody;

/// The rule of the tuner that finds allowances.
pub(super) const ALLOWANCE_RULE: &str = "allowance-exceeded";

/// The time over which use is looked at: what lasts for less is no lack of CPUs.
const WINDOW_S: u32 = 600;
/// Points in it, of some 40, without which nothing is said.
const POINTS_MIN: usize = 10;
/// The share of a host's CPUs that servers use on purpose, at most.
const PLANNED_SHARE: f64 = HOST_CPU_CEILING * USE_HEADROOM;
/// A host that uses less than this part of it now is not looked at any further.
const RECENT_LEAST: f64 = 0.5;
/// Names in a sentence.
const NAMES_MAX: usize = 5;

/// A host whose servers use more CPUs than is planned.
pub(super) struct PressedHost {
    pub(super) host: HostId,
    /// Of its CPUs.
    share: f64,
}

/// Those hosts, the fullest first. A host that does not say how many CPUs it has is none of them.
pub(super) fn pressed_hosts(controller: &Controller) -> Vec<PressedHost> {
    let book = controller.agents.figures().book();
    let now_s = u32::try_from(controller.now.ms() / 1000).unwrap_or(u32::MAX);
    let mut by_host: BTreeMap<&HostId, Vec<&MemberPoints>> = BTreeMap::new();
    for member in controller.register.view().inventory().members() {
        let points = book.server(&member.id);
        by_host.entry(&member.host).or_default().extend(points);
    }
    // What is not known of one server is left out: with it, its host would use more.
    let share = |(host, servers): (&HostId, Vec<&MemberPoints>)| {
        let now: f64 = servers.iter().filter_map(|points| points.latest().server().cpus).sum();
        // Half an hour of every server of a large fleet is not looked at for each page of a console.
        if now < PLANNED_SHARE * RECENT_LEAST {
            return None;
        }
        let count =
            f64::from(controller.agents.get(host).and_then(|record| facts(controller, record)?.cpu_count())?);
        if now < PLANNED_SHARE * RECENT_LEAST * count {
            return None;
        }
        let cpus: f64 = servers.into_iter().filter_map(|points| recent_cpus(points, now_s)).sum();
        Some(PressedHost { host: host.clone(), share: cpus / count })
    };
    let mut pressed: Vec<PressedHost> =
        by_host.into_iter().filter_map(share).filter(|pressed| pressed.share >= PLANNED_SHARE).collect();
    pressed.sort_by(|one, other| other.share.total_cmp(&one.share).then(one.host.cmp(&other.host)));
    pressed
}

/// The mean of the last minutes.
fn recent_cpus(points: &MemberPoints, now_s: u32) -> Option<f64> {
    let recent = points.iter().filter(|point| point.at_s() + WINDOW_S >= now_s);
    let cpus: Vec<f64> = recent.filter_map(|point| point.server().cpus).collect();
    (cpus.len() >= POINTS_MIN).then(|| cpus.iter().sum::<f64>() / cpus.len() as f64)
}

fn facts<'c>(controller: &'c Controller, record: &'c AgentRecord) -> Option<&'c HostFacts> {
    match controller.tuning.check_of(Some(record)) {
        HostAnswer::Given(answer) => answer.host_facts(),
        HostAnswer::Missing(_) => None,
    }
}

/// Hosts at which the cloud has held packets back, by what was used up.
pub(super) fn allowances_met(controller: &Controller) -> BTreeMap<&str, Vec<&HostId>> {
    let mut met: BTreeMap<&str, Vec<&HostId>> = BTreeMap::new();
    for (host, record) in controller.agents.iter() {
        for finding in findings(controller, record).iter().filter(|finding| finding.rule == ALLOWANCE_RULE) {
            let hosts = met.entry(&finding.cause).or_default();
            if hosts.last().is_none_or(|last| *last != host) {
                hosts.push(host);
            }
        }
    }
    met
}

/// What the tuner has found on a host.
pub(super) fn findings<'c>(controller: &'c Controller, record: &'c AgentRecord) -> &'c [FindingLine] {
    match controller.tuning.check_of(Some(record)) {
        HostAnswer::Given(answer) => match answer.body {
            TuneBody::Check(check) => &check.findings,
            _ => &[],
        },
        HostAnswer::Missing(_) => &[],
    }
}

/// One sentence for all of these hosts, without its full stop.
pub(super) fn pressed_words(pressed: &[PressedHost]) -> Option<String> {
    let first = pressed.first()?;
    let names: Vec<&str> = pressed.iter().take(NAMES_MAX).map(|pressed| pressed.host.as_str()).collect();
    let more = match pressed.len() - names.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!(
        "servers use more CPU than is planned on {} ({}{more}): {:.0} % of the CPUs of {} in the last ten minutes, and {:.0} % leave \
         room for what is not foreseen",
        counted(pressed.len(), "host"),
        names.join(", "),
        first.share * 100.0,
        first.host,
        PLANNED_SHARE * 100.0,
    ))
}

impl Controller {
    /// Lines of the status about resources.
    pub(super) fn resource_lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = pressed_words(&pressed_hosts(self)).into_iter().collect();
        lines.extend(allowances_met(self).into_iter().map(|(cause, hosts)| {
            let names: Vec<&str> = hosts.iter().take(NAMES_MAX).map(|host| host.as_str()).collect();
            let more = if hosts.len() > names.len() { ", …" } else { "" };
            format!("{cause}: {} ({}{more})", counted(hosts.len(), "host"), names.join(", "))
        }));
        lines
    }
}
