//! The authority of a fleet that has none: a directory with its key, and the certificates that it signs.
//!
//! Whoever needs a certificate makes its key where it is used, and sends a request. Its names follow from who asks,
//! never from the request. A fleet with an authority of its own does without this: its certificates come from files.

mod lifetime;
mod own_file;

pub use lifetime::{AUTHORITY_LIFETIME_S, lifetime_s, renewal_due_s};
pub use own_file::{
    OwnFileError, certificate_of, has_certificate_of, keep_certificate, keep_certificate_of,
    keep_first_certificate_of,
};

use crate::identity::private_file::{PRIVATE, PUBLIC, create_directory, others_mode};
use crate::identity::{CLOCK_SKEW_S, FleetIdentity, FleetName, FleetRole, IdentityName};
use fleet::NameError;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use tls::{
    CertificateKey, CertificateRequest, CertificateRequestError, IssuedFor, SigningAuthority, TlsFileError,
    Validity,
};

/// The file with the authority's certificate, which everyone is to trust.
pub const AUTHORITY_FILE: &str = "authority.pem";

/// The file with the authority's key.
pub const AUTHORITY_KEY_FILE: &str = "authority-key.pem";

/// The file with the first operator's certificate and key.
pub const OPERATOR_FILE: &str = "operator.pem";

/// Host names and addresses of one certificate: a host with several networks, each with a name and two addresses.
pub const HOSTS_MAX: usize = 16;

/// The longest host name (RFC 1035, 2.3.4).
const HOST_LEN_MAX: usize = 253;

/// An authority, ready to sign.
pub struct Authority {
    fleet: FleetName,
    signing: SigningAuthority,
}

/// A certificate that was signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedCertificate {
    /// The certificate in PEM.
    pub pem: String,
    /// When its owner asks for the next one.
    pub renewal_due_s: u64,
    /// The last second at which it is valid.
    pub not_after_s: u64,
}

/// The reason why there is no authority or no certificate.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// The directory is not empty.
    #[error("make an authority in {path}: there are files in it already, and nothing is overwritten", path = .path.display())]
    Exists {
        /// The directory.
        path: PathBuf,
    },
    /// The directory cannot be made.
    #[error("make an authority in {path}", path = .path.display())]
    Make {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file cannot be used.
    #[error(transparent)]
    File(#[from] TlsFileError),
    /// Others may read the key.
    #[error("use {path}: others than its owner may use it; `chmod 600` it, and if others had access, make another authority", path = .path.display())]
    PublicKey {
        /// The file.
        path: PathBuf,
    },
    /// The certificate is that of no fleet.
    #[error("use {path}: its common name is no fleet's", path = .path.display())]
    NoFleet {
        /// The file.
        path: PathBuf,
        /// Why.
        source: NameError,
    },
    /// The identity is of another fleet.
    #[error("sign a certificate of the fleet {found}: this is the authority of {expected}")]
    OtherFleet {
        /// That fleet.
        found: FleetName,
        /// This fleet.
        expected: FleetName,
    },
    /// The authority has expired.
    #[error("sign a certificate: the authority has expired; make another one")]
    Expired,
    /// The request cannot be used.
    #[error(transparent)]
    Request(#[from] CertificateRequestError),
    /// A server without a name, or a client with one.
    #[error("sign a certificate of the role {role} with {found} host names: expected {expected}")]
    HostCount {
        /// The role.
        role: FleetRole,
        /// How many there are.
        found: usize,
        /// How many there may be.
        expected: &'static str,
    },
    /// A host name cannot be one.
    #[error(
        "sign a certificate for the host {found:?}: expected a host name without a wildcard, or an address"
    )]
    Host {
        /// Its beginning.
        found: String,
    },
    /// The certificate cannot be made.
    #[error("sign a certificate")]
    Sign(#[source] io::Error),
}

impl Authority {
    /// Makes the authority of a fleet in a directory of its own, with the certificate of a first operator.
    ///
    /// # Errors
    /// If there are files in the directory, or it cannot be written. Then nothing is left of it.
    pub fn create(
        directory: &Path,
        fleet: FleetName,
        operator: IdentityName,
        now_s: u64,
    ) -> Result<Authority, AuthorityError> {
        let validity = Validity {
            not_before_s: now_s.saturating_sub(CLOCK_SKEW_S),
            not_after_s: now_s + AUTHORITY_LIFETIME_S,
        };
        let make = |source| AuthorityError::Make { path: directory.to_owned(), source };
        let signing = SigningAuthority::new(fleet.as_str(), validity).map_err(make)?;
        let authority = Authority { fleet: fleet.clone(), signing };
        let operator = FleetIdentity { fleet, role: FleetRole::Operator, id: operator };
        let key = CertificateKey::new().map_err(make)?;
        let signed = authority.sign(&key.request().map_err(make)?, &operator, &[], now_s)?;
        let files = [
            (AUTHORITY_FILE, &*authority.signing.certificate_pem(), PUBLIC),
            (AUTHORITY_KEY_FILE, &*authority.signing.key_pem(), PRIVATE),
            (OPERATOR_FILE, &*own_file::content(&key, &signed.pem), PRIVATE),
        ];
        create_directory(directory, &files).map_err(|source| match source.kind() {
            io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists => {
                AuthorityError::Exists { path: directory.to_owned() }
            }
            _ => make(source),
        })?;
        Ok(authority)
    }

    /// Reads the authority in a directory.
    ///
    /// # Errors
    /// If there is none, or others than the owner of its key may use it.
    pub fn open(directory: &Path) -> Result<Authority, AuthorityError> {
        let (certificate, key) = (directory.join(AUTHORITY_FILE), directory.join(AUTHORITY_KEY_FILE));
        let unreadable = |source| TlsFileError { path: key.clone(), source };
        if others_mode(&key).map_err(unreadable)? != 0 {
            return Err(AuthorityError::PublicKey { path: key });
        }
        let signing = SigningAuthority::load(&certificate, &key)?;
        let fleet = signing.name().parse();
        let fleet = fleet.map_err(|source| AuthorityError::NoFleet { path: certificate, source })?;
        Ok(Authority { fleet, signing })
    }

    /// The fleet whose authority this is.
    pub fn fleet(&self) -> &FleetName {
        &self.fleet
    }

    /// The authority's certificate in PEM, for those who join.
    pub fn certificate_pem(&self) -> String {
        self.signing.certificate_pem()
    }

    /// Whether it has signed a certificate (DER), which may have run out.
    pub fn has_signed(&self, certificate: &[u8]) -> bool {
        self.signing.has_signed(&certificate.into())
    }

    /// Signs the key of a request (PEM) for an identity that the caller has proved by a token or a certificate, and for
    /// the hosts that the inventory gives it.
    ///
    /// # Errors
    /// If the request cannot be used, or the identity and its hosts do not suit.
    pub fn sign(
        &self,
        request: &str,
        identity: &FleetIdentity,
        hosts: &[String],
        now_s: u64,
    ) -> Result<SignedCertificate, AuthorityError> {
        if identity.fleet != self.fleet {
            let (found, expected) = (identity.fleet.clone(), self.fleet.clone());
            return Err(AuthorityError::OtherFleet { found, expected });
        }
        if now_s >= self.signing.validity().not_after_s {
            return Err(AuthorityError::Expired);
        }
        check_hosts(identity.role, hosts)?;
        let request = CertificateRequest::parse(request)?;
        let lifetime_s = lifetime_s(identity.role);
        let validity = Validity {
            not_before_s: now_s.saturating_sub(CLOCK_SKEW_S),
            not_after_s: (now_s + lifetime_s).min(self.signing.validity().not_after_s),
        };
        let owner = IssuedFor {
            common_name: identity.id.as_str(),
            uri: &identity.to_string(),
            hosts,
            serves: identity.role.serves(),
            validity,
        };
        let pem = self.signing.sign(&request, &owner).map_err(AuthorityError::Sign)?;
        let renewal_due_s = renewal_due_s(now_s, validity.not_after_s, identity);
        Ok(SignedCertificate { pem, renewal_due_s, not_after_s: validity.not_after_s })
    }
}

fn check_hosts(role: FleetRole, hosts: &[String]) -> Result<(), AuthorityError> {
    let expected = match (role.serves(), hosts.len()) {
        (true, 1..=HOSTS_MAX) | (false, 0) => None,
        (true, _) => Some("1 to 16, for those that connect to it"),
        (false, _) => Some("none, because nobody connects to it"),
    };
    if let Some(expected) = expected {
        return Err(AuthorityError::HostCount { role, found: hosts.len(), expected });
    }
    match hosts.iter().find(|host| !is_host(host)) {
        Some(host) => Err(AuthorityError::Host { found: host.chars().take(HOST_LEN_MAX).collect() }),
        None => Ok(()),
    }
}

/// Whether a text is an address or a host name (RFC 1123, 2.1). A wildcard would let one server stand for all.
fn is_host(text: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    // A name of digits is an address that is written wrongly.
    let ends_in_letters =
        text.rsplit('.').next().is_some_and(|last| last.bytes().any(|byte| !byte.is_ascii_digit()));
    text.parse::<IpAddr>().is_ok()
        || text.len() <= HOST_LEN_MAX && ends_in_letters && text.split('.').all(is_label)
}

#[cfg(test)]
mod tests;
