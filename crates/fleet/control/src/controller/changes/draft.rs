//! Drafts of changes: what would be done to which hosts, and those that were shown lately.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fleet::figures::shadow::{GateState, ShadowGate};
use fleet::tuning::AnswerDigest;
use fleet::waves::{ChangeDraft, HostsAlike, PlannedHost};
use fleet::{HostId, MemberId};

use crate::decisions::changes::ChangeAct;

/// Plans that were shown and are remembered.
const SHOWN_MAX: usize = 8;

/// A change before it has a number.
pub(crate) struct DraftedChange {
    /// Its number is 0.
    pub(crate) draft: ChangeDraft,
    pub(crate) act: ChangeAct,
    pub(crate) objective: Option<String>,
    /// What has to be so before it begins, and what that says now.
    pub(crate) gate: Option<(ShadowGate, GateState)>,
    /// Hosts of the scope that are not part of it, and why.
    pub(crate) left: Vec<(HostId, String)>,
    /// What is to be done by hand on hosts of it, as they say.
    pub(crate) advice: Vec<(HostId, String)>,
    /// Servers that people bring the version to, with their hosts.
    pub(crate) by_hand: Vec<(MemberId, HostId)>,
    /// Changes with anything that was shown.
    pub(crate) digest: AnswerDigest,
}

/// What a person types to accept a kind.
pub(crate) fn kind_word(kind: &HostsAlike) -> String {
    match &kind.class {
        Some(class) => format!("{class}/{}", kind.group),
        None => kind.group.clone(),
    }
}

/// Hosts of plans that were shown lately.
#[derive(Default)]
pub(crate) struct ShownChanges(VecDeque<(AnswerDigest, BTreeMap<HostId, String>)>);

impl ShownChanges {
    /// Remembers what was shown.
    pub(crate) fn note(&mut self, drafted: &DraftedChange) {
        self.0.retain(|(digest, _)| *digest != drafted.digest);
        self.0.push_back((drafted.digest.clone(), rows(drafted)));
        if self.0.len() > SHOWN_MAX {
            self.0.pop_front();
        }
    }

    /// Hosts that would change something else now than what was shown; none if that is not known any more.
    pub(crate) fn differing(&self, shown: &str, now: &DraftedChange) -> Vec<HostId> {
        let Some((_, before)) = self.0.iter().find(|(digest, _)| digest.as_str() == shown) else {
            return Vec::new();
        };
        let now = rows(now);
        let hosts: BTreeSet<&HostId> = before.keys().chain(now.keys()).collect();
        hosts.into_iter().filter(|host| before.get(*host) != now.get(*host)).cloned().collect()
    }
}

fn rows(drafted: &DraftedChange) -> BTreeMap<HostId, String> {
    let own = &drafted.act.own;
    let row = |host: &PlannedHost| {
        let json = serde_json::to_string(&(host, own.get(&host.host))).expect("it has names");
        (host.host.clone(), json)
    };
    drafted.draft.hosts.iter().map(row).collect()
}
