//! NullRoute: answers as if there were no item.

use crate::config::error::ConfigError;
use crate::plan::NodeId;
use crate::plan::plain_route::PlainRoute;
use crate::routes::form::{Compile, Fields, RouteDefinition, RouteForm};

/// The end of the way: no item.
pub(crate) struct Null;

impl<C: Compile> RouteForm<C> for Null {
    const FORM: Fields = ("NullRoute", &[]);

    fn compile(compiler: &mut C, definition: RouteDefinition<'_>) -> Result<Vec<NodeId>, ConfigError> {
        Ok(vec![compiler.add_plain(PlainRoute::Null, definition.json())?])
    }
}
