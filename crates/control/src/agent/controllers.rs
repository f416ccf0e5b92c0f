//! Controllers as an agent sees them: one that it keeps to, and others if that one does not answer.

use std::sync::mpsc::{SyncSender, TrySendError};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use fleet::HostId;
use os::clock::pause;
use rustls::ClientConfig;
use serde_json::json;
use stdx::prng::{Prng, mix};
use tls::ClientTls;

use super::settings::SharedReport;
use crate::client::{ControlClient, ControlPlace};
use crate::turn::{TURN_WAIT, TURN_WAIT_SPREAD, TurnOrders};

/// Time beyond the longest wait of a controller until it counts as away.
const GRACE: Duration = Duration::from_secs(5);
/// The first pause after all controllers have failed; it doubles with each failure.
const PAUSE_FIRST: Duration = Duration::from_millis(250);
/// A pause while the agent is behind with its orders: a turn says still that it lives.
const FULL_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(15);

/// Controllers in the order in which this agent asks them.
pub(super) struct Controllers {
    places: Vec<ControlPlace>,
    tls: Arc<ClientTls>,
    /// The connection, and the TLS settings that it was made with.
    client: Option<(Arc<ClientConfig>, ControlClient)>,
    /// The place in use.
    at: usize,
    prng: Prng,
    /// Failures since the last answer.
    failures: u32,
}

impl Controllers {
    /// In an order that follows from the host's name, so that agents spread over controllers and each keeps to one.
    pub(super) fn new(
        places: &[ControlPlace],
        tls: &Arc<ClientTls>,
        host: &HostId,
        boot: u64,
    ) -> Controllers {
        let mut places = places.to_vec();
        let lot = |text: &str| text.bytes().fold(0, |sum, byte| mix(sum ^ u64::from(byte)));
        places.sort_by_key(|place| lot(&format!("{host} {place:?}")));
        let prng = Prng::new(boot);
        Controllers { places, tls: Arc::clone(tls), client: None, at: 0, prng, failures: 0 }
    }

    /// Takes turns for ever, and passes orders on.
    pub(super) fn take_turns(mut self, shared: &SharedReport, orders: &SyncSender<TurnOrders>) {
        loop {
            match self.turn(shared, None) {
                Some(new) => {
                    let version = new.version;
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

    /// One turn. `None` if nobody has answered: then the next controller's turn comes.
    pub(super) fn turn(&mut self, shared: &SharedReport, wait_ms: Option<u32>) -> Option<TurnOrders> {
        let report = {
            let mut report = shared.lock().unwrap_or_else(PoisonError::into_inner);
            report.turn += 1;
            let mut report = report.clone();
            report.wait_ms = wait_ms;
            report
        };
        let wait = wait_ms.map_or(TURN_WAIT + TURN_WAIT_SPREAD, |ms| Duration::from_millis(ms.into()));
        let answer = self.client()?.post("/v1/turn", &json!(report), wait + GRACE);
        let orders = answer.ok().filter(|answer| answer.is_ok());
        match orders.and_then(|answer| serde_json::from_value(answer.json).ok()) {
            Some(orders) => {
                self.failures = 0;
                Some(orders)
            }
            None => {
                self.client = None;
                self.at = (self.at + 1) % self.places.len();
                self.failures += 1;
                None
            }
        }
    }

    fn client(&mut self) -> Option<&ControlClient> {
        let tls = self.tls.current();
        // A connection would outlive the certificate that it was made with.
        if self.client.as_ref().is_none_or(|(before, _)| !Arc::ptr_eq(before, &tls)) {
            let place = self.places.get(self.at)?;
            let client = ControlClient::new(place, Arc::clone(&tls)).ok();
            self.client = client.map(|client| (tls, client));
        }
        self.client.as_ref().map(|(_, client)| client)
    }

    /// None before every controller was asked once; then longer and longer, and different for each agent.
    fn pause(&mut self) -> Duration {
        let rounds = self.failures / u32::try_from(self.places.len().max(1)).unwrap_or(1);
        let most = PAUSE_FIRST.saturating_mul(1 << rounds.min(10)).min(PAUSE_MAX);
        let half = most / 2;
        half + Duration::from_micros(self.prng.below(half.as_micros() as u64 + 1))
    }
}
