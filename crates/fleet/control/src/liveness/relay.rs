//! Passing on to other controllers what this one has heard: a thread for each of them.

use std::sync::{Arc, Weak};
use std::time::Duration;

use fleet::{HostId, ZoneName};
use os::clock::{Stopwatch, pause};
use serde_json::json;
use tls::ClientTls;

use crate::client::{ControlClient, ControlPlace};
use crate::liveness::{LivenessOutbox, LivenessReport};

/// Interval of messages when there is something to say: a canary's success is known to all controllers after it.
const SEND_EVERY: Duration = Duration::from_millis(20);
/// Interval when there is nothing: the others know from it that this controller lives.
const SIGN_EVERY: Duration = Duration::from_secs(1);
/// Time for an answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);
/// Pause after a failure.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Who tells whom.
pub struct RelaySettings {
    /// This controller.
    pub controller: HostId,
    /// Where it is.
    pub zone: ZoneName,
    /// The other one. It may be this one itself: then the thread ends, so that all controllers can have the same list.
    pub to: ControlPlace,
    /// How to ask it.
    pub tls: Arc<ClientTls>,
}

/// Starts the thread that empties an outbox. It ends when the outbox is gone.
///
/// # Errors
/// If the system has no thread left.
pub fn start_relay(settings: RelaySettings, outbox: &Arc<LivenessOutbox>) -> std::io::Result<()> {
    let outbox = Arc::downgrade(outbox);
    let thread = std::thread::Builder::new().name("relay".to_owned());
    thread.spawn(move || Relay { settings, client: None, last: Stopwatch::start() }.run(&outbox))?;
    Ok(())
}

/// What became of a message.
enum Taken {
    /// The other controller has heard it.
    Heard,
    /// The other controller is this one itself.
    ByItself,
    /// It does not accept this message.
    Refused,
}

struct Relay {
    settings: RelaySettings,
    client: Option<ControlClient>,
    last: Stopwatch,
}

impl Relay {
    fn run(mut self, outbox: &Weak<LivenessOutbox>) {
        loop {
            let Some(outbox) = outbox.upgrade() else { return };
            let report = outbox.take(&self.settings.controller, &self.settings.zone);
            if report.is_empty() && self.last.passed() < SIGN_EVERY {
                drop(outbox);
                pause(SEND_EVERY);
                continue;
            }
            match self.send(&report, &outbox) {
                Some(Taken::ByItself) => return outbox.close(),
                Some(Taken::Heard) => {
                    self.last = Stopwatch::start();
                    pause(SEND_EVERY);
                }
                // It would be refused again, and nothing after it would arrive: the next turns say the same anew.
                Some(Taken::Refused) => {
                    drop(outbox);
                    pause(RETRY_AFTER);
                }
                None => {
                    self.client = None;
                    outbox.put_back(report);
                    drop(outbox);
                    pause(RETRY_AFTER);
                }
            }
        }
    }

    /// What became of a message; nothing if the other one has not answered, or has too much to do.
    fn send(&mut self, report: &LivenessReport, outbox: &LivenessOutbox) -> Option<Taken> {
        if self.client.is_none() {
            self.client = ControlClient::new(&self.settings.to, self.settings.tls.current()).ok();
        }
        let answer = self.client.as_ref()?.post("/v1/liveness", &json!(report), ANSWER_WITHIN).ok()?;
        let is_self = answer.json.get("is_self").and_then(serde_json::Value::as_bool).unwrap_or(false);
        // An older controller lacks nothing.
        let lacked = answer.json.get("lacks").and_then(serde_json::Value::as_array).into_iter().flatten();
        outbox.note_lacked(lacked.filter_map(|digest| digest.as_str()?.parse().ok()));
        match answer.status {
            _ if answer.is_ok() && is_self => Some(Taken::ByItself),
            _ if answer.is_ok() => Some(Taken::Heard),
            400..500 => Some(Taken::Refused),
            _ => None,
        }
    }
}
