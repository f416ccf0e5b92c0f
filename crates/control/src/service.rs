//! The HTTP service of a controller: questions go to the thread that decides, turns wait at their seats.
//!
//! ```text
//! ApiRequest ─► who asks, and may he? ─► question ─┬─► Turn ──► the thread's queue, and the agent's seat
//!                                                  └─► others ► the thread's queue, and its answer
//! ```

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use admin::api::{Api, ApiAnswer, ApiPeer, ApiReply, ApiRequest};
use serde_json::json;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::probe::ProbeResult;
use crate::questions::{ControlQuestion, question};
use crate::seats::AgentSeats;
use crate::turn::{TURN_WAIT, TURN_WAIT_SPREAD, TurnReport};

/// Messages that wait for the thread that decides: a turn of every agent, and some probes. What comes beyond is refused, and
/// comes again with the next turn or probe.
const QUEUE_MAX: usize = 65_536;
/// Time for the thread's answer: it waits for its register, which has a time limit of its own.
const ANSWER_WITHIN: Duration = Duration::from_secs(12);
/// When to ask again if a controller has too much to do.
const RETRY_AFTER_S: u32 = 2;

/// A message to the thread that decides.
#[derive(Debug)]
pub enum ControllerMessage {
    /// A question, and where its answer goes.
    Question(ControlQuestion, oneshot::Sender<ApiReply>),
    /// What an agent says; its answer comes from its seat.
    Turn(TurnReport),
    /// What a probe has seen.
    Probe(ProbeResult),
    /// The register has changed.
    Changed,
}

/// The service.
pub struct ControlService {
    queue: SyncSender<ControllerMessage>,
    seats: Arc<AgentSeats>,
}

impl ControlService {
    /// A service, and the messages for the thread that decides.
    pub fn new(seats: Arc<AgentSeats>) -> (Arc<ControlService>, Receiver<ControllerMessage>) {
        let (queue, messages) = sync_channel(QUEUE_MAX);
        (Arc::new(ControlService { queue, seats }), messages)
    }

    /// Passes a probe's result on. If the thread is that far behind, the next one has to do.
    pub fn note_probe(&self, result: ProbeResult) {
        let _ = self.queue.try_send(ControllerMessage::Probe(result));
    }

    /// Says that the register has changed. The thread looks for itself now and then if it is that far behind.
    pub fn note_change(&self) {
        let _ = self.queue.try_send(ControllerMessage::Changed);
    }

    async fn turn(&self, report: TurnReport) -> ApiReply {
        if self.queue.try_send(ControllerMessage::Turn(report.clone())).is_err() {
            return busy();
        }
        let most = report.wait_ms.map_or(Duration::MAX, |wait| Duration::from_millis(wait.into()));
        match self.seats.answer(&report, wait_of(&report).min(most)).await {
            Ok(orders) => ApiReply::new(200, json!(orders).to_string()),
            Err(error) => ApiReply::new(503, json!({"error": error.to_string()}).to_string()),
        }
    }

    async fn answer_question(&self, question: ControlQuestion) -> ApiReply {
        let (sender, answer) = oneshot::channel();
        if self.queue.try_send(ControllerMessage::Question(question, sender)).is_err() {
            return busy();
        }
        match timeout(ANSWER_WITHIN, answer).await {
            Ok(Ok(reply)) => reply,
            _ => busy(),
        }
    }
}

impl Api for ControlService {
    fn answer(self: Arc<Self>, request: ApiRequest) -> ApiAnswer {
        Box::pin(async move {
            // Certificates have rights (`authorise`), which nothing here asks for yet: so only this host's owner of the
            // socket file is answered.
            if request.peer != ApiPeer::Local {
                let error = "only the owner of the controller's socket file is answered";
                return ApiReply::new(403, json!({"error": error}).to_string());
            }
            match question(&request) {
                Ok(ControlQuestion::Turn(report)) => self.turn(report).await,
                Ok(question) => self.answer_question(question).await,
                Err(fault) => ApiReply::new(fault.status, json!({"error": fault.error}).to_string()),
            }
        })
    }
}

fn busy() -> ApiReply {
    let error = json!({"error": "the controller has too much to do, or waits for its register"}).to_string();
    ApiReply { status: 503, json: error, retry_after_s: Some(RETRY_AFTER_S) }
}

/// Differs from agent to agent and from turn to turn, the same on every controller.
fn wait_of(report: &TurnReport) -> Duration {
    let seed = report
        .host
        .as_str()
        .bytes()
        .fold(report.boot ^ report.turn, |seed, byte| seed.rotate_left(8) ^ u64::from(byte));
    let spread = 2 * TURN_WAIT_SPREAD.as_millis() as u64;
    let extra = stdx::prng::Prng::new(seed).below(spread);
    TURN_WAIT - TURN_WAIT_SPREAD + Duration::from_millis(extra)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(host: &str, turn: u64) -> TurnReport {
        let json = json!({"host": host, "zone": "a", "boot": 1, "turn": turn});
        serde_json::from_value(json).expect("a report")
    }

    #[test]
    fn nobody_is_answered_over_a_network() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        for peer in [ApiPeer::Unknown, ApiPeer::Certificate(vec![1])] {
            let (service, messages) = ControlService::new(Arc::default());
            let (path, query, body) = ("/v1/status".to_owned(), None, Vec::new());
            let request = ApiRequest { method: admin::api::ApiMethod::Get, path, query, body, peer };
            assert_eq!(runtime.block_on(service.answer(request)).status, 403);
            assert!(messages.try_recv().is_err());
        }
    }

    #[test]
    fn turns_wait_for_10_to_20_seconds_and_not_all_for_the_same_time() {
        let waits: Vec<u64> =
            (0..1000).map(|number| wait_of(&report(&format!("h{number}"), 1)).as_millis() as u64).collect();
        assert!(waits.iter().all(|wait| (10_000..20_000).contains(wait)));
        let mean = waits.iter().sum::<u64>() / 1000;
        assert!((14_000..16_000).contains(&mean), "{mean}");
        assert_ne!(wait_of(&report("h1", 1)), wait_of(&report("h1", 2)));
    }
}
