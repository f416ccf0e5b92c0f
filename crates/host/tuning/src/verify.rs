//! Verification of the plans in force against their expected effects, on three levels: values, counters, and the service
//! under load.

use os::command::{self, RunningCommand};
use tuner::apply::expected_effect::ExpectedEffect;
use tuner::apply::host::FileHost;
use tuner::apply::journal::Journal;
use tuner::verify;
use tuner::verify::metric::OutputMetric;
use tuner::verify::verification::{ObjectiveResult, ValueResult, Verification};
use tuner::{Finding, Root};

use crate::error::Error;
use crate::in_force::in_force;
use crate::memcached;
use crate::observe::{self, ObservedHost};
use crate::state::StateDirectory;

/// The plans to verify, and objectives to reach meanwhile.
#[derive(Clone, Debug)]
pub struct Request {
    /// The host.
    pub host: ObservedHost,
    /// How long to read counters, while there is load.
    pub seconds: u32,
    /// A command that runs meanwhile, and must succeed.
    pub objective: Option<String>,
    /// The place of the figure in its output.
    pub metric: Option<OutputMetric>,
    /// The figure may not be larger.
    pub at_most: Option<f64>,
    /// The figure may not be smaller.
    pub at_least: Option<f64>,
    /// Caches that must be reachable, serve, and turn no client away.
    pub memcached: Vec<String>,
    /// The directory of the journals.
    pub state: StateDirectory,
}

/// What has come of it.
#[derive(Debug)]
pub struct Verified {
    /// The comparison; none if no plan is in force.
    pub verification: Option<Verification>,
    /// Whether a journal cannot be read in full, so that more may be in force than was compared.
    pub is_in_doubt: bool,
}

/// Compares, and says what cannot be read.
pub fn verify(request: &Request) -> Result<Verified, Error> {
    let root = Root::new(&request.host.root);
    let seen = request.state.look(&root)?;
    let doubts = seen.doubts();
    request.state.tell(&doubts);
    let found = in_force(seen.found.journals, &seen.here);
    let verification = compared(request, root, &found)?;
    Ok(Verified { verification, is_in_doubt: !doubts.is_empty() })
}

fn compared(request: &Request, root: Root, found: &[Journal]) -> Result<Option<Verification>, Error> {
    let Some(newest) = found.first() else { return Ok(None) };
    let expected = ExpectedEffect::of(newest.path()).map_err(|error| {
        Error::system(format_args!("read the expected effects of {}", newest.path().display()), error)
    })?;
    verified(request, &FileHost::new(root), found, expected.as_ref()).map(Some)
}

fn verified(
    request: &Request,
    host: &FileHost,
    newest_first: &[Journal],
    expected: Option<&ExpectedEffect>,
) -> Result<Verification, Error> {
    let steps = verify::in_force(newest_first.iter().map(Journal::steps));
    let before = expected.and_then(|expected| expected.before.as_ref());
    let mut looked_at = request.host.clone();
    // The services of the first measurement count now, too, also those that were named then.
    let services = before.iter().flat_map(|capture| &capture.facts.services);
    looked_at.pids.extend(services.map(|service| service.pid));
    looked_at.pids.sort_unstable();
    looked_at.pids.dedup();

    let came = verify::interrupts(host, &steps);
    let asked: Vec<_> = request.memcached.iter().map(|server| memcached::stats(server)).collect();
    let load = request.objective.as_deref().map(command::start).transpose()?;
    let now = match observe::observe(&looked_at, request.seconds) {
        Ok(now) => now,
        Err(failure) => {
            load.into_iter().for_each(RunningCommand::end);
            return Err(failure);
        }
    };
    let mut objectives = Vec::new();
    for (server, asked) in request.memcached.iter().zip(asked) {
        let again = memcached::stats(server);
        objectives.push(memcached::objective(server, asked, again, now.series.window_s()));
    }
    if let (Some(load), Some(line)) = (load, &request.objective) {
        objectives.push(commanded(request, line, load, now.series.window_s())?);
    }

    let value = |step: &tuner::apply::journal::JournalStep| ValueResult {
        setting: step.setting.to_string(),
        wanted: step.wanted.clone(),
        holding: verify::holding(host, step, step.setting.irq().and_then(|irq| came.get(&irq).copied())),
    };
    let changes = expected.map(|expected| expected.changes.as_slice()).unwrap_or_default();
    let mut limits = verify::limits(&now);
    let then = before.map(verify::limits).unwrap_or_default().into_iter();
    limits
        .extend(then.map(|finding| Finding { subject: format!("{} (before)", finding.subject), ..finding }));
    Ok(Verification::conclude(
        steps.iter().map(value).collect(),
        verify::signals(changes, before, &now),
        objectives,
        limits,
        before.is_some(),
        now.series.window_s(),
    ))
}

/// A command that ends with less than this left of the measurement has been there for all of it.
const EARLY_MIN_S: f64 = 1.0;

/// What to say of a command that ended before the measurement: the host's figures are of a time without it, too.
fn early(lasted_s: f64, window_s: f64) -> String {
    match lasted_s < window_s - EARLY_MIN_S {
        true => format!("; it ended after {lasted_s:.1} s of the {window_s:.0} s that were measured"),
        false => String::new(),
    }
}

/// The command's status, and its figure if one was requested.
fn commanded(
    request: &Request,
    line: &str,
    load: RunningCommand,
    window_s: f64,
) -> Result<ObjectiveResult, Error> {
    let ended = load.ended()?;
    let early = early(ended.time.as_secs_f64(), window_s);
    let objective =
        |seen: String, held| ObjectiveResult { what: line.to_owned(), seen: seen + &early, held: Some(held) };
    if !ended.status.success() {
        return Ok(objective(ended.words(), false));
    }
    let Some(metric) = &request.metric else { return Ok(objective(ended.words(), true)) };
    let figure = match metric.find(&ended.output) {
        Ok(figure) => figure,
        Err(error) => return Ok(objective(format!("failed to {error}"), false)),
    };
    let (least, most) = (request.at_least, request.at_most);
    let held = least.is_none_or(|least| figure >= least) && most.is_none_or(|most| figure <= most);
    let bounds: Vec<String> =
        [least.map(|least| format!("at least {least}")), most.map(|most| format!("at most {most}"))]
            .into_iter()
            .flatten()
            .collect();
    Ok(objective(format!("{metric} is {figure}, to be {}", bounds.join(" and ")), held))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_that_was_there_for_a_part_of_the_time_is_said_to_be() {
        assert_eq!(early(3.04, 30.0), "; it ended after 3.0 s of the 30 s that were measured");
        assert_eq!((early(29.5, 30.0), early(31.0, 30.0), early(0.0, 0.1)), Default::default());
    }
}
