//! Names of adopted members and their hosts, from their addresses.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::Ipv6Addr;
use std::str::FromStr;

use crate::{HostId, MemberId};

/// Longest part of an address in a name, in bytes: a number after it still fits into a name.
const STEM_LEN_MAX: usize = 50;
/// The host of sockets that are files.
const LOCAL_HOST: &str = "local";

/// Names that have been given.
#[derive(Default)]
pub(super) struct MemberIds {
    hosts: BTreeMap<String, HostId>,
    host_names: Counted,
    member_names: Counted,
}

impl MemberIds {
    /// A new member at an address, and the host of all members at addresses of the same host.
    pub(super) fn of(&mut self, address: &str) -> (MemberId, HostId) {
        let host = host_of(address);
        let names = &mut self.host_names;
        let host_id = self.hosts.entry(host).or_insert_with_key(|host| names.name(host)).clone();
        (self.member_names.name(address), host_id)
    }
}

/// The host of an address, written one way.
fn host_of(address: &str) -> String {
    if address.starts_with("unix:") {
        return LOCAL_HOST.to_owned();
    }
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    match inner.and_then(|inner| inner.parse::<Ipv6Addr>().ok()) {
        Some(ip) => ip.to_string(),
        None => host.to_ascii_lowercase(),
    }
}

/// Names, and how often each stem was asked for.
#[derive(Default)]
struct Counted {
    next: BTreeMap<String, usize>,
}

impl Counted {
    /// A name that was not given before.
    fn name<N: FromStr<Err: std::fmt::Debug>>(&mut self, text: &str) -> N {
        let stem = stem(text);
        let mut name = stem.clone();
        while let Some(number) = self.taken(&name, &stem) {
            name = format!("{stem}-{number}");
        }
        name.parse().expect("letters, digits and `-` of this length are a name")
    }

    /// Takes a name; if it is taken already, the number to try with the stem.
    fn taken(&mut self, name: &str, stem: &str) -> Option<usize> {
        if let Entry::Vacant(free) = self.next.entry(name.to_owned()) {
            free.insert(2);
            return None;
        }
        let number = self.next.get_mut(stem).expect("a stem is taken before its numbers");
        *number += 1;
        Some(*number - 1)
    }
}

/// What a name can have of a text.
fn stem(text: &str) -> String {
    let fitting = |byte: u8| match byte {
        b'.' | b'_' => char::from(byte),
        _ if byte.is_ascii_alphanumeric() => char::from(byte),
        _ => '-',
    };
    let stem: String = text.bytes().map(fitting).collect();
    let stem = stem.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
    let stem = &stem[..stem.len().min(STEM_LEN_MAX)];
    if stem.is_empty() { "member".to_owned() } else { stem.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(addresses: &[&str], expected: &[(&str, &str)]) {
        let mut ids = MemberIds::default();
        let found: Vec<(String, String)> = addresses
            .iter()
            .map(|address| ids.of(address))
            .map(|(member, host)| (member.to_string(), host.to_string()))
            .collect();
        let expected: Vec<(String, String)> =
            expected.iter().map(|(member, host)| ((*member).to_owned(), (*host).to_owned())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn members_of_one_host_have_one_host() {
        check(&["a:1", "A:2", "b:1"], &[("a-1", "a"), ("A-2", "a"), ("b-1", "b")]);
        check(&["[::1]:1", "[0:0::1]:2"], &[("1--1", "1"), ("0-0--1--2", "1")]);
        check(&["unix:/run/a", "unix:/run/b"], &[("unix--run-a", "local"), ("unix--run-b", "local")]);
    }

    #[test]
    fn addresses_that_look_alike_have_names_of_their_own() {
        check(&["[::1]:1", "[1::]:1"], &[("1--1", "1"), ("1----1", "1--")]);
        check(
            &["a+b:1", "a-b:1", "a-b-1:2"],
            &[("a-b-1", "a-b"), ("a-b-1-2", "a-b-2"), ("a-b-1-2-2", "a-b-1")],
        );
        check(&["_:_", "-:-"], &[("member", "member"), ("member-2", "member-2")]);
    }

    #[test]
    fn long_names_are_cut_and_stay_different() {
        let long = "x".repeat(70);
        let (first, second) = (format!("{long}:1"), format!("{long}:2"));
        let cut = "x".repeat(STEM_LEN_MAX);
        let other = format!("{cut}-2");
        check(&[&first, &second], &[(&cut, &cut), (&other, &cut)]);
    }
}
