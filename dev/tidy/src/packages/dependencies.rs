//! Crates of others: their licences and their sources, as `deny.toml` allows them.
//!
//! Published vulnerabilities are not looked for here: that takes the network (decision 0024).

use super::cargo::cargo;
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// What `deny.toml` says; the rest of it is for cargo-deny alone.
#[derive(Deserialize)]
struct Rules {
    licenses: Licenses,
    sources: Sources,
}

#[derive(Deserialize)]
struct Licenses {
    allow: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Sources {
    allow_registry: Vec<String>,
}

/// What cargo knows of all crates that Linux needs, with every feature of ours.
#[derive(Deserialize)]
pub(crate) struct Resolved {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
    /// `None`: a folder of this workspace.
    source: Option<String>,
}

/// Asks cargo.
pub(crate) fn resolved() -> Result<Resolved> {
    let words = [
        "metadata",
        "--format-version",
        "1",
        "--all-features",
        "--locked",
        "--filter-platform",
        "x86_64-unknown-linux-gnu",
    ];
    let output = cargo(&words).output().context("run cargo metadata")?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).context("read what cargo metadata says")
}

/// Crates whose licence or source the rules do not allow, and allowed licences that no crate has.
///
/// # Errors
/// If the rules or a licence cannot be read.
pub(crate) fn check(rules: &str, resolved: &Resolved) -> Result<Vec<String>> {
    let rules: Rules = toml::from_str(rules).context("read deny.toml")?;
    let allowed: BTreeSet<&str> = rules.licenses.allow.iter().map(String::as_str).collect();
    let mut violations = Vec::new();
    let mut named: BTreeSet<String> = BTreeSet::new();
    for Package { name, version, license, source } in &resolved.packages {
        let Some(source) = source else { continue };
        let is_known = |registry: &String| source.strip_prefix("registry+") == Some(registry);
        if !rules.sources.allow_registry.iter().any(is_known) {
            violations.push(format!("{name} {version} comes from {source}, which deny.toml does not allow"));
        }
        let Some(license) = license else {
            violations.push(format!("{name} {version} names no licence"));
            continue;
        };
        let expression = Expression::parse(license)
            .with_context(|| format!("read the licence of {name} {version}: {license}"))?;
        expression.names(&mut named);
        if !expression.is_allowed(&allowed) {
            violations
                .push(format!("{name} {version} has the licence {license}, which deny.toml does not allow"));
        }
    }
    let unused = allowed.iter().filter(|license| !named.contains(**license));
    violations.extend(unused.map(|license| format!("deny.toml allows {license}, and no crate has it")));
    Ok(violations)
}

/// Crates that are there in more than one version: each costs a build, and often cannot be helped.
pub(crate) fn duplicates(resolved: &Resolved) -> Vec<String> {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in &resolved.packages {
        versions.entry(&package.name).or_default().push(&package.version);
    }
    versions.retain(|_, versions| versions.len() > 1);
    versions.iter().map(|(name, versions)| format!("{name} {}", versions.join(", "))).collect()
}

/// A licence as SPDX writes it. Older crates have `/` for `OR`.
#[derive(Debug, PartialEq)]
enum Expression {
    One(String),
    All(Vec<Expression>),
    Any(Vec<Expression>),
}

impl Expression {
    fn parse(text: &str) -> Result<Expression> {
        let spaced = text.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
        let words: Vec<&str> = spaced.split_whitespace().collect();
        let mut rest = words.as_slice();
        let expression = any(&mut rest)?;
        ensure!(rest.is_empty(), "expected OR or AND before {}", rest.join(" "));
        Ok(expression)
    }

    fn is_allowed(&self, allowed: &BTreeSet<&str>) -> bool {
        match self {
            Expression::One(name) => allowed.contains(name.as_str()),
            Expression::All(parts) => parts.iter().all(|part| part.is_allowed(allowed)),
            Expression::Any(parts) => parts.iter().any(|part| part.is_allowed(allowed)),
        }
    }

    /// Adds every licence that is named.
    fn names(&self, names: &mut BTreeSet<String>) {
        match self {
            Expression::One(name) => drop(names.insert(name.clone())),
            Expression::All(parts) | Expression::Any(parts) => {
                parts.iter().for_each(|part| part.names(names))
            }
        }
    }
}

/// Expressions with `OR` between them, which binds the weakest.
fn any(words: &mut &[&str]) -> Result<Expression> {
    between("OR", words, all).map(|parts| one_or(parts, Expression::Any))
}

fn all(words: &mut &[&str]) -> Result<Expression> {
    between("AND", words, single).map(|parts| one_or(parts, Expression::All))
}

fn between(
    word: &str,
    words: &mut &[&str],
    part: fn(&mut &[&str]) -> Result<Expression>,
) -> Result<Vec<Expression>> {
    let mut parts = vec![part(words)?];
    while words.first() == Some(&word) {
        *words = &words[1..];
        parts.push(part(words)?);
    }
    Ok(parts)
}

fn one_or(mut parts: Vec<Expression>, several: fn(Vec<Expression>) -> Expression) -> Expression {
    if parts.len() == 1 { parts.remove(0) } else { several(parts) }
}

/// A licence, with its exception if it has one, or an expression in parentheses.
fn single(words: &mut &[&str]) -> Result<Expression> {
    let Some((first, rest)) = words.split_first() else { bail!("expected a licence, found nothing") };
    *words = rest;
    if *first == "(" {
        let inside = any(words)?;
        *words = words.strip_prefix(&[")"]).context("expected a closing parenthesis")?;
        return Ok(inside);
    }
    ensure!(![")", "OR", "AND", "WITH"].contains(first), "expected a licence, found {first}");
    match *words {
        ["WITH", exception, rest @ ..] => {
            *words = rest;
            Ok(Expression::One(format!("{first} WITH {exception}")))
        }
        _ => Ok(Expression::One((*first).to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_license(license: &str, is_allowed: bool) {
        let expression = Expression::parse(license).expect(license);
        assert_eq!(expression.is_allowed(&BTreeSet::from(["MIT", "ISC"])), is_allowed, "{license}");
    }

    #[test]
    fn one_of_a_choice_must_be_allowed_and_all_of_a_sum() {
        check_license("MIT", true);
        check_license("GPL-3.0", false);
        check_license("MIT OR GPL-3.0", true);
        check_license("GPL-3.0/MIT", true);
        check_license("MIT AND ISC", true);
        check_license("MIT AND GPL-3.0", false);
        check_license("GPL-3.0 OR MIT AND ISC", true);
        check_license("(GPL-3.0 OR MIT) AND BSL-1.0", false);
        check_license("Apache-2.0 WITH LLVM-exception OR MIT", true);
        check_license("MIT WITH something", false);
    }

    #[test]
    fn what_is_no_license_is_refused() {
        for license in ["", "MIT OR", "(MIT", "MIT ISC", "MIT)"] {
            assert!(Expression::parse(license).is_err(), "{license}");
        }
    }

    const RULES: &str = "[licenses]\nallow = ['MIT']\n[sources]\nallow-registry = ['https://crates']\n";

    #[track_caller]
    fn check_package(package: &str, wanted: &[&str]) {
        let ours = r#"{"name": "ours", "version": "1", "license": null, "source": null}"#;
        let known =
            r#"{"name": "known", "version": "1", "license": "MIT", "source": "registry+https://crates"}"#;
        let json = format!(r#"{{"packages": [{ours}, {known}, {package}]}}"#);
        let resolved: Resolved = serde_json::from_str(&json).expect("metadata");
        assert_eq!(check(RULES, &resolved).expect("rules"), wanted);
    }

    #[test]
    fn licenses_and_sources_that_are_not_allowed_are_named() {
        check_package(
            r#"{"name": "a", "version": "2", "license": "GPL-3.0", "source": "registry+https://crates"}"#,
            &["a 2 has the licence GPL-3.0, which deny.toml does not allow"],
        );
        check_package(
            r#"{"name": "a", "version": "2", "license": null, "source": "registry+https://crates"}"#,
            &["a 2 names no licence"],
        );
        check_package(
            r#"{"name": "a", "version": "2", "license": "MIT", "source": "git+https://crates"}"#,
            &["a 2 comes from git+https://crates, which deny.toml does not allow"],
        );
    }

    #[test]
    fn an_allowed_license_that_no_crate_has_is_named() {
        let resolved: Resolved = serde_json::from_str(r#"{"packages": []}"#).expect("metadata");
        assert_eq!(check(RULES, &resolved).expect("rules"), ["deny.toml allows MIT, and no crate has it"]);
    }

    #[test]
    fn crates_in_two_versions_are_listed() {
        let package = |version: &str| {
            format!(r#"{{"name": "a", "version": "{version}", "license": null, "source": null}}"#)
        };
        let json = format!(r#"{{"packages": [{}, {}]}}"#, package("1.0"), package("2.0"));
        let resolved: Resolved = serde_json::from_str(&json).expect("metadata");
        assert_eq!(duplicates(&resolved), ["a 1.0, 2.0"]);
    }
}
