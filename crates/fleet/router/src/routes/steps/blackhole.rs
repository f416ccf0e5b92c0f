//! BlackholeRoute: keys that disappear, for tests and experiments.

use crate::config::error::ConfigError;
use crate::config::json::{Json, JsonValue, Object};
use crate::plan::plain_route::PlainRoute;
use crate::plan::{KeyPolicies, KeyPolicy, NodeId};
use crate::routes::form::{Compile, Fields, RouteDefinition, RouteForm};

/// One route for the keys for which policies hold, another for the rest.
pub(crate) struct Blackhole;

/// Policies of one route.
const POLICIES_MAX: usize = 10_000;

impl<C: Compile> RouteForm<C> for Blackhole {
    const FORM: Fields = ("BlackholeRoute", &["blackhole_child", "default", "policies"]);

    fn compile(compiler: &mut C, definition: RouteDefinition<'_>) -> Result<Vec<NodeId>, ConfigError> {
        let json = definition.json();
        let object = json.object("a BlackholeRoute")?;
        let default = compiler.single(object.require("default")?)?;
        let policies = key_policies(&object.require("policies")?.object("`policies` of a BlackholeRoute")?)?;
        let blackhole = compiler.single_or_null(object.get("blackhole_child"), json)?;
        Ok(vec![compiler.add_plain(PlainRoute::Blackhole { policies, blackhole, default }, json)?])
    }
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
