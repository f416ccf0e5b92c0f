//! Runs of the tuner: its command lines, and what its JSON becomes.

use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use fleet::tuning::{AnswerDigest, HostCheck, HostFacts, HostPlan, ReadCheck, ReadPlan, TuningState};
use serde_json::Value;

use super::command::{CommandRuns, EndedRun, RunLimits};
use super::program::program;
use crate::agent::settings::TuneSettings;
use crate::agent::upgrade::ProgramPlan;
use crate::service::turn::{PlanWish, TuneBody, answer_digest};

/// Time beyond what a run measures: it has the lowest priority, and waits for devices that answer slowly.
const GRACE: Duration = Duration::from_secs(90);
/// Time for a change: 30 s until another process has ended, and then a plan, of which no write takes more than 10 s.
const CHANGE_TIME: Duration = Duration::from_secs(300);
/// Bytes of the tuner's JSON: a change has some 500, so that is as many changes as are read.
const OUTPUT_LEN_MAX: usize = 8 * 1024 * 1024;
/// Exit statuses of `tune status` that come with a status: all is well, something has drifted, a journal cannot be read in full.
pub(crate) const STATUSES: [i32; 3] = [0, 13, 18];

/// What a run has found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) body: TuneBody,
    pub(super) facts: Option<HostFacts>,
    pub(super) own: Option<AnswerDigest>,
}

impl From<ProgramPlan> for Found {
    fn from(planned: ProgramPlan) -> Found {
        let ProgramPlan { plan, facts, own, .. } = planned;
        Found { body: TuneBody::Plan(plan), facts: Some(facts), own: Some(own) }
    }
}

/// The tuner as this agent's file allows it.
pub(crate) struct TunerRuns {
    settings: TuneSettings,
    commands: CommandRuns,
}

impl TunerRuns {
    /// With these settings.
    pub(crate) fn new(settings: &TuneSettings) -> TunerRuns {
        TunerRuns { settings: settings.clone(), commands: CommandRuns::default() }
    }

    /// What changes when the tuner is another program: its length and when it was written.
    pub(crate) fn program_mark(&self) -> Result<String, String> {
        let program = program(self.settings.binary.as_deref())?;
        let found =
            std::fs::metadata(&program).map_err(|error| format!("look at {}: {error}", program.display()))?;
        Ok(format!("{}-{}.{:09}", found.len(), found.mtime(), found.mtime_nsec()))
    }

    /// Looks what limits the host, and what is in force.
    pub(super) fn look(&mut self) -> Result<Found, String> {
        let seconds = self.settings.seconds.to_string();
        let json = self.json(&["tune", "check", "--json", "--seconds", &seconds], &[0])?;
        // Without it, findings are of use still.
        let state = self.json(&["tune", "status", "--json"], &STATUSES).and_then(|json| {
            TuningState::read(&json).map_err(|error| format!("understand `tune status`: {error}"))
        });
        let state = state.unwrap_or_else(|why| TuningState::unknown(&why));
        let read =
            HostCheck::read(&json, state).map_err(|error| format!("understand `tune check`: {error}"))?;
        let ReadCheck { check, facts } = read;
        Ok(Found { body: TuneBody::Check(check), facts, own: None })
    }

    /// Plans, and changes nothing.
    pub(super) fn plan(&mut self, wish: &PlanWish) -> Result<Found, String> {
        let (kind, name) = wish.words();
        if !wish.is_well_named() {
            return Err(format!("expected a {kind} of small letters, digits and '-'"));
        }
        let json = self.json(&["tune", "plan", "--json", &format!("--{kind}={name}")], &[0])?;
        let read = HostPlan::read(&json).map_err(|error| format!("understand `tune plan`: {error}"))?;
        let ReadPlan { mut plan, form, own, facts } = read;
        plan.form = Some(answer_digest(form.as_bytes()));
        Ok(Found { body: TuneBody::Plan(plan), facts, own: Some(answer_digest(own.as_bytes())) })
    }

    /// A run that changes the host, at the priority of the agent.
    pub(crate) fn change(&mut self, arguments: &[&str]) -> Result<(), String> {
        let program = program(self.settings.binary.as_deref())?;
        // What watches over a plan that is not confirmed yet goes on.
        let limits =
            RunLimits { time: CHANGE_TIME, output_len: OUTPUT_LEN_MAX, is_nice: false, may_leave: true };
        let ended = self.commands.run(&program, arguments, limits)?;
        as_expected(ended, &arguments[..2].join(" "), &[0]).map(|_| ())
    }

    /// The JSON that a run writes.
    pub(crate) fn json(&mut self, arguments: &[&str], statuses: &[i32]) -> Result<Value, String> {
        let program = program(self.settings.binary.as_deref())?;
        let measured = Duration::from_secs(self.settings.seconds.into());
        let limits =
            RunLimits { time: measured + GRACE, output_len: OUTPUT_LEN_MAX, is_nice: true, may_leave: false };
        let ended = self.commands.run(&program, arguments, limits)?;
        let words = arguments[..2].join(" ");
        let EndedRun { status, output, .. } = as_expected(ended, &words, statuses)?;
        if output.iter().all(u8::is_ascii_whitespace) {
            return Err(format!("`{words}` ended with {status} and wrote nothing"));
        }
        serde_json::from_slice(&output).map_err(|error| format!("understand `{words}`: {error}"))
    }
}

fn as_expected(ended: EndedRun, words: &str, statuses: &[i32]) -> Result<EndedRun, String> {
    if ended.status.code().is_some_and(|code| statuses.contains(&code)) {
        return Ok(ended);
    }
    let complaint = if ended.complaint.is_empty() { String::new() } else { format!(": {}", ended.complaint) };
    Err(format!("`{words}` ended with {}{complaint}", ended.status))
}
