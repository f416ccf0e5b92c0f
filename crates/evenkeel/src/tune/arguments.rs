//! Arguments that several jobs share, and the requests that they become.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use os::CpuSet;
use tuner::Root;
use tuner::plan::profile::Profile;
use tuner::plan::strategy::Strategy;
use tuning::{observe, plan};

use super::messages;
use crate::failure::Failure;

/// The host to examine.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct HostArguments {
    /// A captured host: a directory with its /proc and /sys, or a file written by `check --save`
    #[arg(long, value_name = "PATH", default_value = "/")]
    pub(super) root: PathBuf,
    /// A process to treat as a service, the only one that a plan then concerns; may be repeated. Known servers are
    /// found without it
    #[arg(long = "pid", value_name = "PID")]
    pids: Vec<u32>,
    /// A systemd unit, whose processes are taken as with --pid: memcached, or memcached.service; may be repeated
    #[arg(long = "unit", value_name = "NAME")]
    units: Vec<String>,
}

impl HostArguments {
    pub(super) fn request(&self) -> observe::ObservedHost {
        let HostArguments { root, pids, units } = self.clone();
        observe::ObservedHost { root, pids, units, progress: messages::progress }
    }
}

/// The input of a plan.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct PlanArguments {
    #[command(flatten)]
    pub(super) host: HostArguments,
    /// A strategy: one layout of interrupts, packets or threads
    #[arg(long, value_name = "NAME", value_parser = strategies())]
    strategy: Option<Strategy>,
    /// The needs of a kind of service; memcached is evenkeel's, too, and flash is for the disks of -o ext_path
    #[arg(long, value_name = "NAME", value_parser = profiles())]
    pub(super) profile: Option<Profile>,
    /// Only this network interface; of a bond or VLAN, the devices below [default: all that are up and have a device]
    #[arg(long, value_name = "NAME")]
    nic: Option<String>,
    /// With --profile flash: only this disk, array or volume, and what it is made of; may be repeated [default: those of
    /// servers with ext_path, else all that do not turn]
    #[arg(long = "disk", value_name = "NAME", requires = "profile")]
    disks: Vec<String>,
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
    /// Also change listeners of running programs: longer accept queues and Fast Open, until the programs are restarted
    #[arg(long)]
    live: bool,
    /// How long to read counters, in seconds, if neither --strategy nor --profile is given
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
}

impl PlanArguments {
    /// How many seconds it measures before there is a plan; `None`: it needs no measurement.
    pub(super) fn measured_s(&self) -> Option<u32> {
        (self.strategy.is_none() && self.profile.is_none()).then_some(self.seconds)
    }

    pub(super) fn request(&self) -> Result<plan::PlanInput, Failure> {
        if self.accept_risk && self.strategy != Some(Strategy::SchedFifo) {
            return Err(Failure::usage("--accept-risk takes --strategy sched-fifo", None));
        }
        if !self.disks.is_empty() && self.profile != Some(Profile::Flash) {
            return Err(Failure::usage("--disk takes --profile flash", None));
        }
        let PlanArguments { host, strategy, profile, nic, disks, irq_cpus, cpus, accept_risk, live, seconds } =
            self.clone();
        let host = host.request();
        Ok(plan::PlanInput {
            host,
            strategy,
            profile,
            nic,
            disks,
            irq_cpus,
            cpus,
            accept_risk,
            live,
            seconds,
        })
    }
}

/// How long to wait for another process.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct Patience {
    /// Wait at most this long for another `evenkeel tune` that is changing settings: 0s, 30s, 5m
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = time)]
    pub(super) wait: Duration,
}

/// The directory of the journals.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct StateDirectory {
    /// The directory of the journals: what was changed, and what it was before. For root alone
    #[arg(long = "state", value_name = "DIR", default_value = "/var/lib/evenkeel/tune")]
    pub(super) path: PathBuf,
}

impl StateDirectory {
    pub(super) fn request(&self) -> tuning::StateDirectory {
        tuning::StateDirectory { path: self.path.clone(), notice: messages::notice }
    }
}

/// The directory of the journals, and the host that they belong to.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Place {
    #[command(flatten)]
    pub(super) state: StateDirectory,
    /// The directory with the host's /proc and /sys
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub(super) root: PathBuf,
}

impl Place {
    pub(super) fn root(&self) -> Root {
        Root::new(&self.root)
    }
}

fn cpus(list: &str) -> Result<CpuSet, String> {
    CpuSet::parse_list(list).map_err(|error| error.to_string())
}

/// Names that help and completions list.
pub(super) fn strategies() -> impl TypedValueParser<Value = Strategy> {
    PossibleValuesParser::new(Strategy::ALL.map(Strategy::name))
        .map(|name| Strategy::named(&name).expect("it is one of the names"))
}

fn profiles() -> impl TypedValueParser<Value = Profile> {
    PossibleValuesParser::new(Profile::ALL.map(Profile::name))
        .map(|name| Profile::named(&name).expect("it is one of the names"))
}

/// `30s`, `5m` or `1h`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    time(text).ok().filter(|time| !time.is_zero()).ok_or_else(|| TIME_EXPECTED.to_owned())
}

/// The same, or none: `0s`.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    let wrong = || TIME_EXPECTED.to_owned();
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let seconds = match &text[digits.len()..] {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return Err(wrong()),
    };
    let count: u32 = digits.parse().map_err(|_| wrong())?;
    Ok(Duration::from_secs(u64::from(count) * seconds))
}

const TIME_EXPECTED: &str = "expected a time such as 30s, 5m or 1h";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit() {
        for (text, seconds) in [("30s", Some(30)), ("5m", Some(300)), ("1h", Some(3600))] {
            assert_eq!(duration(text).ok().map(|time| time.as_secs()), seconds, "{text}");
        }
        for text in ["", "5", "m", "0s", "-1s", "5 m", "5ms"] {
            assert!(duration(text).is_err(), "{text}");
        }
        assert_eq!(time("0s"), Ok(Duration::ZERO));
    }
}
