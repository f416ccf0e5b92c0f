//! PrefixSelectorRoute: a child by the beginning of keys, at the top of the routes.

use crate::config::error::ConfigError;
use crate::config::json::{Json, Object};
use crate::plan::NodeId;
use crate::plan::plain_route::PlainRoute;
use crate::routes::form::{Compile, Fields, RouteDefinition, RouteForm};

/// A child by the longest matching prefix of the key.
pub(crate) struct PrefixSelector;

impl<C: Compile> RouteForm<C> for PrefixSelector {
    const FORM: Fields = ("PrefixSelectorRoute", &["policies", "wildcard"]);

    fn compile(_: &mut C, definition: RouteDefinition<'_>) -> Result<Vec<NodeId>, ConfigError> {
        let message = "expected PrefixSelectorRoute only at the top, found it inside of a route";
        Err(definition.json().error(message))
    }
}

/// The route at the top.
pub(crate) fn at_the_top(
    compiler: &mut impl Compile,
    selector: &Object<'_>,
    json: &Json,
) -> Result<NodeId, ConfigError> {
    let (policies, wildcard) = (selector.get("policies"), selector.get("wildcard"));
    if policies.is_none() && wildcard.is_none() {
        return Err(json.error("expected `policies` or `wildcard` in a PrefixSelectorRoute, found neither"));
    }
    let mut children: Vec<(Box<[u8]>, NodeId)> = Vec::new();
    if let Some(policies) = policies {
        for (prefix, route) in policies.object("`policies`")?.entries() {
            children.push((prefix.as_bytes().into(), compiler.single(route)?));
        }
    }
    children.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
    let default = wildcard.map(|route| compiler.single(route)).transpose()?;
    compiler.add_plain(PlainRoute::ByPrefix { children, default }, json)
}
