//! Join tokens: a newcomer's proof that an operator expects it, good for one certificate.
//!
//! ```text
//! evenkeel-join.ID.SECRET      what the operator gives to the newcomer: 8 and 32 random bytes, base64url
//! JoinTokens                   what the register keeps: for each ID its terms, and a hash that the SECRET proves
//! ```
//!
//! Pure: time and random bytes are arguments. The tokens of a fleet are one value, which the caller keeps under one key of
//! the register: it reads the value, redeems a token, and puts the new value if the old one is unchanged. Only then does it
//! sign. So of two controllers that are shown the same token, one signs. A controller that stops between the two has used up
//! the token: the operator makes another one.

mod refusal;

pub use refusal::{JoinRefusal, JoinTokenError, PEER_ANSWER};

use crate::identity::{CLOCK_SKEW_S, FleetIdentity, FleetName, FleetRole, IdentityName};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use fleet::ZoneName;
use ring::hmac;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// How long a token can be used: time to copy it to a host and to start an agent there, and no more.
pub const TOKEN_LIFETIME_S: u64 = 15 * 60;

/// Tokens that are kept at a time, unused and used ones of the last quarter of an hour: a rack each minute. With 400 bytes
/// each, the value in the register has 400 kB, and etcd accepts 1.5 MB.
pub const TOKENS_MAX: usize = 1000;

const PREFIX: &str = "evenkeel-join";
const ID_LEN: usize = 8;
const SECRET_LEN: usize = 32;

/// The length of a token's text: its prefix, and 8 and 32 bytes in base64 without padding.
const TEXT_LEN: usize = PREFIX.len() + 1 + 11 + 1 + 43;

/// Random bytes for one token.
pub type TokenBytes = [u8; ID_LEN + SECRET_LEN];

/// What a token is good for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenTerms {
    /// The role of the certificate: an agent, a router or a server.
    pub role: FleetRole,
    /// The zone that the newcomer is in.
    pub zone: ZoneName,
    /// Its name, if the operator has decided it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub id: Option<IdentityName>,
}

/// What a newcomer says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinClaim {
    /// The role of the certificate that it asks for.
    pub role: FleetRole,
    /// Its zone.
    pub zone: ZoneName,
    /// Its name.
    pub id: IdentityName,
}

/// A token as text, to be given to the newcomer. It is shown once and kept nowhere.
#[derive(Clone, PartialEq, Eq)]
pub struct JoinToken {
    id: [u8; ID_LEN],
    secret: [u8; SECRET_LEN],
}

/// All tokens of a fleet that have not expired.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JoinTokens {
    fleet: FleetName,
    tokens: BTreeMap<String, TokenRecord>,
}

/// What is kept of a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenRecord {
    terms: TokenTerms,
    issued_s: u64,
    /// HMAC-SHA-256 of the terms under the secret: it proves the secret, and that the terms are as they were issued.
    proof: String,
    /// The name that it was used for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    used_by: Option<IdentityName>,
}

impl JoinToken {
    /// Reads a token that a newcomer shows.
    ///
    /// # Errors
    /// If it is none. What was found is a secret, or nearly: the error does not quote it.
    pub fn parse(text: &str) -> Result<JoinToken, JoinRefusal> {
        let bad = |problem| JoinRefusal::NoToken { problem };
        if text.len() != TEXT_LEN {
            return Err(bad("its length is another one: it was cut, or more was copied than the token"));
        }
        let mut parts = text.split('.');
        let (Some(PREFIX), Some(id), Some(secret), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(bad("it does not have the form `evenkeel-join.ID.SECRET`"));
        };
        let not_base64 = || bad("a part of it is not base64url");
        let (id, secret) = (decoded(id).ok_or_else(not_base64)?, decoded(secret).ok_or_else(not_base64)?);
        Ok(JoinToken { id, secret })
    }

    /// The text for the newcomer.
    pub fn reveal(&self) -> String {
        let [id, secret] = [&self.id[..], &self.secret].map(|bytes| URL_SAFE_NO_PAD.encode(bytes));
        format!("{PREFIX}.{id}.{secret}")
    }

    /// The part that may stand in logs.
    pub fn id(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.id)
    }
}

impl fmt::Debug for JoinToken {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        write!(formatter, "JoinToken({})", self.id())
    }
}

impl JoinTokens {
    /// No tokens.
    pub fn new(fleet: FleetName) -> JoinTokens {
        JoinTokens { fleet, tokens: BTreeMap::new() }
    }

    /// The tokens with a new one made of these random bytes, and without those that have expired.
    ///
    /// # Errors
    /// If the role gets no tokens, or there are too many.
    pub fn issued(
        &self,
        terms: TokenTerms,
        random: &TokenBytes,
        now_s: u64,
    ) -> Result<(JoinTokens, JoinToken), JoinTokenError> {
        if !joins(terms.role) {
            return Err(JoinTokenError::Role { role: terms.role });
        }
        let mut next = self.without_expired(now_s);
        if next.tokens.len() >= TOKENS_MAX {
            return Err(JoinTokenError::TooMany);
        }
        let (id, secret) = random.split_at(ID_LEN);
        let token = JoinToken {
            id: id.try_into().expect("the first part's length"),
            secret: secret.try_into().expect("the second part's length"),
        };
        let proof = hmac::sign(&key(&token), &self.proved(&token.id(), &terms, now_s));
        let proof = URL_SAFE_NO_PAD.encode(proof.as_ref());
        let record = TokenRecord { terms, issued_s: now_s, proof, used_by: None };
        match next.tokens.insert(token.id(), record) {
            None => Ok((next, token)),
            Some(_) => Err(JoinTokenError::SameBytes),
        }
    }

    /// The tokens after this one was used, and the identity that it was good for. The caller signs only after the new
    /// value has taken the place of this one.
    ///
    /// # Errors
    /// The reason for the log. The peer gets [`JoinRefusal::peer_answer`].
    pub fn redeemed(
        &self,
        token: &JoinToken,
        claim: &JoinClaim,
        now_s: u64,
    ) -> Result<(JoinTokens, FleetIdentity), JoinRefusal> {
        let id = token.id();
        let record = self.tokens.get(&id).ok_or(JoinRefusal::Unknown)?;
        // Before anything else is said about it: whoever does not know the secret learns nothing, not even in the log.
        if !self.proves(token, record) {
            return Err(JoinRefusal::WrongSecret);
        }
        if let Some(by) = &record.used_by {
            return Err(JoinRefusal::Used { by: by.clone() });
        }
        if record.has_expired(now_s) {
            return Err(JoinRefusal::Expired { age_s: now_s - record.issued_s });
        }
        if now_s + CLOCK_SKEW_S < record.issued_s {
            return Err(JoinRefusal::NotYet { ahead_s: record.issued_s - now_s });
        }
        record.terms.accept(claim)?;
        let mut next = self.without_expired(now_s);
        let used = next.tokens.get_mut(&id).expect("it has not expired");
        used.used_by = Some(claim.id.clone());
        let identity = FleetIdentity { fleet: self.fleet.clone(), role: claim.role, id: claim.id.clone() };
        Ok((next, identity))
    }

    /// How many tokens are kept, used ones as well.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Whether none is kept.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    fn without_expired(&self, now_s: u64) -> JoinTokens {
        let mut next = self.clone();
        next.tokens.retain(|_, record| !record.has_expired(now_s));
        next
    }

    /// What a token's proof is about: a record with other terms, a later time or another fleet's is not proved by it.
    fn proved(&self, id: &str, terms: &TokenTerms, issued_s: u64) -> Vec<u8> {
        // Names have no spaces, and a name is not empty.
        let name = terms.id.as_ref().map_or("", IdentityName::as_str);
        format!("join {} {id} {} {} {issued_s} {name}", self.fleet, terms.role, terms.zone).into_bytes()
    }

    /// Compares in a time that does not depend on where the two differ.
    fn proves(&self, token: &JoinToken, record: &TokenRecord) -> bool {
        let Ok(proof) = URL_SAFE_NO_PAD.decode(&record.proof) else { return false };
        hmac::verify(&key(token), &self.proved(&token.id(), &record.terms, record.issued_s), &proof).is_ok()
    }
}

impl TokenRecord {
    fn has_expired(&self, now_s: u64) -> bool {
        now_s >= self.issued_s + TOKEN_LIFETIME_S
    }
}

impl TokenTerms {
    fn accept(&self, claim: &JoinClaim) -> Result<(), JoinRefusal> {
        let other = |what, claimed: &str, expected: &str| {
            let (claimed, expected) = (claimed.to_owned(), expected.to_owned());
            Err(JoinRefusal::Other { what, claimed, expected })
        };
        if claim.role != self.role {
            return other("role", claim.role.word(), self.role.word());
        }
        if claim.zone != self.zone {
            return other("zone", claim.zone.as_str(), self.zone.as_str());
        }
        match &self.id {
            Some(id) if *id != claim.id => other("name", claim.id.as_str(), id.as_str()),
            _ => Ok(()),
        }
    }
}

/// Whether there are tokens for a role. The others' certificates are made by a person at the authority: a stolen token must
/// not become an operator or a controller.
fn joins(role: FleetRole) -> bool {
    matches!(role, FleetRole::Agent | FleetRole::Router | FleetRole::Server)
}

fn key(token: &JoinToken) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, &token.secret)
}

fn decoded<const LEN: usize>(text: &str) -> Option<[u8; LEN]> {
    URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests;
