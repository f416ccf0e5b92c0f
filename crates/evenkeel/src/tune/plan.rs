//! `evenkeel tune plan`: what would be changed, and why.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tuner::apply::saved::{Origin, Saved};
use tuner::observe::cpu_model::{Choice, Measured};
use tuner::plan::my_cnf;
use tuner::plan::plan_text;
use tuner::plan::profile::Profile;
use tuner::plan::script;
use tuner::plan::strategy::Strategy;
use tuner::plan::{Asked, Plan};
use os::CpuSet;
use tuner::{Capture, Facts, Root};

use super::check::replace;
use super::look;
use super::observe::{self, Host};
use crate::failure::Failure;
use crate::output::{columns, print};

/// What a plan is made from.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Wanted {
    #[command(flatten)]
    pub(super) host: Host,
    /// A way to lay out the work: none, irqbalance, spread, irq0-rps, rps-rfs, xps, queues, rings, coalesce, defer-20,
    /// defer-50, busy-poll, sched-slice or sched-fifo
    #[arg(long, value_name = "NAME", value_parser = strategy)]
    strategy: Option<Strategy>,
    /// What a kind of service wants: memcached (or evenkeel), mysql, redis or generic
    #[arg(long, value_name = "NAME", value_parser = profile)]
    profile: Option<Profile>,
    /// Only this network interface; of a bond or VLAN, the devices below [default: all that are up and have a device]
    #[arg(long, value_name = "NAME")]
    nic: Option<String>,
    /// CPUs that take the interrupts of network interfaces, as a list such as 0-3,16 [default: one core for each queue]
    #[arg(long, value_name = "LIST", value_parser = cpus)]
    irq_cpus: Option<CpuSet>,
    /// CPUs that interrupts, packets and services may use; those without interrupts are printed for the services
    /// [default: all in use]
    #[arg(long, value_name = "LIST", value_parser = cpus)]
    cpus: Option<CpuSet>,
    /// With --strategy sched-fifo: also on CPUs that receive packets, or on all, for a host that a service has to itself.
    /// Refused unless RT throttling or the fair server is seen to leave time to others
    #[arg(long, requires = "strategy")]
    accept_risk: bool,
    /// Change listeners of running programs, too: longer accept queues and Fast Open, until they are started again
    #[arg(long)]
    live: bool,
    /// How long to read counters, when neither --strategy nor --profile says what is wanted
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
}

/// Say what would be changed, and why
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    wanted: Wanted,
    /// Print only each setting's value now and then
    #[arg(long)]
    diff: bool,
    /// Print JSON, which `apply --plan` takes on this host until its next start
    #[arg(long, conflicts_with = "diff")]
    json: bool,
    /// Write a shell script with the same steps, and one that undoes them to FILE.undo
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
    /// With --profile mysql: write a fragment of my.cnf for this host, with a reason over each line
    #[arg(long, value_name = "FILE", requires = "profile")]
    my_cnf: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let plan = arguments.wanted.plan()?;
    if let Some(path) = &arguments.my_cnf {
        if arguments.wanted.profile != Some(Profile::Mysql) {
            return Err(Failure::usage("--my-cnf takes --profile mysql", None));
        }
        write_my_cnf(&arguments.wanted.host.facts()?, path)?;
    }
    if let Some(path) = &arguments.script {
        write_scripts(&plan, path)?;
    }
    let text = match (arguments.json, arguments.diff) {
        (true, _) => {
            let made = Origin::of(&Root::new(&arguments.wanted.host.root)).map_err(Failure::other)?;
            serde_json::to_string_pretty(&Saved { made, plan }).map_err(Failure::other)? + "\n"
        }
        (_, true) => plan_text::diff(&plan),
        _ => shown(&plan),
    };
    print(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// For whoever looks: a terminal, or a program that has its own idea of lines.
pub(super) fn shown(plan: &Plan) -> String {
    let text = plan_text::text(plan);
    match io::stdout().is_terminal() {
        true => plan_text::wrapped(&text, look::at(columns()).columns),
        false => text,
    }
}

impl Wanted {
    /// Whether it says what is wanted; otherwise what is found decides.
    pub(super) fn asks_for_changes(&self) -> bool {
        self.strategy.is_some() || self.profile.is_some()
    }

    /// What was asked for, also where it is so already, and the facts that it was planned from.
    pub(super) fn whole_plan(&self) -> Result<(Facts, Plan), Failure> {
        let (facts, pids) = (self.host.facts()?, self.host.named()?);
        let (strategy, profile) = (self.strategy, self.profile);
        let (nic, choice) = (self.nic.as_deref(), self.choice(&facts)?);
        let accept_risk = self.accept_risk()?;
        let asked = Asked {
            strategy,
            profile,
            nic,
            pids: &pids,
            whole: true,
            choice,
            accept_risk,
            ..Asked::default()
        };
        let plan = tuner::plan::plan(&facts, &asked);
        Ok((facts, plan))
    }

    /// Whether a risk is accepted, where there is one.
    fn accept_risk(&self) -> Result<bool, Failure> {
        if self.accept_risk && self.strategy != Some(Strategy::SchedFifo) {
            return Err(Failure::usage("--accept-risk takes --strategy sched-fifo", None));
        }
        Ok(self.accept_risk)
    }

    /// The CPUs that were chosen, if this host has them.
    fn choice(&self, facts: &Facts) -> Result<Choice, Failure> {
        let choice = Choice { irq_cpus: self.irq_cpus.clone(), cpus: self.cpus.clone() };
        choice.check(facts).map_err(|error| Failure::usage(error, None))?;
        Ok(choice)
    }

    /// Looks at the host, and plans.
    pub(super) fn plan(&self) -> Result<Plan, Failure> {
        Ok(self.plan_and_look()?.0)
    }

    /// The plan, and what was counted for it, if anything was.
    pub(super) fn plan_and_look(&self) -> Result<(Plan, Option<Capture>), Failure> {
        let pids = self.host.named()?;
        let asked = Asked {
            strategy: self.strategy,
            profile: self.profile,
            nic: self.nic.as_deref(),
            live: self.live,
            accept_risk: self.accept_risk()?,
            pids: &pids,
            ..Asked::default()
        };
        let asks = self.asks_for_changes();
        if asks && !self.host.root.is_file() {
            let facts = self.host.facts()?;
            let asked = Asked { choice: self.choice(&facts)?, ..asked };
            return Ok((tuner::plan::plan(&facts, &asked), None));
        }
        // A wrong list is told before half a minute has passed.
        self.choice(&self.host.facts()?)?;
        let seen = observe::observe(&self.host, self.seconds)?;
        // Where nothing is asked for, findings are remedied.
        let findings = if asks { Vec::new() } else { tuner::judge(&seen.facts, &seen.series) };
        let (measured, choice) = (Measured::of(&seen.series), self.choice(&seen.facts)?);
        let asked = Asked { findings: &findings, measured, choice, ..asked };
        Ok((tuner::plan::plan(&seen.facts, &asked), Some(seen)))
    }
}

/// Replaces only what was made here.
fn write_my_cnf(facts: &Facts, path: &Path) -> Result<(), Failure> {
    match std::fs::read_to_string(path) {
        Ok(text) if !text.starts_with(my_cnf::HEAD) => {
            let error = anyhow::anyhow!(
                "write {}: there is a file already, and it was not made here",
                path.display()
            );
            Err(Failure::other(error).hint("name a new file, such as /etc/mysql/conf.d/evenkeel.cnf"))
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Failure::system(format_args!("read {}", path.display()), error))
        }
        _ => replace(path, &my_cnf::fragment(facts)),
    }
}

fn write_scripts(plan: &Plan, path: &Path) -> Result<(), Failure> {
    let undo = PathBuf::from(format!("{}.undo", path.display()));
    let write = |path: &Path, text: String| {
        std::fs::write(path, text)
            .map_err(|error| Failure::system(format!("write {}", path.display()), error))
    };
    // The way back first.
    write(&undo, script::undoing(plan))?;
    let undo =
        std::path::absolute(&undo).map_err(|error| Failure::system("find the current directory", error))?;
    write(path, script::doing(plan, &undo.display().to_string()))
}

pub(super) fn strategy(name: &str) -> Result<Strategy, String> {
    let names = || Strategy::ALL.map(Strategy::name).join(", ");
    Strategy::named(name).ok_or_else(|| format!("there are {}", names()))
}

fn cpus(list: &str) -> Result<CpuSet, String> {
    CpuSet::parse_list(list).map_err(|error| error.to_string())
}

fn profile(name: &str) -> Result<Profile, String> {
    let names = || Profile::ALL.map(Profile::name).join(", ");
    Profile::named(name).ok_or_else(|| format!("there are {}", names()))
}
