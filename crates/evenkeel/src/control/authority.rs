//! Jobs at the authority's key, and the token that a newcomer needs.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use control::authority::{AUTHORITY_FILE, Authority, AuthorityError, OPERATOR_FILE, keep_certificate};
use control::identity::{FleetIdentity, FleetName, FleetRole, IdentityName};
use fleet::ZoneName;
use os::clock::unix_s;
use serde_json::json;
use tls::CertificateKey;

use super::ask::Place;
use super::statuses::STATUS_REFUSED;
use crate::failure::Failure;
use crate::terminal::output::print;

/// Arguments of `init`.
#[derive(Clone, Debug, Args)]
pub(super) struct InitArguments {
    /// The authority's directory: a new one, or an empty one
    directory: PathBuf,
    /// Name of the fleet
    #[arg(long, value_name = "NAME")]
    fleet: FleetName,
    /// Name of the first operator
    #[arg(long, value_name = "NAME")]
    operator: IdentityName,
}

/// Arguments of `certificate`.
#[derive(Clone, Debug, Args)]
pub(super) struct CertificateArguments {
    /// The authority's directory, as `init` has made it
    #[arg(long, value_name = "DIR")]
    authority: PathBuf,
    /// Role of its owner: controller, agent, router, server, operator or reader
    #[arg(long, value_name = "ROLE")]
    role: FleetRole,
    /// Name of its owner
    #[arg(long, value_name = "NAME")]
    id: IdentityName,
    /// Host names and addresses where its owner is reached; for those that others connect to
    #[arg(long, value_name = "HOST,HOST", value_delimiter = ',')]
    host: Vec<String>,
    /// File for certificate and key, which only its owner can read
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

/// Arguments of `token`.
#[derive(Clone, Debug, Args)]
pub(super) struct TokenArguments {
    /// Role of the newcomer: agent or server
    #[arg(long, value_name = "ROLE", default_value = "agent")]
    role: FleetRole,
    /// Zone of the newcomer
    #[arg(long, value_name = "ZONE")]
    zone: ZoneName,
    /// Name of the newcomer; without it, any
    #[arg(long, value_name = "NAME")]
    id: Option<IdentityName>,
    #[command(flatten)]
    place: Place,
}

/// Makes an authority.
pub(super) fn init(job: &InitArguments) -> Result<ExitCode, Failure> {
    let made = Authority::create(&job.directory, job.fleet.clone(), job.operator.clone(), unix_s());
    made.map_err(refused)?;
    let (authority, operator) = (job.directory.join(AUTHORITY_FILE), job.directory.join(OPERATOR_FILE));
    let (fleet, authority, operator) = (&job.fleet, authority.display(), operator.display());
    let text = format!(
        "authority of the fleet {fleet}: {authority}\nfirst operator: {operator}, valid for 7 days\n\
         Keep the directory where nobody else can read it.\n"
    );
    print(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Makes a certificate with its key.
pub(super) fn certificate(job: &CertificateArguments) -> Result<ExitCode, Failure> {
    let authority = Authority::open(&job.authority).map_err(refused)?;
    let fleet = authority.fleet().clone();
    let identity = FleetIdentity { fleet, role: job.role, id: job.id.clone() };
    let key = CertificateKey::new().map_err(|error| Failure::system("make a key", error))?;
    let request = key.request().map_err(|error| Failure::system("make a request", error))?;
    let now_s = unix_s();
    let signed = authority.sign(&request, &identity, &job.host, now_s).map_err(refused)?;
    keep_certificate(&job.out, &key, &signed.pem, &identity, now_s).map_err(Failure::other)?;
    let days = signed.not_after_s.saturating_sub(now_s) / (24 * 60 * 60);
    print(format!("{identity}: {}, valid for {days} days\n", job.out.display()).as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Asks a controller for a join token.
pub(super) fn token(job: &TokenArguments) -> Result<ExitCode, Failure> {
    let body = json!({"role": job.role, "zone": job.zone, "id": job.id});
    job.place.show(&job.place.ask_again(|client, within| client.post("/v1/token", &body, within))?)
}

fn refused(error: AuthorityError) -> Failure {
    Failure::other(error).with_status(STATUS_REFUSED)
}
