//! One request to a controller, and its answer as text or JSON.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use control::{ControlAnswer, ControlClient, ControlFault, ControlPlace};
use os::clock::{Stopwatch, pause};
use serde_json::Value;

use super::credentials::Credentials;
use super::statuses::{STATUS_OVERTAKEN, STATUS_REFUSED, STATUS_UNAVAILABLE};
use crate::failure::Failure;
use crate::terminal::output::print;

/// Time for an answer: a controller that plans for 5,000 servers needs a second at most, and etcd may change its leader.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);

/// How long a question is asked again, and how often.
const ASKED_FOR: Duration = Duration::from_secs(15);
const ASK_EVERY: Duration = Duration::from_secs(1);

/// The variable that names controllers.
const VARIABLE: &str = "EVENKEEL_CONTROL";

/// Where controllers are, and how the answer is shown.
#[derive(Clone, Debug, Args)]
pub(super) struct Place {
    /// Controllers, as HOST:PORT or unix:PATH: the first that answers. Without it, those of the variable EVENKEEL_CONTROL
    #[arg(long, value_name = "ADDR,ADDR", value_delimiter = ',', value_parser = str::parse::<ControlPlace>)]
    at: Vec<ControlPlace>,
    #[command(flatten)]
    credentials: Credentials,
    /// Print the answer as JSON
    #[arg(long)]
    pub(super) json: bool,
}

impl Place {
    /// Whether the command line names controllers.
    pub(super) fn is_given(&self) -> bool {
        !self.at.is_empty()
    }

    /// The controllers.
    fn controllers(&self) -> Result<Vec<ControlPlace>, Failure> {
        if !self.at.is_empty() {
            return Ok(self.at.clone());
        }
        let named = std::env::var(VARIABLE).unwrap_or_default();
        let places = named.split(',').filter(|word| !word.is_empty()).map(str::parse);
        let places: Result<Vec<ControlPlace>, String> = places.collect();
        let hint = "`evenkeel up` prints the address of its controller".to_owned();
        match places {
            Ok(places) if places.is_empty() => {
                Err(Failure::usage(format!("expected --at ADDR or the variable {VARIABLE}"), Some(hint)))
            }
            Ok(places) => Ok(places),
            Err(error) => Err(Failure::usage(format!("{VARIABLE}: {error}"), Some(hint))),
        }
    }

    /// The answer of the first controller that gives one.
    pub(super) fn ask(
        &self,
        question: impl Fn(&ControlClient, Duration) -> Result<ControlAnswer, ControlFault>,
    ) -> Result<ControlAnswer, Failure> {
        let (controllers, tls) = (self.controllers()?, self.credentials.client()?.current());
        if !self.credentials.are_given()
            && controllers.iter().any(|place| matches!(place, ControlPlace::Tls(_)))
        {
            let hint =
                "controllers are trusted by the authority of their fleet: --tls-ca FILE --tls-cert FILE";
            return Err(Failure::usage(
                "expected --tls-ca for a controller over a network",
                Some(hint.into()),
            ));
        }
        let mut last = None;
        for place in &controllers {
            let client = ControlClient::new(place, std::sync::Arc::clone(&tls)).map_err(Failure::other)?;
            match question(&client, ANSWER_WITHIN) {
                // It has no register, or too much to do: another one may have.
                Ok(answer) if answer.status == 503 => last = Some(Ok(answer)),
                // It is not the one to ask; why the one to ask does not answer says more.
                Ok(answer) if answer.status == 421 => last = last.or(Some(Ok(answer))),
                Ok(answer) => return Ok(answer),
                Err(fault) => last = Some(Err(fault)),
            }
        }
        match last.expect("there is at least one controller") {
            Ok(answer) => Ok(answer),
            Err(fault) => Err(Failure::other(fault).with_status(STATUS_UNAVAILABLE)),
        }
    }

    /// The same of a question that may be asked again: a controller that has just begun waits for its register for a moment, and answers
    /// nobody before it has it.
    pub(super) fn ask_again(
        &self,
        question: impl Fn(&ControlClient, Duration) -> Result<ControlAnswer, ControlFault>,
    ) -> Result<ControlAnswer, Failure> {
        let watch = Stopwatch::start();
        loop {
            let answer = self.ask(&question);
            let is_late = match &answer {
                Ok(answer) => answer.status == 503,
                Err(failure) => failure.status() == STATUS_UNAVAILABLE,
            };
            if !is_late || watch.passed() > ASKED_FOR {
                return answer;
            }
            pause(ASK_EVERY);
        }
    }

    /// Shows an answer. One that says no is a failure with its sentence.
    pub(super) fn show(&self, answer: &ControlAnswer) -> Result<ExitCode, Failure> {
        if !answer.is_ok() {
            if self.json {
                print(format!("{:#}\n", answer.json).as_bytes())?;
            }
            let status = match answer.status {
                409 => STATUS_OVERTAKEN,
                503 => STATUS_UNAVAILABLE,
                _ => STATUS_REFUSED,
            };
            let failure = Failure::other(anyhow::anyhow!("{}", answer.error())).with_status(status);
            return Err(match answer.json.get("hint").and_then(Value::as_str) {
                Some(hint) => failure.hint(hint),
                None => failure,
            });
        }
        let text = match answer.json.get("text").and_then(Value::as_str) {
            Some(text) if !self.json => text.to_owned(),
            _ => format!("{:#}\n", answer.json),
        };
        print(text.as_bytes())?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The document at a path, of controllers that another command line than that of `control` has named.
pub(crate) fn document(at: &[ControlPlace], credentials: &Credentials, path: &str) -> Result<Value, Failure> {
    let place = Place { at: at.to_vec(), credentials: credentials.clone(), json: false };
    let answer = place.ask(|client, within| client.get(path, within))?;
    match answer.is_ok() {
        true => Ok(answer.json),
        false => Err(Failure::other(anyhow::anyhow!("{}", answer.error())).with_status(STATUS_REFUSED)),
    }
}

/// Shows a document.
pub(super) fn read(place: &Place, path: &str) -> Result<ExitCode, Failure> {
    place.show(&place.ask(|client, within| client.get(path, within))?)
}

/// A text as a part of a query: all but letters, digits and `-._~` as `%XX`.
pub(crate) fn escaped(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_goes_into_a_query_whatever_it_has() {
        assert_eq!(escaped("user:1|#|x&y=ä"), "user%3A1%7C%23%7Cx%26y%3D%C3%A4");
    }
}
