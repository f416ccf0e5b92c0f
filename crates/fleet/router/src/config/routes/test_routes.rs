//! Routes for tests and experiments: LatencyInjectionRoute, LoggingRoute, BlackholeRoute.

use super::{Compiler, Definition};
use crate::config::error::ConfigError;
use crate::config::json::{Json, JsonValue, Object};
use crate::plan::{KeyPolicies, KeyPolicy, Node, NodeId};
use crate::routes::limits::latency_injection::{AddedLatency, LatencyInjection, TotalLatency};
use crate::routes::limits::logging::Logging;

/// The longest delay, in milliseconds: an hour.
const DELAY_MS_MAX: i64 = 3_600_000;

/// Percentiles of one route.
const PERCENTILES_MAX: usize = 1000;

/// Policies of one route.
const POLICIES_MAX: usize = 10_000;

impl Compiler<'_, '_> {
    pub(super) fn latency_injection_route(
        &mut self,
        definition: Definition<'_>,
    ) -> Result<NodeId, ConfigError> {
        let json = definition.json();
        let object = json.object("a LatencyInjectionRoute")?;
        let child = self.single(object.require("child")?)?;
        let percentiles = object.get("total_latency_percentile_ms").map(percentiles).transpose()?;
        let of_requests = object.bool("request_payload_latency")?;
        object.integer("max_request_latency_us", 0..=i64::MAX)?;
        let ms = |name: &str| -> Result<Option<u64>, ConfigError> {
            Ok(object.integer(name, 0..=DELAY_MS_MAX)?.map(|ms| ms as u64))
        };
        let (before_ms, after_ms) = (ms("before_latency_ms")?, ms("after_latency_ms")?);
        let total_ms = ms("total_latency_ms")?;
        if before_ms.or(after_ms).or(total_ms).is_none() && percentiles.is_none() && of_requests.is_none() {
            return Err(json.error(
                "expected before_latency_ms, after_latency_ms, total_latency_ms, total_latency_percentile_ms or \
                 request_payload_latency, found none",
            ));
        }
        if of_requests == Some(true) {
            self.note(
                "`request_payload_latency` has no effect: requests of memcached's protocol have no latency"
                    .into(),
            );
        }
        let total = match (total_ms.unwrap_or(0), percentiles) {
            (0, Some(points)) => TotalLatency::Percentiles(points),
            (ms, _) => TotalLatency::Fixed(ms),
        };
        let latency =
            AddedLatency { before_ms: before_ms.unwrap_or(0), after_ms: after_ms.unwrap_or(0), total };
        if latency == AddedLatency::default() {
            return Ok(child);
        }
        self.with_children(LatencyInjection(Box::new(latency)), vec![child], json)
    }

    pub(super) fn logging_route(&mut self, definition: Definition<'_>) -> Result<NodeId, ConfigError> {
        let json = definition.json();
        let target = match definition {
            Definition::Object(json) => json.object("a LoggingRoute")?.get("target"),
            Definition::Text(text) => Some(text),
            Definition::Nothing(_) => None,
        };
        let target = match target {
            Some(route) => self.single(route)?,
            None => self.add(Node::Null, json)?,
        };
        self.with_children(Logging, vec![target], json)
    }

    pub(super) fn blackhole_route(&mut self, definition: Definition<'_>) -> Result<Node, ConfigError> {
        let json = definition.json();
        let object = json.object("a BlackholeRoute")?;
        let default = self.single(object.require("default")?)?;
        let policies = key_policies(&object.require("policies")?.object("`policies` of a BlackholeRoute")?)?;
        let blackhole = match object.get("blackhole_child") {
            Some(route) => self.single(route)?,
            None => self.add(Node::Null, json)?,
        };
        Ok(Node::Blackhole { policies, blackhole, default })
    }
}

/// `[[percentile, milliseconds], …]`
fn percentiles(json: &Json) -> Result<Box<[(f64, u64)]>, ConfigError> {
    let items = json.array("`total_latency_percentile_ms`")?;
    if items.len() > PERCENTILES_MAX {
        return Err(
            json.error(format!("expected at most {PERCENTILES_MAX} percentiles, found {}", items.len()))
        );
    }
    let mut last = 0.0;
    let point = |item: &Json| {
        let [percentile, ms] = item.array("a percentile and milliseconds")? else {
            return Err(item.wrong("an array of a percentile and milliseconds"));
        };
        let found = percentile.number("a percentile", 0.0..=100.0)?;
        if found <= last {
            return Err(percentile.wrong(format_args!("a percentile above {last}")));
        }
        last = found;
        Ok((found, ms.integer("milliseconds", 0..=DELAY_MS_MAX)? as u64))
    };
    items.iter().map(point).collect()
}

fn key_policies(policies: &Object<'_>) -> Result<KeyPolicies, ConfigError> {
    if let Some((name, json)) = policies.entries().iter().find(|(name, _)| name != "key") {
        return Err(json.error(format!("expected `key` as a field of a policy, found `{name}`")));
    }
    let Some(json) = policies.get("key") else { return Ok(KeyPolicies(None)) };
    let list = json.array("policies for `key`")?;
    if list.len() > POLICIES_MAX {
        return Err(json.error(format!("expected at most {POLICIES_MAX} policies, found {}", list.len())));
    }
    let policy = |json: &Json| {
        let object = json.object("a policy")?;
        let value: Box<[u8]> = match &object.require("value")?.value {
            JsonValue::String(text) => text.as_bytes().into(),
            _ => return Err(object.require("value")?.wrong("a string (`value` of a policy for keys)")),
        };
        let op = object.require("op")?;
        match op.string("`op` of a policy")? {
            "equals" => Ok(KeyPolicy::Equals(value)),
            "not_equals" => Ok(KeyPolicy::NotEquals(value)),
            _ => Err(op.wrong("equals or not_equals")),
        }
    };
    Ok(KeyPolicies(Some(list.iter().map(policy).collect::<Result<_, _>>()?)))
}
