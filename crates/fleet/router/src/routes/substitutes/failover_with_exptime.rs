//! FailoverWithExptimeRoute: a failover whose other children get items for a limited time.

use crate::config::error::ConfigError;
use crate::message::changes::ExptimeChange;
use crate::plan::NodeId;
use crate::routes::form::{AddRoute, Fields, RouteDefinition, RouteForm};
use crate::routes::requests::modify_exptime::{EXPTIMES, ModifyExptime};
use crate::routes::substitutes::failover::{self, Failover};

/// A [`Failover`] with a [`ModifyExptime`] in front of all children but the first.
pub(crate) struct FailoverWithExptime;

/// mcrouter's default of `failover_exptime`, in seconds.
const FAILOVER_EXPTIME_S: i64 = 60;

impl<C: AddRoute<Failover> + AddRoute<ModifyExptime>> RouteForm<C> for FailoverWithExptime {
    const FORM: Fields = (
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
    );

    const HAS_SHORT_FORM: bool = false;

    fn compile(compiler: &mut C, definition: RouteDefinition<'_>) -> Result<Vec<NodeId>, ConfigError> {
        let (object, json) = (definition.json().object("a route")?, definition.json());
        let mut children = vec![compiler.single(object.require("normal")?)?];
        let exptime = object.integer("failover_exptime", EXPTIMES)?.unwrap_or(FAILOVER_EXPTIME_S) as i32;
        let others = object.get("failover").map(|list| compiler.list(list)).transpose()?;
        for child in others.unwrap_or_default() {
            children.push(match exptime > 0 {
                true => {
                    let limited = ModifyExptime(ExptimeChange::AtMost(exptime));
                    compiler.add_route(limited, vec![child], json)?
                }
                false => child,
            });
        }
        if children.len() == 1 {
            return Ok(children);
        }
        let settings = failover::settings(compiler, &object, children.len())?;
        Ok(vec![compiler.add_route(Failover(Box::new(settings)), children, json)?])
    }
}
