//! Certificates: those that a controller with an authority signs for newcomers and for members of the fleet, and its own; tokens for browsers,
//! which have none.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use admin::api::ApiReply;
use fleet::{Inventory, MemberId};
use os::clock::unix_s;
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::json;
use stdx::log_level::LogLevel;
use stdx::words::counted;
use tls::certificate_uris;

use super::console::{ConsoleLinks, console_link};
use super::replies::{document, refusal, register_away};
use crate::controller::log::ControllerLog;
use crate::controller::register_mirror::RegisterMirror;
use crate::identity::authority::{Authority, AuthorityError};
use crate::identity::join_token::{JoinRefusal, JoinToken, JoinTokens, TokenBytes, TokenTerms};
use crate::identity::{FleetIdentity, FleetName, FleetRole};
use crate::service::access::Requester;
use crate::service::questions::JoinQuestion;

const DAY_S: i64 = 86_400;
/// A certificate of 30 days that is renewed in time has more than eight left.
const CERTIFICATE_LEFT_S: i64 = 8 * DAY_S;

/// An authority, if the controller has one, the end of its own certificate, and addresses of its console with tokens.
#[derive(Default)]
pub(crate) struct Signing {
    authority: Option<Authority>,
    /// The last second of its own certificate's life.
    certificate_end_s: Option<Arc<AtomicU64>>,
    console: Option<ConsoleLinks>,
}

/// What becomes of a question about join tokens.
pub(crate) enum JoinOutcome {
    Replied(ApiReply),
    /// Another controller has written tokens at the same moment.
    Overtaken,
}

impl Signing {
    /// Signs with this authority from now on.
    pub(crate) fn sign_with(&mut self, authority: Authority) {
        self.authority = Some(authority);
    }

    /// Shows this end of the controller's certificate from now on; 0 while it is not known.
    pub(crate) fn show_end(&mut self, end_s: Option<Arc<AtomicU64>>) {
        self.certificate_end_s = end_s;
    }

    /// Gives browsers these addresses from now on.
    pub(crate) fn show_console(&mut self, links: Option<ConsoleLinks>) {
        self.console = links;
    }

    /// An address of the console for one browser.
    pub(crate) fn console_link(&self) -> ApiReply {
        console_link(self.console.as_ref())
    }

    /// The last second of this controller's certificate, if it has one.
    pub(crate) fn certificate_end_s(&self) -> Option<u64> {
        let end_s = self.certificate_end_s.as_ref()?.load(Ordering::Relaxed);
        Some(end_s).filter(|end_s| *end_s > 0)
    }

    /// Makes a join token, which is shown once.
    pub(crate) fn issue_token(
        &self,
        terms: &TokenTerms,
        fleet: &FleetName,
        register: &RegisterMirror,
    ) -> JoinOutcome {
        if self.authority.is_none() {
            // Another controller may have it: the question was sent to the wrong one.
            return JoinOutcome::Replied(ApiReply { status: 421, ..no_authority() });
        }
        let mut random: TokenBytes = [0; _];
        if SystemRandom::new().fill(&mut random).is_err() {
            return JoinOutcome::Replied(refusal(500, "the system gives no random numbers"));
        }
        let (tokens, revision) = match register.join_tokens() {
            Ok((tokens, revision)) => (tokens.unwrap_or_else(|| JoinTokens::new(fleet.clone())), revision),
            Err(error) => return JoinOutcome::Replied(register_away(&error)),
        };
        let (next, token) = match tokens.issued(terms.clone(), &random, unix_s()) {
            Ok(issued) => issued,
            Err(error) => return JoinOutcome::Replied(refusal(422, &error.to_string())),
        };
        match register.set_join_tokens(&next, revision) {
            Ok(true) => {
                let text = token.reveal();
                let json = json!({"token": text, "id": token.id()});
                JoinOutcome::Replied(document(format!("{text}\n"), json))
            }
            Ok(false) => JoinOutcome::Overtaken,
            Err(error) => JoinOutcome::Replied(register_away(&error)),
        }
    }

    /// Signs a newcomer's first certificate. The token is used up before: of two controllers, one signs.
    pub(crate) fn join(
        &self,
        question: &JoinQuestion,
        register: &RegisterMirror,
        log: &ControllerLog,
    ) -> JoinOutcome {
        let Some(authority) = &self.authority else { return JoinOutcome::Replied(no_authority()) };
        let now_s = unix_s();
        let used = JoinToken::parse(&question.token).and_then(|token| {
            let (tokens, revision) = match register.join_tokens() {
                Ok((tokens, revision)) => (tokens, revision),
                Err(error) => return Ok(Err(register_away(&error))),
            };
            let Some(tokens) = tokens else { return Err(JoinRefusal::Unknown) };
            let (next, identity) = tokens.redeemed(&token, &question.claim, now_s)?;
            Ok(Ok((next, identity, revision)))
        });
        let (next, identity, revision) = match used {
            Ok(Ok(used)) => used,
            Ok(Err(reply)) => return JoinOutcome::Replied(reply),
            Err(why) => {
                log.say(LogLevel::Warning, &format!("a newcomer is refused: {why}"));
                return JoinOutcome::Replied(refusal(403, &why.peer_answer()));
            }
        };
        let hosts = match hosts_of(&identity, register.view().inventory()) {
            Ok(hosts) => hosts,
            Err(reply) => return JoinOutcome::Replied(reply),
        };
        // A request that cannot be signed does not use the token up: so it is signed first, and kept back.
        let signed = match authority.sign(&question.request, &identity, &hosts, now_s) {
            Ok(signed) => signed,
            Err(error) => return JoinOutcome::Replied(refused(&error)),
        };
        match register.set_join_tokens(&next, revision) {
            Ok(true) => {
                log.say(LogLevel::Info, &format!("{identity} has joined"));
                let authority = authority.certificate_pem();
                let json = json!({"certificate": signed.pem, "authority": authority, "identity": identity});
                JoinOutcome::Replied(document(format!("{identity} has joined\n"), json))
            }
            // Another newcomer may have shown the same token, or another one.
            Ok(false) => JoinOutcome::Overtaken,
            Err(error) => JoinOutcome::Replied(register_away(&error)),
        }
    }

    /// Signs a certificate of an identity that is reached at these hosts.
    pub(crate) fn certify(&self, identity: &FleetIdentity, hosts: &[String], request: &str) -> ApiReply {
        let Some(authority) = &self.authority else { return no_authority() };
        match authority.sign(request, identity, hosts, unix_s()) {
            Ok(signed) => {
                let json = json!({"certificate": signed.pem, "renewal_due_s": signed.renewal_due_s});
                document(format!("{identity} has a certificate\n"), json)
            }
            Err(error) => refused(&error),
        }
    }

    /// Signs the next certificate of whoever shows the present one.
    pub(crate) fn renew(
        &self,
        requester: &Requester,
        request: &str,
        present: Option<&[u8]>,
        inventory: &Inventory,
    ) -> ApiReply {
        let Some(authority) = &self.authority else { return no_authority() };
        let Requester::Certified(identity) = requester else {
            return refusal(422, "there is nothing to renew: no certificate was shown");
        };
        let hosts = match (identity.role, present) {
            (FleetRole::Router, Some(present)) => hosts_of_router(authority, present),
            _ => hosts_of(identity, inventory),
        };
        let hosts = match hosts {
            Ok(hosts) => hosts,
            Err(reply) => return reply,
        };
        self.certify(identity, &hosts, request)
    }
}

/// Where an identity is reached: by the inventory, never by what it says.
fn hosts_of(identity: &FleetIdentity, inventory: &Inventory) -> Result<Vec<String>, ApiReply> {
    match identity.role {
        FleetRole::Agent | FleetRole::Operator | FleetRole::Reader => Ok(Vec::new()),
        FleetRole::Server => {
            let id: Option<MemberId> = identity.id.as_str().parse().ok();
            let member = id.and_then(|id| inventory.get(&id));
            let address = member.and_then(|member| member.address.rsplit_once(':'));
            let host = address.map(|(host, _)| host.trim_start_matches('[').trim_end_matches(']'));
            host.map(|host| vec![host.to_owned()]).ok_or_else(|| {
                refusal(422, &format!("{} is no member of the inventory with an address", identity.id))
            })
        }
        FleetRole::Controller | FleetRole::Router => Err(refusal(
            422,
            &format!(
                "where a {} is reached is not known here\n  hint: `control certificate` makes its certificate where the authority's key is",
                identity.role
            ),
        )),
    }
}

/// Where a router is reached: as its present certificate says, if that is of this authority. Who trusts another one may not trust this
/// one, and the other one's hosts are not believed.
fn hosts_of_router(authority: &Authority, present: &[u8]) -> Result<Vec<String>, ApiReply> {
    if !authority.has_signed(present) {
        return Err(refusal(
            422,
            "the hosts of a router's certificate are taken over only if this controller's authority has signed it, which it has not",
        ));
    }
    let found = certificate_uris(present).filter(|found| found.all_read);
    found
        .map(|found| found.hosts)
        .ok_or_else(|| refusal(422, "the hosts of the present certificate cannot be read"))
}

fn no_authority() -> ApiReply {
    refusal(
        422,
        "this controller has no authority, so it signs nothing\n  hint: start one with --authority DIR",
    )
}

fn refused(error: &AuthorityError) -> ApiReply {
    refusal(422, &error.to_string())
}

/// What a person reads about a certificate that is about to run out. One that is renewed has more time left.
pub(crate) fn certificate_words(end_s: u64, now_s: i64) -> Option<String> {
    let left_s = end_s.cast_signed().saturating_sub(now_s);
    match left_s {
        ..0 => Some("this controller's certificate has run out: others refuse it".to_owned()),
        0..CERTIFICATE_LEFT_S => {
            let left = counted((left_s / DAY_S + 1).unsigned_abs() as usize, "day");
            Some(format!("this controller's certificate runs out within {left}"))
        }
        _ => None,
    }
}
