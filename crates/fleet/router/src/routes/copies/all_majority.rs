//! AllMajorityRoute: all children get a request, and the reply that most give is the route's.

use crate::config::error::ConfigError;
use crate::flight::reply::FlightReply;
use crate::message::outcome::Outcome;
use crate::plan::NodeId;
use crate::routes::form::{AddRoute, Fields, RouteDefinition, RouteForm};
use crate::routes::route::{Decision, FirstStep, KeptReply, Numbers, Opening, Route, Scene};

/// All; the outcome that more than half of all children have, else the most frequent; of two, the worse.
#[derive(Clone, Debug)]
pub(crate) struct AllMajority;

/// The replies so far.
#[derive(Default)]
pub(crate) struct Votes {
    /// How often each outcome has come.
    counts: Vec<(Outcome, u16)>,
    leader: KeptReply,
}

impl Route for AllMajority {
    type Progress = Votes;

    fn name(&self) -> Option<&'static str> {
        Some("all-majority")
    }

    fn begin(&self, opening: &mut Opening<'_>) -> FirstStep<Votes> {
        FirstStep::AskAll(Votes::default(), Numbers::Range(0..opening.count()))
    }

    fn replied<'a>(&self, votes: &mut Votes, scene: &mut Scene<'_>, reply: FlightReply<'a>) -> Decision<'a> {
        let count = votes.count(reply.outcome);
        if usize::from(count) > scene.children.len() / 2 {
            return Decision::Done(reply);
        }
        if votes.is_led_by(reply.outcome, count) {
            votes.leader.keep(reply);
        }
        if scene.waiting > 0 { Decision::Wait } else { Decision::Done(votes.leader.give()) }
    }
}

impl Votes {
    /// Counts one more of an outcome. Returns how often it has come.
    fn count(&mut self, outcome: Outcome) -> u16 {
        let place = match self.counts.iter().position(|(other, _)| *other == outcome) {
            Some(place) => place,
            None => {
                self.counts.push((outcome, 0));
                self.counts.len() - 1
            }
        };
        self.counts[place].1 += 1;
        self.counts[place].1
    }

    /// Whether an outcome that has come so often takes the lead, or has it.
    fn is_led_by(&self, outcome: Outcome, count: u16) -> bool {
        let Some(leader) = self.leader.outcome() else { return true };
        let most = self.counts.iter().find(|(other, _)| *other == leader).map_or(0, |(_, most)| *most);
        leader == outcome || count > most || count == most && outcome.severity() > leader.severity()
    }
}

impl<C: AddRoute<AllMajority>> RouteForm<C> for AllMajority {
    const FORM: Fields = ("AllMajorityRoute", &["children"]);

    fn compile(compiler: &mut C, definition: RouteDefinition<'_>) -> Result<Vec<NodeId>, ConfigError> {
        compiler.add_over_several(AllMajority, definition)
    }
}
