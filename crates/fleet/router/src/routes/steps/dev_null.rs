//! DevNullRoute: answers as if there were no item, and counts that.

use crate::config::error::ConfigError;
use crate::plan::NodeId;
use crate::plan::plain_route::PlainRoute;
use crate::routes::form::{Compile, Fields, RouteDefinition, RouteForm};

/// The end of the way: no item, which is counted.
pub(crate) struct DevNull;

impl<C: Compile> RouteForm<C> for DevNull {
    const FORM: Fields = ("DevNullRoute", &[]);

    fn compile(compiler: &mut C, definition: RouteDefinition<'_>) -> Result<Vec<NodeId>, ConfigError> {
        Ok(vec![compiler.add_plain(PlainRoute::DevNull, definition.json())?])
    }
}
