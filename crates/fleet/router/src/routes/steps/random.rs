//! RandomRoute: any child.

use crate::config::error::ConfigError;
use crate::plan::NodeId;
use crate::plan::plain_route::PlainRoute;
use crate::routes::form::{Compile, Fields, RouteDefinition, RouteForm};

/// Any child.
pub(crate) struct Random;

impl<C: Compile> RouteForm<C> for Random {
    const FORM: Fields = ("RandomRoute", &["children"]);

    fn compile(compiler: &mut C, definition: RouteDefinition<'_>) -> Result<Vec<NodeId>, ConfigError> {
        match compiler.children(definition)? {
            children if children.len() < 2 => compiler.few(children, definition.json()),
            children => Ok(vec![compiler.add_plain(PlainRoute::Random(children.into()), definition.json())?]),
        }
    }
}
