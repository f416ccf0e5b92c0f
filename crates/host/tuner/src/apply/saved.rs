//! Saved plan: the host on which it was made, and the settings that it may name.
//!
//! Interrupts, threads and interfaces are named by numbers and words that have other meanings on another host, after
//! a restart, or in another network namespace. And any user may have written the file: root carries out only what a
//! strategy, a profile or a remedy of this program could have proposed.

use serde::{Deserialize, Serialize};

use crate::apply::journal::BootAndNamespace;
use crate::apply::undoable::is_ours;
use crate::observe::network_namespace;
use crate::observe::root::{self, Root};
use crate::plan::Plan;
use crate::plan::change::Setting;

/// The host on which a plan was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanOrigin {
    /// The host's name, for people.
    pub host: String,
    /// Its boot and the network namespace.
    #[serde(flatten)]
    pub place: BootAndNamespace,
}

/// A plan as it is in a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Saved {
    /// The host on which it was made.
    pub made: PlanOrigin,
    /// The changes.
    #[serde(flatten)]
    pub plan: Plan,
}

/// Reasons why a plan is not carried out here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanRejected {
    /// Numbers of interrupts and threads are those of another host.
    #[error("it was made on {made:?}, and this is {here:?}")]
    Host {
        /// The host on which it was made.
        made: String,
        /// The host on which it should be carried out.
        here: String,
    },
    /// Numbers change with each start.
    #[error("it was made before this host was started the last time")]
    Boot,
    /// Interfaces are different ones.
    #[error("it was made in the network namespace {}, and this is another one", network_namespace::name(.0))]
    Network(String),
    /// No strategy, profile or remedy sets it.
    #[error("it would set {0}, which no strategy or profile sets")]
    Foreign(Setting),
}

impl PlanOrigin {
    /// The host of a root.
    pub fn of(root: &Root) -> Result<PlanOrigin, root::Error> {
        let host = root.read("/proc/sys/kernel/hostname")?.unwrap_or_default();
        Ok(PlanOrigin { host, place: BootAndNamespace::of(root)? })
    }
}

impl Saved {
    /// Whether it may be carried out here.
    pub fn check(&self, here: &PlanOrigin) -> Result<(), PlanRejected> {
        let made = &self.made;
        if made.host != here.host {
            return Err(PlanRejected::Host { made: made.host.clone(), here: here.host.clone() });
        }
        if made.place.boot_id != here.place.boot_id {
            return Err(PlanRejected::Boot);
        }
        let is_here = match (&made.place.network, &here.place.network) {
            (Some(made), Some(here)) => network_namespace::is_same(made, here),
            (made, here) => made == here,
        };
        if !is_here {
            return Err(PlanRejected::Network(made.place.network.clone().unwrap_or_default()));
        }
        self.check_settings()
    }

    /// Whether it names only settings of this program.
    pub fn check_settings(&self) -> Result<(), PlanRejected> {
        match self.plan.changes.iter().find(|change| !is_ours(&change.setting)) {
            None => Ok(()),
            Some(change) => Err(PlanRejected::Foreign(change.setting.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::change::{Change, Risk, Stage};

    fn saved() -> Saved {
        let change = Change {
            stage: Stage::Sysctl,
            setting: Setting::number("/proc/sys/net/core/somaxconn"),
            now: "128".into(),
            wanted: "4096".into(),
            why: String::new(),
            asked_by: String::new(),
            risk: Risk::Low,
            signal: Default::default(),
        };
        let place = BootAndNamespace { boot_id: "b".into(), network: Some("net:[1]".into()) };
        let plan = Plan { changes: vec![change], ..Plan::default() };
        Saved { made: PlanOrigin { host: "cache1".into(), place }, plan }
    }

    #[test]
    fn a_plan_is_for_the_host_the_boot_and_the_network_that_it_was_made_on() {
        let saved = saved();
        let refused = |change: fn(&mut PlanOrigin)| {
            let mut here = saved.made.clone();
            change(&mut here);
            saved.check(&here).err().map(|refused| refused.to_string())
        };
        assert_eq!(refused(|_| ()), None);
        let other = "it was made on \"cache1\", and this is \"cache2\"";
        assert_eq!(refused(|here| here.host = "cache2".into()).as_deref(), Some(other));
        let before = "it was made before this host was started the last time";
        assert_eq!(refused(|here| here.place.boot_id = "c".into()).as_deref(), Some(before));
        let there = "it was made in the network namespace net:[1], and this is another one";
        assert_eq!(refused(|here| here.place.network = None).as_deref(), Some(there));
        let mut saved = saved.clone();
        saved.plan.changes[0].setting = Setting::number("/proc/sys/kernel/panic");
        let foreign = "it would set /proc/sys/kernel/panic, which no strategy or profile sets";
        assert_eq!(saved.check(&saved.made).unwrap_err().to_string(), foreign);
    }

    #[test]
    fn it_is_written_and_read_as_one_object() {
        let text = serde_json::to_string(&saved()).unwrap();
        assert!(text.starts_with("{\"made\":{\"host\":\"cache1\",\"boot_id\":\"b\","), "{text}");
        assert_eq!(serde_json::from_str::<Saved>(&text).unwrap(), saved());
        let error = serde_json::from_str::<Saved>("{\"changes\":[]}").unwrap_err().to_string();
        assert!(error.starts_with("missing field `made`"), "{error}");
    }
}
