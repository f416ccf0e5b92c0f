//! ErrorRoute: answers an error.

use crate::config::error::ConfigError;
use crate::message::outcome::Outcome;
use crate::plan::NodeId;
use crate::plan::plain_route::PlainRoute;
use crate::routes::form::{Compile, Fields, RouteDefinition, RouteForm};

/// The end of the way: an error.
pub(crate) struct ErrorAnswer;

impl<C: Compile> RouteForm<C> for ErrorAnswer {
    const FORM: Fields = ("ErrorRoute", &["enable_logging", "response", "result"]);

    fn compile(compiler: &mut C, definition: RouteDefinition<'_>) -> Result<Vec<NodeId>, ConfigError> {
        let route = match definition {
            RouteDefinition::Nothing(_) => PlainRoute::Error(Outcome::LocalError, "".into()),
            RouteDefinition::Text(text) => {
                PlainRoute::Error(Outcome::LocalError, text.string("the error's text")?.into())
            }
            RouteDefinition::Object(json) => {
                let object = json.object("an ErrorRoute")?;
                let message = object.string("response")?.unwrap_or_default();
                let outcome = match object.get("result") {
                    None => Outcome::LocalError,
                    Some(json) => {
                        let name = json.string("`result` of an ErrorRoute")?;
                        let outcome = Outcome::by_name(name).filter(|outcome| outcome.is_error());
                        outcome
                            .ok_or_else(|| json.wrong("the name of an error, such as mc_res_local_error"))?
                    }
                };
                PlainRoute::Error(outcome, message.into())
            }
        };
        Ok(vec![compiler.add_plain(route, definition.json())?])
    }
}
