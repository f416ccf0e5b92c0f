//! Lists of routers for clients with auto-discovery: one for each view and zone, with a revision that only grows.

use std::collections::BTreeMap;

use fleet::{HostId, RouterId, ViewName, ZoneName};
use serde::{Deserialize, Serialize};

use super::{FleetDecisions, misunderstood};
use crate::register::{RegisterError, RegisterKey, Revision, Transaction, TransactionOutcome};

/// Which list.
pub(crate) type ListScope = (ViewName, ZoneName);

/// The routers of a view in a zone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouterList {
    /// Clients follow a list only if this is higher than that of the one before.
    pub revision: u64,
    /// By their names.
    pub routers: BTreeMap<RouterId, ListedRouter>,
}

/// A router that clients are told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedRouter {
    /// The host whose agent is beside it.
    pub host: HostId,
    /// Where clients reach it.
    pub address: String,
}

impl FleetDecisions {
    /// All lists, and the revision of the register at which each was written.
    ///
    /// # Errors
    /// If the register cannot be asked or believed.
    pub fn router_lists(&self) -> Result<BTreeMap<ListScope, (RouterList, Revision)>, RegisterError> {
        let range = self.register.range(&self.prefix("router-lists"))?;
        let lists = range.entries.iter().map(|entry| {
            let mut names = entry.key.as_str().rsplit('/');
            let (zone, view) = (names.next().unwrap_or_default(), names.next().unwrap_or_default());
            let scope = view.parse().ok().zip(zone.parse().ok());
            let list = serde_json::from_slice(&entry.value).ok();
            let (scope, list) = scope
                .zip(list)
                .ok_or_else(|| misunderstood(&entry.key, "a view's and zone's list of routers"))?;
            Ok((scope, (list, entry.revision)))
        });
        lists.collect()
    }

    /// Replaces a list if nobody has since `revision`. Returned is the revision at which it was written.
    ///
    /// # Errors
    /// If the register cannot be asked.
    pub fn set_router_list(
        &self,
        scope: &ListScope,
        list: &RouterList,
        revision: Revision,
    ) -> Result<Option<Revision>, RegisterError> {
        let key: RegisterKey = self.key(&format!("router-lists/{}/{}", scope.0, scope.1));
        let json = serde_json::to_vec(list).expect("a list has names and texts");
        match self.register.put_if(&Transaction::if_revision(key.clone(), revision).put(key, json))? {
            TransactionOutcome::Committed(revision) => Ok(Some(revision)),
            _ => Ok(None),
        }
    }
}
