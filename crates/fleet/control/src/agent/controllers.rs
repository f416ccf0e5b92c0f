//! Controllers as an agent sees them: one that it keeps to, and others if that one does not answer.

use std::sync::mpsc::{SyncSender, TrySendError};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use os::clock::pause;
use rustls::ClientConfig;
use serde_json::json;
use stdx::prng::{Prng, mix};
use tls::ClientTls;

use super::figures::AgentFigures;
use super::settings::{AgentSettings, SharedReport};
use crate::client::{ControlClient, ControlPlace};
use crate::service::turn::{TURN_WAIT, TURN_WAIT_SPREAD, TurnOrders};

/// Time beyond the longest wait of a controller until it counts as away.
const GRACE: Duration = Duration::from_secs(5);
/// The first pause after all controllers have failed; it doubles with each failure.
const PAUSE_FIRST: Duration = Duration::from_millis(250);
/// A pause while the agent is behind with its orders: a turn says still that it lives.
const FULL_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(15);
/// Time of a turn while every controller is without its register. The next one is asked then, which may have it again.
const STAYS_FOR: Duration = Duration::from_secs(10);

/// What a controller has answered, and which turn.
pub(super) struct HeardOrders {
    pub(super) orders: TurnOrders,
    /// [`TurnReport::turn`](crate::service::turn::TurnReport::turn).
    pub(super) turn: u64,
}

/// Controllers in the order in which this agent asks them.
///
/// Which of them is asked is the affair of [`ControllerChoice`].
pub(super) struct Controllers {
    places: Vec<ControlPlace>,
    tls: Arc<ClientTls>,
    /// The connection, and the TLS settings that it was made with.
    client: Option<(Arc<ClientConfig>, ControlClient)>,
    choice: ControllerChoice,
    prng: Prng,
    figures: Arc<AgentFigures>,
}

impl Controllers {
    /// In an order that follows from the host's name, so that agents spread over controllers and each keeps to one.
    pub(super) fn new(settings: &AgentSettings, figures: Arc<AgentFigures>) -> Controllers {
        let (mut places, host) = (settings.controllers.clone(), &settings.host);
        let lot = |text: &str| text.bytes().fold(0, |sum, byte| mix(sum ^ u64::from(byte)));
        places.sort_by_key(|place| lot(&format!("{host} {place:?}")));
        let prng = Prng::new(settings.boot);
        let choice = ControllerChoice::new(places.len());
        Controllers { places, tls: Arc::clone(&settings.tls), client: None, choice, prng, figures }
    }

    /// Takes turns for ever, and passes orders on.
    pub(super) fn take_turns(mut self, shared: &SharedReport, orders: &SyncSender<HeardOrders>) {
        loop {
            match self.turn(shared, None) {
                Some(new) => {
                    let version = new.orders.version;
                    match orders.try_send(new) {
                        // Otherwise the same would be said again and again until they are carried out, which may take as long as
                        // a disk does.
                        Ok(()) => shared.lock().unwrap_or_else(PoisonError::into_inner).seen = version,
                        // They are all of the orders, and the same will be said again.
                        Err(TrySendError::Full(_)) => pause(FULL_PAUSE),
                        Err(TrySendError::Disconnected(_)) => return,
                    }
                }
                None => pause(self.pause()),
            }
        }
    }

    /// One turn. `None` if nobody has answered who hears of decisions: then the next controller's turn comes.
    pub(super) fn turn(&mut self, shared: &SharedReport, wait_ms: Option<u32>) -> Option<HeardOrders> {
        let orders = self.asked(shared, wait_ms);
        self.figures.note_turn(orders.is_some());
        orders
    }

    fn asked(&mut self, shared: &SharedReport, wait_ms: Option<u32>) -> Option<HeardOrders> {
        let report = {
            let mut report = shared.lock().unwrap_or_else(PoisonError::into_inner);
            report.turn += 1;
            let mut report = report.clone();
            let (stays, longest) = (self.choice.stays(), STAYS_FOR.as_millis() as u32);
            report.stays = Some(stays);
            let turn = report.turn;
            for router in &mut report.routers {
                router.figures = router.figures.take().map(|figures| Box::new(figures.fitted(turn)));
            }
            report.wait_ms = if stays { Some(wait_ms.unwrap_or(longest).min(longest)) } else { wait_ms };
            report
        };
        let wait = report.wait_ms.map_or(TURN_WAIT + TURN_WAIT_SPREAD, |ms| Duration::from_millis(ms.into()));
        let answer = self.client()?.post("/v1/turn", &json!(report), wait + GRACE);
        let orders = answer.ok().filter(|answer| answer.is_ok());
        match orders.and_then(|answer| serde_json::from_value(answer.json).ok()) {
            Some(orders) => {
                let orders: TurnOrders = orders;
                let before = self.choice.at();
                let counts = self.choice.answered(orders.elsewhere);
                if self.choice.at() != before {
                    self.client = None;
                }
                counts.then_some(HeardOrders { orders, turn: report.turn })
            }
            None => {
                self.client = None;
                self.choice.failed();
                None
            }
        }
    }

    fn client(&mut self) -> Option<&ControlClient> {
        let tls = self.tls.current();
        // A connection would outlive the certificate that it was made with.
        if self.client.as_ref().is_none_or(|(before, _)| !Arc::ptr_eq(before, &tls)) {
            let place = self.places.get(self.choice.at())?;
            let client = ControlClient::new(place, Arc::clone(&tls)).ok();
            self.client = client.map(|client| (tls, client));
        }
        self.client.as_ref().map(|(_, client)| client)
    }

    /// None before every controller was asked once; then longer and longer, and different for each agent.
    fn pause(&mut self) -> Duration {
        let rounds = self.choice.failures / u32::try_from(self.places.len().max(1)).unwrap_or(1);
        let most = PAUSE_FIRST.saturating_mul(1 << rounds.min(10)).min(PAUSE_MAX);
        let half = most / 2;
        half + Duration::from_micros(self.prng.below(half.as_micros() as u64 + 1))
    }
}

/// Which controller an agent asks: it keeps to one that answers and hears of decisions, and leaves one that is without its register, as
/// long as there is another one to ask.
#[derive(Clone, Debug)]
pub struct ControllerChoice {
    count: usize,
    at: usize,
    /// Failures since the last answer.
    failures: u32,
    /// Controllers that were asked since the first one that was without its register.
    without: usize,
}

impl ControllerChoice {
    /// Of so many controllers, the first one first.
    pub fn new(count: usize) -> ControllerChoice {
        ControllerChoice { count, at: 0, failures: 0, without: 0 }
    }

    /// The place of the controller that is asked next.
    pub fn at(&self) -> usize {
        self.at
    }

    /// All were asked, and none hears of decisions: there is nowhere to go.
    pub fn stays(&self) -> bool {
        self.without >= self.count
    }

    /// Takes an answer, and whether that says that its controller is without its register. Whether its orders count: another controller
    /// may know of a later decision.
    pub fn answered(&mut self, is_without: bool) -> bool {
        self.failures = 0;
        let counts = !is_without || self.stays();
        if is_without {
            self.go_on();
        } else {
            self.without = 0;
        }
        counts
    }

    /// Takes that there was no answer.
    pub fn failed(&mut self) {
        self.failures += 1;
        self.at = (self.at + 1) % self.count.max(1);
        // It is one of those that know nothing.
        self.without = if self.without > 0 { (self.without + 1).min(self.count) } else { 0 };
    }

    fn go_on(&mut self) {
        self.at = (self.at + 1) % self.count.max(1);
        self.without = (self.without + 1).min(self.count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Turns with three controllers, of which these answers come (`+` with, `-` without a register, `.` none): which are asked, and
    /// a `!` where the orders count.
    #[track_caller]
    fn check(answers: &[[char; 3]], expected: &str) {
        let mut choice = ControllerChoice::new(3);
        let turn = |now: &[char; 3]| {
            let at = choice.at();
            let counts = match now[at] {
                '.' => {
                    choice.failed();
                    false
                }
                answer => choice.answered(answer == '-'),
            };
            format!("{at}{}", if counts { "!" } else { "" })
        };
        assert_eq!(answers.iter().map(turn).collect::<Vec<_>>().join(" "), expected);
    }

    #[test]
    fn an_agent_leaves_a_controller_without_a_register_and_keeps_to_one_that_has_it() {
        check(&[['-', '+', '+']; 4], "0 1! 1! 1!");
        check(&[['-', '.', '+']; 4], "0 1 2! 2!");
        check(&[['+', '+', '+'], ['-', '-', '+'], ['-', '-', '+'], ['-', '-', '+']], "0! 0 1 2!");
    }

    #[test]
    fn where_no_controller_has_its_register_orders_count_and_each_is_asked_in_turn() {
        check(&[['-', '-', '-']; 6], "0 1 2 0! 1! 2!");
        check(&[['-', '.', '-']; 7], "0 1 2 0! 1 2! 0!");
        // The first one that has it again keeps the agent.
        let (none, second) = (['-', '-', '-'], ['-', '+', '-']);
        check(&[none, none, none, none, second, second], "0 1 2 0! 1! 1!");
        let mut alone = ControllerChoice::new(1);
        assert!(!alone.answered(true) && alone.answered(true) && alone.at() == 0);
    }
}
