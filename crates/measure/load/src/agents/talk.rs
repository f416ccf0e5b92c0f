//! Messages of coordinator and agents: a JSON object in a line each.
//!
//! The order is: hello ► plan ◄ (busy …) ready ► clock ◄ clock, several times; start ◄ (passed second …), perhaps
//! leave, end. Documented for users in docs/load/agents.md; a change of it makes another `PROTOCOL`.

use crate::measure::failures::Failures;
use crate::measure::packed::Packed;
use crate::measure::tally::Tally;
use crate::report::summary::{Second, Summary};
use crate::types::description::Description;
use crate::types::error::Error;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Read, Write};

/// The version of this protocol.
pub(crate) const PROTOCOL: u32 = 7;

/// From an agent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FromAgent {
    /// The first message, sent unasked.
    Hello { protocol: u32, version: String },
    /// Still storing items: a sign of life.
    Busy { stored: u64, of: u64 },
    /// All connections are open.
    Ready,
    /// The reading of its clock, at once.
    Clock { now_ns: u64 },
    /// The requests of one second of the window: latencies of those that were answered, with `--live` their lateness, too.
    Second {
        second: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        latency: Option<Packed>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        slip: Option<Packed>,
        failures: Failures,
    },
    /// Counts of one second of its window, without latencies: also a sign of life.
    Passed(Second),
    /// What it measured.
    End(Box<End>),
    /// The error that ended it.
    Failed { why: String },
}

/// What an agent measured.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct End {
    pub(crate) summary: Summary,
    pub(crate) tally: Tally,
}

/// From the coordinator.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum ToAgent {
    /// The description of the whole run, and which part of how many this agent has.
    Plan { agent: usize, agents: usize, run: Box<Description> },
    /// Asks for the reading of its clock.
    Clock,
    /// Begin at this time of the agent's own clock.
    Start { at_ns: u64 },
    /// Close the window, and report what was measured until now.
    Leave,
}

/// A description is at most this long, as JSON: a pipe has room for 64 KiB, so that an agent that does not read does
/// not block the coordinator.
pub(crate) const DESCRIPTION_MAX: usize = 32 << 10;
/// A coordinator's messages are shorter, whatever numbers they hold.
pub(crate) const ORDER_MAX: usize = 2 * DESCRIPTION_MAX;

/// An agent's messages are shorter: its last one has each second of its window, some 400 bytes, for a week.
pub(crate) const WORD_MAX: usize = 256 << 20;

/// The next line; of one that is too long the beginning, with one byte more than allowed.
pub(crate) fn hear(input: &mut impl BufRead, most: usize) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    let len = input.take(most as u64 + 1).read_until(b'\n', &mut line)?;
    Ok((len > 0).then(|| String::from_utf8_lossy(&line).into_owned()))
}

/// Of a line that cannot be parsed, this much is shown.
pub(crate) fn shown(line: &str) -> &str {
    &line[..line.floor_char_boundary(SHOWN_MAX)]
}

const SHOWN_MAX: usize = 80;

/// A message that came at the wrong time, as it was sent.
pub(crate) fn quoted(message: &impl Serialize) -> String {
    shown(&serde_json::to_string(message).unwrap_or_default()).to_owned()
}

/// Sends the message, as one line.
pub(crate) fn say(out: &mut dyn Write, message: &impl Serialize) -> Result<(), Error> {
    let mut line = serde_json::to_vec(message).map_err(io::Error::from)?;
    line.push(b'\n');
    out.write_all(&line)?;
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_without_end_is_heard_in_parts() {
        let mut said = io::Cursor::new("one\n23456789\n\u{b5}");
        let mut next = || hear(&mut said, 4).expect("bytes").unwrap_or_else(|| String::from("."));
        let heard = [next(), next(), next(), next(), next()];
        assert_eq!(heard, ["one\n", "23456", "789\n", "\u{b5}", "."]);
    }

    #[test]
    fn messages_look_like_this() {
        let check = |message: &ToAgent, wanted: &str| {
            let mut line = Vec::new();
            say(&mut line, message).expect("a vector takes everything");
            assert_eq!(String::from_utf8_lossy(&line), format!("{wanted}\n"));
        };
        check(&ToAgent::Clock, r#""clock""#);
        check(&ToAgent::Start { at_ns: 7 }, r#"{"start":{"at_ns":7}}"#);
        let run = Box::new(Description { rate: Some(5.0), ..Description::default() });
        let json = run.json().expect("text");
        assert!(
            json.contains(r#""rate":5.0,"arrivals":null"#) && json.contains(r#""warm_up":"1s""#),
            "{json}"
        );
        let plan = format!(r#"{{"plan":{{"agent":0,"agents":2,"run":{json}}}}}"#);
        check(&ToAgent::Plan { agent: 0, agents: 2, run }, &plan);
    }
}
