//! Questions to a controller: from HTTP's words to ours, checked once.
//!
//! ```text
//! GET  /v1/figures[?member=ID | ?host=ID | ?cluster=NAME | ?of=routers][&since=UNIX]
//! GET  /v1/shadows[?cluster=NAME][&within=SECONDS][&gate=GATE]      what routers have found about shadows
//! GET  /v1/summary                                                sums of clusters, and what needs a person
//! GET  /v1/status  /v1/history  /v1/diff?from=N[&to=N]  /v1/why?key=K[&view=V]
//! POST /v1/plan    {policy | requests | rollback | adopt | drain | scale | …}  what would change, and the plan's name
//! POST /v1/apply   the same with {plan, why}                        done if it is still that plan
//! POST /v1/freeze  /v1/thaw {scope, why}
//! POST /v1/rollout {act: resume | hurry | halt | abandon, why}    what a person wants of the rollout that is going on
//! POST /v1/members {members, remove, remove_hosts[, why]}           what would change in the inventory; with `why`, done
//! POST /v1/token   {role, zone[, id]}                               a join token
//! POST /v1/console-token  {}                                      the address of the console, for one browser
//! POST /v1/join    {token, role, zone, id, request}                 a first certificate
//! POST /v1/renew   {request}                                        the next one
//! GET  /v1/tune/check?hosts=SCOPE                                 what the tuner has found on the hosts of a scope
//! POST /v1/tune/ask   {hosts, check | profile | strategy | version} they look again, or plan: the question's name
//! GET  /v1/tune/ask?id=ID                                         how many have answered
//! GET  /v1/tune/plan?id=ID                                        what they have planned
//! POST /v1/tune/apply {id, settings, …[, plan, why]}              the change that would be made of these plans; with `plan`, begun
//! GET  /v1/changes[?number=N]                                     the last changes of hosts, or one of them
//! POST /v1/changes    {number, act: halt | resume | undo, why}     what a person wants of one
//! POST /v1/turn    a report of an agent
//! POST /v1/liveness  what another controller has heard
//! ```

use std::fmt;
use std::str::FromStr;

use admin::api::{ApiMethod, ApiRequest};
use fleet::health::Quarantined;
use fleet::tuning::{HostScope, ScopeError};
use fleet::waves::ChangeNumber;
use fleet::{
    ClusterName, FleetMember, GenerationNumber, HostId, MemberId, RESIZE_WARM_UP_S_MAX, SLOTS_MAX, TuneAskId,
    ViewName, ZoneName,
};
use percent_encoding::percent_decode_str;
use serde::Deserialize;

use crate::identity::join_token::TokenTerms;
use crate::liveness::LivenessReport;
use crate::service::turn::{PlanWish, TuneWhat, TurnReport};

mod certificates;
pub(crate) mod changes;
mod fault;
mod shadows;

pub(crate) use certificates::{CertifyQuestion, JoinQuestion};
use changes::{ChangeSteer, ChangeWanted};
pub(crate) use fault::QuestionFault;
use fault::{bad, body, reason};
pub(crate) use shadows::ShadowsQuestion;

/// Where a newcomer shows a join token: the only path for those without a certificate.
pub(crate) const JOIN: &str = "/v1/join";

/// Requests of one change: a person's hands, or a script over a zone.
const REQUESTS_MAX: usize = 256;
/// Members of one change of the inventory. Each is a write to the register of some milliseconds, and the controller decides nothing
/// else meanwhile.
pub(crate) const MEMBERS_MAX: usize = 500;
/// Warm-up in a drain unless the question says another, in seconds: the keys that are asked for in ten minutes are nearly all of the traffic.
const WARM_UP_S: u32 = 600;
/// Longest warm-up in a drain, in seconds. Two members own the keys meanwhile.
const DRAIN_WARM_UP_S_MAX: u32 = 3_600;
/// Longest key in bytes, as in the protocol.
const KEY_LEN_MAX: usize = 250;

/// What is asked.
#[derive(Clone, Debug, PartialEq)]
pub enum ControlQuestion {
    /// The state of the fleet.
    Status,
    /// Sums of clusters, and what needs a person.
    Summary,
    /// Figures of members, and service levels.
    Figures(FiguresQuestion),
    /// What routers have found about shadows.
    Shadows(ShadowsQuestion),
    /// The policy in force, as it was given.
    Policy,
    /// Generations, the newest first.
    History,
    /// How two generations differ.
    Diff {
        /// The older.
        from: GenerationNumber,
        /// The newer; the one in force if none.
        to: Option<GenerationNumber>,
    },
    /// Where a key belongs.
    Why {
        /// The key.
        key: Vec<u8>,
        /// By which configuration; all if none.
        view: Option<ViewName>,
    },
    /// What a change would do.
    Plan(ChangeQuestion),
    /// A change, if it is the plan that was shown.
    Apply {
        /// The change.
        change: ChangeQuestion,
        /// The plan's name.
        plan: String,
        /// The reason.
        why: String,
    },
    /// Lets nothing change in a scope.
    Freeze {
        /// Where.
        scope: FreezeScope,
        /// The reason.
        why: String,
    },
    /// Lets a scope change again.
    Thaw {
        /// Where.
        scope: FreezeScope,
        /// The reason.
        why: String,
    },
    /// What a person wants of the rollout that is going on.
    Rollout {
        /// What.
        act: RolloutAct,
        /// The reason.
        why: String,
    },
    /// Members that join or change, and members that leave; only shown without a reason.
    Members {
        /// Those that shall be as given.
        members: Vec<FleetMember>,
        /// Those that shall be forgotten.
        remove: Vec<MemberId>,
        /// Hosts that have left for good, with their members.
        remove_hosts: Vec<HostId>,
        /// The reason.
        why: Option<String>,
    },
    /// A join token.
    IssueToken(TokenTerms),
    /// The address of the console, with a token for one browser.
    ConsoleToken,
    /// A first certificate.
    Join(JoinQuestion),
    /// The next certificate for the same identity.
    Renew {
        /// The request for it (CSR in PEM).
        request: String,
        /// The certificate that was shown (DER), of a peer that has shown one.
        present: Option<Vec<u8>>,
    },
    /// A first certificate of a server or router, for the agent of its host.
    Certify(CertifyQuestion),
    /// An agent's turn.
    Turn(Box<TurnReport>),
    /// What another controller has heard.
    Liveness(LivenessReport),
    /// What the tuner has found on these hosts.
    TuneCheck {
        /// Which hosts.
        scope: HostScope,
    },
    /// Has these hosts look again, or plan.
    TuneAsk {
        /// Which hosts.
        scope: HostScope,
        /// What they do.
        what: TuneWhat,
    },
    /// How many hosts have answered a question.
    TuneAsked(TuneAskId),
    /// What hosts have planned for a question.
    TunePlan(TuneAskId),
    /// A change of hosts that is to be made.
    ChangeHosts(ChangeWanted),
    /// The last changes of hosts, or one of them.
    Changes(Option<ChangeNumber>),
    /// What a person wants of a change of hosts.
    SteerChange {
        /// Which.
        number: ChangeNumber,
        /// What.
        act: ChangeSteer,
        /// The reason.
        why: String,
    },
}

/// Whose figures, and since when. What is not named is not restricted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FiguresQuestion {
    /// A server or router.
    pub member: Option<MemberId>,
    /// Servers and routers of a host.
    pub host: Option<HostId>,
    /// Servers with a slot of a cluster.
    pub cluster: Option<ClusterName>,
    /// All routers, and no server.
    pub is_of_routers: bool,
    /// All points since then, in seconds since 1970; without it, the last one of each.
    pub since_unix: Option<i64>,
}

/// What a person wants of a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RolloutAct {
    /// It goes on, whatever routers do that fail now.
    Resume,
    /// It goes on, and waits for no time of a wave.
    Hurry,
    /// No further router gets it.
    Halt,
    /// Routers get what they had before, with the members that slots have now.
    Abandon,
}

/// What shall change.
#[derive(Clone, Debug, PartialEq)]
pub enum ChangeQuestion {
    /// What the fleet needs now, by the policy in force or by this one.
    Policy(Option<String>),
    /// What the fleet needs by this policy, without phases: keys that move because a cluster is resized are cold.
    PolicyAtOnce(String),
    /// What a person wants.
    Requests(Vec<ChangeRequest>),
    /// The content of an earlier generation.
    Rollback(GenerationNumber),
    /// A configuration of mcrouter's as the first generation.
    Adopt(AdoptQuestion),
    /// A living member's slot goes to another one, by phases in which no delete is lost.
    Drain(DrainQuestion),
    /// The drain of this member is given up.
    CancelDrain(MemberId),
    /// Another number of slots of a cluster.
    Scale(ScaleQuestion),
    /// The resize of this cluster is given up.
    CancelScale(ClusterName),
}

/// A cluster that grows or shrinks.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScaleQuestion {
    /// Which.
    pub cluster: ClusterName,
    /// How many slots it shall have.
    pub slots: usize,
    /// How long the new owners of keys are warmed up, in seconds; as the policy says if none.
    pub warm_up_s: Option<u32>,
    /// At once: keys that move are cold, and may be found with old values when they move back.
    #[serde(default)]
    pub now: bool,
}

/// A member that leaves its slot while it lives.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DrainQuestion {
    /// The member that leaves it.
    pub member: MemberId,
    /// The one that takes it; the best spare if none.
    pub to: Option<MemberId>,
    /// How long the new member is warmed up at most, in seconds.
    #[serde(default = "warm_up_s")]
    pub warm_up_s: u32,
}

fn warm_up_s() -> u32 {
    WARM_UP_S
}

/// A configuration of mcrouter's, and names that it does not have.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdoptQuestion {
    /// The fleet's name; the controller's if none.
    pub fleet: Option<ClusterName>,
    /// That of the routers that read the file.
    pub view: ViewName,
    /// That of the zone that all members are put in.
    pub zone: ZoneName,
    /// The file.
    pub text: String,
}

/// One wish of a person. How many slots a cluster has is the policy's affair.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ChangeRequest {
    /// Another member for a slot.
    Replace {
        /// The member that leaves it.
        member: MemberId,
        /// The one that takes it; the best spare if none.
        by: Option<MemberId>,
        /// At once, although it lives: what is deleted or set meanwhile may be lost.
        #[serde(default)]
        now: bool,
    },
}

/// Where nothing may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FreezeScope {
    /// Everywhere.
    Fleet,
    /// In a cluster.
    Cluster(ClusterName),
    /// In a zone.
    Zone(ZoneName),
    /// For a member or a host: it takes no slot.
    Quarantine(Quarantined),
}

impl FromStr for FreezeScope {
    type Err = String;

    fn from_str(text: &str) -> Result<FreezeScope, String> {
        let expected =
            || format!("expected fleet, cluster/NAME, zone/NAME, member/ID or host/ID, found {text:?}");
        match text.split_once('/') {
            None if text == "fleet" => Ok(FreezeScope::Fleet),
            Some(("cluster", name)) => name.parse().map(FreezeScope::Cluster).map_err(|_| expected()),
            Some(("zone", name)) => name.parse().map(FreezeScope::Zone).map_err(|_| expected()),
            Some(("member", id)) => {
                let member = id.parse().map(Quarantined::Member);
                member.map(FreezeScope::Quarantine).map_err(|_| expected())
            }
            Some(("host", id)) => {
                let host = id.parse().map(Quarantined::Host);
                host.map(FreezeScope::Quarantine).map_err(|_| expected())
            }
            _ => Err(expected()),
        }
    }
}

impl fmt::Display for FreezeScope {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        match self {
            FreezeScope::Fleet => formatter.write_str("fleet"),
            FreezeScope::Cluster(name) => write!(formatter, "cluster/{name}"),
            FreezeScope::Zone(name) => write!(formatter, "zone/{name}"),
            FreezeScope::Quarantine(whose) => write!(formatter, "{whose}"),
        }
    }
}

/// A question to the hosts of a scope.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TuneAskBody {
    hosts: String,
    #[serde(default)]
    check: bool,
    #[serde(default)]
    profile: Option<String>,
    #[serde(default)]
    strategy: Option<String>,
    #[serde(default)]
    version: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChangeBody {
    policy: Option<String>,
    policy_at_once: Option<String>,
    requests: Option<Vec<ChangeRequest>>,
    rollback: Option<u64>,
    adopt: Option<AdoptQuestion>,
    drain: Option<DrainQuestion>,
    cancel_drain: Option<MemberId>,
    scale: Option<ScaleQuestion>,
    cancel_scale: Option<ClusterName>,
    plan: Option<String>,
    why: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScopeBody {
    scope: String,
    why: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RolloutBody {
    act: RolloutAct,
    why: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MembersBody {
    #[serde(default)]
    members: Vec<FleetMember>,
    #[serde(default)]
    remove: Vec<MemberId>,
    #[serde(default)]
    remove_hosts: Vec<HostId>,
    why: Option<String>,
}

/// Understands a request.
///
/// # Errors
/// Says what is accepted.
pub fn question(request: &ApiRequest) -> Result<ControlQuestion, QuestionFault> {
    use ApiMethod::{Get, Post};
    let query = Query::of(request.query.as_deref())?;
    let question = match (request.method, &*request.path) {
        (Get, "/v1/status") => ControlQuestion::Status,
        (Get, "/v1/summary") => ControlQuestion::Summary,
        (Get, "/v1/figures") => ControlQuestion::Figures(figures(&query)?),
        (Get, "/v1/shadows") => ControlQuestion::Shadows(shadows::shadows(&query)?),
        (Get, "/v1/policy") => ControlQuestion::Policy,
        (Get, "/v1/history") => ControlQuestion::History,
        (Get, "/v1/diff") => {
            let number = |name: &'static str| -> Result<Option<GenerationNumber>, QuestionFault> {
                let Some(text) = query.text(name)? else { return Ok(None) };
                let number =
                    text.parse().map_err(|_| bad(format!("{name}: expected a generation, found {text:?}")));
                Ok(Some(GenerationNumber(number?)))
            };
            let from = number("from")?.ok_or_else(|| bad("expected ?from=GENERATION"))?;
            ControlQuestion::Diff { from, to: number("to")? }
        }
        (Get, "/v1/why") => {
            let key = query.bytes("key").ok_or_else(|| bad("expected ?key=KEY"))?;
            if key.is_empty() || key.len() > KEY_LEN_MAX {
                let found = key.len();
                return Err(bad(format!("expected a key of 1 to {KEY_LEN_MAX} bytes, found {found}")));
            }
            let view = query.text("view")?.map(|name| name.parse().map_err(|error| bad(format!("{error}"))));
            ControlQuestion::Why { key, view: view.transpose()? }
        }
        (Post, "/v1/plan") => {
            let body: ChangeBody = body(request)?;
            ControlQuestion::Plan(change(body)?)
        }
        (Post, "/v1/apply") => {
            let mut body: ChangeBody = body(request)?;
            let plan = body.plan.take().ok_or_else(|| bad("expected the name of the plan that was shown"))?;
            let why = reason(body.why.take().unwrap_or_default())?;
            ControlQuestion::Apply { change: change(body)?, plan, why }
        }
        (Post, "/v1/freeze") => {
            let (scope, why) = scope(body(request)?)?;
            ControlQuestion::Freeze { scope, why }
        }
        (Post, "/v1/thaw") => {
            let (scope, why) = scope(body(request)?)?;
            ControlQuestion::Thaw { scope, why }
        }
        (Post, "/v1/rollout") => {
            let RolloutBody { act, why } = body(request)?;
            ControlQuestion::Rollout { act, why: reason(why)? }
        }
        (Post, "/v1/turn") => {
            let report: TurnReport = body(request)?;
            ControlQuestion::Turn(Box::new(report.checked().map_err(|fault| bad(fault.to_string()))?))
        }
        (Post, "/v1/liveness") => {
            let report: LivenessReport = body(request)?;
            ControlQuestion::Liveness(report.checked().map_err(|fault| bad(fault.to_string()))?)
        }
        (Get, "/v1/tune/check") => {
            let scope = query.text("hosts")?.unwrap_or_else(|| "all".to_owned());
            ControlQuestion::TuneCheck { scope: hosts(&scope)? }
        }
        (Post, "/v1/tune/ask") => tune_ask(body(request)?)?,
        (Get, "/v1/tune/ask") => ControlQuestion::TuneAsked(ask_id(&query)?),
        (Get, "/v1/tune/plan") => ControlQuestion::TunePlan(ask_id(&query)?),
        (Post, "/v1/tune/apply") => ControlQuestion::ChangeHosts(changes::wanted(body(request)?)?),
        (Get, "/v1/changes") => ControlQuestion::Changes(changes::number(query.text("number")?)?),
        (Post, "/v1/changes") => {
            let (number, act, why) = changes::steered(body(request)?)?;
            ControlQuestion::SteerChange { number, act, why }
        }
        (Post, "/v1/members") => members(body(request)?)?,
        (Post, "/v1/token") => ControlQuestion::IssueToken(body(request)?),
        (Post, "/v1/console-token") => {
            let certificates::NoBody {} = body(request)?;
            ControlQuestion::ConsoleToken
        }
        (Post, JOIN) => ControlQuestion::Join(certificates::join(body(request)?)?),
        (Post, "/v1/renew") => {
            let (request, present) = certificates::renew(request)?;
            ControlQuestion::Renew { request, present }
        }
        (Post, "/v1/certify") => ControlQuestion::Certify(certificates::certify(body(request)?)?),
        _ => {
            let method = match request.method {
                Get => "GET",
                Post => "POST",
            };
            let error = format!("there is no {method} of this path");
            return Err(QuestionFault { status: 404, error });
        }
    };
    query.all_known(&question)?;
    Ok(question)
}

fn figures(query: &Query) -> Result<FiguresQuestion, QuestionFault> {
    fn name<T: FromStr<Err: fmt::Display>>(text: Option<String>) -> Result<Option<T>, QuestionFault> {
        text.map(|text| text.parse().map_err(|error| bad(format!("{error}")))).transpose()
    }
    let since = query.text("since")?.map(|text| {
        let expected = || bad(format!("since: expected seconds since 1970, found {text:?}"));
        text.parse::<i64>().ok().filter(|since| *since >= 0).ok_or_else(expected)
    });
    let is_of_routers = match query.text("of")?.as_deref() {
        None => false,
        Some("routers") => true,
        Some(found) => return Err(bad(format!("of: expected routers, found {found:?}"))),
    };
    let question = FiguresQuestion {
        is_of_routers,
        member: name(query.text("member")?)?,
        host: name(query.text("host")?)?,
        cluster: name(query.text("cluster")?)?,
        since_unix: since.transpose()?,
    };
    let scopes =
        [question.member.is_some(), question.host.is_some(), question.cluster.is_some(), is_of_routers];
    match scopes.into_iter().filter(|is_given| *is_given).count() {
        0 | 1 => Ok(question),
        _ => Err(bad("expected one of member, host, cluster and of, found several")),
    }
}

fn change(body: ChangeBody) -> Result<ChangeQuestion, QuestionFault> {
    let ChangeBody {
        policy,
        policy_at_once,
        requests,
        rollback,
        adopt,
        drain,
        cancel_drain,
        scale,
        cancel_scale,
        ..
    } = body;
    let changes = [
        policy.map(|policy| Ok(ChangeQuestion::Policy(Some(policy)))),
        policy_at_once.map(|policy| Ok(ChangeQuestion::PolicyAtOnce(policy))),
        requests.map(wishes),
        rollback.map(|number| Ok(ChangeQuestion::Rollback(GenerationNumber(number)))),
        adopt.map(|adopt| Ok(ChangeQuestion::Adopt(adopt))),
        drain.map(leave),
        cancel_drain.map(|member| Ok(ChangeQuestion::CancelDrain(member))),
        scale.map(resize),
        cancel_scale.map(|cluster| Ok(ChangeQuestion::CancelScale(cluster))),
    ];
    let mut changes = changes.into_iter().flatten();
    match (changes.next(), changes.next()) {
        (None, _) => Ok(ChangeQuestion::Policy(None)),
        (Some(change), None) => change,
        _ => Err(bad(
            "expected one of policy, policy_at_once, requests, rollback, adopt, drain, cancel_drain, scale and cancel_scale, found several",
        )),
    }
}

fn wishes(requests: Vec<ChangeRequest>) -> Result<ChangeQuestion, QuestionFault> {
    match requests.len() {
        1..=REQUESTS_MAX => Ok(ChangeQuestion::Requests(requests)),
        found => Err(bad(format!("expected 1 to {REQUESTS_MAX} requests, found {found}"))),
    }
}

fn leave(drain: DrainQuestion) -> Result<ChangeQuestion, QuestionFault> {
    match drain.warm_up_s {
        0..=DRAIN_WARM_UP_S_MAX => Ok(ChangeQuestion::Drain(drain)),
        found => Err(bad(format!("expected a warm-up of 0 to {DRAIN_WARM_UP_S_MAX} s, found {found} s"))),
    }
}

fn resize(scale: ScaleQuestion) -> Result<ChangeQuestion, QuestionFault> {
    match (scale.slots, scale.warm_up_s.unwrap_or_default()) {
        (1..=SLOTS_MAX, 0..=RESIZE_WARM_UP_S_MAX) => Ok(ChangeQuestion::Scale(scale)),
        (1..=SLOTS_MAX, found) => {
            Err(bad(format!("expected a warm-up of 0 to {RESIZE_WARM_UP_S_MAX} s, found {found} s")))
        }
        (found, _) => Err(bad(format!("expected 1 to {SLOTS_MAX} slots, found {found}"))),
    }
}

fn members(body: MembersBody) -> Result<ControlQuestion, QuestionFault> {
    let count = body.members.len() + body.remove.len() + body.remove_hosts.len();
    if !(1..=MEMBERS_MAX).contains(&count) {
        return Err(bad(format!("expected 1 to {MEMBERS_MAX} members and hosts, found {count}")));
    }
    let why = body.why.map(reason).transpose()?;
    let MembersBody { members, remove, remove_hosts, .. } = body;
    Ok(ControlQuestion::Members { members, remove, remove_hosts, why })
}

fn hosts(scope: &str) -> Result<HostScope, QuestionFault> {
    scope.parse().map_err(|error: ScopeError| bad(format!("hosts: {error}")))
}

fn tune_ask(asked: TuneAskBody) -> Result<ControlQuestion, QuestionFault> {
    let TuneAskBody { hosts: scope, check, profile, strategy, version } = asked;
    let plan = profile.map(PlanWish::Profile).into_iter().chain(strategy.map(PlanWish::Strategy));
    let plan = plan.chain(version.map(PlanWish::Version));
    let whats: Vec<TuneWhat> = plan.map(TuneWhat::Plan).chain(check.then_some(TuneWhat::Check)).collect();
    let [what] = &whats[..] else {
        let expected = "expected one of check, profile, strategy and version";
        return Err(bad(format!("{expected}, found {}", whats.len())));
    };
    if let TuneWhat::Plan(wish) = what
        && !wish.is_well_named()
    {
        let (kind, name) = wish.words();
        let found: String = name.chars().take(50).collect();
        let letters = match wish {
            PlanWish::Version(_) => "letters, digits and '-._+~', not with '.' or '-' first",
            PlanWish::Profile(_) | PlanWish::Strategy(_) => "small letters, digits and '-'",
        };
        return Err(bad(format!("expected a {kind} of {letters}, found {found:?}")));
    }
    Ok(ControlQuestion::TuneAsk { scope: hosts(&scope)?, what: what.clone() })
}

fn ask_id(query: &Query) -> Result<TuneAskId, QuestionFault> {
    let id = query.text("id")?.ok_or_else(|| bad("expected ?id=QUESTION"))?;
    id.parse().map_err(|error: fleet::NameError| bad(error.to_string()))
}

fn scope(body: ScopeBody) -> Result<(FreezeScope, String), QuestionFault> {
    Ok((body.scope.parse().map_err(bad)?, reason(body.why)?))
}

/// Names and values of a query, unescaped.
struct Query(Vec<(String, Vec<u8>)>);

impl Query {
    fn of(text: Option<&str>) -> Result<Query, QuestionFault> {
        let pairs = text.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        let mut all: Vec<(String, Vec<u8>)> = Vec::new();
        for pair in pairs {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if all.iter().any(|(other, _)| other == name) {
                return Err(bad(format!("the query has {name:?} twice")));
            }
            all.push((name.to_owned(), percent_decode_str(value).collect()));
        }
        Ok(Query(all))
    }

    fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| value.clone())
    }

    fn text(&self, name: &str) -> Result<Option<String>, QuestionFault> {
        let text = self.bytes(name).map(String::from_utf8).transpose();
        text.map_err(|_| bad(format!("{name}: expected UTF-8")))
    }

    /// A word that is misspelt would be a question that was not answered.
    fn all_known(&self, question: &ControlQuestion) -> Result<(), QuestionFault> {
        let known: &[&str] = match question {
            ControlQuestion::Figures(_) => &["member", "host", "cluster", "of", "since"],
            ControlQuestion::Shadows(_) => &["cluster", "within", "gate"],
            ControlQuestion::Diff { .. } => &["from", "to"],
            ControlQuestion::Why { .. } => &["key", "view"],
            ControlQuestion::TuneCheck { .. } => &["hosts"],
            ControlQuestion::TuneAsked(_) | ControlQuestion::TunePlan(_) => &["id"],
            ControlQuestion::Changes(_) => &["number"],
            _ => &[],
        };
        match self.0.iter().find(|(name, _)| !known.contains(&&**name)) {
            Some((name, _)) if known.is_empty() => Err(bad(format!("expected no query, found {name:?}"))),
            Some((name, _)) => Err(bad(format!("expected {}, found {name:?}", known.join(" or ")))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
