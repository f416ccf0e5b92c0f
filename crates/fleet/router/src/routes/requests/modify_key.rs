//! ModifyKeyRoute: the child gets a request with another key.

use std::convert::Infallible;

use crate::flight::derive::with_key;
use crate::flight::reply::FlightReply;
use crate::message::changes::KeyChange;
use crate::message::outcome::Outcome;
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
