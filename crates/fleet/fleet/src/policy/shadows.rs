//! Shadows: requests of a cluster that are copied to another one, whose replies are compared and dropped.
//!
//! Routers copy what the cluster's named handle is asked for, which `compile` writes: who names the pool alone asks no shadow.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use stdx::words::counted;

use super::{FleetPolicy, PolicyError, ViewPolicy};
use crate::ClusterName;
use crate::adopt::BareText;

/// Shadows of a policy: controllers keep what each router has counted of each, some 500 bytes.
pub(crate) const SHADOWS_MAX: usize = 8;
/// Keys that a shadow names: a router looks each request's key up among them.
const KEYS_MAX: usize = 1000;
/// Longest key in bytes, as memcached has it.
const KEY_LEN_MAX: usize = 250;
/// Attributes of a pool with which a router's servers are not those of the cluster's slots.
const OTHER_SERVERS: [&str; 2] = ["additional_fanout", "inherit"];

/// A shadow: what a cluster's servers are asked for is asked of another cluster, too.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ShadowPolicy {
    /// Whose requests are copied.
    pub from: ClusterName,
    /// Who gets the copies.
    pub to: ClusterName,
    /// Which keys; all without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<ShadowedKeys>,
    /// The part of the requests of these keys that is copied.
    #[serde(default = "all")]
    pub share: f64,
    /// The part of the copies whose replies are compared.
    #[serde(default = "a_tenth")]
    pub compare: f64,
}

/// Keys of a shadow.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(
    untagged,
    expecting = "expected `keys` as [START, END], a part of all keys from 0 to 1, or as a list of keys"
)]
pub enum ShadowedKeys {
    /// From one part of all keys, by their hash, to another.
    Range([f64; 2]),
    /// These.
    List(Vec<String>),
}

fn all() -> f64 {
    1.0
}

/// The router's own default.
fn a_tenth() -> f64 {
    0.1
}

impl ShadowPolicy {
    /// Its name in routers' reports, in `shadow report` and in a gate.
    pub fn name(&self) -> String {
        format!("{}->{}", self.from, self.to)
    }

    /// The part of the cluster's requests that comes to the other one as well, if keys are asked for equally often; unknown of listed keys.
    pub fn more_requests(&self) -> Option<f64> {
        match &self.keys {
            None => Some(self.share),
            Some(ShadowedKeys::Range([start, end])) => Some((end - start) * self.share),
            Some(ShadowedKeys::List(_)) => None,
        }
    }

    /// What it does and costs, for people.
    pub fn sentence(&self) -> String {
        let ShadowPolicy { from, to, share, compare, .. } = self;
        let of = match self.more_requests() {
            Some(more) => format!("{to} gets {} of the requests of {from} more", part(more)),
            None => {
                let Some(ShadowedKeys::List(keys)) = &self.keys else { return String::new() };
                let keys = counted(keys.len(), "key");
                format!("{to} gets {} of the requests of {keys} of {from} more", part(*share))
            }
        };
        format!("{of}, and {} of these replies is compared", part(*compare))
    }

    fn check(&self, policy: &FleetPolicy) -> Result<(), String> {
        for (key, cluster) in [("from", &self.from), ("to", &self.to)] {
            if policy.cluster(cluster).is_none() {
                return Err(format!("`{key}` names the cluster {cluster}, which the policy does not have"));
            }
        }
        if self.from == self.to {
            return Err("`from` and `to` name the same cluster: expected two".to_owned());
        }
        if policy.shadow_of(&self.to).is_some() {
            return Err(format!("{} has a shadow itself, and copies are not copied again", self.to));
        }
        let serves = policy.clusters.iter().find(|one| {
            let gutter = one.gutter.as_ref().is_some_and(|gutter| gutter.cluster == self.to);
            gutter || one.warm_up.as_ref().is_some_and(|warm_up| warm_up.cluster == self.to)
        });
        if let Some(served) = serves {
            return Err(format!(
                "{} is the gutter or warm-up of {}, whose clients would get what is copied: expected a cluster of its own",
                self.to, served.name
            ));
        }
        let pool = policy.cluster(&self.from).map(|cluster| &cluster.pool);
        let other = OTHER_SERVERS.iter().find(|name| pool.is_some_and(|pool| pool.contains_key(**name)));
        if let Some(attribute) = other {
            return Err(format!(
                "the pool of {} has `{attribute}`, with which it has other servers",
                self.from
            ));
        }
        match &self.keys {
            Some(ShadowedKeys::Range([start, end])) if !(0.0 <= *start && start < end && *end <= 1.0) => {
                return Err(format!(
                    "`keys` is [{start}, {end}]: expected two parts of all keys from 0 to 1, the smaller one first"
                ));
            }
            Some(ShadowedKeys::List(keys)) => check_keys(keys)?,
            Some(ShadowedKeys::Range(_)) | None => {}
        }
        if !(self.share > 0.0 && self.share <= 1.0) {
            return Err(format!("`share` is {}: more than 0 and at most 1 is accepted", self.share));
        }
        if !(0.0..=1.0).contains(&self.compare) {
            return Err(format!("`compare` is {}: 0 to 1 is accepted", self.compare));
        }
        Ok(())
    }
}

fn check_keys(keys: &[String]) -> Result<(), String> {
    if !(1..=KEYS_MAX).contains(&keys.len()) {
        return Err(format!("`keys` lists {}: 1 to {KEYS_MAX} are accepted", counted(keys.len(), "key")));
    }
    let is_key = |key: &&String| {
        (1..=KEY_LEN_MAX).contains(&key.len()) && !key.bytes().any(|byte| byte <= b' ' || byte == 0x7f)
    };
    match keys.iter().find(|key| !is_key(key)) {
        Some(key) => Err(format!(
            "`keys` lists {}: expected 1 to {KEY_LEN_MAX} bytes without spaces",
            Value::from(key.as_str())
        )),
        None => Ok(()),
    }
}

/// A part as people write it, not more exactly than it matters.
fn part(part: f64) -> String {
    let part = (part * 1e6).round() / 1e6;
    if part == 1.0 { "all".to_owned() } else { part.to_string() }
}

/// What another shadow of a cluster means, for people; none if it is the same.
pub fn shadow_step(old: Option<&ShadowPolicy>, new: Option<&ShadowPolicy>) -> Option<String> {
    match (old, new) {
        (old, new) if old == new => None,
        (Some(old), None) => Some(format!("no shadow any more: {} gets no copies", old.to)),
        (None, Some(new)) => Some(format!("a shadow: {}", new.sentence())),
        (Some(_), Some(new)) => Some(format!("another shadow: {}", new.sentence())),
        (None, None) => None,
    }
}

/// Whether routes ask a handle; unknown of a text that another one fills in.
pub(crate) fn asks_handle(routes: &str, handle: &ClusterName) -> Option<bool> {
    let value = BareText::new(routes).value().ok()?;
    if value.get("macros").is_some() || routes.contains("@import") {
        return None;
    }
    Some(is_asked(&value, handle.as_str()))
}

fn is_asked(value: &Value, handle: &str) -> bool {
    match value {
        Value::String(text) => text == handle,
        Value::Array(values) => values.iter().any(|value| is_asked(value, handle)),
        // A pool has the same name.
        Value::Object(fields) => fields.iter().any(|(key, value)| key != "pool" && is_asked(value, handle)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

impl FleetPolicy {
    /// The shadow of a cluster.
    pub fn shadow_of(&self, cluster: &ClusterName) -> Option<&ShadowPolicy> {
        self.shadows.iter().find(|shadow| shadow.from == *cluster)
    }

    pub(super) fn check_shadows(&self) -> Result<(), PolicyError> {
        super::count("the fleet".to_owned(), "shadows", self.shadows.len(), 0, SHADOWS_MAX)?;
        for (at, shadow) in self.shadows.iter().enumerate() {
            let refused = |error: String| Err(PolicyError::Shadow { shadow: shadow.name(), error });
            if let Some(first) = self.shadows[..at].iter().find(|first| first.from == shadow.from) {
                return refused(format!(
                    "{} has the shadow {} already, and a cluster has one",
                    shadow.from,
                    first.name()
                ));
            }
            if let Err(error) = shadow.check(self) {
                return refused(error);
            }
            let views = self.views.iter().filter(|view| view.has(&shadow.from));
            if let Some(view) = views.clone().find(|view| !view.has(&shadow.to)) {
                return refused(format!(
                    "the view {} has {} and not {}: expected both or neither in its `clusters`",
                    view.name, shadow.from, shadow.to
                ));
            }
            let is_silent = |view: &ViewPolicy| asks_handle(&view.routes, &shadow.from) == Some(false);
            if views.clone().next().is_some() && views.clone().all(is_silent) {
                return refused(format!(
                    "no view asks the handle {0:?}, so nothing would be copied\n  hint: write \"route\": {0:?} in place of \
                     \"route\": \"PoolRoute|{0}\"",
                    shadow.from.as_str()
                ));
            }
            for view in views {
                if let Ok(Value::Object(routes)) = BareText::new(&view.routes).value()
                    && routes.contains_key("named_handles")
                {
                    let (view, cluster) = (view.name.clone(), shadow.from.clone());
                    return Err(PolicyError::Handles { view, cluster });
                }
            }
        }
        Ok(())
    }
}

impl ViewPolicy {
    /// Whether a cluster is a pool in it.
    pub(crate) fn has(&self, cluster: &ClusterName) -> bool {
        self.clusters.is_empty() || self.clusters.contains(cluster)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VIEW: &str = "[[view]]\nname = \"main\"\nroutes = '{\"route\": \"web\"}'\n";

    /// A policy of the clusters `web`, `new` and `spares`, the gutter of `other`, with these lines of the shadow and this part behind it.
    fn policy(shadow: &str, rest: &str) -> Result<FleetPolicy, PolicyError> {
        FleetPolicy::parse(&format!(
            "fleet = \"f\"\n[[cluster]]\nname = \"web\"\nslots = 2\n[[cluster]]\nname = \"new\"\nslots = 1\n\
             [[cluster]]\nname = \"spares\"\nslots = 1\n\
             [[cluster]]\nname = \"other\"\nslots = 1\ngutter = {{ cluster = \"spares\" }}\n[[shadow]]\n{shadow}\n{rest}"
        ))
    }

    #[track_caller]
    fn refused(shadow: &str, rest: &str, expected: &str) {
        let error = policy(shadow, rest).expect_err("it is refused").to_string();
        assert!(error.contains(expected), "{error}");
    }

    const PAIR: &str = "from = \"web\"\nto = \"new\"";

    #[track_caller]
    fn check_sentence(lines: &str, more: Option<f64>, expected: &str) {
        let policy = policy(&format!("{PAIR}\n{lines}"), VIEW).expect("a policy");
        let shadow = policy.shadow_of(&"web".parse().expect("a name")).expect("a shadow");
        let near = |(found, expected): (f64, f64)| (found - expected).abs() < 1e-9;
        assert_eq!(shadow.more_requests().is_some(), more.is_some());
        assert!(shadow.more_requests().zip(more).is_none_or(near));
        assert_eq!(shadow.sentence(), expected);
    }

    #[test]
    fn a_shadow_says_what_it_costs() {
        check_sentence(
            "",
            Some(1.0),
            "new gets all of the requests of web more, and 0.1 of these replies is compared",
        );
        check_sentence(
            "keys = [0, 0.05]\nshare = 0.5\ncompare = 1",
            Some(0.025),
            "new gets 0.025 of the requests of web more, and all of these replies is compared",
        );
        check_sentence(
            "keys = [\"a\", \"b\"]\nshare = 0.5",
            None,
            "new gets 0.5 of the requests of 2 keys of web more, and 0.1 of these replies is compared",
        );
    }

    #[test]
    fn what_is_no_pair_of_clusters_is_refused() {
        refused("from = \"web\"\nto = \"gone\"", VIEW, "the shadow web->gone: `to` names the cluster gone");
        refused("from = \"gone\"\nto = \"web\"", VIEW, "`from` names the cluster gone");
        refused("from = \"web\"\nto = \"web\"", VIEW, "name the same cluster");
        refused("from = \"web\"", VIEW, "missing field `to`");
        refused("from = \"web\"\nto = \"spares\"", VIEW, "spares is the gutter or warm-up of other");
        let second = format!("[[shadow]]\nfrom = \"web\"\nto = \"other\"\n{VIEW}");
        refused(PAIR, &second, "web has the shadow web->new already, and a cluster has one");
        let chain = format!("[[shadow]]\nfrom = \"new\"\nto = \"other\"\n{VIEW}");
        refused(PAIR, &chain, "new has a shadow itself");
    }

    #[test]
    fn parts_and_keys_have_limits() {
        let refused = |lines: &str, expected: &str| refused(&format!("{PAIR}\n{lines}"), VIEW, expected);
        refused("keys = [0.5, 0.5]", "`keys` is [0.5, 0.5]: expected two parts of all keys");
        refused("keys = [-1, 0.5]", "expected two parts of all keys");
        refused("keys = [0, 1.5]", "expected two parts of all keys");
        refused("keys = [0, nan]", "expected two parts of all keys");
        refused("keys = 5", "expected `keys` as [START, END]");
        refused("keys = [1, 2, 3]", "expected `keys` as [START, END]");
        refused("keys = []", "`keys` lists 0 keys: 1 to 1000 are accepted");
        refused("keys = [\"a b\"]", "`keys` lists \"a b\": expected 1 to 250 bytes");
        refused("share = 0", "`share` is 0: more than 0 and at most 1 is accepted");
        refused("share = 1.1", "`share` is 1.1");
        refused("compare = -0.1", "`compare` is -0.1: 0 to 1 is accepted");
        refused("part = 1", "unknown field `part`");
    }

    #[test]
    fn a_shadow_that_no_router_would_see_is_refused() {
        let routes = |routes: &str| format!("[[view]]\nname = \"main\"\nroutes = '{routes}'\n");
        refused(PAIR, &routes("{\"route\": \"PoolRoute|web\"}"), "no view asks the handle \"web\"");
        refused(PAIR, &routes("{\"route\": {\"type\": \"PoolRoute\", \"pool\": \"web\"}}"), "no view asks");
        refused(PAIR, &routes("{\"named_handles\": {}, \"route\": \"web\"}"), "has `named_handles`");
        let only = VIEW.replace("name = \"main\"", "name = \"main\"\nclusters = [\"web\"]");
        refused(PAIR, &only, "the view main has web and not new");
        // Who reads the handle through a macro, or elsewhere, is believed.
        let macros = "{\"macros\": {\"m\": \"web\"}, \"route\": \"%m%\"}";
        assert!(policy(PAIR, &routes(macros)).is_ok());
        let two = VIEW.to_owned() + &routes("{\"route\": \"PoolRoute|web\"}").replace("main", "batch");
        assert!(policy(PAIR, &two).is_ok(), "one view asks it");
        let pool = "[[cluster]]\nname = \"z\"\nslots = 1\npool.inherit = \"web\"\n";
        refused("from = \"z\"\nto = \"new\"", &format!("{pool}{VIEW}"), "the pool of z has `inherit`");
    }
}
