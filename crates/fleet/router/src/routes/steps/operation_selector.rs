//! OperationSelectorRoute: a child by the command.

use std::collections::HashMap;

use crate::config::error::ConfigError;
use crate::config::json::Json;
use crate::plan::NodeId;
use crate::plan::plain_route::PlainRoute;
use crate::routes::form::{Compile, Fields, RouteDefinition, RouteForm};

/// A child by the command, else the default.
pub(crate) struct OperationSelector;

impl<C: Compile> RouteForm<C> for OperationSelector {
    const FORM: Fields = ("OperationSelectorRoute", &["default_policy", "operation_policies"]);

    const OTHER_NAME: Option<&'static str> = Some("PrefixPolicyRoute");

    fn compile(compiler: &mut C, definition: RouteDefinition<'_>) -> Result<Vec<NodeId>, ConfigError> {
        let json = definition.json();
        let object = json.object("an OperationSelectorRoute")?;
        let default = compiler.single_or_null(object.get("default_policy"), json)?;
        let mut children = HashMap::new();
        if let Some(policies) = object.get("operation_policies") {
            for (name, route) in policies.object("`operation_policies`")?.entries() {
                let node = compiler.single(route)?;
                if let Some(name) = operation_named(name, route)? {
                    children.insert(name, node);
                }
            }
        }
        Ok(vec![compiler.add_plain(PlainRoute::ByOperation { children, default }, json)?])
    }
}

/// mcrouter's names of operations that a client can send here.
const OPERATIONS: [&str; 14] = [
    "get", "gets", "gat", "gats", "set", "add", "replace", "append", "prepend", "cas", "delete", "incr",
    "decr", "touch",
];

/// Its names of operations that only its own clients send.
const OTHER_OPERATIONS: [&str; 3] = ["lease-get", "lease-set", "metaget"];

/// The operation with this name; `None` for one that clients cannot send.
fn operation_named(name: &str, json: &Json) -> Result<Option<&'static str>, ConfigError> {
    if OTHER_OPERATIONS.contains(&name) {
        return Ok(None);
    }
    let found = OPERATIONS.into_iter().find(|known| *known == name);
    let names = || format!("expected one of {}, found operation `{name}`", OPERATIONS.join(", "));
    found.map(Some).ok_or_else(|| json.error(names()))
}
