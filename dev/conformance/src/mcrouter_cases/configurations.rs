//! Configurations of mcrouter's tests: each is valid, or stands in the table of those that are refused.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use router::RoutingPrefix;
use router::config::{
    CompileOptions, Environment, GlobalParams, Json, compile, config_params, expand_config,
};
use router::flags::{ConfigSource, RouteOptions};

use super::preprocessor;
use super::refused::{REFUSED, Reason};
use super::tally::Tally;

/// Where configurations lie in a checkout.
const FOLDER: &str = "mcrouter";

/// Constants that the tests give their configurations on the command line.
const PARAMS: &str = "PORT:11211,POOL:A,PORT_1:11211,PORT_2:11212,PORT_SHADOW:11213";

/// All files with JSON but those of the preprocessor.
pub(super) fn check(checkout: &Path, verbose: bool, tally: &mut Tally) -> Result<()> {
    let mut files = BTreeSet::new();
    add_files(checkout, Path::new(FOLDER), &mut files)?;
    files.retain(|file| !file.starts_with(preprocessor::FOLDER));
    ensure!(!files.is_empty(), "no configurations in {}", checkout.join(FOLDER).display());
    for file in &files {
        let name = file.to_string_lossy();
        let outcome = validate(&checkout.join(file));
        if let (true, Err(error)) = (verbose, &outcome) {
            println!("{name}: {error}");
        }
        let row = REFUSED.iter().find(|(refused, _)| *refused == name);
        tally.count(&name, judge(row.map(|(_, reason)| *reason), outcome));
    }
    for (name, _) in REFUSED.iter().filter(|(name, _)| !files.contains(Path::new(name))) {
        tally.count(name, Err("expected a file, found none: its row in the table is out of date".to_owned()));
    }
    Ok(())
}

fn add_files(checkout: &Path, folder: &Path, files: &mut BTreeSet<PathBuf>) -> Result<()> {
    let path = checkout.join(folder);
    let entries = fs::read_dir(&path).with_context(|| format!("read {}", path.display()))?;
    for entry in entries {
        let entry = entry.with_context(|| format!("read {}", path.display()))?;
        let below = folder.join(entry.file_name());
        match entry.file_type().with_context(|| format!("look at {}", path.display()))?.is_dir() {
            true => add_files(checkout, &below, files)?,
            false if below.extension().is_some_and(|ending| ending == "json") => drop(files.insert(below)),
            false => {}
        }
    }
    Ok(())
}

/// The table and the outcome agree, in both directions.
fn judge(
    reason: Option<Reason>,
    outcome: std::result::Result<(), String>,
) -> std::result::Result<(), String> {
    match (reason, outcome) {
        (None, outcome) => outcome.map_err(|error| format!("expected a valid configuration, found: {error}")),
        (Some(Reason { why, words }), Ok(())) => {
            Err(format!("expected an error with {words:?} ({why}), found none"))
        }
        (Some(reason), Err(error)) if error.contains(reason.words) => Ok(()),
        (Some(Reason { why, words }), Err(error)) => {
            Err(format!("expected an error with {words:?} ({why}), found: {error}"))
        }
    }
}

/// As a router reads it that is started for it.
fn validate(path: &Path) -> std::result::Result<(), String> {
    let text = fs::read(path).map_err(|error| error.to_string())?;
    let source = ConfigSource::File(path.to_owned());
    let params = config_params(PARAMS, "").expect("they are pairs");
    let defaults = RouteOptions::default();
    let own = RoutingPrefix::parse(&defaults.route_prefix).unwrap_or_default();
    let globals = GlobalParams {
        default_route: &own,
        host_id: 1,
        router_name: "1",
        service_name: &defaults.service_name,
        proxy_count: 1,
        config_params: &params,
        options: &defaults.named(),
    };
    let mut importer = |name: &str| fs::read(source.import(name)).map_err(|error| error.to_string());
    let environment =
        Environment { globals: globals.constants(), importer: &mut importer, is_local: &|_| false, seed: 1 };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let expanded = expand_config(&name, &text, environment).map_err(|error| error.to_string())?;
    let default_prefix = first_prefix(&expanded.root).and_then(RoutingPrefix::parse).unwrap_or(own);
    let options = CompileOptions { default_prefix, ..defaults.compile_options(1) };
    let mut resolve = |_: &str, _| None;
    let plan = compile(&expanded.root, 1, &options, &mut resolve);
    let plan = plan.map_err(|error| error.located(&expanded.sources).to_string())?;
    // What mcrouter's own tests write is no typing error.
    match plan.notes.iter().find(|note| note.contains("is not known in")) {
        Some(note) => Err(note.clone()),
        None => Ok(()),
    }
}

/// The tests start their routers with a prefix that the configuration has.
fn first_prefix(config: &Json) -> Option<&str> {
    let routes = config.object("a configuration").ok()?.get("routes")?;
    match routes.array("`routes`") {
        Ok(items) => {
            let aliases = items.first()?.object("a route").ok()?.get("aliases")?.array("`aliases`").ok()?;
            aliases.first()?.as_str()
        }
        Err(_) => routes.object("`routes`").ok()?.entries().first().map(|(prefix, _)| prefix.as_str()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(reason: Option<Reason>, outcome: std::result::Result<(), &str>, expected: Option<&str>) {
        let judged = judge(reason, outcome.map_err(str::to_owned)).err();
        assert_eq!(judged.as_deref(), expected);
    }

    #[test]
    fn the_table_must_be_right_in_both_directions() {
        check(None, Ok(()), None);
        check(None, Err("line 2: no"), Some("expected a valid configuration, found: line 2: no"));
        let reason = Reason { why: "not spoken", words: "found `x`" };
        check(Some(reason), Err("line 2: expected ascii, found `x`"), None);
        check(Some(reason), Ok(()), Some("expected an error with \"found `x`\" (not spoken), found none"));
        let other = "expected an error with \"found `x`\" (not spoken), found: line 2: no";
        check(Some(reason), Err("line 2: no"), Some(other));
    }

    #[test]
    fn the_default_prefix_is_the_first_that_a_configuration_has() {
        let check = |text: &str, expected: Option<&str>| {
            let config = router::config::json::parse(0, text.as_bytes()).expect("JSON");
            assert_eq!(first_prefix(&config), expected, "{text}");
        };
        check(r#"{"route": "NullRoute"}"#, None);
        check(r#"{"routes": [{"aliases": ["/a/b/", "/c/d/"]}]}"#, Some("/a/b/"));
        check(r#"{"routes": {"/a/b/": "NullRoute"}}"#, Some("/a/b/"));
    }
}
