//! Facts about hosts that a change follows: silence, freezes, hosts that have left, and figures of what runs on them.

use std::collections::BTreeSet;

use fleet::figures::{FigureBook, FigurePoint, RouterRates, ServerRates};
use fleet::health::GuardScope;
use fleet::waves::{HostFigures, PlannedHost};
use fleet::{ClusterName, HostId, ZoneName};
use stdx::clock::Now;

use crate::controller::health::MemberHealth;
use crate::controller::observing::agents::Agents;
use crate::controller::register_mirror::FleetView;
use crate::service::turn::TurnReport;

/// All hosts as they are now.
pub(crate) struct HostsNow<'c> {
    agents: &'c Agents,
    gone: BTreeSet<&'c HostId>,
    /// By people and by the guard.
    frozen: Vec<GuardScope>,
    guarded: Vec<(GuardScope, String)>,
}

impl<'c> HostsNow<'c> {
    pub(crate) fn new(view: &'c FleetView, agents: &'c Agents, health: &MemberHealth) -> HostsNow<'c> {
        let guarded = health.frozen().map(|(scope, reason)| (scope.clone(), reason));
        let guarded: Vec<(GuardScope, String)> = guarded.collect();
        let by_people = view.frozen().iter().filter_map(|(scope, _)| scope_of(scope));
        HostsNow {
            agents,
            gone: view.gone().iter().map(|gone| &gone.host).collect(),
            frozen: by_people.chain(guarded.iter().map(|(scope, _)| scope.clone())).collect(),
            guarded,
        }
    }

    /// Something is frozen.
    pub(super) fn has_frozen(&self) -> bool {
        !self.frozen.is_empty()
    }

    /// A person or the guard has frozen a scope that it is in.
    pub(crate) fn is_frozen(&self, host: &PlannedHost) -> bool {
        self.is_frozen_place(&host.clusters, &host.zone)
    }

    /// The same of a host with slots of these clusters in this zone.
    pub(crate) fn is_frozen_place(&self, clusters: &BTreeSet<ClusterName>, zone: &ZoneName) -> bool {
        self.frozen.iter().any(|scope| match scope {
            GuardScope::Fleet => true,
            GuardScope::Cluster(name) => clusters.contains(name),
            GuardScope::Zone(name) => zone == name,
        })
    }

    /// It was taken out of the fleet, and its agent has not spoken since.
    pub(super) fn has_left(&self, host: &HostId) -> bool {
        self.gone.contains(host) && self.agents.get(host).is_none()
    }

    /// Its agent is heard.
    pub(super) fn is_heard(&self, host: &HostId) -> bool {
        self.agents.get(host).is_some_and(|record| !record.is_silent())
    }

    /// Since when its agent is not heard; none of one that is, and of one that was never heard here.
    pub(super) fn silent_since(&self, host: &HostId) -> Option<Now> {
        let record = self.agents.get(host)?;
        record.is_silent().then(|| record.heard())
    }

    /// Scopes that the guard has frozen and that have hosts of these clusters or zones, and why.
    pub(super) fn guarded(
        &self,
        clusters: &BTreeSet<ClusterName>,
        zones: &BTreeSet<ZoneName>,
    ) -> impl Iterator<Item = (String, String)> {
        let touches = |scope: &GuardScope| match scope {
            GuardScope::Fleet => true,
            GuardScope::Cluster(name) => clusters.contains(name),
            GuardScope::Zone(name) => zones.contains(name),
        };
        let guarded = self.guarded.iter().filter(move |(scope, _)| touches(scope));
        guarded.map(|(scope, reason)| (scope.to_string(), reason.clone()))
    }
}

/// What a person has frozen, but for members and hosts in quarantine: a host whose members take no slot may be changed all the same.
fn scope_of(text: &str) -> Option<GuardScope> {
    match text.split_once('/') {
        None if text == "fleet" => Some(GuardScope::Fleet),
        Some(("cluster", name)) => name.parse().ok().map(GuardScope::Cluster),
        Some(("zone", name)) => name.parse().ok().map(GuardScope::Zone),
        _ => None,
    }
}

/// The figures of the newest points of what runs on a host, and when they are from; none if they are not newer than that moment. Servers
/// count if there are any: of a host with both, its routers' requests are the servers' work as well.
pub(crate) fn host_figures(
    report: &TurnReport,
    book: &FigureBook,
    after: Option<u32>,
) -> Option<(u32, HostFigures)> {
    let servers = report.members.iter().filter_map(|one| Some(*book.server(&one.member)?.latest()));
    let servers = newest(servers.collect());
    let (at_s, figures) = match servers.first() {
        Some(point) => {
            (point.at_s(), of_servers(&servers.iter().map(FigurePoint::server).collect::<Vec<_>>()))
        }
        None => {
            let routers = report.routers.iter().filter_map(|one| Some(*book.router(&one.router)?.latest()));
            let routers = newest(routers.collect());
            let at_s = routers.first()?.at_s();
            (at_s, of_routers(&routers.iter().map(FigurePoint::router).collect::<Vec<_>>()))
        }
    };
    (after.is_none_or(|after| at_s > after)).then_some((at_s, figures))
}

/// Those of the last turn.
fn newest(mut points: Vec<FigurePoint>) -> Vec<FigurePoint> {
    let last = points.iter().map(FigurePoint::at_s).max();
    points.retain(|point| Some(point.at_s()) == last);
    points
}

/// What is unknown of one of them is unknown of all together.
fn of_servers(rates: &[ServerRates]) -> HostFigures {
    let waits: Option<Vec<f64>> = rates.iter().map(|one| one.scheduling_wait_share).collect();
    HostFigures {
        requests_per_cpu_s: per_cpu_s(rates.iter().map(|one| (one.requests_per_s, one.cpus))),
        // What a client waits for at the server: its turn, and the reply.
        p99_us: largest(rates.iter().map(|one| Some(one.wait_p99_us? + one.service_p99_us?))),
        scheduling_wait: waits.filter(|waits| !waits.is_empty()).map(|waits| {
            let count = waits.len() as f64;
            waits.into_iter().sum::<f64>() / count
        }),
    }
}

fn of_routers(rates: &[RouterRates]) -> HostFigures {
    HostFigures {
        requests_per_cpu_s: per_cpu_s(rates.iter().map(|one| (one.requests_per_s, one.cpus))),
        p99_us: largest(rates.iter().map(|one| one.reply_p99_us)),
        scheduling_wait: None,
    }
}

fn per_cpu_s(mut rates: impl Iterator<Item = (Option<f64>, Option<f64>)>) -> Option<f64> {
    let sums = rates.try_fold((0.0, 0.0), |sum, (requests, cpus)| Some((sum.0 + requests?, sum.1 + cpus?)));
    sums.filter(|(_, cpus)| *cpus > 0.0).map(|(requests, cpus)| requests / cpus)
}

fn largest(figures: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let figures: Option<Vec<f64>> = figures.collect();
    figures?.into_iter().reduce(f64::max)
}
