//! HostIdRoute: a child by this host.

use crate::config::error::ConfigError;
use crate::plan::NodeId;
use crate::plan::hash::host_child;
use crate::routes::form::{Compile, Fields, RouteDefinition, RouteForm};

/// The child of this host.
pub(crate) struct ByHost;

impl<C: Compile> RouteForm<C> for ByHost {
    const FORM: Fields = ("HostIdRoute", &["children", "salt"]);

    fn compile(compiler: &mut C, definition: RouteDefinition<'_>) -> Result<Vec<NodeId>, ConfigError> {
        let children = compiler.children(definition)?;
        if children.len() < 2 {
            return compiler.few(children, definition.json());
        }
        let salt = match definition.object()? {
            Some(object) => object.string("salt")?.unwrap_or_default(),
            None => "",
        };
        Ok(vec![children[host_child(compiler.host_id(), salt, children.len())]])
    }
}
