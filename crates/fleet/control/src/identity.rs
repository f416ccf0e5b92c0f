//! Identities of the control plane: role and name of a peer, from the URI in its certificate.
//!
//! The URI is `evenkeel://FLEET/ROLE/ID`, and it is the only one in the certificate. Nothing in it is decoded,
//! folded or guessed: a text that could be read in two ways is refused.

pub mod authority;
pub mod join_token;
pub(crate) mod private_file;

use fleet::NameError;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;
use tls::certificate_uris;

/// The beginning of every URI of an identity.
const SCHEME: &str = "evenkeel://";

/// The longest text of an error's quotation: a URI with three names of full length.
const QUOTED_LEN_MAX: usize = 240;

/// A certificate is accepted this long before it begins: clocks of a fleet may differ by five minutes.
pub const CLOCK_SKEW_S: u64 = 5 * 60;

/// What the owner of a certificate is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FleetRole {
    /// Decides and publishes.
    Controller,
    /// Puts into force on one host what controllers publish.
    Agent,
    /// Routes requests.
    Router,
    /// Keeps items.
    Server,
    /// A person, or a program in a person's place, that changes the fleet.
    Operator,
    /// A person or program that looks at the fleet.
    Reader,
}

impl FleetRole {
    /// All roles, in the order of the documentation.
    pub const ALL: [FleetRole; 6] = [
        FleetRole::Controller,
        FleetRole::Agent,
        FleetRole::Router,
        FleetRole::Server,
        FleetRole::Operator,
        FleetRole::Reader,
    ];

    /// The role as a certificate spells it.
    pub fn word(self) -> &'static str {
        match self {
            FleetRole::Controller => "controller",
            FleetRole::Agent => "agent",
            FleetRole::Router => "router",
            FleetRole::Server => "server",
            FleetRole::Operator => "operator",
            FleetRole::Reader => "reader",
        }
    }

    /// Whether its certificate is also one of a server: of a program that others connect to.
    pub fn serves(self) -> bool {
        matches!(self, FleetRole::Controller | FleetRole::Router | FleetRole::Server)
    }
}

impl fmt::Display for FleetRole {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str(self.word())
    }
}

impl FromStr for FleetRole {
    type Err = String;

    fn from_str(text: &str) -> Result<FleetRole, String> {
        FleetRole::ALL.into_iter().find(|role| role.word() == text).ok_or_else(|| {
            let known = FleetRole::ALL.map(FleetRole::word).join(", ");
            format!("expected a role out of {known}, found {:?}", quoted(text))
        })
    }
}

/// The name of a fleet, with the rules of a host's name. Two fleets with one authority are told apart by it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FleetName(fleet::HostId);

impl FleetName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl FromStr for FleetName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<FleetName, NameError> {
        text.parse().map(FleetName)
    }
}

impl fmt::Display for FleetName {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// The name of one among those with a role, with the rules of a host's name: an agent's is mostly that of its host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct IdentityName(fleet::HostId);

impl IdentityName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl FromStr for IdentityName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<IdentityName, NameError> {
        text.parse().map(IdentityName)
    }
}

impl fmt::Display for IdentityName {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// An owner of a certificate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FleetIdentity {
    /// Its fleet.
    pub fleet: FleetName,
    /// What it is.
    pub role: FleetRole,
    /// Which one.
    pub id: IdentityName,
}

/// The reason why a certificate or a URI is no identity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// It is no certificate that can be read.
    #[error("read the peer's certificate")]
    NoCertificate,
    /// It has expired, or is not valid yet: a resumed session may outlive its certificate.
    #[error(
        "accept a certificate that is valid from {not_before_s} to {not_after_s} at {now_s} (seconds since 1970)"
    )]
    NotValid {
        /// The first second.
        not_before_s: u64,
        /// The last second.
        not_after_s: u64,
        /// The time.
        now_s: u64,
    },
    /// Some of its names cannot be read, so one of them may be another identity.
    #[error("accept a certificate with names that cannot be read, or with too many")]
    UnreadNames,
    /// There is not exactly one URI.
    #[error("accept a certificate with {found} URIs: expected one, `evenkeel://FLEET/ROLE/ID`")]
    UriCount {
        /// How many.
        found: usize,
    },
    /// The URI has another form.
    #[error("accept the URI {found:?}: expected `evenkeel://FLEET/ROLE/ID`")]
    Form {
        /// Its beginning.
        found: String,
    },
    /// A part of the URI is no name.
    #[error("accept the URI {found:?}: {problem}")]
    Part {
        /// Its beginning.
        found: String,
        /// Which part, and why.
        problem: String,
    },
    /// It is of another fleet.
    #[error("accept a certificate of the fleet {found}: this is {expected}")]
    OtherFleet {
        /// That fleet.
        found: FleetName,
        /// This fleet.
        expected: FleetName,
    },
}

impl FleetIdentity {
    /// The identity in a peer's certificate (DER), whose chain rustls has verified.
    ///
    /// # Errors
    /// If there is none, or one of another fleet.
    pub fn of_certificate(
        certificate: &[u8],
        fleet: &FleetName,
        now_s: u64,
    ) -> Result<FleetIdentity, IdentityError> {
        let found = certificate_uris(certificate).ok_or(IdentityError::NoCertificate)?;
        let (not_before_s, not_after_s) = (found.not_before_s, found.not_after_s);
        if now_s + CLOCK_SKEW_S < not_before_s || now_s > not_after_s {
            return Err(IdentityError::NotValid { not_before_s, not_after_s, now_s });
        }
        if !found.all_read {
            return Err(IdentityError::UnreadNames);
        }
        let [uri] = &found.uris[..] else {
            return Err(IdentityError::UriCount { found: found.uris.len() });
        };
        let identity: FleetIdentity = uri.parse()?;
        if identity.fleet != *fleet {
            return Err(IdentityError::OtherFleet { found: identity.fleet, expected: fleet.clone() });
        }
        Ok(identity)
    }

    /// Its name where the fleet is known: that of an operator alone, otherwise with the role before it, as in `controller/c1`.
    pub fn name(&self) -> String {
        match self.role {
            FleetRole::Operator => self.id.to_string(),
            role => format!("{role}/{}", self.id),
        }
    }

    /// The beginning of the URIs of a role, for a client that accepts only servers of this role.
    pub fn uris_of(fleet: &FleetName, role: FleetRole) -> String {
        format!("{SCHEME}{fleet}/{role}/")
    }
}

impl fmt::Display for FleetIdentity {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        write!(formatter, "{SCHEME}{}/{}/{}", self.fleet, self.role, self.id)
    }
}

impl FromStr for FleetIdentity {
    type Err = IdentityError;

    fn from_str(uri: &str) -> Result<FleetIdentity, IdentityError> {
        let form = || IdentityError::Form { found: quoted(uri) };
        let rest = uri.strip_prefix(SCHEME).ok_or_else(form)?;
        let parts: Vec<&str> = rest.splitn(4, '/').collect();
        let [fleet, role, id] = parts[..] else { return Err(form()) };
        let part = |problem: String| IdentityError::Part { found: quoted(uri), problem };
        Ok(FleetIdentity {
            fleet: fleet.parse().map_err(|error: NameError| part(error.to_string()))?,
            role: role.parse().map_err(part)?,
            id: id.parse().map_err(|error: NameError| part(error.to_string()))?,
        })
    }
}

impl Serialize for FleetIdentity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for FleetIdentity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<FleetIdentity, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// The beginning of a text of others, for an error.
fn quoted(text: &str) -> String {
    text.chars().take(QUOTED_LEN_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(uri: &str, expected: &str) {
        let found = match uri.parse::<FleetIdentity>() {
            Ok(identity) => format!("{} of {}: {}", identity.role, identity.fleet, identity.id),
            Err(error) => error.to_string(),
        };
        assert!(found.contains(expected), "{uri}: {found}");
    }

    #[test]
    fn a_uri_is_fleet_role_and_name() {
        check("evenkeel://prod/agent/host-17.eu", "agent of prod: host-17.eu");
        for role in FleetRole::ALL {
            let uri = format!("evenkeel://prod/{role}/x");
            assert_eq!(uri.parse::<FleetIdentity>().expect("an identity").to_string(), uri);
        }
    }

    #[test]
    fn a_uri_of_another_form_is_refused() {
        for uri in [
            "",
            "evenkeel:",
            "evenkeel://",
            "evenkeel://prod",
            "evenkeel://prod/agent",
            "evenkeel://prod/agent/x/y",
            "evenkeel://prod/agent/x/",
            "EVENKEEL://prod/agent/x",
            "evenkeel:/prod/agent/x",
            "spiffe://prod/agent/x",
            "https://prod/agent/x",
            " evenkeel://prod/agent/x",
        ] {
            check(uri, "expected `evenkeel://FLEET/ROLE/ID`");
        }
    }

    #[test]
    fn a_part_that_is_no_name_is_refused() {
        for uri in [
            "evenkeel:///agent/x",
            "evenkeel://prod/agent/",
            "evenkeel://prod/agent/*",
            "evenkeel://*/agent/x",
            "evenkeel://prod/agent/..",
            "evenkeel://prod/agent/%78",
            "evenkeel://pr%6fd/agent/x",
            "evenkeel://prod/agent/x?role=operator",
            "evenkeel://prod/agent/x#y",
            "evenkeel://user@prod/agent/x",
            "evenkeel://prod:443/agent/x",
            "evenkeel://prod/agent/x y",
            "evenkeel://prod/agent/x\n",
            "evenkeel://prod/agent/x\0",
            "evenkeel://prod/agent/ä",
        ] {
            check(uri, "is not 1 to 63 letters");
        }
        for role in ["", "Agent", "%61gent", "*", "admin", "agent,operator"] {
            check(&format!("evenkeel://prod/{role}/x"), "expected a role out of controller, agent");
        }
        check(&format!("evenkeel://prod/agent/{}", "x".repeat(64)), "is not 1 to 63 letters");
    }

    #[test]
    fn an_error_is_one_line_and_short_whatever_the_uri() {
        for uri in ["\n".repeat(1_000_000), format!("evenkeel://prod/{}/x", "\u{202e}".repeat(1_000_000))] {
            let error = uri.parse::<FleetIdentity>().expect_err("no identity").to_string();
            assert!(error.len() < 4096 && !error.contains(['\n', '\u{202e}']), "{error}");
        }
    }
}
