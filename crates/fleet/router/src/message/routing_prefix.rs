//! Routing prefixes: `/region/cluster/` of keys and of routes, and patterns of them with `*`.
//!
//! mcrouter's rules (RoutingPrefix.cpp, route.cpp): a `*` in a key's prefix stands for any number of bytes of one of the two
//! parts, as often as it is written. The prefix of a route is not a pattern, also where it has a star.

use std::fmt;

/// What the errors about a routing prefix say is accepted.
pub(crate) const EXPECTED: &str = "a routing prefix /region/cluster/";

/// `/region/cluster/`, whose two parts are not empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutingPrefix {
    text: Box<str>,
    region_len: usize,
}

impl RoutingPrefix {
    /// Reads a prefix. A slash that is missing at one of its ends is added; `None` if it has no two parts.
    pub fn parse(text: &str) -> Option<RoutingPrefix> {
        let inner = text.strip_prefix('/').unwrap_or(text);
        let inner = inner.strip_suffix('/').unwrap_or(inner);
        let (region, cluster) = inner.split_once('/')?;
        let is_complete = !region.is_empty() && !cluster.is_empty() && !cluster.contains('/');
        is_complete
            .then(|| RoutingPrefix { text: format!("/{region}/{cluster}/").into(), region_len: region.len() })
    }

    /// With all three slashes.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The first part.
    pub fn region(&self) -> &str {
        &self.text[1..=self.region_len]
    }

    /// The second part.
    pub fn cluster(&self) -> &str {
        &self.text[self.region_len + 2..self.text.len() - 1]
    }
}

impl Default for RoutingPrefix {
    /// mcrouter's: that of keys and routes where nobody has named one.
    fn default() -> RoutingPrefix {
        RoutingPrefix { text: "/././".into(), region_len: 1 }
    }
}

impl fmt::Display for RoutingPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The prefix of a key that is meant for all routes whose prefix it matches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PrefixPattern<'k> {
    region: &'k [u8],
    cluster: &'k [u8],
}

impl<'k> PrefixPattern<'k> {
    /// Reads a key's prefix, with its three slashes; `None` if it has no star, and so means one route.
    pub(crate) fn of(prefix: &'k [u8]) -> Option<PrefixPattern<'k>> {
        if !prefix.contains(&b'*') {
            return None;
        }
        let mut parts = prefix.split(|byte| *byte == b'/').skip(1);
        Some(PrefixPattern { region: parts.next()?, cluster: parts.next()? })
    }

    /// Whether a route with this prefix is meant.
    pub(crate) fn matches(&self, prefix: &RoutingPrefix) -> bool {
        is_like(self.region, prefix.region().as_bytes()) && is_like(self.cluster, prefix.cluster().as_bytes())
    }
}

/// Whether a part is as a pattern says it. Only the last star is tried again, so the time is at most the product of both
/// lengths, whatever a client writes.
fn is_like(pattern: &[u8], part: &[u8]) -> bool {
    let (mut at, mut next) = (0, 0);
    let mut star = None;
    while next < part.len() {
        match pattern.get(at) {
            Some(b'*') => {
                at += 1;
                star = Some((at, next));
            }
            Some(byte) if *byte == part[next] => (at, next) = (at + 1, next + 1),
            _ => {
                // The last star stands for one byte more.
                let Some((after_star, covered)) = &mut star else { return false };
                *covered += 1;
                (at, next) = (*after_star, *covered);
            }
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, prefix: &str) -> bool {
        let pattern = PrefixPattern::of(pattern.as_bytes()).expect("a pattern");
        pattern.matches(&RoutingPrefix::parse(prefix).expect("a prefix"))
    }

    #[test]
    fn a_prefix_has_two_parts_that_are_not_empty() {
        let check = |text: &str, expected: Option<[&str; 3]>| {
            let found = RoutingPrefix::parse(text);
            let found = found.as_ref().map(|found| [found.as_str(), found.region(), found.cluster()]);
            assert_eq!(found, expected, "{text}");
        };
        check("/a/b/", Some(["/a/b/", "a", "b"]));
        for text in ["a/b", "/a/b", "a/b/"] {
            check(text, Some(["/a/b/", "a", "b"]));
        }
        check("/east-1/mw*/", Some(["/east-1/mw*/", "east-1", "mw*"]));
        for text in ["", "/", "//", "///", "/a/", "/a//", "//a/", "a", "//a/b/", "/a/b//", "/a/b/c/", "a//b"]
        {
            check(text, None);
        }
        check(RoutingPrefix::default().as_str(), Some(["/././", ".", "."]));
        assert_eq!(RoutingPrefix::parse("/././"), Some(RoutingPrefix::default()));
    }

    #[test]
    fn stars_stand_for_any_bytes_of_a_part() {
        for (pattern, prefix) in [
            ("/*/*/", "/west/c1/"),
            ("/west/*/", "/west/c1/"),
            ("/*/c1/", "/west/c1/"),
            ("/w*/c*/", "/west/c1/"),
            ("/w*t/c1/", "/west/c1/"),
            ("/w*t/*1/", "/wt/1/"),
            ("/west*/c1/", "/west/c1/"),
            ("/w***/c1**/", "/west/c1/"),
            ("/*es*/*/", "/west/c1/"),
            ("/*a*b*c*d*/x/", "/1a2b3c4d/x/"),
            ("/*1*12/x/", "/112/x/"),
            ("/*ab/x/", "/aaab/x/"),
            ("/*/b*/", "/b*/b*/"),
        ] {
            assert!(matches(pattern, prefix), "{pattern} {prefix}");
        }
        for (pattern, prefix) in [
            ("/e*/c1/", "/west/c1/"),
            ("/*/c/", "/west/c1/"),
            ("/*/c1*2/", "/west/c1/"),
            ("/west/*c1/", "/west/c2/"),
            ("/*c1/", "/west/c1/"),
            ("/*west*/", "/west/c1/"),
            ("/*//", "/west/c1/"),
            ("//*/", "/west/c1/"),
            ("/*t*t/c1/", "/west/c1/"),
        ] {
            if let Some(pattern) = PrefixPattern::of(pattern.as_bytes()) {
                let prefix = RoutingPrefix::parse(prefix).expect("a prefix");
                assert!(!pattern.matches(&prefix), "{pattern:?} {prefix}");
            }
        }
        assert!(PrefixPattern::of(b"/west/c1/").is_none());
    }

    /// Tries each length of what a star stands for.
    fn is_like_by_trial(pattern: &[u8], part: &[u8]) -> bool {
        match pattern.split_first() {
            None => part.is_empty(),
            Some((b'*', rest)) => (0..=part.len()).any(|len| is_like_by_trial(rest, &part[len..])),
            Some((byte, rest)) => part.first() == Some(byte) && is_like_by_trial(rest, &part[1..]),
        }
    }

    #[test]
    fn matching_agrees_with_a_trial_of_all_lengths() {
        let mut texts: Vec<Vec<u8>> = vec![Vec::new()];
        for len in 1..=6 {
            let longer = |text: &Vec<u8>| b"ab*".map(|byte| [&text[..], &[byte]].concat());
            let added: Vec<_> = texts.iter().filter(|text| text.len() == len - 1).flat_map(longer).collect();
            texts.extend(added);
        }
        let parts: Vec<_> = texts.iter().filter(|text| !text.contains(&b'*')).collect();
        for pattern in &texts {
            for part in &parts {
                assert_eq!(is_like(pattern, part), is_like_by_trial(pattern, part), "{pattern:?} {part:?}");
            }
        }
    }

    #[test]
    fn many_stars_take_no_longer_than_the_product_of_both_lengths() {
        let pattern = [b"/".as_slice(), &b"*a".repeat(120), b"b/x/"].concat();
        let prefix = RoutingPrefix::parse(&format!("/{}/x/", "a".repeat(200))).expect("a prefix");
        // Tried with all lengths of all stars this would never end.
        assert!(!PrefixPattern::of(&pattern).expect("a pattern").matches(&prefix));
    }
}
