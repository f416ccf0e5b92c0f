//! An operator that asks without the time that a process takes to begin.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use control::{ControlAnswer, ControlClient, ControlPlace};
use end_to_end::fleet::Fleet;
use serde_json::{Value, json};
use tls::{ClientSettings, ClientTls, NameCheck};

/// Time for an answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);

/// A client of the first controller.
pub(crate) struct Operator(ControlClient);

impl Operator {
    /// With the certificate of the fleet's first operator.
    pub(crate) fn of(fleet: &Fleet) -> Result<Operator> {
        let place = ControlPlace::Tls(fleet.controller_address(1).to_string());
        let tls = credentials(fleet, "ca/operator.pem")?;
        Ok(Operator(ControlClient::new(&place, tls.current())?))
    }

    /// Asks for a document.
    pub(crate) fn get(&self, path: &str) -> Result<ControlAnswer> {
        let answer = self.0.get(path, ANSWER_WITHIN)?;
        ensure!(answer.is_ok(), "{path}: {}", answer.error());
        Ok(answer)
    }

    /// Asks for something to be done.
    pub(crate) fn post(&self, path: &str, body: &Value) -> Result<ControlAnswer> {
        let answer = self.0.post(path, body, ANSWER_WITHIN)?;
        ensure!(answer.is_ok(), "{path}: {}", answer.error());
        Ok(answer)
    }

    /// A change that is planned, and can be applied at a moment.
    pub(crate) fn planned(&self, change: &Value) -> Result<Value> {
        let plan = self.post("/v1/plan", change)?;
        let mut body = change.clone();
        body["plan"] = plan.json.get("plan").cloned().context("a plan has a name")?;
        body["why"] = json!("measured");
        Ok(body)
    }
}

/// TLS settings of someone who has this file of the fleet's folder.
pub(crate) fn credentials(fleet: &Fleet, certificate: &str) -> Result<Arc<ClientTls>> {
    let file = |name: &str| -> PathBuf { fleet.path(name) };
    let settings = ClientSettings {
        own: Some((file(certificate), file(certificate))),
        authorities: Some(file("ca/authority.pem")),
        names: NameCheck::UriUnder("evenkeel://prod/controller/".to_owned()),
        resumes: false,
    };
    let (tls, _) = ClientTls::load(settings)
        .map_err(|error| anyhow::anyhow!("{}: {}", error.path.display(), error.source))?;
    Ok(Arc::new(tls))
}
