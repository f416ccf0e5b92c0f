//! Settings of an agent: what it is beside, and whom it asks.

use crate::service::SayLine;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use fleet::tuning::AnswerDigest;
use fleet::{HostId, MemberId, RouterId, ViewName, ZoneName};
use tls::ClientTls;

use super::pages::MetricsPlace;
use crate::client::ControlPlace;
use crate::service::turn::{ProcessReport, TurnReport};
use crate::wire::PeerPlace;

/// Looks at a process. Of a router, the number changes when it was started again.
pub type ProcessLook = Arc<dyn Fn() -> ProcessReport + Send + Sync>;

/// A router of the host.
#[derive(Clone)]
pub struct AgentRouter {
    /// Which.
    pub router: RouterId,
    /// What it reads.
    pub view: ViewName,
    /// Where its page of figures is, if it has one.
    pub metrics: Option<MetricsPlace>,
    /// The file that it reads.
    pub file: PathBuf,
    /// What is put there if there is no file and nothing was ever kept of this router; none to wait for the first order.
    pub first_text: Option<String>,
    /// Where it answers.
    pub place: PeerPlace,
    /// Its process.
    pub process: ProcessLook,
    /// Where clients reach it, for lists of routers; none if it is in no list.
    pub client_address: Option<String>,
    /// The file with such a list that it reads, and nobody else writes; none if it has no such file.
    pub cluster_file: Option<PathBuf>,
}

/// A server of the host.
#[derive(Clone)]
pub struct AgentServer {
    /// Which.
    pub member: MemberId,
    /// Where its page of figures is, if it has one.
    pub metrics: Option<MetricsPlace>,
    /// Where it answers.
    pub place: PeerPlace,
    /// Its process.
    pub process: ProcessLook,
    /// The file with the members of its cluster that it reads, and nobody else writes; none if it has no such file.
    pub cluster_file: Option<PathBuf>,
}

/// Whether and how an agent runs the tuner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TuneSettings {
    /// It looks what limits the host, once an hour and when asked.
    pub check: bool,
    /// It plans when asked.
    pub plan: bool,
    /// It changes the host when it is told.
    pub apply: bool,
    /// The program with `tune check`; the agent's own if none.
    pub binary: Option<PathBuf>,
    /// How long a look reads counters, in seconds.
    pub seconds: u32,
}

/// How another version of the program gets into force on a host.
#[derive(Clone)]
pub struct UpgradeSettings {
    /// The symbolic link that the units start.
    pub link: PathBuf,
    /// Paths of programs, with `{version}` for the name of a version.
    pub programs: String,
    /// Time for each server and router, until it is proved to have the program.
    pub within: Duration,
    /// Those that start what the link points to.
    pub members: Vec<UpgradedMember>,
    /// Those of the host that do not, with the reason.
    pub others: Vec<(String, String)>,
    /// The servers among them.
    pub by_hand: Vec<MemberId>,
    /// The agent itself; none if it keeps its program.
    pub agent: Option<Arc<AgentProgram>>,
}

/// What gets another version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpgradedKind {
    /// It keeps items, which must be there afterwards.
    Server,
    /// Clients must reach it all the time.
    Router,
    /// It may be restarted: there are others, and agents wait for it.
    Controller,
}

impl UpgradedKind {
    /// All, in the order in which a host replaces them.
    pub const ALL: [UpgradedKind; 3] = [UpgradedKind::Server, UpgradedKind::Router, UpgradedKind::Controller];

    /// In words.
    pub fn plural(self) -> &'static str {
        match self {
            UpgradedKind::Server => "servers",
            UpgradedKind::Router => "routers",
            UpgradedKind::Controller => "controllers",
        }
    }
}

/// A server, router or controller that starts what the link points to.
#[derive(Clone)]
pub struct UpgradedMember {
    /// `server m1`, `router r1`, `controller c1`
    pub name: String,
    /// What it is.
    pub kind: UpgradedKind,
    /// Where it answers; of a controller, its page of readiness.
    pub place: PeerPlace,
    /// Its process.
    pub process: ProcessLook,
    /// The command that has the program of the link take over.
    pub reload: Vec<String>,
}

/// The agent's process: with it, the agent takes another program when its host gets one.
pub struct AgentProgram {
    /// Its command line, the program's name first.
    pub(super) arguments: Vec<OsString>,
    /// The SHA-256 of its program, when it is known.
    pub(super) digest: OnceLock<Result<AnswerDigest, String>>,
    /// A controller has still to answer this program.
    pub(super) is_on_trial: AtomicBool,
    /// Held by whoever has a child that would be left behind.
    pub(super) busy: Mutex<()>,
}

impl AgentProgram {
    /// Of a process with this command line, the program's name first.
    pub fn new(arguments: Vec<OsString>) -> AgentProgram {
        let (digest, is_on_trial, busy) = (OnceLock::new(), AtomicBool::new(false), Mutex::new(()));
        AgentProgram { arguments, digest, is_on_trial, busy }
    }
}

/// What an agent is beside, and whom it asks.
pub struct AgentSettings {
    /// The host.
    pub host: HostId,
    /// Where it is.
    pub zone: ZoneName,
    /// A random number of this process.
    pub boot: u64,
    /// Its routers.
    pub routers: Vec<AgentRouter>,
    /// Its servers.
    pub servers: Vec<AgentServer>,
    /// Whether and how it runs the tuner.
    pub tune: TuneSettings,
    /// How its servers and routers get another program; none if they do not.
    pub upgrade: Option<UpgradeSettings>,
    /// A folder for what it must not forget, which only it writes to.
    pub folder: PathBuf,
    /// Its controllers.
    pub controllers: Vec<ControlPlace>,
    /// TLS for them; what replaces it is used for the next turn.
    pub tls: Arc<ClientTls>,
    /// Lines for people.
    pub say: SayLine,
}

/// What both threads know: the report, which one writes and the other sends.
pub(super) type SharedReport = Arc<Mutex<TurnReport>>;
