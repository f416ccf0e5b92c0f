//! Plans, from a request or from findings about the host.

use std::io;
use std::path::{Path, PathBuf};

use os::CpuSet;
use serde::Serialize;
use tuner::apply::saved::{PlanOrigin, Saved};
use tuner::observe::cpu_model::{Choice, Measured};
use tuner::plan::my_cnf;
use tuner::plan::profile::Profile;
use tuner::plan::script;
use tuner::plan::strategy::Strategy;
use tuner::plan::{Plan, PlanRequest};
use tuner::report::HostSummary;
use tuner::{Capture, Facts, Root};

use crate::error::Error;
use crate::observe::{self, ObservedHost};

/// A request for a plan.
#[derive(Clone, Debug)]
pub struct PlanInput {
    /// The host.
    pub host: ObservedHost,
    /// A strategy.
    pub strategy: Option<Strategy>,
    /// The needs of a kind of service.
    pub profile: Option<Profile>,
    /// Only this network interface.
    pub nic: Option<String>,
    /// Only these disks, where the profile is about disks.
    pub disks: Vec<String>,
    /// CPUs that take the interrupts of network interfaces.
    pub irq_cpus: Option<CpuSet>,
    /// CPUs that interrupts, packets and services may use.
    pub cpus: Option<CpuSet>,
    /// Real-time threads also on CPUs that receive packets, or on all.
    pub accept_risk: bool,
    /// Also change listeners of running programs.
    pub live: bool,
    /// How long to read counters, if neither a strategy nor a profile is given.
    pub seconds: u32,
}

impl PlanInput {
    /// Whether it names changes; otherwise the findings decide.
    pub fn asks_for_changes(&self) -> bool {
        self.strategy.is_some() || self.profile.is_some()
    }

    /// The requested settings, also those that hold already, and the facts that they were planned from.
    pub(crate) fn whole_plan(&self) -> Result<(Facts, Plan), Error> {
        let (facts, pids) = (self.host.facts()?, self.host.named()?);
        let asked =
            PlanRequest { whole: true, live: false, choice: self.choice(&facts)?, ..self.asked(&pids) };
        let plan = tuner::plan::plan(&facts, &asked);
        Ok((facts, plan))
    }

    fn asked<'a>(&'a self, pids: &'a [u32]) -> PlanRequest<'a> {
        PlanRequest {
            strategy: self.strategy,
            profile: self.profile,
            nic: self.nic.as_deref(),
            disks: &self.disks,
            live: self.live,
            accept_risk: self.accept_risk,
            pids,
            ..PlanRequest::default()
        }
    }

    /// The chosen CPUs, if this host has them.
    fn choice(&self, facts: &Facts) -> Result<Choice, Error> {
        let choice = Choice { irq_cpus: self.irq_cpus.clone(), cpus: self.cpus.clone() };
        choice.check(facts).map_err(Error::request)?;
        Ok(choice)
    }

    /// Observes the host, and plans.
    pub fn plan(&self) -> Result<Plan, Error> {
        Ok(self.plan_and_look()?.0)
    }

    /// The plan, and the counters that it is based on, if any were read.
    pub(crate) fn plan_and_look(&self) -> Result<(Plan, Option<Capture>), Error> {
        let pids = self.host.named()?;
        let (asked, asks) = (self.asked(&pids), self.asks_for_changes());
        if asks && !self.host.root.is_file() {
            let facts = self.host.facts()?;
            let asked = PlanRequest { choice: self.choice(&facts)?, ..asked };
            return Ok((tuner::plan::plan(&facts, &asked), None));
        }
        // Report a wrong list before a measurement of half a minute.
        self.choice(&self.host.facts()?)?;
        let seen = observe::observe(&self.host, self.seconds)?;
        // Without a request, findings are remedied.
        let findings = if asks { Vec::new() } else { tuner::judge(&seen.facts, &seen.series) };
        let (measured, choice) = (Measured::of(&seen.series), self.choice(&seen.facts)?);
        let asked = PlanRequest { findings: &findings, measured, choice, ..asked };
        Ok((tuner::plan::plan(&seen.facts, &asked), Some(seen)))
    }
}

/// A plan as JSON, which [`crate::apply::What::Saved`] accepts on this host until its next start; with what the host is, which
/// is for other programs.
pub fn json(plan: Plan, host: &ObservedHost) -> Result<String, Error> {
    #[derive(Serialize)]
    struct Shown {
        #[serde(flatten)]
        saved: Saved,
        host: HostSummary,
    }
    let made = PlanOrigin::of(&Root::new(&host.root)).map_err(Error::other)?;
    let shown = Shown { saved: Saved { made, plan }, host: HostSummary::of(&host.facts()?) };
    Ok(serde_json::to_string_pretty(&shown).map_err(Error::other)? + "\n")
}

/// Writes a fragment of my.cnf for this host. Replaces only a file that was made here.
pub fn write_my_cnf(facts: &Facts, path: &Path) -> Result<(), Error> {
    match std::fs::read_to_string(path) {
        Ok(text) if !text.starts_with(my_cnf::HEAD) => {
            let what = format!("write {}: there is a file already, and it was not made here", path.display());
            Err(Error::refused(what).with_hint("name a new file, such as /etc/mysql/conf.d/evenkeel.cnf"))
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::system(format_args!("read {}", path.display()), error))
        }
        _ => os::file::replace(path, my_cnf::fragment(facts))
            .map_err(|error| Error::system(format_args!("write {}", path.display()), error)),
    }
}

/// Writes a script with the steps of a plan, and one that undoes them, to `path` with `.undo` appended.
pub fn write_scripts(plan: &Plan, path: &Path) -> Result<(), Error> {
    let undo = PathBuf::from(format!("{}.undo", path.display()));
    #[allow(
        clippy::disallowed_methods,
        reason = "the user has named the file, which may be a pipe or a terminal"
    )]
    let write = |path: &Path, text: String| {
        std::fs::write(path, text).map_err(|error| Error::system(format!("write {}", path.display()), error))
    };
    // The undoing script first.
    write(&undo, script::undoing(plan))?;
    let undo =
        std::path::absolute(&undo).map_err(|error| Error::system("find the current directory", error))?;
    write(path, script::doing(plan, &undo.display().to_string()))
}
