//! The HTTP service of a controller: questions go to the thread that decides, turns wait at their seats.
//!
//! ```text
//! ApiRequest ─► who asks, and may he? ─► question ─┬─► Turn ──► the thread's queue, and the agent's seat
//!                                                  └─► others ► the thread's queue, and its answer
//! ```

pub(crate) mod access;
pub mod authorise;
pub(crate) mod pages;
pub(crate) mod questions;
pub(crate) mod seats;
pub(crate) mod turn;

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use stdx::log_level::LogLevel;

use admin::api::{Api, ApiAnswer, ApiReply, ApiRequest};
use os::clock::{Stopwatch, unix_s};
use serde_json::json;
use stdx::words::counted;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

use crate::identity::FleetName;
use crate::probe::ProbeResult;
use crate::probe::objective::ObjectiveAnswer;
use crate::service::access::{Requester, verbs_of};
use crate::service::questions::{ControlQuestion, JOIN, question};
use crate::service::seats::AgentSeats;
use crate::service::turn::{TURN_WAIT, TURN_WAIT_SPREAD, TurnReport};

/// Messages that wait for the thread that decides: a turn of every agent, and some probes. What comes beyond is refused, and
/// comes again with the next turn or probe.
const QUEUE_MAX: usize = 65_536;
/// Time for the thread's answer: it waits for its register, which has a time limit of its own.
const ANSWER_WITHIN: Duration = Duration::from_secs(12);
/// What is said then. What waits for the thread is dropped; what it has begun may still reach the register.
const LATE: &str = "the controller waits for its register, or has too much to do: a change may have been made or not, which \
                    `control status` says later";
/// When to ask again if a controller has too much to do.
const RETRY_AFTER_S: u32 = 2;
/// Questions whose answer takes a look at 100,000 keys, some 0.3 s each: while the thread that decides does that, it does nothing
/// else. Further ones are told to come again.
const CHECKS_AT_ONCE: usize = 3;
/// Newcomers whose tokens are looked up at once. They have no certificate, and each costs the thread that decides a question to the
/// register: further ones are told to come again.
const JOINS_AT_ONCE: usize = 8;
/// Between two lines about peers that were refused: whoever is refused may come again at once, a thousand times.
const REFUSALS_EVERY: Duration = Duration::from_secs(1);

/// Lines for people.
pub type SayLine = Arc<dyn Fn(LogLevel, &str) + Send + Sync>;

/// A message to the thread that decides.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "each is in a box of its own while it waits")]
pub enum ControllerMessage {
    /// A question, who asks, and where its answer goes.
    Question(ControlQuestion, Requester, oneshot::Sender<ApiReply>),
    /// What an agent says; its answer comes from its seat.
    Turn(TurnReport),
    /// What a probe has seen.
    Probe(ProbeResult),
    /// The register has changed.
    Changed,
    /// What has come of a change's objective.
    Objective(ObjectiveAnswer),
}

/// The service.
pub struct ControlService {
    /// Its places are there from the start, so each is no more than a pointer.
    queue: SyncSender<Box<ControllerMessage>>,
    seats: Arc<AgentSeats>,
    fleet: FleetName,
    say: SayLine,
    refused: Mutex<Refusals>,
    checks: Semaphore,
    joins: Semaphore,
    me: Weak<ControlService>,
}

/// Requests that were refused: when a line was said, and how many came since.
#[derive(Default)]
struct Refusals {
    last: Option<Stopwatch>,
    more: usize,
    /// Since the start.
    all: u64,
}

impl ControlService {
    /// The service of a fleet, and the messages for the thread that decides.
    pub fn new(
        seats: Arc<AgentSeats>,
        fleet: FleetName,
        say: SayLine,
    ) -> (Arc<ControlService>, Receiver<Box<ControllerMessage>>) {
        let (queue, messages) = sync_channel(QUEUE_MAX);
        let (checks, joins) = (Semaphore::new(CHECKS_AT_ONCE), Semaphore::new(JOINS_AT_ONCE));
        let service = Arc::new_cyclic(|me: &Weak<ControlService>| {
            let (refused, me) = (Mutex::default(), me.clone());
            ControlService { queue, seats, fleet, say, refused, checks, joins, me }
        });
        (service, messages)
    }

    /// Passes a probe's result on. If the thread is that far behind, the next one has to do.
    pub fn note_probe(&self, result: ProbeResult) {
        let _ = self.queue.try_send(Box::new(ControllerMessage::Probe(result)));
    }

    /// Passes on what has come of an objective. If the thread is that far behind, the next one has to do.
    pub fn note_objective(&self, answer: ObjectiveAnswer) {
        let _ = self.queue.try_send(Box::new(ControllerMessage::Objective(answer)));
    }

    /// Says that the register has changed. The thread looks for itself now and then if it is that far behind.
    pub fn note_change(&self) {
        let _ = self.queue.try_send(Box::new(ControllerMessage::Changed));
    }

    /// Requests that were refused since the start: no certificate of the fleet, or no right.
    pub(crate) fn refusals(&self) -> u64 {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).all
    }

    async fn turn(&self, report: TurnReport) -> ApiReply {
        // Thousands wait: what the thread that decides is told is not kept meanwhile.
        let (report, told) = (report.without_members(), report);
        if self.queue.try_send(Box::new(ControllerMessage::Turn(told))).is_err() {
            return busy();
        }
        let most = report.wait_ms.map_or(Duration::MAX, |wait| Duration::from_millis(wait.into()));
        match self.seats.answer(&report, wait_of(&report).min(most)).await {
            Ok(orders) => ApiReply::new(200, json!(orders).to_string()),
            Err(error) => ApiReply::new(503, json!({"error": error.to_string()}).to_string()),
        }
    }

    /// Who asks, and what; otherwise the answer that refuses it.
    fn admitted(&self, request: &ApiRequest) -> Result<(ControlQuestion, Requester), ApiReply> {
        let requester = Requester::of(&request.peer, &self.fleet, unix_s()).map_err(|error| {
            self.note_refusal(&error.to_string());
            forbidden("the certificate is not accepted; the controller's log has the reason")
        })?;
        if requester == Requester::Anonymous && request.path != JOIN {
            self.note_refusal(&format!("{} without a client certificate", request.path));
            return Err(forbidden("a client certificate of the fleet is needed"));
        }
        // Before a body is understood: what is not allowed costs nothing.
        let verbs = verbs_of(&request.path);
        requester.may_use_any(verbs).map_err(|denied| {
            self.note_refusal(&denied.to_string());
            forbidden(&denied.to_string())
        })?;
        let question = question(request)
            .map_err(|fault| ApiReply::new(fault.status, json!({"error": fault.error}).to_string()))?;
        requester.may_ask(&question, &self.fleet).map_err(|denied| {
            self.note_refusal(&denied.to_string());
            forbidden(&denied.to_string())
        })?;
        Ok((question, requester))
    }

    fn note_refusal(&self, why: &str) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.all += 1;
        let passed = refused.last.as_ref().map(Stopwatch::passed);
        let Some(passed) = passed.filter(|passed| *passed < REFUSALS_EVERY) else {
            refused.last = Some(Stopwatch::start());
            drop(refused);
            return (self.say)(LogLevel::Warning, &format!("refused: {why}"));
        };
        refused.more += 1;
        // Once for all that come until then: the last one of a burst has none after it.
        if refused.more == 1 {
            let (service, left) = (self.me.clone(), REFUSALS_EVERY.saturating_sub(passed));
            tokio::spawn(async move {
                tokio::time::sleep(left).await;
                if let Some(service) = service.upgrade() {
                    service.note_more_refusals();
                }
            });
        }
    }

    fn note_more_refusals(&self) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let more = std::mem::take(&mut refused.more);
        drop(refused);
        let more = counted(more, "more request");
        let line = format!("refused: {more} within a second, for the same or other reasons");
        (self.say)(LogLevel::Warning, &line);
    }

    async fn answer_question(&self, question: ControlQuestion, requester: Requester) -> ApiReply {
        let room = match question {
            // Of 25,000 hosts, what their tuners say takes as long.
            ControlQuestion::Plan(_)
            | ControlQuestion::Apply { .. }
            | ControlQuestion::Diff { .. }
            | ControlQuestion::TuneCheck { .. }
            | ControlQuestion::TunePlan(_)
            | ControlQuestion::ChangeHosts(_)
            | ControlQuestion::Changes(Some(_)) => Some(&self.checks),
            ControlQuestion::Join(_) => Some(&self.joins),
            _ => None,
        };
        let Ok(_permit) = room.map(Semaphore::try_acquire).transpose() else { return busy() };
        let (sender, answer) = oneshot::channel();
        let question = ControllerMessage::Question(question, requester, sender);
        if self.queue.try_send(Box::new(question)).is_err() {
            return busy();
        }
        match timeout(ANSWER_WITHIN, answer).await {
            Ok(Ok(reply)) => reply,
            _ => refused_for_now(LATE),
        }
    }
}

impl Api for ControlService {
    fn answer(self: Arc<Self>, request: ApiRequest) -> ApiAnswer {
        Box::pin(async move {
            let admitted = self.admitted(&request);
            // A turn waits for long, and its body is understood.
            drop(request);
            match admitted {
                Ok((ControlQuestion::Turn(report), _)) => self.turn(*report).await,
                Ok((question, requester)) => self.answer_question(question, requester).await,
                Err(reply) => reply,
            }
        })
    }
}

fn forbidden(error: &str) -> ApiReply {
    ApiReply::new(403, json!({"error": error}).to_string())
}

fn busy() -> ApiReply {
    refused_for_now("the controller has too much to do")
}

fn refused_for_now(why: &str) -> ApiReply {
    let error = json!({"error": why}).to_string();
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
    use admin::api::ApiPeer;

    use super::*;

    fn report(host: &str, turn: u64) -> TurnReport {
        let json = json!({"host": host, "zone": "a", "boot": 1, "turn": turn});
        serde_json::from_value(json).expect("a report")
    }

    /// What the service says to a request; `None` if it passes it on to the thread that decides.
    fn refusal(peer: ApiPeer, path: &str) -> Option<u16> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let fleet = "prod".parse().expect("a name");
        let (service, messages) = ControlService::new(Arc::default(), fleet, Arc::new(|_, _: &str| {}));
        // Nobody takes messages, so what is passed on is told to come again.
        let (method, query, body) = (admin::api::ApiMethod::Get, None, Vec::new());
        let request = ApiRequest { method, path: path.to_owned(), query, body, peer };
        let answer = runtime.block_on(async {
            let asked = tokio::spawn(service.answer(request));
            tokio::task::yield_now().await;
            let is_passed_on = messages.try_recv().is_ok();
            (!is_passed_on).then_some(asked)
        });
        Some(runtime.block_on(answer?).expect("an answer").status)
    }

    #[test]
    fn whoever_shows_no_certificate_of_the_fleet_is_refused() {
        assert_eq!(refusal(ApiPeer::Local, "/v1/status"), None);
        for path in ["/v1/status", "/v1/history", "/v1/apply", "/v1/nothing"] {
            assert_eq!(refusal(ApiPeer::Unknown, path), Some(403), "{path}");
            assert_eq!(refusal(ApiPeer::Certificate(vec![1]), path), Some(403), "{path}");
        }
        // Without a certificate, a token may be shown; there is none in this request.
        assert_eq!(refusal(ApiPeer::Unknown, "/v1/join"), Some(404));
    }

    /// Two, if the burst is over within a second.
    #[test]
    fn refusals_of_a_burst_are_few_lines() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let (lines, said) = std::sync::mpsc::channel();
        let say = Arc::new(move |_, line: &str| lines.send(line.to_owned()).expect("it is listened to"));
        let fleet = "prod".parse().expect("a name");
        let (service, _messages) = ControlService::new(Arc::default(), fleet, say);
        runtime.block_on(async {
            for _ in 0..1000 {
                let (method, peer) = (admin::api::ApiMethod::Post, ApiPeer::Unknown);
                let (path, body) = ("/v1/apply".to_owned(), b"not even JSON".to_vec());
                let request = ApiRequest { method, path, query: None, body, peer };
                assert_eq!(Arc::clone(&service).answer(request).await.status, 403);
            }
        });
        const ONE: &str = "refused: /v1/apply without a client certificate";
        let told = |line: &String| match line.strip_prefix("refused: ")?.split_once(" more request") {
            Some((count, _)) => count.parse::<usize>().ok(),
            None => (line == ONE).then_some(1),
        };
        let mut lines: Vec<String> = Vec::new();
        let mut is_whole = || {
            lines.extend(said.try_iter());
            lines.iter().filter_map(told).sum::<usize>() == 1000
        };
        for _ in 0..600 {
            if is_whole() {
                break;
            }
            runtime.block_on(async { tokio::time::sleep(Duration::from_millis(100)).await });
        }
        assert!(is_whole() && lines[0] == ONE && lines.len() < 50, "{lines:?}");
    }

    #[test]
    fn of_questions_that_take_long_a_few_wait_and_others_come_again() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let fleet = "prod".parse().expect("a name");
        let (service, messages) = ControlService::new(Arc::default(), fleet, Arc::new(|_, _: &str| {}));
        let ask = |path: &str| {
            let (method, peer) = (admin::api::ApiMethod::Post, ApiPeer::Local);
            let request =
                ApiRequest { method, path: path.to_owned(), query: None, body: b"{}".to_vec(), peer };
            tokio::spawn(Arc::clone(&service).answer(request))
        };
        let status = runtime.block_on(async {
            let waiting: Vec<_> = (0..CHECKS_AT_ONCE).map(|_| ask("/v1/plan")).collect();
            tokio::task::yield_now().await;
            let status = ask("/v1/plan").await.expect("an answer").status;
            waiting.iter().for_each(tokio::task::JoinHandle::abort);
            status
        });
        assert_eq!(status, 503);
        assert_eq!(messages.try_iter().count(), CHECKS_AT_ONCE);
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
