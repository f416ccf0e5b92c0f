//! Rights of those who ask a controller: between the connection and the question.

use admin::api::ApiPeer;
use os::clock::unix_s;

use crate::identity::{FleetIdentity, FleetName, FleetRole, IdentityError};
use crate::service::authorise::{Caller, ControlVerb, Denied, Permission, authorise};
use crate::service::questions::changes::ChangeSteer;
use crate::service::questions::{ChangeQuestion, ControlQuestion, JOIN};

/// The name in the audit log of whoever may open the controller's socket file.
const OWNER: &str = "socket-owner";

/// Someone that asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requester {
    /// A process that may open the controller's socket file. It may whatever an operator or this host's agent may.
    Owner(FleetIdentity),
    /// The owner of a certificate of this fleet.
    Certified(FleetIdentity),
    /// A peer without a certificate: a newcomer that shows a join token.
    Anonymous,
}

impl Requester {
    /// Who is at the other end of a connection.
    ///
    /// # Errors
    /// If the certificate is no identity of this fleet.
    pub fn of(peer: &ApiPeer, fleet: &FleetName, now_s: u64) -> Result<Requester, IdentityError> {
        match peer {
            ApiPeer::Local => Ok(Requester::Owner(owner(fleet))),
            ApiPeer::Certificate(der) => {
                FleetIdentity::of_certificate(der, fleet, now_s).map(Requester::Certified)
            }
            ApiPeer::Unknown => Ok(Requester::Anonymous),
        }
    }

    /// The identity for the audit log.
    pub fn identity(&self) -> Option<&FleetIdentity> {
        match self {
            Requester::Owner(identity) | Requester::Certified(identity) => Some(identity),
            Requester::Anonymous => None,
        }
    }

    /// Whether any of these verbs is allowed, about whatever it is.
    ///
    /// # Errors
    /// Why the first one is not.
    pub fn may_use_any(&self, verbs: &[ControlVerb]) -> Result<(), Denied> {
        let (caller, role) = match self {
            Requester::Owner(_) => return Ok(()),
            Requester::Certified(identity) => (Caller::Certified(identity), Some(identity.role)),
            Requester::Anonymous => (Caller::Anonymous, None),
        };
        match verbs.first() {
            Some(first) if verbs.iter().all(|verb| verb.permission(role) == Permission::Never) => {
                authorise(caller, *first, None)
            }
            _ => Ok(()),
        }
    }

    /// Whether this question is allowed.
    ///
    /// # Errors
    /// Why it is not.
    pub fn may_ask(&self, question: &ControlQuestion, fleet: &FleetName) -> Result<(), Denied> {
        let caller = match self {
            Requester::Owner(_) => return Ok(()),
            Requester::Certified(identity) => Caller::Certified(identity),
            Requester::Anonymous => Caller::Anonymous,
        };
        let about = match question {
            ControlQuestion::Turn(report) => Some(agent_of(fleet, report.host.as_str())),
            ControlQuestion::Certify(question) => Some(agent_of(fleet, question.host.as_str())),
            ControlQuestion::Liveness(report) => Some(controller_of(fleet, report.controller.as_str())),
            ControlQuestion::Renew { .. } => self.identity().cloned(),
            _ => None,
        };
        let verb = verb_of(question);
        authorise(caller, verb, about.as_ref())?;
        // A controller speaks for itself: otherwise one of them could speak for all.
        match (verb, self.identity()) {
            (ControlVerb::Liveness, Some(caller)) if about.as_ref() != Some(caller) => {
                Err(Denied::Other { caller: caller.clone(), verb })
            }
            _ => Ok(()),
        }
    }
}

/// Whether the owner of a certificate of the fleet (DER) may ask something of each of these paths.
pub fn may_read(certificate: &[u8], fleet: &FleetName, paths: &[&str]) -> bool {
    let requester = Requester::of(&ApiPeer::Certificate(certificate.to_vec()), fleet, unix_s());
    requester.is_ok_and(|one| paths.iter().all(|path| one.may_use_any(verbs_of(path)).is_ok()))
}

/// The verbs that questions of a path may be; none of a path that there is not.
pub(crate) fn verbs_of(path: &str) -> &'static [ControlVerb] {
    use ControlVerb as V;
    match path {
        "/v1/status" | "/v1/summary" | "/v1/figures" | "/v1/shadows" => &[V::Status],
        "/v1/history" | "/v1/diff" => &[V::History],
        "/v1/why" => &[V::Why],
        "/v1/policy" => &[V::PolicyRead],
        "/v1/plan" => &[V::Plan],
        "/v1/apply" => &[V::Apply, V::PolicyWrite, V::Rollback, V::Replace, V::Drain, V::Scale],
        "/v1/members" => &[V::Plan, V::Apply],
        "/v1/freeze" => &[V::Freeze],
        "/v1/thaw" => &[V::Thaw],
        "/v1/rollout" => &[V::Rollout],
        "/v1/turn" => &[V::Turn],
        "/v1/liveness" => &[V::Liveness],
        "/v1/token" => &[V::TokenIssue],
        "/v1/console-token" => &[V::ConsoleToken],
        JOIN => &[V::Join],
        "/v1/renew" => &[V::Renew],
        "/v1/certify" => &[V::Certify],
        "/v1/tune/check" | "/v1/tune/plan" => &[V::TuneRead],
        "/v1/tune/apply" => &[V::TuneRead, V::ChangeApply],
        "/v1/changes" => &[V::ChangeRead, V::ChangeHalt, V::ChangeResume, V::ChangeUndo],
        "/v1/tune/ask" => &[V::TuneRead, V::TuneAsk],
        _ => &[],
    }
}

/// The verb of a question.
pub(crate) fn verb_of(question: &ControlQuestion) -> ControlVerb {
    match question {
        ControlQuestion::Status
        | ControlQuestion::Summary
        | ControlQuestion::Figures(_)
        | ControlQuestion::Shadows(_) => ControlVerb::Status,
        ControlQuestion::History | ControlQuestion::Diff { .. } => ControlVerb::History,
        ControlQuestion::Why { .. } => ControlVerb::Why,
        ControlQuestion::Policy => ControlVerb::PolicyRead,
        ControlQuestion::Plan(_) | ControlQuestion::Members { why: None, .. } => ControlVerb::Plan,
        ControlQuestion::Apply { change, .. } => change_verb(change),
        ControlQuestion::Members { why: Some(_), .. } => ControlVerb::Apply,
        ControlQuestion::Freeze { .. } => ControlVerb::Freeze,
        ControlQuestion::Thaw { .. } => ControlVerb::Thaw,
        ControlQuestion::Rollout { .. } => ControlVerb::Rollout,
        ControlQuestion::Turn(_) => ControlVerb::Turn,
        ControlQuestion::Liveness(_) => ControlVerb::Liveness,
        ControlQuestion::IssueToken(_) => ControlVerb::TokenIssue,
        ControlQuestion::ConsoleToken => ControlVerb::ConsoleToken,
        ControlQuestion::Join(_) => ControlVerb::Join,
        ControlQuestion::Renew { .. } => ControlVerb::Renew,
        ControlQuestion::Certify(_) => ControlVerb::Certify,
        ControlQuestion::TuneCheck { .. } | ControlQuestion::TuneAsked(_) | ControlQuestion::TunePlan(_) => {
            ControlVerb::TuneRead
        }
        ControlQuestion::TuneAsk { .. } => ControlVerb::TuneAsk,
        ControlQuestion::ChangeHosts(wanted) if wanted.confirmed.is_none() => ControlVerb::TuneRead,
        ControlQuestion::ChangeHosts(_) => ControlVerb::ChangeApply,
        ControlQuestion::Changes(_) => ControlVerb::ChangeRead,
        ControlQuestion::SteerChange { act, .. } => match act {
            ChangeSteer::Halt => ControlVerb::ChangeHalt,
            ChangeSteer::Resume => ControlVerb::ChangeResume,
            ChangeSteer::Undo => ControlVerb::ChangeUndo,
        },
    }
}

fn change_verb(change: &ChangeQuestion) -> ControlVerb {
    match change {
        ChangeQuestion::Policy(Some(_)) | ChangeQuestion::PolicyAtOnce(_) | ChangeQuestion::Adopt(_) => {
            ControlVerb::PolicyWrite
        }
        ChangeQuestion::Policy(None) => ControlVerb::Apply,
        ChangeQuestion::Rollback(_) => ControlVerb::Rollback,
        ChangeQuestion::Requests(_) => ControlVerb::Replace,
        ChangeQuestion::Drain(_) | ChangeQuestion::CancelDrain(_) => ControlVerb::Drain,
        ChangeQuestion::Scale(_) | ChangeQuestion::CancelScale(_) => ControlVerb::Scale,
    }
}

fn owner(fleet: &FleetName) -> FleetIdentity {
    identity(fleet, FleetRole::Operator, OWNER)
}

fn agent_of(fleet: &FleetName, host: &str) -> FleetIdentity {
    identity(fleet, FleetRole::Agent, host)
}

/// The identity of a controller.
pub(crate) fn controller_of(fleet: &FleetName, name: &str) -> FleetIdentity {
    identity(fleet, FleetRole::Controller, name)
}

/// Hosts and identities have names of the same rules.
fn identity(fleet: &FleetName, role: FleetRole, name: &str) -> FleetIdentity {
    FleetIdentity { fleet: fleet.clone(), role, id: name.parse().expect("a host's name is an identity's") }
}
