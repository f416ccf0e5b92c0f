//! The turn of an agent: heartbeat, acknowledgement and fetch in one request.
//!
//! An agent says what its host runs and which orders it has seen. It is answered at once if there are others, otherwise after
//! [`TURN_WAIT`]: the next turn is the heartbeat. All of an agent's state is in each turn, so that a controller that has just
//! started, or a different one, knows as much as the one before.

use std::collections::BTreeMap;

use fleet::figures::{MemberTally, RouterTally};
use fleet::tuning::AnswerDigest;
use fleet::{GenerationNumber, HostId, MemberId, RouterId, TextDigest, ViewName, ZoneName};
use serde::{Deserialize, Serialize};
use serde_json::Value;

mod change;
mod fault;
mod figures;
mod limits;
mod standard;
mod tuning;

pub(crate) use figures::TurnFigures;
use figures::as_far_as_known;

pub use change::{ActKind, AsideWord, CHANGES_MAX, ChangeOrder, ChangeWord, ChangesReport, HostAct};
pub use fault::{TEXT_MAX, TurnFault};
pub use fleet::tuning::PlanWish;
pub use limits::{
    MEMBERS_PER_HOST_MAX, ROUTERS_PER_HOST_MAX, SUSPECTS_MAX, TURN_WAIT, TURN_WAIT_SPREAD, UNASKED_MAX,
    is_client_address,
};
pub use standard::{StandardOrder, StandardReport};
pub use tuning::{
    ASKS_MAX, BODIES_PER_TURN_MAX, PlanReport, TuneAnswer, TuneAsk, TuneBody, TuneOrders, TuneReport,
    TuneWhat,
};
pub(crate) use tuning::{answer_digest, understood};

/// What an agent says. Fields that are added later are left out by older agents, and skipped by older controllers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnReport {
    /// The host that the agent is on.
    pub host: HostId,
    /// Where that is.
    pub zone: ZoneName,
    /// A random number of this process: it distinguishes an agent that was started again.
    pub boot: u64,
    /// The turns of this process so far: an older turn that arrives later is not believed.
    pub turn: u64,
    /// [`TurnOrders::version`] that it carries out; 0 for none.
    #[serde(default)]
    pub seen: u64,
    /// How long an answer may wait at most; the usual time if it does not say. An agent that has news waits for nothing.
    #[serde(default)]
    pub wait_ms: Option<u32>,
    /// Whether it waits here although the controller is without its register: it has asked all controllers, and each is. An older
    /// agent, which goes nowhere else, does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stays: Option<bool>,
    /// Its own program. An older agent does not say.
    #[serde(default, deserialize_with = "as_far_as_known", skip_serializing_if = "Option::is_none")]
    pub agent: Option<Box<AgentFacts>>,
    /// What it says of the host's tuning. An older agent says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tune: Option<TuneReport>,
    /// What it says of changes of the host. An older agent, which makes none, says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<ChangesReport>,
    /// What it says of its standard of tuning. An older agent, which knows of none, says nothing.
    #[serde(default, deserialize_with = "as_far_as_known", skip_serializing_if = "Option::is_none")]
    pub standard: Option<StandardReport>,
    /// Texts that it holds.
    #[serde(default)]
    pub texts: Vec<TextDigest>,
    /// Servers of this host.
    #[serde(default)]
    pub members: Vec<MemberReport>,
    /// Routers of this host.
    #[serde(default)]
    pub routers: Vec<RouterReport>,
}

/// What an agent says of itself, and of what gets another version with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentFacts {
    /// `0.1.0`
    pub version: String,
    /// Its SHA-256; none of an agent that is not upgraded with its host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<AnswerDigest>,
    /// Controllers of the host that get another version with it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub controllers: usize,
    /// Servers of the host that have nothing to take over with, such as a memcached: people bring another version to them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_hand: Vec<MemberId>,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// A server, as the agent beside it sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemberReport {
    /// Which.
    pub member: MemberId,
    /// Its process.
    pub process: ProcessReport,
    /// Orders to empty it that were carried out, since the host was set up.
    #[serde(default)]
    pub flushes: u64,
    /// Its last order was to [keep it empty](MemberOrder::keep_empty): routers may have written to it since.
    #[serde(default)]
    pub is_kept_empty: bool,
    /// Gets that found their item, since the process was started.
    #[serde(default)]
    pub hits: u64,
    /// Gets that did not.
    #[serde(default)]
    pub misses: u64,
    /// Whether it reads a file with the members of its cluster, which the agent writes.
    #[serde(default)]
    pub has_cluster_file: bool,
    /// What became of orders to [sweep](MemberOrder::sweep) it; an older agent, which cannot, does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<SweepReport>,
    /// Where its own page answers, as `HOST:PORT` by its agent's file; none without `metrics` there, and of an older agent.
    #[serde(default, deserialize_with = "as_far_as_known", skip_serializing_if = "Option::is_none")]
    pub page: Option<String>,
    /// Its figures; none of a server that has not answered yet, and of an older agent. What is not understood is unknown.
    #[serde(default, deserialize_with = "as_far_as_known", skip_serializing_if = "Option::is_none")]
    pub figures: Option<Box<MemberTally>>,
}

/// What became of orders to sweep a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweepReport {
    /// The newest order that was carried out, since this agent was started; 0 for none.
    #[serde(default)]
    pub done: u64,
    /// Why the present one was not, for people: it is tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// The state of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessReport {
    /// It runs.
    Running {
        /// Its id.
        pid: u32,
    },
    /// It is being started again, as announced.
    Restarting {
        /// Milliseconds that are left of the announced time.
        left_ms: u32,
    },
    /// It does not run.
    Down,
}

/// A router, as the agent beside it sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RouterReport {
    /// Which.
    pub router: RouterId,
    /// The configuration that it reads.
    pub view: ViewName,
    /// The newest generation whose text it has loaded.
    #[serde(default)]
    pub generation: Option<GenerationNumber>,
    /// The text that it says it has loaded; none if it does not answer.
    #[serde(default)]
    pub loaded: Option<TextDigest>,
    /// What became of the orders.
    pub text: TextReport,
    /// Servers that it does not ask any more because they do not answer (TKO), by address.
    #[serde(default)]
    pub suspects: Vec<String>,
    /// Whether it has answered requests lately: without any, it knows nothing of its servers.
    #[serde(default)]
    pub has_traffic: bool,
    /// Of the servers that it could ask, those that it has not asked lately, as far as they are few: it knows nothing of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unasked: Vec<String>,
    /// What keeps the agent from its work beside this router, for people: a disk that is full, a file that cannot be written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// Where clients reach it, for lists of routers; none if it is in no list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_address: Option<String>,
    /// Whether it reads a file with such a list, which the agent writes.
    #[serde(default)]
    pub has_cluster_file: bool,
    /// Where its own page answers, as `HOST:PORT` by its agent's file; none without `metrics` there, and of an older agent.
    #[serde(default, deserialize_with = "as_far_as_known", skip_serializing_if = "Option::is_none")]
    pub page: Option<String>,
    /// Its figures; none of a router that has not answered yet, and of an older agent. What is not understood is unknown.
    #[serde(default, deserialize_with = "as_far_as_known", skip_serializing_if = "Option::is_none")]
    pub figures: Option<Box<RouterTally>>,
}

/// What became of a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TextReport {
    /// It is loaded, or there is none to load.
    Loaded,
    /// It is written, and not loaded yet.
    Waiting,
    /// The router does not load it.
    Refused {
        /// Which generation's.
        generation: GenerationNumber,
        /// Why.
        reason: String,
    },
    /// The router ended, hung or failed after it had loaded it; the text before is in place again.
    Crashed {
        /// Which generation's.
        generation: GenerationNumber,
        /// What was seen.
        reason: String,
    },
    /// Somebody else has written the router's file: it stays as it is.
    Foreign,
}

/// What a controller answers: everything that the agent shall do, not only what is new.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TurnOrders {
    /// Changes with the orders; never 0. Only equality has a meaning.
    pub version: u64,
    /// What each router of the host shall read. A router that is not named keeps what it has.
    #[serde(default)]
    pub routers: Vec<RouterOrder>,
    /// Texts that the agent does not hold.
    #[serde(default)]
    pub texts: BTreeMap<TextDigest, String>,
    /// What the servers of the host shall do.
    #[serde(default)]
    pub members: Vec<MemberOrder>,
    /// Lists that the routers of the host shall tell clients with auto-discovery.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lists: Vec<ListOrder>,
    /// What is asked about the host's tuning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tune: Option<TuneOrders>,
    /// What the host shall have of each change that concerns it.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "understood")]
    pub changes: Vec<ChangeOrder>,
    /// The standard of tuning that the host shall have, if the policy has one for it.
    #[serde(default, deserialize_with = "as_far_as_known", skip_serializing_if = "Option::is_none")]
    pub standard: Option<StandardOrder>,
    /// The controller does not reach its register: it hears of no decision. Another one may, and these orders may be old.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub elsewhere: bool,
}

/// What a router shall read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouterOrder {
    /// Which.
    pub router: RouterId,
    /// The generation. One older than what it reads is not carried out.
    pub generation: GenerationNumber,
    /// The text.
    pub digest: TextDigest,
}

/// The list that a router shall tell clients with auto-discovery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListOrder {
    /// Which router.
    pub router: RouterId,
    /// The text of its file.
    pub digest: TextDigest,
}

/// What a server shall do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemberOrder {
    /// Which.
    pub member: MemberId,
    /// Empty it until [`MemberReport::flushes`] is at least this.
    #[serde(default)]
    pub flushes: u64,
    /// Empty it with each of these orders, and once more when they say so no longer: a router that has an old text may write
    /// to it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep_empty: bool,
    /// Delete the keys in it that are not its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<SweepOrder>,
    /// The text of its cluster's file; without, the file stays as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_file: Option<TextDigest>,
}

/// Which keys a server shall lose: those that belong to another slot of its cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SweepOrder {
    /// Do it until [`SweepReport::done`] is at least this.
    pub number: u64,
    /// Attributes of the cluster's pool: keys have their slots by them.
    pub pool: BTreeMap<String, Value>,
    /// Slots of the cluster.
    pub slots: usize,
    /// The place of this server's slot.
    pub own: usize,
}

#[cfg(test)]
mod tests;
