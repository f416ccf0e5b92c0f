//! `get __mcrouter__.NAME`: what the router says of itself, its configuration and its routes, as mcrouter does.
//!
//! The text is never larger than [`TEXT_MAX`], unless it is the same for all who ask: then it is made once for each
//! configuration and held.

use std::sync::Arc;

use super::{hot_keys, routes};
use crate::config::{Json, JsonValue, Location};
use crate::message::operation::Operation;
use crate::plan::RoutePlan;
use crate::plan::config_facts::ConfigFacts;
use crate::reports::facts::ReportFacts;
use crate::shared::RouterShared;

/// The longest text that depends on a key.
pub(super) const TEXT_MAX: usize = 64 * 1024;

/// The answer to a request, which is the key after `__mcrouter__.`.
pub(super) fn answer(shared: &RouterShared, request: &[u8], facts: &ReportFacts) -> Arc<[u8]> {
    let request = String::from_utf8_lossy(request);
    let text = split(&request).and_then(|(name, args)| reply(shared, name, &args, facts));
    text.unwrap_or_else(|error| Arc::from(format!("ERROR: {error}").into_bytes()))
}

/// `name` or `name(argument,argument)`. A key may have commas, so a route's second argument is all of the rest.
fn split(request: &str) -> Result<(&str, Vec<&str>), String> {
    let Some((name, args)) = request.strip_suffix(')').and_then(|inner| inner.split_once('(')) else {
        return Ok((request, Vec::new()));
    };
    Ok((
        name,
        match args {
            "" => Vec::new(),
            args if name.starts_with("route") => {
                args.split_once(',').map(|(operation, key)| vec![operation, key]).unwrap_or_default()
            }
            args => args.split(',').collect(),
        },
    ))
}

fn reply(shared: &RouterShared, name: &str, args: &[&str], facts: &ReportFacts) -> Result<Arc<[u8]>, String> {
    let plan = shared.plan();
    let whole = |name, make: &dyn Fn() -> Result<String, String>| shared.texts.get(&plan, name, make);
    let text = match name {
        "version" => crate::VERSION.to_owned(),
        "config_age" => facts.unix_s.saturating_sub(shared.config_loads().last_success_s).to_string(),
        "config_file" => of(&plan)?.file.clone().ok_or("no config file found!")?,
        "config_md5_digest" => of(&plan).map_err(|_| "no config md5 digest found!")?.md5.clone(),
        "config_sources_info" => {
            return whole("config_sources_info", &|| Ok(sources(of(&plan)?).to_pretty_json()));
        }
        "preprocessed_config" => {
            return whole("preprocessed_config", &|| Ok(of(&plan)?.expanded.to_pretty_json()));
        }
        "global_params" => {
            return whole("global_params", &|| {
                let constants = of(&plan)?.globals.iter().map(|(name, value)| (name.clone(), value.clone()));
                Ok(object(constants).to_pretty_json())
            });
        }
        "pools" => return whole("pools", &|| Ok(pools(&plan).to_pretty_json())),
        "hot_keys" => hot_keys::json(shared, facts.now).ok_or(hot_keys::HIDDEN)?,
        "hostid" => shared.startup().host_id.to_string(),
        "options" => options(shared, args)?,
        "verbosity" => verbosity(shared, args)?,
        "failure_domains" => match args {
            [pool] => failure_domains(&plan, pool),
            _ => return Err("failure_domains: 1 arg expected".to_owned()),
        },
        "get_bucket" => match args {
            // No pool has buckets: mcrouter answers so, too.
            [_] => String::new(),
            _ => return Err("get_bucket: 1 arg (key) expected".to_owned()),
        },
        "route" | "route_handles" => {
            let [operation, key] = args else { return Err(format!("{name}: 2 args expected")) };
            let operation =
                Operation::by_name(operation).ok_or_else(|| format!("route: unknown request {operation}"))?;
            match name {
                "route" => routes::destinations(&plan, operation, key, shared.unix_s()),
                _ => routes::handles(&plan, operation, key),
            }
        }
        _ => return Err(format!("unknown command: {name}")),
    };
    Ok(Arc::from(text.trim_end_matches('\n').as_bytes()))
}

fn of(plan: &RoutePlan) -> Result<&ConfigFacts, String> {
    plan.facts.as_deref().ok_or_else(|| "nothing is known of the configuration".to_owned())
}

fn text(text: impl Into<String>) -> JsonValue {
    JsonValue::String(text.into())
}

fn object(entries: impl Iterator<Item = (String, JsonValue)>) -> Json {
    let mut kept: Vec<(String, Json)> = Vec::new();
    for (name, value) in entries {
        // Of a name that stands twice, the first value counts.
        if kept.iter().all(|(other, _)| *other != name) {
            kept.push((name, Json::new(Location::default(), value)));
        }
    }
    Json::new(Location::default(), JsonValue::Object(kept))
}

fn sources(facts: &ConfigFacts) -> Json {
    let mut entries = vec![("mcrouter_config".to_owned(), text(&*facts.md5))];
    if let Some(file) = &facts.file {
        entries.push(("config_file".to_owned(), text(&**file)));
    }
    if !facts.imports.is_empty() {
        let imports = facts.imports.iter().map(|(path, md5)| (path.clone(), text(&**md5)));
        entries.push(("config_import".to_owned(), object(imports).value));
    }
    object(entries.into_iter())
}

/// The same as text; an empty object if nothing is known.
pub(super) fn sources_json(plan: &RoutePlan) -> String {
    of(plan).map_or_else(|_| "{}".to_owned(), |facts| sources(facts).to_pretty_json())
}

/// The servers of each pool, as routes show them.
fn pools(plan: &RoutePlan) -> Json {
    object(plan.pools.iter().map(|pool| {
        let servers = pool.children.iter().filter_map(|node| routes::name_of(plan, *node));
        let servers = servers.map(|name| Json::new(Location::default(), text(name)));
        (pool.name.clone(), JsonValue::Array(servers.collect()))
    }))
}

/// Servers of a pool with their failure domains, whose names mcrouter's public version does not keep. Those without have number 0.
fn failure_domains(plan: &RoutePlan, name: &str) -> String {
    let servers = plan.pools.find(name).into_iter().flat_map(|pool| &pool.children).filter_map(|node| {
        let server = plan.nodes[node.0 as usize].server()?;
        let domain = plan.failure_domains.of(*node);
        Some((plan.servers[server.0 as usize].name.clone(), text(format!("{domain}()"))))
    });
    let mut text = object(servers).to_pretty_json();
    routes::cut(&mut text);
    text
}

fn options(shared: &RouterShared, args: &[&str]) -> Result<String, String> {
    let options = &shared.startup().options;
    match args {
        [] => Ok(options.iter().map(|(name, value)| format!("{name} {value}\n")).collect()),
        [name] => options
            .iter()
            .find(|(option, _)| option == name)
            .map(|(_, value)| value.clone())
            .ok_or_else(|| format!("options: option {name} not found")),
        _ => Err("options: 0 or 1 args expected".to_owned()),
    }
}

fn verbosity(shared: &RouterShared, args: &[&str]) -> Result<String, String> {
    match args {
        [] => Ok(shared.verbosity().to_string()),
        [level] => {
            let level = level.parse().map_err(|_| format!("expected a number, got {level}"))?;
            Ok(format!("{} -> {level}", shared.set_verbosity(level)))
        }
        args => Err(format!("expected at most 1 argument, got {}", args.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_arguments_in_parentheses() {
        let check = |request: &str, name: &str, args: &[&str]| {
            assert_eq!(split(request), Ok((name, args.to_vec())), "{request}");
        };
        check("version", "version", &[]);
        check("options(num_proxies)", "options", &["num_proxies"]);
        check("options()", "options", &[]);
        check("x(a,b,,c)", "x", &["a", "b", "", "c"]);
        check("route(set,abc,def)", "route", &["set", "abc,def"]);
        check("route(get,a(b))", "route", &["get", "a(b)"]);
        check("route(get)", "route", &[]);
        check("route(", "route(", &[]);
        check(")", ")", &[]);
        check("()", "", &[]);
    }
}
