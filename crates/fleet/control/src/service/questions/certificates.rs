//! Questions about who somebody is: join tokens, certificates, tokens for browsers.

use admin::api::{ApiPeer, ApiRequest};
use fleet::{HostId, ZoneName};
use serde::Deserialize;

use super::fault::{QuestionFault, bad, body};
use crate::identity::join_token::JoinClaim;
use crate::identity::{FleetRole, IdentityName};

/// Bytes of a request for a certificate: one on P-256 has 400.
const CSR_LEN_MAX: usize = 8 * 1024;
/// Hosts of one certificate of a router: its address and that for clients, by name and by number.
const HOSTS_MAX: usize = 8;

/// A newcomer that shows a join token.
#[derive(Clone, Debug, PartialEq)]
pub struct JoinQuestion {
    /// The token as it was shown.
    pub token: String,
    /// Who it says it is.
    pub claim: JoinClaim,
    /// The request for a certificate (CSR in PEM).
    pub request: String,
}

/// A server or router that has no certificate yet, as the agent of its host says.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CertifyQuestion {
    /// The agent's host.
    pub host: HostId,
    /// A server or a router.
    pub role: FleetRole,
    /// Its name.
    pub id: IdentityName,
    /// Where a router is reached. Where a server is, the inventory says.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// The request for a certificate (CSR in PEM).
    pub request: String,
}

/// Nothing has to be said.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NoBody {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct JoinBody {
    token: String,
    role: FleetRole,
    zone: ZoneName,
    id: IdentityName,
    request: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RenewBody {
    request: String,
}

/// A newcomer's question.
pub(super) fn join(said: JoinBody) -> Result<JoinQuestion, QuestionFault> {
    let JoinBody { token, role, zone, id, request } = said;
    Ok(JoinQuestion { token, claim: JoinClaim { role, zone, id }, request: csr(request)? })
}

/// The request for the next certificate, and the certificate that was shown.
pub(super) fn renew(request: &ApiRequest) -> Result<(String, Option<Vec<u8>>), QuestionFault> {
    let said: RenewBody = body(request)?;
    let present = match &request.peer {
        ApiPeer::Certificate(der) => Some(der.clone()),
        ApiPeer::Local | ApiPeer::Unknown => None,
    };
    Ok((csr(said.request)?, present))
}

/// An agent's question for a server or router of its host.
pub(super) fn certify(question: CertifyQuestion) -> Result<CertifyQuestion, QuestionFault> {
    if question.hosts.len() > HOSTS_MAX {
        let found = question.hosts.len();
        return Err(bad(format!("expected {HOSTS_MAX} hosts of a router at most, found {found}")));
    }
    let request = csr(question.request)?;
    Ok(CertifyQuestion { request, ..question })
}

fn csr(text: String) -> Result<String, QuestionFault> {
    match text.len() {
        0..=CSR_LEN_MAX => Ok(text),
        found => Err(bad(format!(
            "expected a request for a certificate of {CSR_LEN_MAX} bytes at most, found {found}"
        ))),
    }
}
