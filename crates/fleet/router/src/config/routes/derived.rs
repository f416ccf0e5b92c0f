//! Routes that make requests from requests, by their type.

use protocol::limits::KEY_LEN_MAX;

use super::vocabulary::Fields;
use super::{Compiler, Definition};
use crate::config::error::ConfigError;
use crate::config::json::{Json, Object};
use crate::message::changes::{ExptimeChange, KeyChange};
use crate::message::operation::OperationClass;
use crate::message::routing_prefix::{self, RoutingPrefix};
use crate::plan::{Compound, Node, NodeId};
use crate::routes::CompoundKind;
use crate::routes::requests::big_value::BigValue;
use crate::routes::requests::key_split::KeySplit;
use crate::routes::requests::modify_exptime::ModifyExptime;
use crate::routes::requests::modify_key::ModifyKey;

/// mcrouter's names of these routes, and their fields.
pub(super) const DERIVED_TYPES: [Fields; 10] = [
    ("BigValueRoute", &["batch_size", "hide_reply_flag", "split_threshold", "target"]),
    (
        "FailoverWithExptimeRoute",
        &[
            "enable_lease_pairing",
            "failover",
            "failover_errors",
            "failover_exptime",
            "failover_limit",
            "failover_policy",
            "failover_tag",
            "hash",
            "normal",
            "tags",
            "weights",
        ],
    ),
    ("KeySplitRoute", &["all_sync", "destination", "first_hit", "replicas"]),
    ("L1L2CacheRoute", &["l1", "l2", "ncacheExptime", "ncacheUpdatePeriod", "upgradingL1Exptime"]),
    (
        "L1L2SizeSplitRoute",
        &["both_full_set", "failure_ttl", "l1", "l2", "retries", "threshold", "ttl_threshold"],
    ),
    ("MigrateRoute", &["from", "interval", "start_time", "to"]),
    ("ModifyExptimeRoute", &["action", "exptime", "target"]),
    (
        "ModifyKeyRoute",
        &[
            "ensure_key_prefix",
            "modify_inplace",
            "replace_key_prefix",
            "set_key_suffix",
            "set_routing_prefix",
            "target",
        ],
    ),
    ("StagingRoute", &["staging", "warm"]),
    ("WarmUpRoute", &["cold", "enable_metaget", "exptime", "warm"]),
];

/// Parts that are asked for at a time.
const BATCHES: std::ops::RangeInclusive<i64> = 0..=10_000;

/// mcrouter's limits of `replicas`.
const REPLICAS: std::ops::RangeInclusive<i64> = 2..=1000;

/// Times of expiry, as memcached reads them.
pub(super) const EXPTIMES: std::ops::RangeInclusive<i64> = i32::MIN as i64..=i32::MAX as i64;

impl Compiler<'_, '_> {
    /// The route of this type; `None` if it is none of these.
    pub(super) fn derived(
        &mut self,
        kind: &str,
        definition: Definition<'_>,
    ) -> Result<Option<NodeId>, ConfigError> {
        if !DERIVED_TYPES.iter().any(|(name, _)| *name == kind) {
            return Ok(None);
        }
        let json = definition.json();
        let Some(object) = definition.object()? else {
            return Err(json.error(format!("expected an object for {kind}, found its short form")));
        };
        let node = match kind {
            "BigValueRoute" => self.big_value(&object, json),
            "FailoverWithExptimeRoute" => self.failover_with_exptime(&object, json),
            "L1L2SizeSplitRoute" => self.l1_l2_size_split(&object, json),
            "L1L2CacheRoute" => self.l1_l2_cache(&object, json),
            "KeySplitRoute" => self.key_split(&object, json),
            "MigrateRoute" => self.migrate(&object, json),
            "StagingRoute" => self.staging(&object, json),
            "ModifyKeyRoute" => self.modify_key(&object, json),
            "WarmUpRoute" => self.warm_up(&object, json),
            _ => self.modify_exptime(&object, json),
        };
        node.map(Some)
    }

    fn modify_key(&mut self, object: &Object<'_>, json: &Json) -> Result<NodeId, ConfigError> {
        let target = self.single(object.require("target")?)?;
        let change = KeyChange {
            routing_prefix: object.get("set_routing_prefix").map(routing_prefix).transpose()?,
            ensured: part_of_key(object, "ensure_key_prefix")?.unwrap_or_default(),
            in_place: object.bool("modify_inplace")?.unwrap_or(false),
            replaced: part_of_key(object, "replace_key_prefix")?,
            suffix: part_of_key(object, "set_key_suffix")?.unwrap_or_default(),
        };
        if let (Some(_), Some(in_place)) = (&change.replaced, object.get("modify_inplace")) {
            let message = "expected either `replace_key_prefix` or `modify_inplace`, found both";
            return Err(in_place.error(message));
        }
        self.with_children(ModifyKey(Box::new(change)), vec![target], json)
    }

    fn modify_exptime(&mut self, object: &Object<'_>, json: &Json) -> Result<NodeId, ConfigError> {
        let target = self.single(object.require("target")?)?;
        let exptime = object.require("exptime")?.integer("`exptime` in seconds", EXPTIMES)? as i32;
        let change = match object.string("action")? {
            None | Some("set") => ExptimeChange::Set(exptime),
            // Zero is never: no item lives longer.
            Some("min") if exptime == 0 => return Ok(target),
            Some("min") => ExptimeChange::AtMost(exptime),
            Some(other) => {
                let message = format!("expected set or min as `action` of {KIND}, found `{other}`");
                return Err(object.require("action")?.error(message));
            }
        };
        self.with_children(ModifyExptime(change), vec![target], json)
    }

    fn big_value(&mut self, object: &Object<'_>, json: &Json) -> Result<NodeId, ConfigError> {
        let target = self.single(object.require("target")?)?;
        let threshold =
            object.require("split_threshold")?.integer("`split_threshold` in bytes", 0..=i64::MAX)?;
        let batch = object.require("batch_size")?.integer("`batch_size`", BATCHES)? as u16;
        let hides_flag = object.bool("hide_reply_flag")?.unwrap_or(false);
        match threshold {
            0 => Ok(target),
            _ => self.in_parts(BigValue { threshold: threshold as u64, batch, hides_flag }, target, json),
        }
    }

    /// Reads and storage commands of a route, with long values in parts.
    pub(super) fn in_parts(
        &mut self,
        big: BigValue,
        target: NodeId,
        json: &Json,
    ) -> Result<NodeId, ConfigError> {
        let node = self.with_children(big, vec![target], json)?;
        let children = [(OperationClass::Get, node), (OperationClass::Update, node)].into();
        self.add(Node::ByClass { children, default: target }, json)
    }

    fn key_split(&mut self, object: &Object<'_>, json: &Json) -> Result<NodeId, ConfigError> {
        let destination = self.single(object.require("destination")?)?;
        let replicas = object.require("replicas")?.integer("`replicas`", REPLICAS)? as u16;
        let split = KeySplit {
            replicas,
            own: (self.options.host_id % u32::from(replicas)) as u16,
            all_sync: object.require("all_sync")?.bool("`all_sync`")?,
            first_hit: object.bool("first_hit")?.unwrap_or(false),
        };
        let children = vec![destination; usize::from(replicas)];
        self.with_children(split, children, json)
    }

    pub(super) fn with_children(
        &mut self,
        kind: impl Into<CompoundKind>,
        children: Vec<NodeId>,
        json: &Json,
    ) -> Result<NodeId, ConfigError> {
        self.add(Node::Compound(Compound { kind: kind.into(), children: children.into() }), json)
    }
}

const KIND: &str = "a ModifyExptimeRoute";

/// A routing prefix, or nothing.
fn routing_prefix(json: &Json) -> Result<Box<[u8]>, ConfigError> {
    let what = "`set_routing_prefix`";
    if part(json, what)?.is_empty() {
        return Ok(Box::default());
    }
    match RoutingPrefix::parse(json.string(what)?) {
        Some(prefix) => Ok(prefix.as_str().as_bytes().into()),
        None => Err(json.wrong(format_args!("{}, or an empty string", routing_prefix::EXPECTED))),
    }
}

fn part_of_key(object: &Object<'_>, field: &str) -> Result<Option<Box<[u8]>>, ConfigError> {
    object.get(field).map(|json| part(json, &format!("`{field}`"))).transpose()
}

/// What may stand in a key: no spaces, no control characters.
fn part(json: &Json, what: &str) -> Result<Box<[u8]>, ConfigError> {
    let text = json.string(what)?.as_bytes();
    match text.len() <= KEY_LEN_MAX && !text.iter().any(|byte| *byte <= b' ' || *byte == 0x7f) {
        true => Ok(text.into()),
        false => Err(json.wrong(format_args!(
            "at most {KEY_LEN_MAX} bytes without spaces and control characters ({what})"
        ))),
    }
}
