//! Policy: what people want of a fleet, as TOML.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::adopt::BareText;
use crate::waves::{WaveSettings, WaveSettingsError};
use crate::{ClusterName, ViewName, ZoneName};
pub(crate) use shadows::{SHADOWS_MAX, ShadowedKeys, asks_handle};
pub use shadows::{ShadowPolicy, shadow_step};
pub use sizes::{RESIZE_WARM_UP_S, RESIZE_WARM_UP_S_MAX, policy_with_slots};
pub use substitutes::{GUTTER_EXPTIME_S_MAX, WARM_UP_EXPTIME_S_MAX};
pub(crate) use substitutes::{GutterPolicy, WarmUpPolicy};
pub(crate) use tunings::DriftPolicy;
use tunings::TUNINGS_MAX;
pub use tunings::TuningPolicy;

mod shadows;
mod sizes;
mod substitutes;
mod tunings;

/// Longest policy in bytes: 70 clusters with routes for a few views need some 200 KB.
pub const POLICY_LEN_MAX: usize = 4 * 1024 * 1024;
/// Clusters of a fleet: as many as the watch over its health takes.
pub const CLUSTERS_MAX: usize = crate::health::CLUSTERS_MAX;
/// Slots of a cluster: beyond, a router's plan takes more memory than its connections.
pub const SLOTS_MAX: usize = 10_000;
/// Views of a fleet.
pub const VIEWS_MAX: usize = 256;

/// A policy.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FleetPolicy {
    /// The fleet's name, which keys of its register begin with.
    pub fleet: ClusterName,
    /// Its clusters.
    #[serde(default, rename = "cluster")]
    pub clusters: Vec<ClusterPolicy>,
    /// Requests that are copied from one cluster to another.
    #[serde(default, rename = "shadow")]
    pub shadows: Vec<ShadowPolicy>,
    /// What its routers read.
    #[serde(default, rename = "view")]
    pub views: Vec<ViewPolicy>,
    /// How changes of its hosts go, unless a change says otherwise.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub waves: WaveSettings,
    /// Standards of its hosts.
    #[serde(default, rename = "tuning", skip_serializing_if = "Vec::is_empty")]
    pub tunings: Vec<TuningPolicy>,
}

/// What is wanted of a cluster.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterPolicy {
    /// Its name, and that of its pool in mcrouter's language.
    pub name: ClusterName,
    /// Slots. A cluster grows and shrinks at its end.
    pub slots: usize,
    /// Only members of this class take a slot; any if there is none.
    #[serde(default)]
    pub class: Option<String>,
    /// Only members of these zones take a slot; of all if there are none.
    #[serde(default)]
    pub zones: Vec<ZoneName>,
    /// Several slots may be on one host, as on a laptop.
    #[serde(default)]
    pub shares_hosts: bool,
    /// Who answers for its lost members.
    #[serde(default)]
    pub gutter: Option<GutterPolicy>,
    /// What fills the slot of a new member; its gutter if there is none.
    #[serde(default)]
    pub warm_up: Option<WarmUpPolicy>,
    /// How long the new owners of keys are warmed up when `slots` changes, in seconds.
    #[serde(default = "sizes::resize_warm_up_s", skip_serializing_if = "sizes::is_usual_warm_up_s")]
    pub resize_warm_up_s: u32,
    /// Attributes of the pool in mcrouter's language, but `servers`.
    #[serde(default)]
    pub pool: BTreeMap<String, toml::Value>,
}

/// What a group of routers reads.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ViewPolicy {
    /// Its name.
    pub name: ViewName,
    /// Clusters that are pools in it; all if there are none.
    #[serde(default)]
    pub clusters: Vec<ClusterName>,
    /// `/region/cluster/` of keys without one, as its routers have it by `--route-prefix`; `/././` if there is none.
    #[serde(default)]
    pub route_prefix: Option<String>,
    /// An object in mcrouter's language, without `pools`: these are generated.
    pub routes: String,
}

/// Why a policy cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// Longer than any.
    #[error("the policy has {0} bytes, and at most {POLICY_LEN_MAX} are accepted")]
    TooLong(usize),
    /// Not TOML, or a key that there is not.
    #[error("understand the policy: {0}")]
    Toml(String),
    /// A number beyond its limit.
    #[error("{what} has {found} {of}: {least} to {most} are accepted")]
    Count {
        /// Whose.
        what: String,
        /// Of what.
        of: &'static str,
        /// How many.
        found: usize,
        /// The least.
        least: usize,
        /// The most.
        most: usize,
    },
    /// Waves that cannot be.
    #[error("[waves]: {0}")]
    Waves(#[from] WaveSettingsError),
    /// Two parts of one name.
    #[error("{what} {name} is there twice")]
    Twice {
        /// Of which kind.
        what: &'static str,
        /// Which.
        name: String,
    },
    /// A cluster that no part of the policy describes.
    #[error("the view {view} names the cluster {cluster}, which the policy does not have")]
    NoCluster {
        /// The view.
        view: ViewName,
        /// The cluster.
        cluster: ClusterName,
    },
    /// An attribute that is generated.
    #[error("the cluster {0} sets `servers` of its pool, which follow from its slots")]
    Servers(ClusterName),
    /// Routes with pools of their own, which would be read in place of those that are put in.
    #[error(
        "the view {0} has `pools` in its routes, which follow from clusters and slots\n  hint: `control adopt FILE` makes clusters of them"
    )]
    Pools(ViewName),
    /// No routing prefix.
    #[error("the view {view}: expected route_prefix = \"/region/cluster/\", found {found:?}")]
    RoutePrefix {
        /// The view.
        view: ViewName,
        /// What it is instead.
        found: String,
    },
    /// A gutter, or what warms a cluster up, that cannot be used.
    #[error("the cluster {cluster}: {error}")]
    Substitute {
        /// Whose.
        cluster: ClusterName,
        /// What was found and what is accepted.
        error: String,
    },
    /// A shadow that cannot be used.
    #[error("the shadow {shadow}: {error}")]
    Shadow {
        /// Which.
        shadow: String,
        /// What was found and what is accepted.
        error: String,
    },
    /// A standard of hosts that cannot be used.
    #[error("the standard of {whose}: {error}")]
    Tuning {
        /// Whose.
        whose: String,
        /// What was found and what is accepted.
        error: String,
    },
    /// Routes with handles of their own, which would be read in place of those that are put in.
    #[error(
        "the view {view} has `named_handles` in its routes, and the cluster {cluster} needs some for its gutter, warm-up or shadow\n  hint: write the handles into the routes that use them"
    )]
    Handles {
        /// The view.
        view: ViewName,
        /// The cluster.
        cluster: ClusterName,
    },
    /// Routes that cannot have pools put in.
    #[error(
        "the view {view}: expected routes as an object in mcrouter's language that begins with `{{`, found {found:?}"
    )]
    Routes {
        /// The view.
        view: ViewName,
        /// Its beginning.
        found: String,
    },
}

fn is_usual(waves: &WaveSettings) -> bool {
    *waves == WaveSettings::default()
}

impl FleetPolicy {
    /// Reads a policy.
    ///
    /// # Errors
    /// What was found and what is accepted; for a key that there is not, its line and the keys that there are.
    pub fn parse(text: &str) -> Result<FleetPolicy, PolicyError> {
        if text.len() > POLICY_LEN_MAX {
            return Err(PolicyError::TooLong(text.len()));
        }
        let policy: FleetPolicy = toml::from_str(text)
            .map_err(|error| PolicyError::Toml(error.to_string().trim_end().to_owned()))?;
        policy.checked()
    }

    /// A cluster by its name.
    pub fn cluster(&self, name: &ClusterName) -> Option<&ClusterPolicy> {
        self.clusters.iter().find(|cluster| cluster.name == *name)
    }

    fn checked(self) -> Result<FleetPolicy, PolicyError> {
        let fleet = || "the fleet".to_owned();
        count(fleet(), "clusters", self.clusters.len(), 0, CLUSTERS_MAX)?;
        count(fleet(), "views", self.views.len(), 0, VIEWS_MAX)?;
        self.waves.check()?;
        unique("the cluster", self.clusters.iter().map(|cluster| cluster.name.as_str()))?;
        unique("the view", self.views.iter().map(|view| view.name.as_str()))?;
        for cluster in &self.clusters {
            count(format!("the cluster {}", cluster.name), "slots", cluster.slots, 1, SLOTS_MAX)?;
            if cluster.pool.contains_key("servers") {
                return Err(PolicyError::Servers(cluster.name.clone()));
            }
            cluster.check_resize()?;
            cluster.check_substitutes(&self)?;
        }
        for view in &self.views {
            unique("the cluster", view.clusters.iter().map(ClusterName::as_str))?;
            if let Some(cluster) = view.clusters.iter().find(|name| self.cluster(name).is_none()) {
                return Err(PolicyError::NoCluster { view: view.name.clone(), cluster: cluster.clone() });
            }
            if let Some(found) = view.route_prefix.as_ref().filter(|prefix| !is_route_prefix(prefix)) {
                return Err(PolicyError::RoutePrefix { view: view.name.clone(), found: found.clone() });
            }
            if view.object_start().is_none() {
                let found = view.routes.trim_start().chars().take(40).collect();
                return Err(PolicyError::Routes { view: view.name.clone(), found });
            }
            // What is no JSON is told by whoever compiles the whole text.
            if let Ok(Value::Object(routes)) = BareText::new(&view.routes).value()
                && routes.contains_key("pools")
            {
                return Err(PolicyError::Pools(view.name.clone()));
            }
            view.check_substitutes(&self)?;
        }
        self.check_shadows()?;
        count("the fleet".to_owned(), "standards ([[tuning]])", self.tunings.len(), 0, TUNINGS_MAX)?;
        if let Some((whose, error)) = tunings::fault(&self.tunings) {
            return Err(PolicyError::Tuning { whose, error });
        }
        Ok(self)
    }
}

impl ViewPolicy {
    /// The byte behind the `{` that the routes begin with, after spaces and comments.
    pub(crate) fn object_start(&self) -> Option<usize> {
        let mut rest = self.routes.as_str();
        loop {
            rest = rest.trim_start();
            rest = if let Some(comment) = rest.strip_prefix("//") {
                comment.split_once('\n')?.1
            } else if let Some(comment) = rest.strip_prefix("/*") {
                comment.split_once("*/")?.1
            } else {
                rest = rest.strip_prefix('{')?;
                return Some(self.routes.len() - rest.len());
            }
        }
    }
}

/// As a router accepts it: a region and a cluster between slashes.
fn is_route_prefix(prefix: &str) -> bool {
    let parts: Vec<&str> = prefix.split('/').collect();
    matches!(parts[..], ["", region, cluster, ""] if !region.is_empty() && !cluster.is_empty() && !prefix.contains('*'))
}

fn count(what: String, of: &'static str, found: usize, least: usize, most: usize) -> Result<(), PolicyError> {
    match (least..=most).contains(&found) {
        true => Ok(()),
        false => Err(PolicyError::Count { what, of, found, least, most }),
    }
}

fn unique<'n>(what: &'static str, names: impl Iterator<Item = &'n str>) -> Result<(), PolicyError> {
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(PolicyError::Twice { what, name: pair[0].to_owned() }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "fleet = \"f\"\n[[cluster]]\nname = \"a\"\nslots = 3\n[[view]]\nname = \"main\"\nroutes = '{\"route\": \"PoolRoute|a\"}'\n";

    #[track_caller]
    fn refused(text: &str, expected: &str) {
        let error = FleetPolicy::parse(text).expect_err("it is refused").to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn a_policy_says_how_many_slots_there_are_and_what_routers_read() {
        let policy = FleetPolicy::parse(SMALL).expect("a policy");
        assert_eq!(policy.clusters[0].slots, 3);
        assert!(policy.clusters[0].pool.is_empty() && policy.clusters[0].class.is_none());
    }

    #[test]
    fn a_misspelt_key_is_told_with_its_line_and_the_keys_that_there_are() {
        refused(&SMALL.replace("slots", "slot"), "line 4");
        refused(&SMALL.replace("slots", "slot"), "`slots`");
        refused("", "missing field `fleet`");
        refused("\0", "understand the policy");
    }

    #[test]
    fn limits_and_names_are_checked() {
        refused(&SMALL.replace("= 3", "= 0"), "the cluster a has 0 slots: 1 to 10000 are accepted");
        refused(&SMALL.replace("= 3", "= 10001"), "found 10001".trim_start_matches("found "));
        refused(
            &(SMALL.to_owned() + "[[cluster]]\nname = \"a\"\nslots = 1\n"),
            "the cluster a is there twice",
        );
        refused(
            &SMALL.replace("name = \"main\"", "name = \"main\"\nclusters = [\"b\"]"),
            "names the cluster b",
        );
        refused(&SMALL.replace("slots = 3", "slots = 3\npool.servers = []"), "follow from its slots");
        refused(&" ".repeat(POLICY_LEN_MAX + 1), "at most 4194304 are accepted");
    }

    #[test]
    fn a_route_prefix_is_a_region_and_a_cluster() {
        let with = |prefix: &str| {
            SMALL.replace("name = \"main\"", &format!("name = \"main\"\nroute_prefix = \"{prefix}\""))
        };
        let policy = FleetPolicy::parse(&with("/west/c1/")).expect("a policy");
        assert_eq!(policy.views[0].route_prefix.as_deref(), Some("/west/c1/"));
        for prefix in ["", "/", "///", "/west/", "west/c1/", "/west/c1", "/west/c1/x/", "/west/*/"] {
            refused(&with(prefix), "expected route_prefix = \"/region/cluster/\", found ");
        }
    }

    #[test]
    fn routes_are_an_object_behind_spaces_and_comments() {
        let start = |routes: &str| {
            let name = "v".parse().expect("a name");
            let (clusters, routes) = (Vec::new(), routes.to_owned());
            ViewPolicy { name, clusters, route_prefix: None, routes }.object_start()
        };
        assert_eq!(start("{}"), Some(1));
        assert_eq!(start(" // {\n /* { */ {}"), Some(16));
        for routes in ["", "[]", "// {", "/* {", "\"{\""] {
            assert_eq!(start(routes), None, "{routes}");
        }
        refused(&SMALL.replace("'{\"route\": \"PoolRoute|a\"}'", "'PoolRoute|a'"), "found \"PoolRoute|a\"");
        let own = SMALL.replace("'{\"route\"", "'/* c */ {\"pools\": {}, \"route\"");
        refused(&own, "the view main has `pools` in its routes");
    }
}
