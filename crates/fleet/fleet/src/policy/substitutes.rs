//! Clusters that answer for another: the gutter of lost members, and what warms a new one.
//!
//! Routes reach them by a named handle, which has the cluster's name and which `compile` writes.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ClusterPolicy, FleetPolicy, PolicyError, ViewPolicy};
use crate::ClusterName;
use crate::adopt::BareText;

/// mcrouter's own default of `failover_exptime`, in seconds.
const GUTTER_EXPTIME_S: u32 = 60;
/// A gutter misses the deletes of members that are back: what it has is old for no longer than this, in seconds.
pub const GUTTER_EXPTIME_S_MAX: u32 = 3_600;
/// Beyond 30 days, memcached takes a time of expiry for a moment since 1970, in seconds.
pub const WARM_UP_EXPTIME_S_MAX: u32 = 2_592_000;
/// Attributes of a pool with which the places of its children in a router are not those of its slots.
const MOVES_CHILDREN: [&str; 2] = ["additional_fanout", "inherit"];

/// The cluster that answers for members that do not.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct GutterPolicy {
    /// Which.
    pub cluster: ClusterName,
    /// Items live no longer there, in seconds.
    #[serde(default = "gutter_exptime_s")]
    pub exptime_s: u32,
}

/// The cluster that fills a new member's slot.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct WarmUpPolicy {
    /// Which: one that has the same keys.
    pub cluster: ClusterName,
    /// How long copies live, in seconds: a router does not see how long the item would.
    pub exptime_s: u32,
}

fn gutter_exptime_s() -> u32 {
    GUTTER_EXPTIME_S
}

impl ClusterPolicy {
    /// Clusters that answer for this one, and their keys in the policy.
    fn substitutes(&self) -> impl Iterator<Item = (&'static str, &ClusterName)> {
        let gutter = self.gutter.iter().map(|gutter| ("gutter", &gutter.cluster));
        gutter.chain(self.warm_up.iter().map(|warm_up| ("warm_up", &warm_up.cluster)))
    }

    pub(super) fn check_substitutes(&self, policy: &FleetPolicy) -> Result<(), PolicyError> {
        let name = &self.name;
        let refused = |error: String| Err(PolicyError::Substitute { cluster: name.clone(), error });
        for (key, other) in self.substitutes() {
            let Some(other) = policy.cluster(other) else {
                return refused(format!("`{key}` names the cluster {other}, which the policy does not have"));
            };
            if other.name == *name {
                return refused(format!("`{key}` names the cluster itself: expected another one"));
            }
            if key == "gutter" && other.gutter.is_some() {
                return refused(format!(
                    "its gutter {} has a gutter itself, which no route asks",
                    other.name
                ));
            }
            if let Some(attribute) = MOVES_CHILDREN.iter().find(|name| self.pool.contains_key(**name)) {
                return refused(format!(
                    "its pool has `{attribute}`, with which a router cannot find the keys of one slot; `{key}` needs that"
                ));
            }
        }
        let limits = [
            self.gutter.as_ref().map(|gutter| ("gutter", gutter.exptime_s, GUTTER_EXPTIME_S_MAX)),
            self.warm_up.as_ref().map(|warm_up| ("warm_up", warm_up.exptime_s, WARM_UP_EXPTIME_S_MAX)),
        ];
        let wrong = limits.into_iter().flatten().find(|(_, found, most)| !(1..=*most).contains(found));
        match wrong {
            Some((key, found, most)) => {
                refused(format!("`exptime_s` of `{key}` is {found} s: 1 to {most} are accepted"))
            }
            None => Ok(()),
        }
    }
}

impl ViewPolicy {
    pub(super) fn check_substitutes(&self, policy: &FleetPolicy) -> Result<(), PolicyError> {
        let has = |name: &ClusterName| self.clusters.is_empty() || self.clusters.contains(name);
        let with_handle = policy.clusters.iter().filter(|cluster| has(&cluster.name));
        let with_handle = with_handle.filter(|cluster| cluster.substitutes().next().is_some());
        for cluster in with_handle {
            if let Some((key, other)) = cluster.substitutes().find(|(_, other)| !has(other)) {
                let error = format!("`{key}` names {other}, which the view {} does not have", self.name);
                return Err(PolicyError::Substitute { cluster: cluster.name.clone(), error });
            }
            if let Ok(Value::Object(routes)) = BareText::new(&self.routes).value()
                && routes.contains_key("named_handles")
            {
                let cluster = cluster.name.clone();
                return Err(PolicyError::Handles { view: self.name.clone(), cluster });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A policy of the clusters `web`, `spares` and `other`, with these lines of `web` and this part of the view.
    fn policy(web: &str, view: &str) -> Result<FleetPolicy, PolicyError> {
        FleetPolicy::parse(&format!(
            "fleet = \"f\"\n[[cluster]]\nname = \"web\"\nslots = 2\n{web}\n[[cluster]]\nname = \"spares\"\nslots = 1\n\
             [[cluster]]\nname = \"other\"\nslots = 1\ngutter = {{ cluster = \"spares\" }}\n\
             [[view]]\nname = \"main\"\n{view}\n"
        ))
    }

    const VIEW: &str = "routes = '{\"route\": \"web\"}'";

    #[track_caller]
    fn refused(web: &str, view: &str, expected: &str) {
        let error = policy(web, view).expect_err("it is refused").to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn a_cluster_names_its_gutter_and_what_warms_it() {
        let found = policy(
            "gutter = { cluster = \"spares\" }\nwarm_up = { cluster = \"other\", exptime_s = 600 }",
            VIEW,
        );
        let web = found.expect("a policy").clusters[0].clone();
        assert_eq!(
            web.gutter.map(|gutter| (gutter.cluster.to_string(), gutter.exptime_s)),
            Some(("spares".into(), 60))
        );
        assert_eq!(
            web.warm_up.map(|one| (one.cluster.to_string(), one.exptime_s)),
            Some(("other".into(), 600))
        );
    }

    #[test]
    fn a_substitute_is_another_cluster_of_the_policy() {
        refused(
            "gutter = { cluster = \"gone\" }",
            VIEW,
            "names the cluster gone, which the policy does not have",
        );
        refused("gutter = { cluster = \"web\" }", VIEW, "the cluster web: `gutter` names the cluster itself");
        refused("gutter = { cluster = \"other\" }", VIEW, "its gutter other has a gutter itself");
        refused("warm_up = { cluster = \"other\" }", VIEW, "missing field `exptime_s`");
        refused("gutter = { pool = \"other\" }", VIEW, "expected `cluster` or `exptime_s`");
    }

    #[test]
    fn times_of_expiry_have_limits() {
        let gutter = |exptime_s: u32| format!("gutter = {{ cluster = \"spares\", exptime_s = {exptime_s} }}");
        assert!(policy(&gutter(1), VIEW).is_ok() && policy(&gutter(3_600), VIEW).is_ok());
        refused(&gutter(0), VIEW, "`exptime_s` of `gutter` is 0 s: 1 to 3600 are accepted");
        refused(&gutter(3_601), VIEW, "is 3601 s");
        let warm_up =
            |exptime_s: u32| format!("warm_up = {{ cluster = \"other\", exptime_s = {exptime_s} }}");
        assert!(policy(&warm_up(2_592_000), VIEW).is_ok());
        refused(
            &warm_up(2_592_001),
            VIEW,
            "`exptime_s` of `warm_up` is 2592001 s: 1 to 2592000 are accepted",
        );
    }

    #[test]
    fn what_a_router_could_not_follow_is_refused() {
        let gutter = "gutter = { cluster = \"spares\" }";
        refused(&format!("{gutter}\npool.additional_fanout = 2"), VIEW, "its pool has `additional_fanout`");
        refused(&format!("{gutter}\npool.inherit = \"spares\""), VIEW, "its pool has `inherit`");
        refused(
            gutter,
            &format!("clusters = [\"web\"]\n{VIEW}"),
            "names spares, which the view main does not have",
        );
        let own = "routes = '{\"named_handles\": {}, \"route\": \"web\"}'";
        refused(gutter, own, "the view main has `named_handles` in its routes");
        assert!(
            policy("", &format!("clusters = [\"web\"]\n{own}")).is_ok(),
            "a view without generated handles"
        );
    }
}
