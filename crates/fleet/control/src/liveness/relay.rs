//! Passing on to other controllers what this one has heard: a thread for each of them.

use std::sync::{Arc, Weak};
use std::time::Duration;

use fleet::{HostId, ZoneName};
use os::clock::{Stopwatch, pause};
use serde_json::json;
use stdx::escape;
use stdx::log_level::LogLevel;
use tls::ClientTls;

use crate::client::{ControlClient, ControlPlace};
use crate::liveness::{LivenessOutbox, LivenessReport};
use crate::service::SayLine;

/// Interval of messages when there is something to say: a canary's success is known to all controllers after it.
const SEND_EVERY: Duration = Duration::from_millis(20);
/// Interval when there is nothing: the others know from it that this controller lives.
const SIGN_EVERY: Duration = Duration::from_secs(1);
/// Time for an answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);
/// Pause after a failure.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Interval of lines about messages that are refused: they are every second.
const SAY_EVERY: Duration = Duration::from_secs(600);

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
    /// Takes lines for people.
    pub say: SayLine,
}

/// Starts the thread that empties an outbox. It ends when the outbox is gone.
///
/// # Errors
/// If the system has no thread left.
pub fn start_relay(settings: RelaySettings, outbox: &Arc<LivenessOutbox>) -> std::io::Result<()> {
    let outbox = Arc::downgrade(outbox);
    let thread = std::thread::Builder::new().name("relay".to_owned());
    thread.spawn(move || {
        Relay { settings, client: None, last: Stopwatch::start(), refused: None }.run(&outbox)
    })?;
    Ok(())
}

/// What became of a message.
enum Taken {
    /// The other controller has heard it.
    Heard,
    /// The other controller is this one itself.
    ByItself,
    /// It does not accept this message, and why.
    Refused(String),
}

struct Relay {
    settings: RelaySettings,
    client: Option<ControlClient>,
    last: Stopwatch,
    /// The last line about a message that was refused: why, and when. None since one was heard.
    refused: Option<(String, Stopwatch)>,
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
                    (self.last, self.refused) = (Stopwatch::start(), None);
                    pause(SEND_EVERY);
                }
                // It would be refused again, and nothing after it would arrive: the next turns say the same anew.
                Some(Taken::Refused(why)) => {
                    drop(outbox);
                    self.say_refused(why);
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

    /// Says once why messages are refused, and again when they are refused for another reason, or still.
    fn say_refused(&mut self, why: String) {
        let is_said = self.refused.as_ref().is_some_and(|(said, at)| *said == why && at.passed() < SAY_EVERY);
        if is_said {
            return;
        }
        let to = &self.settings.to;
        let line = format!(
            "the controller at {to} refuses what this one has heard of agents and probes, and decides without it: {}",
            escape::line(&why)
        );
        (self.settings.say)(LogLevel::Warning, &line);
        self.refused = Some((why, Stopwatch::start()));
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
            400..500 => Some(Taken::Refused(answer.error())),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::os::unix::net::UnixListener;
    use std::sync::Mutex;

    use super::*;

    /// Answers requests of one connection with these statuses and errors, then closes it.
    fn answer(listener: &UnixListener, answers: &[(u16, &str)]) {
        let (stream, _) = listener.accept().expect("a connection");
        let mut reader = BufReader::new(&stream);
        for (status, error) in answers {
            let (mut line, mut len) = (String::new(), 0);
            while reader.read_line(&mut line).expect("a request") > 2 {
                let header = line.to_ascii_lowercase();
                if let Some(found) = header.strip_prefix("content-length:") {
                    len = found.trim().parse().expect("a number");
                }
                line.clear();
            }
            reader.read_exact(&mut vec![0; len]).expect("a body");
            let body = json!({"error": error}).to_string();
            let head = format!(
                "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}",
                body.len()
            );
            write!(&stream, "{head}\r\n\r\n{body}").expect("it is taken");
        }
    }

    #[test]
    fn a_controller_that_refuses_messages_is_named_once_with_its_reason() {
        let path = std::env::temp_dir().join(format!("evenkeel-relay-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).expect("a socket");
        let said: Arc<Mutex<Vec<String>>> = Arc::default();
        let lines = Arc::clone(&said);
        let (tls, _) = ClientTls::load(tls::ClientSettings::default()).expect("settings");
        let settings = RelaySettings {
            controller: "c1".parse().expect("a name"),
            zone: "a".parse().expect("a name"),
            to: format!("unix:{}", path.display()).parse().expect("a place"),
            tls: Arc::new(tls),
            say: Arc::new(move |_, line: &str| lines.lock().expect("no panic").push(line.to_owned())),
        };
        let outbox = Arc::new(LivenessOutbox::default());
        start_relay(settings, &outbox).expect("a thread");
        // It is another one than before, once it has said yes.
        answer(
            &listener,
            &[
                (403, "role agent"),
                (403, "role agent"),
                (400, "a turn too long"),
                (200, ""),
                (403, "role agent"),
            ],
        );
        let reasons = || -> Vec<String> {
            let said = said.lock().expect("no panic");
            said.iter().map(|line| line.rsplit(": ").next().unwrap_or_default().to_owned()).collect()
        };
        let watch = Stopwatch::start();
        while reasons().len() < 3 && watch.passed() < Duration::from_secs(10) {
            pause(SEND_EVERY);
        }
        assert_eq!(reasons(), ["role agent", "a turn too long", "role agent"]);
        drop(outbox);
        std::fs::remove_file(&path).expect("it is there");
    }
}
