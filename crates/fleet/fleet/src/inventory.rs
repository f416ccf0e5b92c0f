//! Inventory: the members that exist, in a slot or not.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{HostId, MemberId, ZoneName};

/// Members of a fleet: 25,000, and some that are on their way out.
pub const MEMBERS_MAX: usize = 32_768;
/// Longest address in bytes: a DNS name, a port, and what is around them; a socket's path.
const ADDRESS_LEN_MAX: usize = 300;

/// A cache server process: written once when it joins, removed by a decision, never by a time-out.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FleetMember {
    /// Which.
    pub id: MemberId,
    /// The machine that it runs on.
    pub host: HostId,
    /// Where that is.
    pub zone: ZoneName,
    /// What kind of machine.
    #[serde(default)]
    pub class: Option<String>,
    /// `HOST:PORT`, `[ADDRESS]:PORT` or `unix:PATH`, as routers dial it.
    pub address: String,
    /// It takes no slot: it is on its way out, or people look at it.
    #[serde(default)]
    pub is_held: bool,
}

/// All members. Whoever is not in it is unknown, not dead: a list that was cut off must never become one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    members: BTreeMap<MemberId, FleetMember>,
}

/// Why a list of members cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InventoryError {
    /// More than any fleet has.
    #[error("the inventory has {0} members, and at most {MEMBERS_MAX} are accepted")]
    TooMany(usize),
    /// Two members of one name.
    #[error("the member {0} is there twice")]
    Twice(MemberId),
    /// Two members at one address.
    #[error("the members {0} and {1} have the same address {2}")]
    SameAddress(MemberId, MemberId, String),
    /// Something that routers cannot dial, or that does not fit into their configuration.
    #[error("the member {0} has the address {1:?}: expected HOST:PORT, [ADDRESS]:PORT or unix:PATH")]
    Address(MemberId, String),
}

impl Inventory {
    /// Of a whole list.
    ///
    /// # Errors
    /// If two members have the same name or address, or an address is none.
    pub fn new(list: impl IntoIterator<Item = FleetMember>) -> Result<Inventory, InventoryError> {
        let mut members = BTreeMap::new();
        let mut addresses: BTreeMap<String, MemberId> = BTreeMap::new();
        for member in list {
            if !is_address(&member.address) {
                let found = member.address.chars().take(ADDRESS_LEN_MAX).collect();
                return Err(InventoryError::Address(member.id, found));
            }
            if let Some(other) = addresses.insert(member.address.clone(), member.id.clone())
                && other != member.id
            {
                return Err(InventoryError::SameAddress(other, member.id, member.address));
            }
            let id = member.id.clone();
            if members.insert(id.clone(), member).is_some() {
                return Err(InventoryError::Twice(id));
            }
            if members.len() > MEMBERS_MAX {
                return Err(InventoryError::TooMany(members.len()));
            }
        }
        Ok(Inventory { members })
    }

    /// A member by its name.
    pub fn get(&self, id: &MemberId) -> Option<&FleetMember> {
        self.members.get(id)
    }

    /// All members, by their names.
    pub fn members(&self) -> impl Iterator<Item = &FleetMember> {
        self.members.values()
    }

    /// Hosts that have members.
    pub fn hosts(&self) -> BTreeSet<&HostId> {
        self.members.values().map(|member| &member.host).collect()
    }
}

fn is_address(text: &str) -> bool {
    let is_clean = text.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"\\|%@".contains(&byte));
    if !is_clean || text.len() > ADDRESS_LEN_MAX {
        return false;
    }
    if let Some(path) = text.strip_prefix("unix:") {
        return path.starts_with('/');
    }
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let is_host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(host) => host.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !host.is_empty() && !host.contains([':', '/', '[', ']']),
    };
    is_host && port.parse::<u16>().is_ok_and(|port| port > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(id: &str, address: &str) -> FleetMember {
        let name = "x".parse().expect("a name");
        let zone = "a".parse().expect("a name");
        let (id, address) = (id.parse().expect("a name"), address.to_owned());
        FleetMember { id, host: name, zone, class: None, address, is_held: false }
    }

    #[track_caller]
    fn refused(list: &[(&str, &str)], expected: &str) {
        let error =
            Inventory::new(list.iter().map(|(id, address)| member(id, address))).expect_err("refused");
        assert!(error.to_string().contains(expected), "{error}");
    }

    #[test]
    fn names_and_addresses_are_unique() {
        refused(&[("m1", "h:1"), ("m1", "h:2")], "the member m1 is there twice");
        refused(&[("m1", "h:1"), ("m1", "h:1")], "the member m1 is there twice");
        refused(&[("m1", "h:1"), ("m2", "h:1")], "the members m1 and m2 have the same address h:1");
    }

    #[test]
    fn an_address_is_one_that_routers_dial() {
        for address in ["h:1", "10.0.0.1:11211", "[::1]:11211", "unix:/run/c.sock", "a.b-c.example:65535"] {
            assert!(is_address(address), "{address}");
        }
        let odd = [
            "", "h", "h:0", "h:70000", ":1", "::1:1", "[x]:1", "unix:", "unix:x", "h:1\"", "a b:1", "h:1|x",
            "@h:1",
        ];
        for address in odd {
            assert!(!is_address(address), "{address}");
        }
        refused(&[("m1", &"x".repeat(100_000))], "expected HOST:PORT");
    }

    #[test]
    fn the_limit_of_members_is_accepted_and_one_more_is_refused() {
        let list =
            |count: usize| (0..count).map(|number| member(&format!("m{number}"), &format!("h{number}:1")));
        assert!(Inventory::new(list(MEMBERS_MAX)).is_ok());
        assert_eq!(Inventory::new(list(MEMBERS_MAX + 1)), Err(InventoryError::TooMany(MEMBERS_MAX + 1)));
    }
}
