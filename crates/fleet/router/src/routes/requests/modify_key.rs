//! ModifyKeyRoute: the child gets a request with another key.

use std::convert::Infallible;

use protocol::limits::KEY_LEN_MAX;

use crate::config::error::ConfigError;
use crate::config::json::{Json, Object};
use crate::flight::derive::with_key;
use crate::flight::reply::FlightReply;
use crate::message::changes::KeyChange;
use crate::message::outcome::Outcome;
use crate::message::routing_prefix::{self, RoutingPrefix};
use crate::plan::NodeId;
use crate::routes::form::{AddRoute, Fields, RouteDefinition, RouteForm};
use crate::routes::route::{Decision, FirstStep, Opening, Route, Scene};

/// The child gets the request with another key.
#[derive(Clone, Debug)]
pub(crate) struct ModifyKey(pub(crate) Box<KeyChange>);

impl Route for ModifyKey {
    type Progress = Infallible;

    fn name(&self) -> Option<&'static str> {
        Some("modify-key")
    }

    fn begin(&self, opening: &mut Opening<'_>) -> FirstStep<Infallible> {
        let mut derived = opening.spares.take();
        let changed = with_key(&opening.message, &mut derived, |key, is_binary| self.0.apply(key, is_binary));
        if let Ok(true) = changed {
            return FirstStep::Pass(0, Some(derived));
        }
        opening.spares.give(derived);
        match changed {
            Ok(_) => FirstStep::Pass(0, None),
            Err(reason) => {
                let message = format!("ModifyKeyRoute: invalid key: {}", reason.words());
                FirstStep::Answer(FlightReply::error(Outcome::LocalError, &message))
            }
        }
    }

    fn replied<'a>(&self, progress: &mut Infallible, _: &mut Scene<'_>, _: FlightReply<'a>) -> Decision<'a> {
        match *progress {}
    }
}

impl<C: AddRoute<ModifyKey>> RouteForm<C> for ModifyKey {
    const FORM: Fields = (
        "ModifyKeyRoute",
        &[
            "ensure_key_prefix",
            "modify_inplace",
            "replace_key_prefix",
            "set_key_suffix",
            "set_routing_prefix",
            "target",
        ],
    );

    const HAS_SHORT_FORM: bool = false;

    fn compile(compiler: &mut C, definition: RouteDefinition<'_>) -> Result<Vec<NodeId>, ConfigError> {
        let object = &definition.json().object("a route")?;
        let target = compiler.single(object.require("target")?)?;
        let change = KeyChange {
            routing_prefix: object.get("set_routing_prefix").map(routing_prefix).transpose()?,
            ensured: part_of_key(object, "ensure_key_prefix")?.unwrap_or_default(),
            in_place: object.bool("modify_inplace")?.unwrap_or(false),
            replaced: part_of_key(object, "replace_key_prefix")?,
            suffix: part_of_key(object, "set_key_suffix")?.unwrap_or_default(),
        };
        if let (Some(_), Some(in_place)) = (&change.replaced, object.get("modify_inplace")) {
            let message = "expected either `replace_key_prefix` or `modify_inplace`, found both";
            return Err(in_place.error(message));
        }
        Ok(vec![compiler.add_route(ModifyKey(Box::new(change)), vec![target], definition.json())?])
    }
}

/// A routing prefix, or nothing.
fn routing_prefix(json: &Json) -> Result<Box<[u8]>, ConfigError> {
    let what = "`set_routing_prefix`";
    if part(json, what)?.is_empty() {
        return Ok(Box::default());
    }
    match RoutingPrefix::parse(json.string(what)?) {
        Some(prefix) => Ok(prefix.as_str().as_bytes().into()),
        None => Err(json.wrong(format_args!("{}, or an empty string", routing_prefix::EXPECTED))),
    }
}

fn part_of_key(object: &Object<'_>, field: &str) -> Result<Option<Box<[u8]>>, ConfigError> {
    object.get(field).map(|json| part(json, &format!("`{field}`"))).transpose()
}

/// What may stand in a key: no spaces, no control characters.
fn part(json: &Json, what: &str) -> Result<Box<[u8]>, ConfigError> {
    let text = json.string(what)?.as_bytes();
    match text.len() <= KEY_LEN_MAX && !text.iter().any(|byte| *byte <= b' ' || *byte == 0x7f) {
        true => Ok(text.into()),
        false => Err(json.wrong(format_args!(
            "at most {KEY_LEN_MAX} bytes without spaces and control characters ({what})"
        ))),
    }
}
