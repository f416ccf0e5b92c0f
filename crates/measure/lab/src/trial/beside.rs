//! Commands beside a load: started before it, ended after it.

use crate::error::Error;
use crate::trial::context::Context;
use crate::trial::process::Group;

/// The commands of one trial.
pub(super) struct BesideGroups(Vec<BesideGroup>);

struct BesideGroup {
    group: Group,
    may_end: bool,
}

impl Context<'_> {
    /// Starts them. One that is empty once its names are filled in is none: a level may leave it out.
    pub(super) fn start_beside(&self) -> Result<BesideGroups, Error> {
        let mut groups = Vec::new();
        for (number, beside) in self.experiment().workload.beside.iter().enumerate() {
            let place = place(number);
            let text = self.filled(&beside.command, &place)?;
            if !text.trim().is_empty() {
                let group = self.line(&text, &place, &format!("beside-{number}.log")).start()?;
                groups.push(BesideGroup { group, may_end: beside.may_end });
            }
        }
        Ok(BesideGroups(groups))
    }
}

/// The key of a command in the experiment's file.
pub(super) fn place(number: usize) -> String {
    format!("workload.beside[{number}]")
}

impl BesideGroups {
    /// Their processes, each with all that it has started.
    pub(super) fn pids(&self) -> Vec<u32> {
        self.0.iter().map(|beside| beside.group.pid()).collect()
    }

    /// What to say of those that have failed, or have ended although they may not.
    pub(super) fn complaints(&mut self) -> Result<Vec<String>, Error> {
        let mut complaints = Vec::new();
        for BesideGroup { group, may_end } in &mut self.0 {
            let what = match group.ended()? {
                Some(status) if !status.success() => format!("it ended with {status} while the load ran"),
                Some(_) if !*may_end => {
                    "it ended before the load did (`may_end = true` allows that)".to_owned()
                }
                _ => continue,
            };
            complaints.push(group.complaint(&what).to_string());
        }
        Ok(complaints)
    }
}
