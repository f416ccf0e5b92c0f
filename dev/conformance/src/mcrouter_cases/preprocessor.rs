//! The preprocessor of configurations, held to the cases of mcrouter's tests.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use anyhow::{Context, Result};
use router::config::{Environment, Json, JsonValue, Location, expand_config, json};

use super::tally::Tally;

/// Where the cases lie in a checkout.
pub(super) const FOLDER: &str = "mcrouter/lib/config/test";

/// Macros and what they become, texts that must be refused, and a text full of comments.
pub(super) fn check(checkout: &Path, verbose: bool, tally: &mut Tally) -> Result<()> {
    let read = |name: &str| {
        let path = checkout.join(FOLDER).join(format!("config_preprocessor_test_{name}.json"));
        std::fs::read(&path).with_context(|| format!("read {}", path.display()))
    };
    expansions(&read("file")?, tally)?;
    errors(&read("errors")?, verbose, tally)?;
    comments(&read("comments")?, tally);
    Ok(())
}

/// Cases with macros, what is to be expanded, and the result.
fn expansions(text: &[u8], tally: &mut Tally) -> Result<()> {
    let groups = json::parse(0, text)?;
    for (group, parts) in groups.object("a file of cases")?.entries() {
        let parts = parts.object("a group of cases")?;
        let macros = parts.require("macros")?;
        for (case, orders) in parts.require("cases")?.object("cases")?.entries() {
            let orders = orders.object("a case")?;
            let (orig, expected) = (orders.require("orig")?, orders.require("expand")?);
            let mut config = vec![("macros".to_owned(), macros.clone()), ("orig".to_owned(), orig.clone())];
            config.extend(parts.get("consts").map(|consts| ("consts".to_owned(), consts.clone())));
            let config = Json::new(Location::default(), JsonValue::Object(config)).to_json();
            tally.count(&format!("{group}: {case}"), expands_to(config.as_bytes(), &expected.to_json()));
        }
    }
    Ok(())
}

fn expands_to(config: &[u8], expected: &str) -> std::result::Result<(), String> {
    let expanded = expand(config)?;
    let found = expanded.object("a configuration").and_then(|object| object.require("orig").cloned());
    let found = found.map_err(|error| error.to_string())?.to_json();
    if found == expected { Ok(()) } else { Err(format!("expected {expected}, found {found}")) }
}

/// Configurations that must be refused.
fn errors(text: &[u8], verbose: bool, tally: &mut Tally) -> Result<()> {
    let cases = json::parse(0, text)?;
    for (case, config) in cases.object("a file of cases")?.entries() {
        let outcome = match expand(config.to_json().as_bytes()) {
            Ok(expanded) => Err(format!("expected an error, found {}", expanded.to_json())),
            Err(error) => {
                if verbose {
                    println!("{case}: {error}");
                }
                Ok(())
            }
        };
        tally.count(&format!("errors: {case}"), outcome);
    }
    Ok(())
}

/// A text with comments in all places; both its parts are equal without them.
fn comments(text: &[u8], tally: &mut Tally) {
    let outcome = expand(text).and_then(|expanded| {
        let parts = expanded
            .object("a configuration")
            .and_then(|object| Ok((object.require("orig")?.to_json(), object.require("expand")?.to_json())));
        let (found, expected) = parts.map_err(|error| error.to_string())?;
        if found == expected { Ok(()) } else { Err(format!("expected {expected}, found {found}")) }
    });
    tally.count("comments", outcome);
}

/// With the surroundings that mcrouter's tests have.
fn expand(config: &[u8]) -> std::result::Result<Json, String> {
    let text = |text: &str| JsonValue::String(text.to_owned());
    let mut importer = |path: &str| match path {
        "test" => Ok(br#""mock_test""#.to_vec()),
        "templ" => Ok(br#"{ "type": "macroDef", "result": "imported_macro" }"#.to_vec()),
        "do_not_exist" => Err("no such import".to_owned()),
        _ => Ok(Vec::new()),
    };
    let environment = Environment {
        globals: vec![("testGlobal".to_owned(), text("test")), ("templGlobal".to_owned(), text("templ"))],
        importer: &mut importer,
        is_local: &|address| {
            [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)].contains(&address)
        },
        seed: 1,
    };
    expand_config("case", config, environment)
        .map(|expanded| expanded.root)
        .map_err(|error| error.to_string())
}
