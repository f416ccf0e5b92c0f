//! Table of findings over a fleet: kind of host × finding × what would change it, with how many hosts have it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::check::{FindingSeverity, HostCheck};
use crate::HostId;

/// Hosts that a row names.
const EXAMPLES_MAX: usize = 3;

/// A host that was checked.
#[derive(Clone, Copy, Debug)]
pub struct CheckedHost<'a> {
    /// Which.
    pub host: &'a HostId,
    /// Its kind, in words.
    pub kind: &'a str,
    /// What was found.
    pub check: &'a HostCheck,
}

/// A finding that hosts of one kind have, and that the same would change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FindingRow {
    /// The kind of host.
    pub kind: String,
    /// The rule.
    pub rule: String,
    /// The worst severity that a host has.
    pub severity: FindingSeverity,
    /// What would change it.
    pub change: String,
    /// Hosts that have it.
    pub hosts: usize,
    /// Checked hosts of the kind.
    pub of: usize,
    /// Some of those that have it.
    pub examples: Vec<HostId>,
}

/// The rows of these hosts: the most severe first, then those of most hosts.
pub fn finding_rows(hosts: &[CheckedHost<'_>]) -> Vec<FindingRow> {
    let mut of: BTreeMap<&str, usize> = BTreeMap::new();
    let mut rows: BTreeMap<(&str, &str, &str), (FindingSeverity, BTreeSet<&HostId>)> = BTreeMap::new();
    for one in hosts {
        *of.entry(one.kind).or_default() += 1;
        for finding in &one.check.findings {
            let key = (one.kind, &*finding.rule, &*finding.change);
            let (severity, found) = rows.entry(key).or_insert((finding.severity, BTreeSet::new()));
            *severity = finding.severity.max(*severity);
            // One rule may have found several things on it.
            found.insert(one.host);
        }
    }
    let row = |((kind, rule, change), (severity, found)): ((&str, &str, &str), (_, BTreeSet<&HostId>))| {
        FindingRow {
            kind: kind.to_owned(),
            rule: rule.to_owned(),
            severity,
            change: change.to_owned(),
            hosts: found.len(),
            of: of[kind],
            examples: found.into_iter().take(EXAMPLES_MAX).cloned().collect(),
        }
    };
    let mut rows: Vec<FindingRow> = rows.into_iter().map(row).collect();
    rows.sort_by_key(|row| Reverse((row.severity, row.hosts)));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tuning::FindingLine;

    fn check(findings: &[(&str, FindingSeverity, &str)]) -> HostCheck {
        let line = |(rule, severity, change): &(&str, FindingSeverity, &str)| FindingLine {
            rule: (*rule).to_owned(),
            severity: *severity,
            subject: String::new(),
            cause: String::new(),
            change: (*change).to_owned(),
            also: 0,
            causes: Vec::new(),
        };
        HostCheck { findings: findings.iter().map(line).collect(), ..HostCheck::default() }
    }

    #[test]
    fn hosts_are_counted_by_kind_finding_and_change() {
        use FindingSeverity::{Critical, Note, Warning};
        let names: Vec<HostId> =
            (1..=6).map(|number| format!("h{number}").parse().expect("a name")).collect();
        let swap = check(&[("swappiness-high", Note, "10")]);
        let both = check(&[
            ("swappiness-high", Note, "10"),
            ("rps-missing", Warning, "e"),
            ("rps-missing", Critical, "e"),
        ]);
        let none = check(&[]);
        let on = |number: usize, kind, check| CheckedHost { host: &names[number - 1], kind, check };
        let hosts = [
            on(1, "small", &swap),
            on(2, "small", &both),
            on(3, "small", &swap),
            on(4, "small", &swap),
            on(5, "small", &none),
            on(6, "large", &swap),
        ];
        let rows = finding_rows(&hosts);
        let words = |row: &FindingRow| {
            let examples: Vec<&str> = row.examples.iter().map(HostId::as_str).collect();
            let FindingRow { kind, rule, severity, hosts, of, .. } = row;
            format!("{severity} {kind} {rule} {hosts}/{of} {}", examples.join(" "))
        };
        let expected = [
            "critical small rps-missing 1/5 h2",
            "note small swappiness-high 4/5 h1 h2 h3",
            "note large swappiness-high 1/1 h6",
        ];
        assert_eq!(rows.iter().map(words).collect::<Vec<_>>(), expected);
    }
}
