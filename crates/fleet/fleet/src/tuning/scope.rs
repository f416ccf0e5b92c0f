//! Scopes: which hosts are meant, in a language of its own.
//!
//! ```text
//! scope  = "all" | clause { ("," | "and") clause }     a host must meet every clause
//! clause = key "=" value { "," value }                 with any of its values
//! key    = "host" | "zone" | "cluster" | "class"
//! ```
//!
//! After a comma, a word with `=` begins another clause, and one without is another value of the same clause:
//! `cluster=web,zone=a,b` are the hosts of the cluster `web` in the zones `a` and `b`.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use crate::{ClusterName, HostId, ZoneName};

/// Bytes of a scope: some 500 hosts by name. It is a part of a URL, which may have 64 KB, also if each byte is escaped.
const SCOPE_LEN_MAX: usize = 16 * 1024;
/// Values of a kind that an error lists.
const KNOWN_SHOWN: usize = 8;
const EXPECTED: &str = "expected all, or host=, zone=, cluster= and class= with names between commas, such as cluster=web,zone=a,b";

/// Where a host is, and what it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPlace {
    /// The host.
    pub host: HostId,
    /// Its zone, if its agent or a member says it.
    pub zone: Option<ZoneName>,
    /// Clusters that its members have slots in.
    pub clusters: BTreeSet<ClusterName>,
    /// Classes of its members, by the inventory.
    pub classes: BTreeSet<String>,
}

/// A set of hosts by what they have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostScope {
    /// In the order in which they were given; none: all hosts.
    clauses: Vec<(ScopeKey, Vec<String>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScopeKey {
    Host,
    Zone,
    Cluster,
    Class,
}

/// Why a scope means no host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScopeError {
    /// It is not written as a scope.
    #[error("{EXPECTED}; found {0}")]
    Malformed(String),
    /// No host meets it.
    #[error("no host has {clause}; {known}")]
    NoHost {
        /// The first clause, or the scope, that no host meets.
        clause: String,
        /// What there is instead.
        known: String,
    },
}

impl ScopeKey {
    const ALL: [ScopeKey; 4] = [ScopeKey::Host, ScopeKey::Zone, ScopeKey::Cluster, ScopeKey::Class];

    fn word(self) -> &'static str {
        match self {
            ScopeKey::Host => "host",
            ScopeKey::Zone => "zone",
            ScopeKey::Cluster => "cluster",
            ScopeKey::Class => "class",
        }
    }

    /// What a host has of this kind.
    fn values(self, place: &HostPlace) -> Vec<&str> {
        match self {
            ScopeKey::Host => vec![place.host.as_str()],
            ScopeKey::Zone => place.zone.iter().map(ZoneName::as_str).collect(),
            ScopeKey::Cluster => place.clusters.iter().map(ClusterName::as_str).collect(),
            ScopeKey::Class => place.classes.iter().map(String::as_str).collect(),
        }
    }
}

impl FromStr for HostScope {
    type Err = ScopeError;

    fn from_str(text: &str) -> Result<HostScope, ScopeError> {
        let malformed = |found: String| ScopeError::Malformed(found);
        if text.len() > SCOPE_LEN_MAX {
            return Err(malformed(format!("{} bytes, and {SCOPE_LEN_MAX} are the most", text.len())));
        }
        if text.trim() == "all" {
            return Ok(HostScope::default());
        }
        let mut scope = HostScope::default();
        // Both `, and` and `and` between blanks stand for a comma.
        let text = text.replace(", and ", ",");
        let words = text.split(',').flat_map(|part| part.split(" and "));
        for word in words.map(str::trim) {
            let value = match word.split_once('=') {
                Some((key, value)) => {
                    let key = key.trim();
                    let known = ScopeKey::ALL.into_iter().find(|known| known.word() == key);
                    let known = known.ok_or_else(|| malformed(format!("{key:?} before \"=\"")))?;
                    if scope.clauses.iter().any(|(other, _)| *other == known) {
                        return Err(malformed(format!("{key}= twice: give its names after one {key}=")));
                    }
                    scope.clauses.push((known, Vec::new()));
                    value.trim()
                }
                None => word,
            };
            let Some((_, values)) = scope.clauses.last_mut() else {
                return Err(malformed(format!("{word:?}")));
            };
            if value.is_empty()
                || value
                    .contains(|letter: char| letter.is_whitespace() || letter.is_control() || letter == '=')
            {
                return Err(malformed(format!("{value:?} where a name is expected")));
            }
            values.push(value.to_owned());
        }
        Ok(scope)
    }
}

impl HostScope {
    /// The hosts of these that it means.
    ///
    /// # Errors
    /// If there is none: why, and what there is.
    pub fn hosts<'p>(&self, places: &'p [HostPlace]) -> Result<Vec<&'p HostPlace>, ScopeError> {
        for (key, values) in &self.clauses {
            // Each value by itself: one that is misspelt must not be hidden by another one that is right.
            if let Some(value) =
                values.iter().find(|value| !places.iter().any(|place| key.values(place).contains(&&***value)))
            {
                return Err(no_host(format!("the {} {value:?}", key.word()), *key, places));
            }
        }
        let found: Vec<&HostPlace> = places.iter().filter(|place| self.means(place)).collect();
        match found.is_empty() {
            false => Ok(found),
            true if places.is_empty() => {
                let known = "no agent has spoken, and the inventory has no member".to_owned();
                Err(ScopeError::NoHost { clause: "been heard of".to_owned(), known })
            }
            true => {
                let known = "each of its clauses is met by another host".to_owned();
                Err(ScopeError::NoHost { clause: format!("all of {self}"), known })
            }
        }
    }

    fn means(&self, place: &HostPlace) -> bool {
        self.clauses.iter().all(|(key, values)| {
            let has = key.values(place);
            values.iter().any(|value| has.contains(&&**value))
        })
    }
}

fn no_host(clause: String, key: ScopeKey, places: &[HostPlace]) -> ScopeError {
    let known: BTreeSet<&str> = places.iter().flat_map(|place| key.values(place)).collect();
    let shown: Vec<&str> = known.iter().copied().take(KNOWN_SHOWN).collect();
    let known = match known.len() - shown.len() {
        _ if known.is_empty() => format!("no host has a {}", key.word()),
        0 => format!("there is {}", shown.join(", ")),
        more => format!("there is {} and {more} more", shown.join(", ")),
    };
    ScopeError::NoHost { clause, known }
}

impl fmt::Display for HostScope {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        if self.clauses.is_empty() {
            return formatter.write_str("all");
        }
        let clause = |(key, values): &(ScopeKey, Vec<String>)| format!("{}={}", key.word(), values.join(","));
        formatter.write_str(&self.clauses.iter().map(clause).collect::<Vec<_>>().join(" and "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(host: &str, zone: &str, clusters: &[&str], classes: &[&str]) -> HostPlace {
        HostPlace {
            host: host.parse().expect("a name"),
            zone: Some(zone.parse().expect("a name")),
            clusters: clusters.iter().map(|name| name.parse().expect("a name")).collect(),
            classes: classes.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    /// The hosts that a scope means of four.
    #[track_caller]
    fn check(scope: &str, expected: Result<&str, &str>) {
        let places = [
            place("h1", "a", &["web"], &["r5"]),
            place("h2", "b", &["web", "api"], &["r5"]),
            place("h3", "a", &["api"], &["c5"]),
            place("h4", "c", &[], &[]),
        ];
        let found = scope.parse::<HostScope>().and_then(|scope| {
            let hosts = scope.hosts(&places)?;
            assert_eq!(scope.to_string().parse().as_ref(), Ok(&scope), "its text means the same");
            Ok(hosts.iter().map(|place| place.host.as_str()).collect::<Vec<_>>().join(" "))
        });
        assert_eq!(found.as_deref().map_err(ToString::to_string), expected.map_err(str::to_owned), "{scope}");
    }

    #[test]
    fn every_clause_must_be_met_by_one_of_its_values() {
        check("all", Ok("h1 h2 h3 h4"));
        check("host=h1,h3", Ok("h1 h3"));
        check("zone=a", Ok("h1 h3"));
        check("cluster=web,zone=a", Ok("h1"));
        check("cluster=web and zone=a,b", Ok("h1 h2"));
        check("cluster=api,web, and class=r5 and zone=b", Ok("h2"));
        check(" class = c5 ", Ok("h3"));
    }

    #[test]
    fn what_is_not_a_scope_is_refused_with_what_was_found() {
        let malformed = |found: &str| format!("{EXPECTED}; found {found}");
        for (scope, found) in [
            ("", "\"\""),
            ("h1", "\"h1\""),
            ("every", "\"every\""),
            ("all,zone=a", "\"all\""),
            ("hosts=h1", "\"hosts\" before \"=\""),
            ("zone=", "\"\" where a name is expected"),
            ("zone=a,,b", "\"\" where a name is expected"),
            ("zone=a b", "\"a b\" where a name is expected"),
            ("zone=a=b", "\"a=b\" where a name is expected"),
            ("zone=a or zone=b", "\"a or zone=b\" where a name is expected"),
            ("zone=a,zone=b", "zone= twice: give its names after one zone="),
        ] {
            check(scope, Err(&malformed(found)));
        }
        let long = format!("host={}", "h".repeat(SCOPE_LEN_MAX));
        check(&long, Err(&malformed("16389 bytes, and 16384 are the most")));
    }

    #[test]
    fn a_scope_without_hosts_says_what_there_is() {
        check("zone=d", Err("no host has the zone \"d\"; there is a, b, c"));
        check("cluster=web,wbe", Err("no host has the cluster \"wbe\"; there is api, web"));
        check(
            "cluster=web,zone=c",
            Err("no host has all of cluster=web and zone=c; each of its clauses is met by another host"),
        );
        let error = HostScope::default().hosts(&[]).expect_err("nobody");
        assert_eq!(
            error.to_string(),
            "no host has been heard of; no agent has spoken, and the inventory has no member"
        );
    }
}
