//! `evenkeel control`: its jobs. Arguments become requests to a controller, and its answers become text or JSON.
//!
//! Whatever changes something is planned, shown, and carried out only with `--apply`, and only if it is still the plan that
//! was shown.

mod adopt;
mod ask;
mod authority;
mod change;
mod credentials;
mod file;
mod members;
mod serve;
mod shadow;
mod statuses;
mod top;
mod tune;
mod upgrade;

use std::process::ExitCode;

use clap::{ArgMatches, Args, Command, FromArgMatches, Subcommand};

use crate::failure::Failure;
use ask::{Place, read};

pub(crate) use ask::{document, escaped};
pub(crate) use credentials::Credentials;
pub(crate) use file::read_file;
pub(crate) use statuses::STATUSES;

/// Decide which server has which keys, and what routers read
#[derive(Clone, Debug, Subcommand)]
enum Job {
    /// Make a fleet's authority, which signs certificates, and the certificate of a first operator
    Init(authority::InitArguments),
    /// Make a certificate with its key, where the authority's key is
    Certificate(authority::CertificateArguments),
    /// Make a join token, with which one newcomer gets its certificate; it is good for 15 minutes
    Token(authority::TokenArguments),
    /// Make an address of the console with a token, with which one browser can read it for twelve hours
    ConsoleToken(ReadArguments),
    /// Run a controller
    Serve(Box<serve::ServeArguments>),
    /// Let servers join, change or leave the fleet
    Members(Box<members::MembersArguments>),
    /// Show the fleet: clusters, members, routers, what is on its way and what is frozen
    Status(ReadArguments),
    /// Watch requests, hits, errors and load of all servers and routers, and how many requests of each view and pool were answered well
    Top(top::TopArguments),
    /// Show the policy in force, as a file that `plan --policy` takes
    Policy(PolicyArguments),
    /// Show what would change: by a policy, or nothing but what the fleet needs now
    Plan(change::PlanArguments),
    /// Put another server into the slot of a member, in place: by the phases of a drain if the member lives
    Replace(change::ReplaceArguments),
    /// Move a living member's slot to another server: no delete is lost, and the new one is warmed up
    Drain(change::DrainArguments),
    /// Give a cluster another number of slots: by phases in which deletes reach the old and the new server of each key that moves
    Scale(change::ScaleArguments),
    /// Put the routes of an earlier generation in force again, as a new one; slots keep their members
    Rollback(change::RollbackArguments),
    /// List generations, the newest first
    History(ReadArguments),
    /// Compare two generations
    Diff(DiffArguments),
    /// Show which slot and member a key belongs to, and by which generation
    Why(WhyArguments),
    /// Find what limits the hosts of the fleet and what the tuner would change on them, and change them by canaries and waves
    Tune(tune::TuneArguments),
    /// Bring another version of the program to the hosts, by canaries and waves, and without a lost item
    Upgrade(Box<upgrade::UpgradeArguments>),
    /// Compare clusters with their shadows, by what routers have found
    Shadow(shadow::ShadowArguments),
    /// Let nothing change in a scope: `fleet`, `cluster/NAME` or `zone/NAME`
    Freeze(change::FreezeArguments),
    /// Let a scope change again
    Thaw(change::ThawArguments),
    /// Halt the rollout that is going on, let it go on, or give it up
    Rollout(change::RolloutArguments),
    /// Make a configuration of mcrouter's the policy, the members and the first generation, if its keys stay where they are
    Adopt(adopt::AdoptArguments),
}

#[derive(Clone, Debug, Args)]
struct Arguments {
    #[command(subcommand)]
    job: Job,
}

#[derive(Clone, Debug, Args)]
struct ReadArguments {
    #[command(flatten)]
    place: Place,
}

#[derive(Clone, Debug, Args)]
struct PolicyArguments {
    #[command(subcommand)]
    job: PolicyJob,
}

#[derive(Clone, Debug, Subcommand)]
enum PolicyJob {
    /// Print the policy in force
    Show(ReadArguments),
}

#[derive(Clone, Debug, Args)]
struct DiffArguments {
    /// The older generation
    from: u64,
    /// The newer one; without it, the one in force
    to: Option<u64>,
    #[command(flatten)]
    place: Place,
}

#[derive(Clone, Debug, Args)]
struct WhyArguments {
    /// The key, as clients send it
    key: String,
    /// Routers whose configuration is asked; without it, all
    #[arg(long, value_name = "NAME")]
    view: Option<String>,
    #[command(flatten)]
    place: Place,
}

/// The command line of `control`.
pub(crate) fn command() -> Command {
    let about = Command::new("control").about("Operate a fleet: who has which keys, what routers read");
    Arguments::augment_args(about).arg_required_else_help(true).disable_help_subcommand(true)
}

/// Runs one of the jobs.
pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let arguments = Arguments::from_arg_matches(matches).map_err(|error| Failure::usage(error, None))?;
    match &arguments.job {
        Job::Init(job) => authority::init(job),
        Job::Certificate(job) => authority::certificate(job),
        Job::Token(job) => authority::token(job),
        Job::ConsoleToken(job) => {
            let ask = |client: &control::ControlClient, within| {
                client.post("/v1/console-token", &serde_json::json!({}), within)
            };
            job.place.show(&job.place.ask(ask)?)
        }
        Job::Serve(job) => serve::run(job),
        Job::Members(job) => members::run(job),
        Job::Status(job) => read(&job.place, "/v1/status"),
        Job::Top(job) => top::run(job),
        Job::History(job) => read(&job.place, "/v1/history"),
        Job::Diff(job) => {
            let to = job.to.map_or(String::new(), |to| format!("&to={to}"));
            read(&job.place, &format!("/v1/diff?from={}{to}", job.from))
        }
        Job::Why(job) => {
            let view = job.view.as_ref().map_or(String::new(), |view| format!("&view={}", escaped(view)));
            read(&job.place, &format!("/v1/why?key={}{view}", escaped(&job.key)))
        }
        Job::Policy(PolicyArguments { job: PolicyJob::Show(job) }) => read(&job.place, "/v1/policy"),
        Job::Plan(job) => change::plan(job),
        Job::Rollout(job) => change::rollout(job),
        Job::Replace(job) => change::replace(job),
        Job::Drain(job) => change::drain(job),
        Job::Scale(job) => change::scale(job),
        Job::Rollback(job) => change::rollback(job),
        Job::Tune(job) => tune::run(job),
        Job::Upgrade(job) => upgrade::run(job),
        Job::Shadow(job) => shadow::run(job),
        Job::Freeze(job) => change::freeze(job),
        Job::Thaw(job) => change::thaw(job),
        Job::Adopt(job) => adopt::run(job),
    }
}
