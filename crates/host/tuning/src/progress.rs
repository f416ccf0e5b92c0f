//! Messages of a running job: notices that stay, and progress that the next one replaces.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use tuner::apply::journal::JournalDoubt;
use tuner::plan::strategy::Strategy;

/// A message for the user, independent of the job's outcome. Prints a line without a full stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobNotice {
    /// Another process is changing settings, so this one waits.
    Waits {
        /// The longest wait.
        at_most: Duration,
        /// The other process.
        holder: String,
    },
    /// Not everything that may be in force can be read.
    Unread(JournalDoubt),
    /// A plan that nobody confirmed was undone only now.
    UndoneLate(LateUndoing),
    /// A plan that was not confirmed could not be undone.
    StillInForce {
        /// Why.
        error: String,
    },
    /// A part of an intent that is not in the plan.
    NotPlanned {
        /// What, and why.
        line: String,
    },
    /// There are too few rounds to show a difference of any size.
    TooFewRounds {
        /// The number that is needed.
        least: u32,
    },
}

/// The result of undoing a plan after its deadline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LateUndoing {
    /// The plan's journal.
    pub journal: PathBuf,
    /// What could not be restored.
    pub failures: Vec<String>,
    /// Why the journal does not record that it is undone.
    pub unrecorded: Option<String>,
    /// The file that records it instead.
    pub spare: Option<PathBuf>,
}

impl fmt::Display for JobNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JobNotice::Waits { at_most, holder } => {
                write!(f, "waiting up to {} s for {holder}", at_most.as_secs())
            }
            JobNotice::Unread(doubt) => doubt.fmt(f),
            JobNotice::UndoneLate(undoing) => undoing.fmt(f),
            JobNotice::StillInForce { error } => {
                write!(f, "a plan that was not confirmed is still in force: {error}")
            }
            JobNotice::NotPlanned { line } => f.write_str(line),
            JobNotice::TooFewRounds { least } => {
                write!(f, "with fewer than {least} rounds no difference can be shown, however large")
            }
        }
    }
}

impl fmt::Display for LateUndoing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} was not confirmed in time", self.journal.display())?;
        match self.failures.is_empty() {
            true => f.write_str(": everything is as it was before")?,
            false => write!(f, "; not everything could be undone: {}", self.failures.join("; "))?,
        }
        match (&self.unrecorded, &self.spare) {
            (None, None) => Ok(()),
            (None, Some(spare)) => {
                write!(f, "; its journal cannot be written now, so that is recorded in {}", spare.display())
            }
            (Some(error), _) => write!(f, "; failed to record it: {error}"),
        }
    }
}

/// The progress of a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum JobProgress {
    /// Counters are read.
    Measuring {
        /// Seconds that have passed.
        passed_s: u64,
        /// Seconds in total.
        seconds: u32,
    },
    /// The load runs once, before anything is changed.
    RehearsingLoad,
    /// A strategy is applied and undone once.
    Rehearsing(Strategy),
    /// A run of a tournament begins.
    Running {
        /// From 1.
        round: u32,
        /// The number of rounds.
        rounds: u32,
        /// The strategy of the run.
        strategy: Strategy,
        /// From 1, over all rounds.
        run: usize,
        /// The number of runs.
        runs: usize,
        /// Estimated from the runs before, in seconds.
        left_s: Option<f64>,
    },
    /// The job has ended.
    Over,
}

impl fmt::Display for JobProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JobProgress::Measuring { passed_s, seconds } => write!(f, "measuring: {passed_s} of {seconds} s"),
            JobProgress::RehearsingLoad => f.write_str("rehearsing the load"),
            JobProgress::Rehearsing(strategy) => write!(f, "rehearsing {}", strategy.name()),
            JobProgress::Running { round, rounds, strategy, run, runs, left_s } => {
                write!(f, "round {round} of {rounds}: {}, run {run} of {runs}", strategy.name())?;
                left_s.map_or(Ok(()), |left_s| write!(f, ", about {left_s:.0} s left"))
            }
            JobProgress::Over => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_undoing_lists_what_is_left_to_be_done() {
        let check = |failures: &[&str], unrecorded: Option<&str>, spare: Option<&str>, expected: &str| {
            let undoing = LateUndoing {
                journal: "/j".into(),
                failures: failures.iter().map(|text| (*text).to_owned()).collect(),
                unrecorded: unrecorded.map(str::to_owned),
                spare: spare.map(PathBuf::from),
            };
            assert_eq!(JobNotice::UndoneLate(undoing).to_string(), expected);
        };
        let late = "/j was not confirmed in time";
        check(&[], None, None, &format!("{late}: everything is as it was before"));
        check(&["a: x", "b: y"], None, None, &format!("{late}; not everything could be undone: a: x; b: y"));
        let spare = "its journal cannot be written now, so that is recorded in /s";
        check(&[], None, Some("/s"), &format!("{late}: everything is as it was before; {spare}"));
        let unrecorded = "everything is as it was before; failed to record it: write /j";
        check(&[], Some("write /j"), Some("/s"), &format!("{late}: {unrecorded}"));
    }

    #[test]
    fn the_remaining_time_is_shown_after_the_first_run() {
        let run = |left_s| JobProgress::Running {
            round: 1,
            rounds: 2,
            strategy: Strategy::Xps,
            run: 3,
            runs: 4,
            left_s,
        };
        assert_eq!(run(None).to_string(), "round 1 of 2: xps, run 3 of 4");
        assert_eq!(run(Some(1.6)).to_string(), "round 1 of 2: xps, run 3 of 4, about 2 s left");
    }
}
