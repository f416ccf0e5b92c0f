//! Dashboards for Grafana, from one table; with rules and a scrape configuration they are `deploy/monitoring`.
//!
//! The JSON that Grafana imports follows from the table. Nothing here asks a Prometheus: the tests ask one for every expression.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::programs::run;
use crate::{Artefact, Workshop};
use table::Dashboard;

mod fleet;
mod grafana;
mod host;
mod router;
mod server;
pub mod table;

/// All dashboards, in the order in which somebody looks at them.
pub const DASHBOARDS: [&Dashboard; 4] =
    [&router::DASHBOARD, &server::DASHBOARD, &fleet::DASHBOARD, &host::DASHBOARD];

/// The folder of the files in the checkout.
pub const FOLDER: &str = "deploy/monitoring";

/// The dashboards' files: paths from the root of the checkout, and contents.
pub fn files() -> Vec<(PathBuf, String)> {
    let path = |dashboard: &Dashboard| {
        Path::new(FOLDER).join("dashboards").join(dashboard.name).with_extension("json")
    };
    DASHBOARDS.iter().map(|dashboard| (path(dashboard), grafana::json(dashboard))).collect()
}

/// Packs dashboards, rules and the scrape configuration.
///
/// # Errors
/// Reports what cannot be packed.
pub fn make(workshop: &Workshop) -> Result<Vec<Artefact>> {
    let folder = format!("evenkeel-monitoring-{}", workshop.version);
    let path = workshop.out.join(format!("{folder}.tar.gz"));
    let mut tar = Command::new("tar");
    // Without these words the archive would have the time, the user and the order of this run.
    tar.args([
        "--sort=name",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
        "--mode=u=rwX,go=rX",
        "--format=ustar",
    ]);
    tar.arg(format!("--mtime=@{}", workshop.epoch_s)).arg(format!("--transform=s,^[.],{folder},"));
    run(tar.arg("-czf").arg(&path).arg("-C").arg(workshop.root.join(FOLDER)).arg("."))?;
    Ok(vec![Artefact { path }])
}
