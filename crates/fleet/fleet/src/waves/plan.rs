//! The plan of a fleet-wide change: its hosts as they were when it was planned, and kinds of hosts that are judged apart.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Deref;

use serde::{Deserialize, Serialize};

use super::figures::FigureKind;
use super::pairs;
use super::settings::{WaveSettings, WaveSettingsError};
use crate::{ClusterName, HostId, ZoneName};

/// Hosts of a change: what [`crate::MEMBERS_MAX`] members can be on at most.
const HOSTS_MAX: usize = crate::MEMBERS_MAX;

/// A change's place in the chain of changes, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ChangeNumber(pub u64);

impl fmt::Display for ChangeNumber {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        write!(formatter, "{}", self.0)
    }
}

/// What a host's members are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostRole {
    /// Servers.
    Server,
    /// Routers.
    Router,
    /// Both.
    Both,
    /// None: it runs a controller.
    Controller,
}

/// A host as it was when the change was planned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedHost {
    /// Which.
    pub host: HostId,
    /// Where it is.
    pub zone: ZoneName,
    /// What kind of machine it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// Hosts of one group change the same settings in the same way.
    pub group: String,
    /// What its members are.
    pub role: HostRole,
    /// Clusters of its members.
    pub clusters: BTreeSet<ClusterName>,
    /// A controller on it is replaced, too: it comes last, and no other such host with it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_last: bool,
}

impl PlannedHost {
    /// What is judged apart.
    pub(super) fn kind(&self) -> HostsAlike {
        HostsAlike { class: self.class.clone(), group: self.group.clone() }
    }
}

/// Hosts of equal class and equal plan: they have canaries of their own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HostsAlike {
    /// What kind of machine they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// What their plan is.
    pub group: String,
}

impl fmt::Display for HostsAlike {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        match &self.class {
            Some(class) => write!(formatter, "class {class}, plan {}", self.group),
            None => write!(formatter, "plan {}", self.group),
        }
    }
}

/// Why a change does not begin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// Nothing to change.
    #[error("change hosts: none is in the scope")]
    NoHosts,
    /// More than any fleet has.
    #[error("change {0} hosts: at most {HOSTS_MAX} are accepted")]
    TooMany(usize),
    /// One host with two plans.
    #[error("change the host {0}: it is in the scope twice, with different plans; name it once")]
    TwoPlans(HostId),
    /// Another change is on its way there.
    #[error(
        "change the host {host}: the change {other} is on its way there and on {more} others of these hosts; wait for its end or undo it"
    )]
    Overlap {
        /// One of them.
        host: HostId,
        /// The other change.
        other: ChangeNumber,
        /// How many more hosts are in both.
        more: usize,
    },
    /// Nothing can be compared there.
    #[error(
        "judge hosts of {kind}: of {hosts} no two have equal cluster, zone and role, so none has a control; a person has to accept them unjudged, or leave them out"
    )]
    NoPair {
        /// The hosts.
        kind: HostsAlike,
        /// How many they are.
        hosts: usize,
    },
    /// Too few to judge, and they cannot take turns.
    #[error(
        "judge hosts of {kind}: {pairs} pairs are fewer than the {least} of a look, and this change cannot go on and off in turns; a person has to accept them unjudged, or leave them out"
    )]
    TooFewPairs {
        /// The hosts.
        kind: HostsAlike,
        /// Pairs that there are.
        pairs: usize,
        /// Pairs of the first look.
        least: usize,
    },
    /// A setting outside its bounds.
    #[error(transparent)]
    Settings(#[from] WaveSettingsError),
}

/// A change of hosts as it is asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChangeDraft {
    /// Its place in the chain of changes.
    pub number: ChangeNumber,
    /// What is done to a host, in words.
    pub what: String,
    /// Hosts, each once.
    pub hosts: Vec<PlannedHost>,
    /// Figures that shall become better.
    pub promised: Vec<FigureKind>,
    /// It restarts something: at most one host of a cluster has it under way.
    pub restarts: bool,
    /// It can go on and off in turns, for kinds with few pairs.
    pub takes_turns: bool,
    /// Kinds that a person has accepted unjudged.
    pub accepted: BTreeSet<HostsAlike>,
    /// Sizes, times and margins.
    pub settings: WaveSettings,
}

/// A draft that was checked: hosts are sorted, each is there once. Never written again once it is in the register.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ChangePlan(ChangeDraft);

impl Deref for ChangePlan {
    type Target = ChangeDraft;

    fn deref(&self) -> &ChangeDraft {
        &self.0
    }
}

impl ChangePlan {
    /// Refuses what cannot be judged, or collides with a change that is on its way. Hosts are sorted, and those that several scopes
    /// name are taken once.
    ///
    /// # Errors
    /// Names the host or the kind, and what a person can do.
    pub fn new(mut draft: ChangeDraft, running: &[&ChangePlan]) -> Result<ChangePlan, ChangeError> {
        draft.settings.check()?;
        draft.hosts.sort_by(|one, other| one.host.cmp(&other.host));
        draft.hosts.dedup();
        if let Some(twice) = draft.hosts.windows(2).find(|two| two[0].host == two[1].host) {
            return Err(ChangeError::TwoPlans(twice[0].host.clone()));
        }
        let plan = ChangePlan(draft);
        match plan.hosts.len() {
            0 => return Err(ChangeError::NoHosts),
            count if count > HOSTS_MAX => return Err(ChangeError::TooMany(count)),
            _ => {}
        }
        let own: BTreeSet<&HostId> = plan.hosts.iter().map(|host| &host.host).collect();
        for other in running {
            let mut both = other.hosts.iter().map(|host| &host.host).filter(|host| own.contains(host));
            if let Some(host) = both.next() {
                let (host, more) = (host.clone(), both.count());
                return Err(ChangeError::Overlap { host, other: other.number, more });
            }
        }
        for (kind, hosts) in plan.judged_kinds() {
            let pairs =
                pairs::draw(&plan, &hosts, |place| !plan.hosts[place].is_last, plan.settings.pairs).len();
            let least = plan.settings.pairs;
            match pairs {
                0 => return Err(ChangeError::NoPair { kind, hosts: hosts.len() }),
                _ if pairs < least && !plan.takes_turns => {
                    return Err(ChangeError::TooFewPairs { kind, pairs, least });
                }
                _ => {}
            }
        }
        Ok(plan)
    }

    /// Kinds of hosts.
    pub fn kinds_of(hosts: &[PlannedHost]) -> BTreeSet<HostsAlike> {
        hosts.iter().map(PlannedHost::kind).collect()
    }

    /// Hosts of each kind, by their places in the list.
    pub fn kinds(&self) -> BTreeMap<HostsAlike, Vec<usize>> {
        let mut kinds = BTreeMap::<HostsAlike, Vec<usize>>::new();
        for (place, host) in self.hosts.iter().enumerate() {
            kinds.entry(host.kind()).or_default().push(place);
        }
        kinds
    }

    /// Those of them that are judged: neither accepted by a person, nor of hosts alone that come last.
    pub(super) fn judged_kinds(&self) -> impl Iterator<Item = (HostsAlike, Vec<usize>)> {
        let is_judged = |(kind, hosts): &(HostsAlike, Vec<usize>)| {
            !self.accepted.contains(kind) && hosts.iter().any(|place| !self.hosts[*place].is_last)
        };
        self.kinds().into_iter().filter(is_judged)
    }

    /// Whether a host is part of it.
    pub fn has(&self, host: &HostId) -> bool {
        self.place(host).is_some()
    }

    /// The place of a host in the list.
    pub(super) fn place(&self, host: &HostId) -> Option<usize> {
        self.hosts.binary_search_by(|planned| planned.host.cmp(host)).ok()
    }
}
