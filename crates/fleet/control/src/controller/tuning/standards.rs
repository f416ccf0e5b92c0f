//! Standards of hosts: what each host shall have by the policy, what it says of it, and which hosts may act.
//!
//! Nothing of it is in the register: it follows from the policy, the inventory, freezes, changes and what agents say in every turn.

use std::collections::{BTreeMap, BTreeSet};

use fleet::tuning::standards::{HostStandard, StandardHost, StandardSaid, StandardState, granted};
use fleet::{ClusterName, FleetMember, FleetPolicy, HostId, UnfitMember, ZoneName};
use stdx::clock::Now;

use crate::controller::changes::{FleetChanges, HostsNow};
use crate::controller::observing::agents::{AgentRecord, Agents};
use crate::controller::register_mirror::FleetView;
use crate::service::turn::StandardOrder;

/// Interval of looks at all hosts.
const LOOK_EVERY_MS: u64 = 1_000;
/// Time until a host may act at the earliest after that could not be recorded.
const RETRY_MS: u64 = 10_000;

/// All hosts of the fleet by their standards, at one moment. Empty if the policy has none.
#[derive(Default)]
pub(crate) struct HostStandards<'c>(BTreeMap<&'c HostId, HostByStandard<'c>>);

/// A host by its standard.
pub(crate) struct HostByStandard<'c> {
    pub(crate) standard: HostStandard<'c>,
    pub(crate) said: StandardSaid<'c>,
    /// None if it has no standard.
    pub(crate) state: Option<StandardState>,
    clusters: BTreeSet<ClusterName>,
    zone: &'c ZoneName,
    has_work: bool,
    /// Its agent is heard.
    is_heard: bool,
    /// It was, since this controller began.
    was_heard: bool,
}

impl<'c> HostStandards<'c> {
    /// By the policy in force.
    pub(crate) fn of(view: &'c FleetView, agents: &'c Agents) -> HostStandards<'c> {
        HostStandards::by(view.policy(), view, agents)
    }

    /// By another policy: a host that has not been told a standard of it yet does not meet it.
    pub(crate) fn by(
        policy: Option<&'c FleetPolicy>,
        view: &'c FleetView,
        agents: &'c Agents,
    ) -> HostStandards<'c> {
        let Some(policy) = policy.filter(|policy| !policy.tunings.is_empty()) else {
            return HostStandards::default();
        };
        let mut hosts: BTreeMap<&HostId, Vec<&FleetMember>> = BTreeMap::new();
        for member in view.inventory().members() {
            hosts.entry(&member.host).or_default().push(member);
        }
        agents.hosts().for_each(|host| {
            hosts.entry(host).or_default();
        });
        let row = |(host, members): (&'c HostId, Vec<&'c FleetMember>)| {
            let record = agents.get(host);
            let classes = members.iter().map(|member| member.class.as_deref());
            let standard = HostStandard::of(&policy.tunings, classes);
            let said = said_of(standard, record);
            let clusters = members.iter().filter_map(|member| view.slot_of(&member.id));
            let clusters: BTreeSet<ClusterName> = clusters.map(|(cluster, _)| cluster.name.clone()).collect();
            let routes = record.is_some_and(|record| !record.report().routers.is_empty());
            let zone = members.first().map(|member| &member.zone);
            let zone = zone.or(record.map(|record| &record.report().zone))?;
            // Routers may use what had a slot.
            let is_used = |member: &&FleetMember| agents.may_write_to(&member.id, view);
            let has_work = routes || !clusters.is_empty() || members.iter().any(is_used);
            let state = StandardState::of(standard, said);
            let is_heard = record.is_some_and(|record| !record.is_silent());
            let was_heard = record.is_some();
            Some((
                host,
                HostByStandard { standard, said, state, clusters, zone, has_work, is_heard, was_heard },
            ))
        };
        HostStandards(hosts.into_iter().filter_map(row).collect())
    }

    /// All hosts, by their names.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'c HostId, &HostByStandard<'c>)> {
        self.0.iter().map(|(host, row)| (*host, row))
    }

    /// Why members of a host take no slot, as far as that is about its standard.
    pub(crate) fn unfit(&self, host: &HostId) -> Option<UnfitMember> {
        match self.0.get(host)?.state? {
            StandardState::Silent => Some(UnfitMember::StandardUnheard),
            state => (!state.is_fit()).then_some(UnfitMember::Untuned),
        }
    }

    /// Hosts by how they are; all words are there.
    pub(crate) fn counts(&self) -> BTreeMap<&'static str, u64> {
        let mut counts: BTreeMap<_, _> = StandardState::ALL.map(|state| (state.word(), 0)).into();
        for state in self.0.values().filter_map(|row| row.state) {
            *counts.entry(state.word()).or_default() += 1;
        }
        counts
    }
}

fn said_of<'c>(standard: HostStandard<'_>, record: Option<&'c AgentRecord>) -> StandardSaid<'c> {
    let (HostStandard::One(tuning), Some(record)) = (standard, record.filter(|record| !record.is_silent()))
    else {
        return StandardSaid::Silent;
    };
    match &record.report().standard {
        None => StandardSaid::OlderAgent,
        Some(said) if said.wish.as_ref() == Some(&tuning.wish()) => StandardSaid::Word(&said.word),
        Some(_) => StandardSaid::Nothing,
    }
}

/// What each host is told that was looked at; none if it has no standard.
pub(crate) type HostOrders = BTreeMap<HostId, Option<StandardOrder>>;

/// What hosts are told of their standards.
#[derive(Default)]
pub(crate) struct StandardOrders {
    orders: HostOrders,
    /// Hosts that may act, also those that another controller tells so.
    granted: BTreeSet<HostId>,
    look_at: Now,
    /// When hosts are tried again that may not act because that could not be recorded.
    refused: BTreeMap<HostId, Now>,
    /// Nobody may act before: which hosts are being tuned, and what routers use, has not been heard yet.
    hear_until: Now,
    /// That moment is over.
    has_heard: bool,
    /// Hosts with work that were being tuned, or might be, when they were heard last.
    under_repair: BTreeSet<HostId>,
}

/// A host that may act from now on, and why.
pub(crate) struct NewGrant {
    pub(crate) host: HostId,
    pub(crate) why: String,
}

impl StandardOrders {
    /// Lets nobody act before this moment.
    pub(crate) fn hear_until(&mut self, moment: Now) {
        self.hear_until = moment;
    }

    /// What a host is told. One that was not looked at yet has a standard all the same: an agent that was told of none would begin anew with it.
    pub(crate) fn of(&self, host: &HostId, view: &FleetView) -> Option<StandardOrder> {
        if let Some(order) = self.orders.get(host) {
            return order.clone();
        }
        let policy = view.policy().filter(|policy| !policy.tunings.is_empty())?;
        let members = view.inventory().members().filter(|member| member.host == *host);
        let standard = HostStandard::of(&policy.tunings, members.map(|member| member.class.as_deref()));
        order_of(standard, false, policy)
    }

    /// Whether it may act.
    pub(crate) fn is_granted(&self, host: &HostId) -> bool {
        self.granted.contains(host)
    }

    /// Why a host with a standard that is not heard needs a person, if it does. Other lines of the status name one that has served.
    pub(crate) fn missing(&self, host: &HostId, row: &HostByStandard<'_>) -> Option<&'static str> {
        if row.state != Some(StandardState::Silent) {
            return None;
        }
        let is_unheard = self.has_heard && !row.was_heard;
        match self.under_repair.contains(host) {
            true => {
                Some("it has fallen silent while it was tuned again, and keeps its place until it is heard")
            }
            false => is_unheard.then_some("no agent of it is heard, which would tune it"),
        }
    }

    fn told(&self, host: &HostId) -> Option<&StandardOrder> {
        self.orders.get(host)?.as_ref()
    }

    /// Looks at all hosts, if it is time: what they shall be told from now on, and which of them may act that could not before. Nobody may act
    /// without `hosts_now`, or while it is not known which changes are on their way.
    pub(crate) fn look(
        &mut self,
        (view, agents): (&FleetView, &Agents),
        changes: &FleetChanges,
        hosts_now: Option<&HostsNow<'_>>,
        now: Now,
    ) -> Option<(HostOrders, Vec<NewGrant>)> {
        let policy = view.policy().filter(|policy| !policy.tunings.is_empty());
        if now < self.look_at || policy.is_none() && self.orders.is_empty() {
            return None;
        }
        self.look_at = Now::at_ms(now.ms() + LOOK_EVERY_MS);
        let standards = HostStandards::of(view, agents);
        let is_known = view.changes().open().all(|row| changes.get(row.number).is_some());
        let may_act: BTreeSet<&HostId> = match hosts_now.filter(|_| is_known && now >= self.hear_until) {
            Some(hosts_now) => {
                let plans = changes.plans();
                let hosts = standards.iter().map(|(host, row)| StandardHost {
                    host,
                    standard: row.standard,
                    said: row.said,
                    has_work: row.has_work,
                    is_frozen: hosts_now.is_frozen_place(&row.clusters, row.zone),
                    is_in_change: plans.iter().any(|plan| plan.has(host)),
                    is_cut_off: !row.is_heard && self.under_repair.contains(host),
                });
                granted(&hosts.collect::<Vec<_>>())
            }
            None => BTreeSet::new(),
        };
        let waits = |host: &HostId| self.refused.get(host).is_some_and(|until| now < *until);
        let is_at_it = |host: &HostId| may_act.contains(host) && !waits(host);
        let is_under_repair = |(host, row): &(&HostId, &HostByStandard<'_>)| match row.is_heard {
            true => row.has_work && (row.state == Some(StandardState::Tuning) || is_at_it(host)),
            false => self.under_repair.contains(*host),
        };
        let under_repair = standards.iter().filter(is_under_repair).map(|(host, _)| host.clone()).collect();
        // A host is told by the controller that has its turns, which has put that into its audit log before. One that comes here is new.
        let is_here = |host: &HostId| agents.get(host).is_some_and(AgentRecord::is_direct);
        let may_act_here = |host: &HostId| is_at_it(host) && is_here(host);
        let order = |(host, row): (&HostId, &HostByStandard<'_>)| {
            let order = policy.and_then(|policy| order_of(row.standard, may_act_here(host), policy));
            (host.clone(), order)
        };
        let orders = standards.iter().map(order).collect();
        let why = |host: &HostId| {
            let row = standards.0.get(host)?;
            let (HostStandard::One(tuning), StandardSaid::Word(word)) = (row.standard, row.said) else {
                return None;
            };
            let (wish, whose) = (tuning.wish(), tuning.whose());
            let (kind, name) = wish.words();
            let why = format!("{host} gets the standard of {whose}, {kind} {name}: {word}");
            Some(NewGrant { host: host.clone(), why })
        };
        let is_told = |host: &HostId| self.told(host).is_some_and(|order| order.may_act);
        let new = may_act.iter().filter(|host| may_act_here(host) && !is_told(host));
        let new = new.filter_map(|host| why(host)).collect();
        self.granted = may_act.iter().filter(|host| !waits(host)).map(|host| (*host).clone()).collect();
        self.under_repair = under_repair;
        self.has_heard = now >= self.hear_until;
        Some((orders, new))
    }

    /// Tells hosts this from now on, and those that may not act all the same. Returns hosts that are told something else than before.
    pub(crate) fn tell(&mut self, mut orders: HostOrders, refused: &[HostId], now: Now) -> Vec<HostId> {
        for host in refused {
            if let Some(Some(order)) = orders.get_mut(host) {
                order.may_act = false;
            }
            self.granted.remove(host);
        }
        self.refused.retain(|_, until| now < *until);
        let until = Now::at_ms(now.ms() + RETRY_MS);
        self.refused.extend(refused.iter().map(|host| (host.clone(), until)));
        let before = std::mem::replace(&mut self.orders, orders);
        let all: BTreeSet<&HostId> = before.keys().chain(self.orders.keys()).collect();
        let differs = |host: &&HostId| before.get(*host).cloned().flatten().as_ref() != self.told(host);
        all.into_iter().filter(differs).cloned().collect()
    }
}

fn order_of(standard: HostStandard<'_>, may_act: bool, policy: &FleetPolicy) -> Option<StandardOrder> {
    let HostStandard::One(tuning) = standard else { return None };
    Some(StandardOrder { wish: tuning.wish(), may_act, confirm_ms: policy.waves.confirm_ms })
}
