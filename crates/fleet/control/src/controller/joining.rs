//! Certificates for newcomers with a join token, and the next ones for those who have one.

use admin::api::ApiReply;
use fleet::MemberId;
use os::clock::unix_s;
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::json;
use stdx::log_level::LogLevel;

use super::Controller;
use super::replies::{document, refusal, register_away};
use crate::access::Requester;
use crate::authority::AuthorityError;
use crate::identity::{FleetIdentity, FleetRole};
use crate::join_token::{JoinToken, JoinTokens, TokenBytes, TokenTerms};
use crate::questions::JoinQuestion;

impl Controller {
    /// Makes a join token, which is shown once.
    pub(super) fn issue_token(&mut self, terms: &TokenTerms) -> ApiReply {
        if self.authority.is_none() {
            return no_authority();
        }
        let fleet = self.settings.fleet.clone();
        let mut random: TokenBytes = [0; _];
        if SystemRandom::new().fill(&mut random).is_err() {
            return refusal(500, "the system gives no random numbers");
        }
        let (tokens, revision) = match self.register.join_tokens() {
            Ok((tokens, revision)) => (tokens.unwrap_or_else(|| JoinTokens::new(fleet)), revision),
            Err(error) => return register_away(&error),
        };
        let (next, token) = match tokens.issued(terms.clone(), &random, unix_s()) {
            Ok(issued) => issued,
            Err(error) => return refusal(422, &error.to_string()),
        };
        match self.register.set_join_tokens(&next, revision) {
            Ok(true) => {
                let text = token.reveal();
                document(format!("{text}\n"), json!({"token": text, "id": token.id()}))
            }
            Ok(false) => self.overtaken(),
            Err(error) => register_away(&error),
        }
    }

    /// Signs a newcomer's first certificate. The token is used up before: of two controllers, one signs.
    pub(super) fn join(&mut self, question: &JoinQuestion) -> ApiReply {
        let Some(authority) = &self.authority else { return no_authority() };
        let now_s = unix_s();
        let used = JoinToken::parse(&question.token).and_then(|token| {
            let (tokens, revision) = match self.register.join_tokens() {
                Ok((tokens, revision)) => (tokens, revision),
                Err(error) => return Ok(Err(register_away(&error))),
            };
            let Some(tokens) = tokens else { return Err(crate::join_token::JoinRefusal::Unknown) };
            let (next, identity) = tokens.redeemed(&token, &question.claim, now_s)?;
            Ok(Ok((next, identity, revision)))
        });
        let (next, identity, revision) = match used {
            Ok(Ok(used)) => used,
            Ok(Err(reply)) => return reply,
            Err(why) => {
                self.log.say(LogLevel::Warning, &format!("a newcomer is refused: {why}"));
                return refusal(403, &why.peer_answer());
            }
        };
        let hosts = match self.hosts_of(&identity) {
            Ok(hosts) => hosts,
            Err(reply) => return reply,
        };
        // A request that cannot be signed does not use the token up: so it is signed first, and kept back.
        let signed = match authority.sign(&question.request, &identity, &hosts, now_s) {
            Ok(signed) => signed,
            Err(error) => return refused(&error),
        };
        match self.register.set_join_tokens(&next, revision) {
            Ok(true) => {
                self.log.say(LogLevel::Info, &format!("{identity} has joined"));
                let authority = authority.certificate_pem();
                let json = json!({"certificate": signed.pem, "authority": authority, "identity": identity});
                document(format!("{identity} has joined\n"), json)
            }
            // Another newcomer may have shown the same token, or another one.
            Ok(false) => self.overtaken(),
            Err(error) => register_away(&error),
        }
    }

    /// Signs the next certificate of whoever shows the present one.
    pub(super) fn renew(&mut self, requester: &Requester, request: &str) -> ApiReply {
        let Some(authority) = &self.authority else { return no_authority() };
        let Requester::Certified(identity) = requester else {
            return refusal(422, "there is nothing to renew: no certificate was shown");
        };
        let hosts = match self.hosts_of(identity) {
            Ok(hosts) => hosts,
            Err(reply) => return reply,
        };
        match authority.sign(request, identity, &hosts, unix_s()) {
            Ok(signed) => {
                let json = json!({"certificate": signed.pem, "renewal_due_s": signed.renewal_due_s});
                document(format!("{identity} has another certificate\n"), json)
            }
            Err(error) => refused(&error),
        }
    }

    /// Where an identity is reached: by the inventory, never by what it says.
    fn hosts_of(&self, identity: &FleetIdentity) -> Result<Vec<String>, ApiReply> {
        match identity.role {
            FleetRole::Agent | FleetRole::Operator | FleetRole::Reader => Ok(Vec::new()),
            FleetRole::Server => {
                let id: Option<MemberId> = identity.id.as_str().parse().ok();
                let member = id.and_then(|id| self.register.view().inventory().get(&id));
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
