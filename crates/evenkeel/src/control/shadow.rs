//! `control shadow`: what routers have found about clusters and their shadows, as a table or a picture, and gates that wait for it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use control::ControlAnswer;
use fleet::figures::shadow::{ShadowGate, WINDOW_MAX_S};
use lab::report::picture::percentiles::{PERCENTILES, PercentileCurve, percentiles};
use os::clock::{Stopwatch, pause};
use serde_json::Value;

use super::ask::{Place, escaped};
use super::statuses::{STATUS_OVERTAKEN, STATUS_REFUSED};
use crate::failure::Failure;
use crate::terminal::output::print;

/// Interval of looks whether a gate is fulfilled: agents tell figures every 15 s.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Longest wait for a gate, in seconds: a day.
const WAIT_MAX_S: u64 = 86_400;

/// Arguments of `shadow`.
#[derive(Clone, Debug, Args)]
pub(super) struct ShadowArguments {
    #[command(subcommand)]
    job: ShadowJob,
}

#[derive(Clone, Debug, Subcommand)]
enum ShadowJob {
    /// Show what routers have found: replies that differ, hits, and times of a cluster and its shadow
    Report(ReportArguments),
    /// Say whether a shadow was compared often enough and was as good: status 0 if so, 1 if not, 75 if that is not known yet
    Gate(GateArguments),
}

#[derive(Clone, Debug, Args)]
struct ReportArguments {
    /// Shadows from or to this cluster; without it, all
    cluster: Option<String>,
    /// The last seconds that are looked at
    #[arg(long, value_name = "SECONDS", default_value_t = 3600, value_parser = clap::value_parser!(u64).range(60..=WINDOW_MAX_S))]
    within: u64,
    /// Also draw percentiles of the times of both into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    place: Place,
}

#[derive(Clone, Debug, Args)]
struct GateArguments {
    /// shadow:FROM->TO[,samples=N][,within=TIME][,differ=PART][,slower=PART]
    #[arg(value_parser = str::parse::<ShadowGate>)]
    gate: ShadowGate,
    /// Wait so many seconds for it
    #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=WAIT_MAX_S))]
    wait: u64,
    #[command(flatten)]
    place: Place,
}

/// Shows shadows.
pub(super) fn run(arguments: &ShadowArguments) -> Result<ExitCode, Failure> {
    match &arguments.job {
        ShadowJob::Report(job) => report(job),
        ShadowJob::Gate(job) => gate(job),
    }
}

fn report(job: &ReportArguments) -> Result<ExitCode, Failure> {
    let cluster = job.cluster.as_ref().map_or(String::new(), |name| format!("&cluster={}", escaped(name)));
    let path = format!("/v1/shadows?within={}{cluster}", job.within);
    let answer = job.place.ask(|client, within| client.get(&path, within))?;
    if let Some(file) = job.svg.as_ref().filter(|_| answer.is_ok()) {
        draw(&answer.json, file)?;
    }
    job.place.show(&answer)
}

fn draw(json: &Value, file: &Path) -> Result<(), Failure> {
    let failed = |why: String| Failure::other(anyhow::anyhow!("draw {}: {why}", file.display()));
    let nothing = || failed("no times of replies are known".to_owned());
    let picture = picture(json).ok_or_else(nothing)?;
    os::file::replace(file, picture).map_err(|error| failed(error.to_string()))
}

/// A panel for each shadow with times; none without any.
fn picture(json: &Value) -> Option<String> {
    let curve = |name: &str, times: &Value| -> PercentileCurve {
        let known = PERCENTILES
            .iter()
            .filter_map(|(_, percentile)| Some((*percentile, times[*percentile].as_f64()?)));
        (name.to_owned(), known.collect())
    };
    let panels = json["shadows"].as_array()?.iter().filter_map(|row| {
        let (name, found) = (row["shadow"].as_str()?, row.get("found")?);
        let compared = found["compared"].as_u64().filter(|compared| *compared > 0)?;
        let title = format!("{name}: {compared} replies");
        Some((title, vec![curve("cluster", &found["normal_us"]), curve("shadow", &found["shadow_us"])]))
    });
    let panels: Vec<(String, Vec<PercentileCurve>)> = panels.collect();
    let remark = format!("Replies that routers compared in the last {} s.", json["within_s"]);
    if panels.is_empty() { None } else { percentiles(&remark, &panels) }
}

fn gate(job: &GateArguments) -> Result<ExitCode, Failure> {
    let cluster = escaped(job.gate.from.as_str());
    let path = format!("/v1/shadows?cluster={cluster}&gate={}", escaped(&job.gate.to_string()));
    let begun = Stopwatch::start();
    loop {
        let answer = job.place.ask(|client, within| client.get(&path, within))?;
        let state = answer.json["gate"]["state"].as_str().unwrap_or_default();
        let may_wait = begun.passed() + LOOK_EVERY <= Duration::from_secs(job.wait);
        if answer.is_ok() && state == "not yet" && may_wait {
            pause(LOOK_EVERY);
            continue;
        }
        return said(job, &answer, state);
    }
}

fn said(job: &GateArguments, answer: &ControlAnswer, state: &str) -> Result<ExitCode, Failure> {
    if !answer.is_ok() {
        return job.place.show(answer);
    }
    let gate = &answer.json["gate"];
    let text = match job.place.json {
        true => format!("{gate:#}\n"),
        false => format!("{state}: {}\n", gate["why"].as_str().unwrap_or_default()),
    };
    print(text.as_bytes())?;
    Ok(match state {
        "fulfilled" => ExitCode::SUCCESS,
        "not yet" => ExitCode::from(STATUS_OVERTAKEN),
        _ => ExitCode::from(STATUS_REFUSED),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_picture_has_a_panel_for_each_shadow_with_times() {
        let times = |us: f64| json!({"p50": us, "p90": us * 2.0, "p99": us * 4.0, "p99.9": null});
        let found = json!({"compared": 5000, "normal_us": times(100.0), "shadow_us": times(150.0)});
        let row = |name: &str, found: &Value| json!({"shadow": name, "found": found});
        let document = |rows: Vec<Value>| json!({"within_s": 3600, "shadows": rows});
        let svg =
            picture(&document(vec![row("web->new", &found), row("a->b", &Value::Null)])).expect("a picture");
        for words in ["web-&gt;new: 5000 replies", "Percentiles of", "cluster", "shadow", "p99"] {
            assert!(svg.contains(words), "{words}: {svg}");
        }
        assert!(!svg.contains("a-&gt;b"));
        assert_eq!(picture(&document(vec![row("a->b", &Value::Null)])), None);
        assert_eq!(picture(&document(Vec::new())), None);
    }
}
