//! Answers of a controller to `/v1/figures` and `/v1/tune/check`, as far as advice needs it.

use fleet::figures::ServerRates;
use fleet::tuning::HostFacts;
use serde::Deserialize;
use serde_json::Value;

/// Figures that are older are not those of now: agents tell them every 15 s.
pub(crate) const AGE_S_MAX: i64 = 120;

/// What `/v1/figures` answers.
#[derive(Debug, Deserialize)]
pub(crate) struct FiguresAnswer {
    pub(crate) servers: Vec<ServerRow>,
    #[serde(default)]
    pub(crate) routers: Vec<RouterRow>,
}

/// A router with its last point.
#[derive(Debug, Deserialize)]
pub(crate) struct RouterRow {
    pub(crate) host: String,
    #[serde(default)]
    pub(crate) points: Vec<RouterPointRow>,
}

/// What a router used at one moment.
#[derive(Debug, Deserialize)]
pub(crate) struct RouterPointRow {
    pub(crate) age_s: i64,
    pub(crate) cpus: Option<f64>,
}

/// A server with its last point.
#[derive(Debug, Deserialize)]
pub(crate) struct ServerRow {
    pub(crate) id: String,
    pub(crate) host: String,
    #[serde(default)]
    pub(crate) zone: String,
    pub(crate) cluster: Option<String>,
    pub(crate) page: Option<String>,
    #[serde(default)]
    pub(crate) points: Vec<PointRow>,
}

/// Figures of one moment.
#[derive(Debug, Deserialize)]
pub(crate) struct PointRow {
    pub(crate) age_s: i64,
    #[serde(flatten)]
    pub(crate) rates: ServerRates,
}

/// What `/v1/tune/check` answers.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct ChecksAnswer {
    /// None of more hosts than are listed one by one.
    #[serde(default)]
    pub(crate) checks: Option<Vec<HostChecked>>,
}

/// What is known of a host.
#[derive(Debug, Deserialize)]
pub(crate) struct HostChecked {
    pub(crate) host: String,
    #[serde(default)]
    pub(crate) facts: Option<HostFacts>,
    pub(crate) check: CheckFindings,
}

/// What was found on it.
#[derive(Debug, Deserialize)]
pub(crate) struct CheckFindings {
    #[serde(default)]
    pub(crate) findings: Vec<CheckFinding>,
}

/// One finding.
#[derive(Debug, Deserialize)]
pub(crate) struct CheckFinding {
    pub(crate) rule: String,
    pub(crate) cause: String,
}

impl FiguresAnswer {
    /// The error is a clause for people.
    pub(crate) fn parse(json: &Value) -> Result<FiguresAnswer, String> {
        Deserialize::deserialize(json)
            .map_err(|error| format!("understand the controller's figures: {error}"))
    }
}

impl ChecksAnswer {
    /// The error is a clause for people.
    pub(crate) fn parse(json: &Value) -> Result<ChecksAnswer, String> {
        Deserialize::deserialize(json)
            .map_err(|error| format!("understand the controller's answer about tuning: {error}"))
    }
}

impl RouterRow {
    /// CPUs that it uses now, if it tells that: only a router of ours with a page does.
    pub(crate) fn cpus(&self) -> Option<f64> {
        self.points.last().filter(|point| point.age_s <= AGE_S_MAX)?.cpus
    }
}

impl ServerRow {
    /// The last point, if it is one of now.
    pub(crate) fn fresh(&self) -> Option<&ServerRates> {
        self.points.last().filter(|point| point.age_s <= AGE_S_MAX).map(|point| &point.rates)
    }
}

/// Of all servers; unknown if it is unknown of one of them.
pub(crate) fn sum(rates: &[&ServerRates], of: impl Fn(&ServerRates) -> Option<f64>) -> Option<f64> {
    let known: Option<Vec<f64>> = rates.iter().map(|rates| of(rates)).collect();
    known.filter(|known| !known.is_empty()).map(|known| known.iter().sum())
}
