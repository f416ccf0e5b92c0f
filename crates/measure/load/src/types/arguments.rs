//! The command line of `evenkeel load`: a description of the run, and flags that are about this process only.

use crate::types::description::Description;
use crate::types::objective::Objective;
use crate::types::profiles::table;
use crate::types::span::Span;
use std::path::PathBuf;

/// Generate load, and measure latency and capacity.
///
/// With --rate in an open loop: requests go out when a schedule says, whatever the server does, and
/// latency counts from there. Without it in a closed loop: every connection keeps DEPTH requests on their way and
/// sends the next when a reply arrives, which measures capacity and requests per CPU-second.
#[derive(Clone, Debug, clap::Args)]
// The last occurrence counts: scripts append to a common line.
#[command(args_override_self = true)]
pub struct Arguments {
    /// The load. The other flags are about this process: which machines make the load, and where the result goes.
    #[command(flatten)]
    pub run: Description,

    /// Look for the highest rate at which this holds: p50, p90, p99, p99.9 or max, as in p99<1ms. Every try lasts
    /// --warm-up and --duration; --rate is the first
    #[arg(
        long,
        value_name = "OBJECTIVE",
        conflicts_with_all = ["trace", "probes", "live", "record"],
        help_heading = "Shape of the load"
    )]
    pub search: Option<Objective>,
    /// Let agents on these machines make the load, each its part of it: NAME,NAME,…
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        conflicts_with_all = ["self_test", "agent"],
        help_heading = "Several machines"
    )]
    pub agents: Vec<String>,
    /// How to start an agent: a line for the shell, with its name for {host}
    #[arg(
        long,
        value_name = "COMMAND",
        requires = "agents",
        default_value = "ssh {host} evenkeel load --agent",
        help_heading = "Several machines"
    )]
    pub agent_command: String,
    /// Give up when an agent has sent nothing for this long
    #[arg(long, value_name = "TIME", default_value = "30s", help_heading = "Several machines")]
    pub agent_patience: Span,
    /// Make no load, but print a Kubernetes job of this many pods that can be agents, and how to use it
    #[arg(
        long,
        value_name = "PODS",
        requires_all = ["server", "image"],
        conflicts_with_all = [
            "agents", "agent_command", "agent", "self_test", "socket",
        ],
        help_heading = "Several machines"
    )]
    pub kubernetes_job: Option<usize>,
    /// Of --kubernetes-job: an image with this version of evenkeel
    #[arg(long, value_name = "IMAGE", requires = "kubernetes_job", help_heading = "Several machines")]
    pub image: Option<String>,
    /// Be an agent: take orders from standard input
    #[arg(long, conflicts_with = "live", help_heading = "Several machines")]
    pub agent: bool,
    /// Check this program instead of a server: load one that stands still for 100 ms of each second, and compare with
    /// theory; status 1 if they disagree
    #[arg(
        long,
        conflicts_with_all = [
            "host", "port", "server", "socket", "server_pid", "rate", "arrivals", "search", "connections", "depth",
            "workload", "gets", "mix", "multiget", "protocol", "requests", "warm_up", "prefill", "udp", "tls", "trace",
            "slot", "probes", "live", "record",
        ],
        help_heading = "Run"
    )]
    pub self_test: bool,
    /// End with status 75 if the run is INVALID, or a search ended early: what was measured is not to be believed
    #[arg(long, conflicts_with_all = ["self_test", "agent"], help_heading = "Run")]
    pub strict: bool,
    /// Write the result to this file, as JSON
    #[arg(long, value_name = "FILE", help_heading = "Run")]
    pub json: Option<PathBuf>,
    /// Write the latencies of every second to this file, as HdrHistogram's interval log
    #[arg(long, value_name = "FILE", conflicts_with_all = ["search", "self_test"], help_heading = "Run")]
    pub hdr_log: Option<PathBuf>,
}

impl Arguments {
    /// The table of workloads, if that is asked for.
    pub fn listing(&self) -> Option<String> {
        self.run.workload.filter(|workload| workload.profile().is_none()).map(|_| table())
    }
}
