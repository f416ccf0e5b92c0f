//! Joining a fleet: a token for a first certificate. The key is made here and stays here.

use std::time::Duration;

use control::authority::keep_certificate;
use control::identity::{FleetIdentity, FleetRole};
use control::{ControlAnswer, ControlClient, ControlPlace};
use os::clock::unix_s;
use serde_json::{Value, json};
use tls::{CertificateKey, ClientSettings, ClientTls, NameCheck, authorities};

use super::settings::AgentFile;
use crate::control::{Credentials, read_file};
use crate::failure::Failure;

/// Time for an answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);
/// Longest file with a token.
const TOKEN_LEN_MAX: u64 = 1024;

/// Shows the token to the controllers, one after the other, and keeps the certificate.
pub(super) fn join(token: &str, file: &AgentFile, credentials: &Credentials) -> Result<(), Failure> {
    let token = match token.strip_prefix('@') {
        Some(path) => read_file(path.as_ref(), TOKEN_LEN_MAX)?.trim().to_owned(),
        None => token.to_owned(),
    };
    let (Some(path), Some(trusted)) = (&credentials.tls_cert, &credentials.tls_ca) else {
        return Err(Failure::usage("--join: expected --tls-ca FILE and --tls-cert FILE", None));
    };
    authorities(trusted).map_err(Failure::unreadable)?;
    // The fleet's name is not known yet; whoever the authority of the fleet calls a controller is one.
    let settings = ClientSettings {
        authorities: Some(trusted.clone()),
        names: NameCheck::UriUnder("evenkeel://".to_owned()),
        ..ClientSettings::default()
    };
    let (tls, _) = ClientTls::load(settings).map_err(Failure::unreadable)?;
    let key = CertificateKey::new().map_err(|error| Failure::system("make a key", error))?;
    let request = key.request().map_err(|error| Failure::system("make a request", error))?;
    let body = json!({
        "token": token, "role": FleetRole::Agent, "zone": file.zone, "id": file.host, "request": request,
    });
    let answer = ask(&file.controllers, &tls, &body)?;
    if !answer.is_ok() {
        return Err(Failure::other(anyhow::anyhow!("join: {}", answer.error())));
    }
    let text = |name: &str| answer.json.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let identity: FleetIdentity = text("identity").parse().map_err(Failure::other)?;
    keep_certificate(path, &key, &text("certificate"), &identity, unix_s()).map_err(Failure::other)
}

/// The first answer of a controller that has one. A controller that may have used the token up is the last one asked.
fn ask(places: &[ControlPlace], tls: &ClientTls, body: &Value) -> Result<ControlAnswer, Failure> {
    let mut last = None;
    for place in places {
        let client = ControlClient::new(place, tls.current()).map_err(Failure::other)?;
        match client.post("/v1/join", body, ANSWER_WITHIN) {
            Ok(answer) if answer.status != 503 && answer.status != 422 => return Ok(answer),
            Ok(answer) => last = Some(Ok(answer)),
            Err(fault) => last = Some(Err(fault)),
        }
    }
    last.expect("there is a controller at least").map_err(Failure::other)
}
