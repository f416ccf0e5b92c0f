//! RoutingGroupRoute: a child by what the command does.

use std::collections::HashMap;

use crate::config::error::ConfigError;
use crate::config::json::Json;
use crate::message::operation::OperationClass;
use crate::plan::NodeId;
use crate::plan::plain_route::PlainRoute;
use crate::routes::form::{Compile, Fields, RouteDefinition, RouteForm};

/// A child by what the command does.
pub(crate) struct RoutingGroup;

impl<C: Compile> RouteForm<C> for RoutingGroup {
    const FORM: Fields = ("RoutingGroupRoute", &["default_policy", "routing_group_policies"]);

    fn compile(compiler: &mut C, definition: RouteDefinition<'_>) -> Result<Vec<NodeId>, ConfigError> {
        let json = definition.json();
        let object = json.object("a RoutingGroupRoute")?;
        let (default, policies) = (object.get("default_policy"), object.get("routing_group_policies"));
        if default.is_none() && policies.is_none() {
            let message =
                "expected `default_policy` or `routing_group_policies` in a RoutingGroupRoute, found neither";
            return Err(json.error(message));
        }
        let default = compiler.single_or_null(default, json)?;
        let mut children = HashMap::new();
        if let Some(policies) = policies {
            for (name, route) in policies.object("`routing_group_policies`")?.entries() {
                children.insert(class_named(name, route)?, compiler.single(route)?);
            }
        }
        Ok(vec![compiler.add_plain(PlainRoute::ByClass { children, default }, json)?])
    }
}

/// The class of operations with mcrouter's name of it.
fn class_named(name: &str, json: &Json) -> Result<OperationClass, ConfigError> {
    match name {
        "get_like" => Ok(OperationClass::Get),
        "update_like" => Ok(OperationClass::Update),
        "delete_like" => Ok(OperationClass::Delete),
        "arithmetic_like" => Ok(OperationClass::Arithmetic),
        _ => Err(json.error(format!(
            "expected get_like, update_like, delete_like or arithmetic_like, found group `{name}`"
        ))),
    }
}
