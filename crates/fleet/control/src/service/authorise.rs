//! Authorisation: one table of roles and verbs of the control plane.

use crate::identity::{FleetIdentity, FleetRole};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What a caller asks of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ControlVerb {
    /// Read the fleet's state.
    Status,
    /// Have a plan made, which changes nothing.
    Plan,
    /// Put a plan into force.
    Apply,
    /// Put an earlier generation's content into force as a new generation.
    Rollback,
    /// Stop changes of a scope.
    Freeze,
    /// Allow them again.
    Thaw,
    /// Halt a rollout, let it go on, or give it up.
    Rollout,
    /// Move a member's keys away.
    Drain,
    /// Give a cluster another number of slots.
    Scale,
    /// Put another member into a slot.
    Replace,
    /// Read earlier generations.
    History,
    /// Ask where a key goes.
    Why,
    /// Take a turn: heartbeat, acknowledgement and fetch of an agent.
    Turn,
    /// Read the policy.
    PolicyRead,
    /// Change the policy.
    PolicyWrite,
    /// Get a first certificate for a join token.
    Join,
    /// Get the next certificate for the same identity.
    Renew,
    /// Get a first certificate of a server or router of the own host.
    Certify,
    /// Make a join token.
    TokenIssue,
    /// Make a token with which one browser reads the console.
    ConsoleToken,
    /// Read the audit log.
    AuditRead,
    /// Take the torn end off the audit log.
    AuditRepair,
    /// Read a controller's metrics.
    Metrics,
    /// Tell what a controller sees of the fleet.
    Liveness,
    /// Read what the tuner finds and would change on hosts.
    TuneRead,
    /// Have hosts look again, or plan, which changes nothing.
    TuneAsk,
    /// Read changes of hosts.
    ChangeRead,
    /// Begin a change of hosts.
    ChangeApply,
    /// Let no further host get a change.
    ChangeHalt,
    /// Let a change of hosts go on.
    ChangeResume,
    /// Take a change of hosts back.
    ChangeUndo,
}

/// Someone that asks.
#[derive(Clone, Copy, Debug)]
pub enum Caller<'a> {
    /// A peer without a certificate.
    Anonymous,
    /// The owner of a verified certificate of this fleet.
    Certified(&'a FleetIdentity),
}

/// Whether a role may use a verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// No.
    Never,
    /// About itself alone: the identity that the request names is that of the certificate.
    Own,
    /// Yes.
    Always,
}

/// The reason why a caller may not do something.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// Without a certificate.
    #[error("{verb} without a client certificate")]
    Anonymous {
        /// What was asked for.
        verb: ControlVerb,
    },
    /// The role may not.
    #[error("{verb} as {caller}: only {allowed} may")]
    Role {
        /// Who asked.
        caller: FleetIdentity,
        /// What was asked for.
        verb: ControlVerb,
        /// The roles that may.
        allowed: String,
    },
    /// The request is about another one.
    #[error("{verb} as {caller} for another than itself")]
    Other {
        /// Who asked.
        caller: FleetIdentity,
        /// What was asked for.
        verb: ControlVerb,
    },
}

impl ControlVerb {
    /// All verbs, in the order of the documentation.
    pub const ALL: [ControlVerb; 31] = [
        ControlVerb::Status,
        ControlVerb::Plan,
        ControlVerb::Apply,
        ControlVerb::Rollback,
        ControlVerb::Freeze,
        ControlVerb::Thaw,
        ControlVerb::Rollout,
        ControlVerb::Drain,
        ControlVerb::Scale,
        ControlVerb::Replace,
        ControlVerb::History,
        ControlVerb::Why,
        ControlVerb::Turn,
        ControlVerb::PolicyRead,
        ControlVerb::PolicyWrite,
        ControlVerb::Join,
        ControlVerb::Renew,
        ControlVerb::Certify,
        ControlVerb::TokenIssue,
        ControlVerb::ConsoleToken,
        ControlVerb::AuditRead,
        ControlVerb::AuditRepair,
        ControlVerb::Metrics,
        ControlVerb::Liveness,
        ControlVerb::TuneRead,
        ControlVerb::TuneAsk,
        ControlVerb::ChangeRead,
        ControlVerb::ChangeApply,
        ControlVerb::ChangeHalt,
        ControlVerb::ChangeResume,
        ControlVerb::ChangeUndo,
    ];

    /// The verb in the audit log and in messages.
    pub fn word(self) -> &'static str {
        match self {
            ControlVerb::Status => "status",
            ControlVerb::Plan => "plan",
            ControlVerb::Apply => "apply",
            ControlVerb::Rollback => "rollback",
            ControlVerb::Freeze => "freeze",
            ControlVerb::Thaw => "thaw",
            ControlVerb::Rollout => "rollout",
            ControlVerb::Drain => "drain",
            ControlVerb::Scale => "scale",
            ControlVerb::Replace => "replace",
            ControlVerb::History => "history",
            ControlVerb::Why => "why",
            ControlVerb::Turn => "turn",
            ControlVerb::PolicyRead => "policy-read",
            ControlVerb::PolicyWrite => "policy-write",
            ControlVerb::Join => "join",
            ControlVerb::Renew => "renew",
            ControlVerb::Certify => "certify",
            ControlVerb::TokenIssue => "token-issue",
            ControlVerb::ConsoleToken => "console-token",
            ControlVerb::AuditRead => "audit-read",
            ControlVerb::AuditRepair => "audit-repair",
            ControlVerb::Metrics => "metrics",
            ControlVerb::Liveness => "liveness",
            ControlVerb::TuneRead => "tune-read",
            ControlVerb::TuneAsk => "tune-ask",
            ControlVerb::ChangeRead => "change-read",
            ControlVerb::ChangeApply => "change-apply",
            ControlVerb::ChangeHalt => "change-halt",
            ControlVerb::ChangeResume => "change-resume",
            ControlVerb::ChangeUndo => "change-undo",
        }
    }

    /// Whether someone with this role may use it. `None` is a peer without a certificate.
    pub fn permission(self, role: Option<FleetRole>) -> Permission {
        use FleetRole::{Agent, Controller, Operator, Reader, Router, Server};
        let roles: &[FleetRole] = match self {
            // The join token is what a newcomer shows instead of a certificate. One that has a certificate renews it.
            ControlVerb::Join => return if role.is_none() { Permission::Always } else { Permission::Never },
            ControlVerb::Turn | ControlVerb::Certify if role == Some(Agent) => return Permission::Own,
            ControlVerb::Turn | ControlVerb::Certify => &[],
            ControlVerb::Renew => return if role.is_some() { Permission::Own } else { Permission::Never },
            ControlVerb::Liveness => &[Controller],
            ControlVerb::Status | ControlVerb::Metrics => &[Controller, Operator, Reader],
            // A plan, a key's way, the policy and earlier generations show every address and route.
            ControlVerb::Plan | ControlVerb::History | ControlVerb::Why => &[Operator, Reader],
            ControlVerb::PolicyRead => &[Controller, Operator, Reader],
            ControlVerb::AuditRead | ControlVerb::TuneRead | ControlVerb::ChangeRead => &[Operator, Reader],
            // Programs run as root on every host of a scope.
            ControlVerb::TuneAsk => &[Operator],
            // Controllers decide for themselves, and write to the register: none asks another one to act.
            ControlVerb::Apply
            | ControlVerb::Rollback
            | ControlVerb::Freeze
            | ControlVerb::Thaw
            | ControlVerb::Rollout
            | ControlVerb::Drain
            | ControlVerb::Scale
            | ControlVerb::Replace
            | ControlVerb::PolicyWrite
            | ControlVerb::TokenIssue
            // It is in the audit log, which a reader must not be able to fill. A reader has a certificate for a browser.
            | ControlVerb::ConsoleToken
            | ControlVerb::ChangeApply
            | ControlVerb::ChangeHalt
            | ControlVerb::ChangeResume
            | ControlVerb::ChangeUndo
            | ControlVerb::AuditRepair => &[Operator],
        };
        // Routers and servers ask nothing of a controller: their host's agent does.
        debug_assert!(!roles.contains(&Router) && !roles.contains(&Server));
        match role {
            Some(role) if roles.contains(&role) => Permission::Always,
            _ => Permission::Never,
        }
    }

    /// The roles that may use it, for a message.
    fn allowed(self) -> String {
        let may = |role: &FleetRole| self.permission(Some(*role)) != Permission::Never;
        let roles: Vec<_> = FleetRole::ALL.into_iter().filter(may).map(FleetRole::word).collect();
        if roles.is_empty() { "a peer without a certificate".to_owned() } else { roles.join(", ") }
    }
}

impl fmt::Display for ControlVerb {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str(self.word())
    }
}

/// Whether a caller may do what it asks for. `about` is the identity that the request names: the agent whose turn it
/// is, the owner of the certificate that is renewed.
///
/// # Errors
/// The reason, for the log and for the caller.
pub fn authorise(caller: Caller<'_>, verb: ControlVerb, about: Option<&FleetIdentity>) -> Result<(), Denied> {
    let Caller::Certified(identity) = caller else {
        return match verb.permission(None) {
            Permission::Always => Ok(()),
            Permission::Never | Permission::Own => Err(Denied::Anonymous { verb }),
        };
    };
    match verb.permission(Some(identity.role)) {
        Permission::Always => Ok(()),
        Permission::Own if about == Some(identity) => Ok(()),
        Permission::Own => Err(Denied::Other { caller: identity.clone(), verb }),
        Permission::Never => Err(Denied::Role { caller: identity.clone(), verb, allowed: verb.allowed() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written by hand: `yes`, `own` (for its own name alone) or `-`.
    const TABLE: &str = "
        verb          none  controller  agent  router  server  operator  reader
        status        -     yes         -      -       -       yes       yes
        plan          -     -           -      -       -       yes       yes
        apply         -     -           -      -       -       yes       -
        rollback      -     -           -      -       -       yes       -
        freeze        -     -           -      -       -       yes       -
        thaw          -     -           -      -       -       yes       -
        rollout       -     -           -      -       -       yes       -
        drain         -     -           -      -       -       yes       -
        scale         -     -           -      -       -       yes       -
        replace       -     -           -      -       -       yes       -
        history       -     -           -      -       -       yes       yes
        why           -     -           -      -       -       yes       yes
        turn          -     -           own    -       -       -         -
        policy-read   -     yes         -      -       -       yes       yes
        policy-write  -     -           -      -       -       yes       -
        join          yes   -           -      -       -       -         -
        renew         -     own         own    own     own     own       own
        certify       -     -           own    -       -       -         -
        token-issue   -     -           -      -       -       yes       -
        console-token -     -           -      -       -       yes       -
        audit-read    -     -           -      -       -       yes       yes
        audit-repair  -     -           -      -       -       yes       -
        metrics       -     yes         -      -       -       yes       yes
        liveness      -     yes         -      -       -       -         -
        tune-read     -     -           -      -       -       yes       yes
        tune-ask      -     -           -      -       -       yes       -
        change-read   -     -           -      -       -       yes       yes
        change-apply  -     -           -      -       -       yes       -
        change-halt   -     -           -      -       -       yes       -
        change-resume -     -           -      -       -       yes       -
        change-undo   -     -           -      -       -       yes       -
    ";

    fn identity(uri: &str) -> FleetIdentity {
        uri.parse().expect("an identity")
    }

    /// What the code answers to this role about nobody, itself and another one.
    fn cell(verb: ControlVerb, role: &str) -> &'static str {
        // The table's first column has no role: what it asks is about some agent.
        let role_of = if role == "none" { "agent" } else { role };
        let named = |name: &str| identity(&format!("evenkeel://prod/{role_of}/{name}"));
        let own = (role != "none").then(|| named("a"));
        let caller = own.as_ref().map_or(Caller::Anonymous, Caller::Certified);
        let may = |about: Option<&str>| authorise(caller, verb, about.map(named).as_ref()).is_ok();
        match (may(None), may(Some("a")), may(Some("b"))) {
            (true, true, true) => "yes",
            (false, true, false) => "own",
            (false, false, false) => "-",
            other => panic!("{verb} as {role}: {other:?}"),
        }
    }

    #[test]
    fn every_role_may_do_what_the_table_says_and_nothing_else() {
        let mut rows = TABLE.lines().map(str::split_whitespace).filter(|row| row.clone().next().is_some());
        let roles: Vec<&str> = rows.next().expect("a head").skip(1).collect();
        let words: Vec<&str> = FleetRole::ALL.iter().map(|role| role.word()).collect();
        assert_eq!(roles[1..], words);
        let mut verbs = ControlVerb::ALL.into_iter();
        for mut row in rows {
            let verb = verbs.next().expect("a verb for each row");
            assert_eq!(row.next(), Some(verb.word()));
            let cells: Vec<&str> = row.collect();
            assert_eq!(cells.len(), roles.len(), "{verb}");
            for (role, expected) in roles.iter().zip(cells) {
                assert_eq!(cell(verb, role), expected, "{verb} as {role}");
            }
        }
        assert_eq!(verbs.next(), None);
    }

    #[test]
    fn an_identity_that_differs_in_anything_is_another_one() {
        let own = identity("evenkeel://prod/agent/host-1");
        let may = |about: &str| authorise(Caller::Certified(&own), ControlVerb::Turn, Some(&identity(about)));
        assert_eq!(may("evenkeel://prod/agent/host-1"), Ok(()));
        for other in ["agent/HOST-1", "agent/host-10", "agent/host-", "agent/host-1.", "server/host-1"] {
            assert!(matches!(may(&format!("evenkeel://prod/{other}")), Err(Denied::Other { .. })), "{other}");
        }
        assert!(may("evenkeel://test/agent/host-1").is_err());
    }

    #[test]
    fn a_refusal_says_who_may() {
        let server = identity("evenkeel://prod/server/c07-1");
        let denied = |verb| authorise(Caller::Certified(&server), verb, None).expect_err("no").to_string();
        assert_eq!(
            denied(ControlVerb::PolicyRead),
            "policy-read as evenkeel://prod/server/c07-1: only controller, operator, reader may"
        );
        assert!(denied(ControlVerb::Join).ends_with("only a peer without a certificate may"));
    }
}
