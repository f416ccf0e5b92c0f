//! First certificates of servers and routers, for the agent of their host: which of them it may have, and for which hosts.
//!
//! Nothing that the agent says is believed without the inventory: it has the member, on this host, with its address. Where routers are reached
//! is not written down, so a router may have the addresses of its host's members, and those that lead nowhere else.

use std::net::IpAddr;

use admin::api::ApiReply;
use fleet::{HostId, Inventory, RouterId};

use super::replies::refusal;
use crate::controller::observing::agents::Agents;
use crate::identity::FleetRole;
use crate::service::questions::CertifyQuestion;

/// Host names and addresses of the certificate that is asked for.
///
/// # Errors
/// Why there is none.
pub(crate) fn first_hosts(
    question: &CertifyQuestion,
    inventory: &Inventory,
    agents: &Agents,
) -> Result<Vec<String>, ApiReply> {
    match question.role {
        FleetRole::Server => of_server(question, inventory),
        FleetRole::Router => of_router(question, inventory, agents),
        role => Err(refusal(
            422,
            &format!("an agent gets certificates of servers and routers of its host, and none of a {role}"),
        )),
    }
}

fn of_server(question: &CertifyQuestion, inventory: &Inventory) -> Result<Vec<String>, ApiReply> {
    let CertifyQuestion { host, id, .. } = question;
    let member = id.as_str().parse().ok().and_then(|id| inventory.get(&id));
    let Some(member) = member else {
        let hint = "`control members add` makes it one";
        return Err(refusal(422, &format!("{id} is no member of the fleet yet\n  hint: {hint}")));
    };
    if member.host != *host {
        return Err(refusal(
            422,
            &format!("the member {id} is on the host {}, and not on {host}", member.host),
        ));
    }
    let address = host_part(&member.address).map(|address| vec![address.to_owned()]);
    address.ok_or_else(|| {
        refusal(
            422,
            &format!("the member {id} has the address {}, which no client reaches by TLS", member.address),
        )
    })
}

fn of_router(
    question: &CertifyQuestion,
    inventory: &Inventory,
    agents: &Agents,
) -> Result<Vec<String>, ApiReply> {
    let CertifyQuestion { host, id, hosts, .. } = question;
    if let Some(other) = owner_of(id.as_str(), host, agents) {
        return Err(refusal(422, &format!("the router {id} is on the host {other}, and not on {host}")));
    }
    let members = || inventory.members().filter(|member| member.host == *host);
    let is_its = |wanted: &str| members().any(|member| host_part(&member.address) == Some(wanted));
    let hint = "`control certificate` makes its certificate where the authority's key is";
    if members().next().is_none() {
        return Err(refusal(
            422,
            &format!(
                "the host {host} has no member, so it is not known to be the router {id}'s\n  hint: {hint}"
            ),
        ));
    }
    if hosts.is_empty() {
        return Err(refusal(
            422,
            &format!("it is not said where the router {id} is reached over a network\n  hint: {hint}"),
        ));
    }
    match hosts.iter().find(|wanted| !is_loopback(wanted) && !is_its(wanted)) {
        None => Ok(hosts.clone()),
        Some(wanted) => Err(refusal(
            422,
            &format!(
                "no member of the host {host} has the address {wanted}, so it is not known to be the router {id}'s\n  hint: {hint}"
            ),
        )),
    }
}

/// Another host that has a router of this name, as its agent says.
fn owner_of<'a>(router: &str, host: &HostId, agents: &'a Agents) -> Option<&'a HostId> {
    let router: RouterId = router.parse().ok()?;
    let mut others = agents.iter().filter(|(other, _)| *other != host);
    others
        .find(|(_, record)| record.report().routers.iter().any(|one| one.router == router))
        .map(|(other, _)| other)
}

/// The host of HOST:PORT; none of the path of a socket.
fn host_part(address: &str) -> Option<&str> {
    let (host, _) = address.rsplit_once(':').filter(|_| !address.starts_with("unix:"))?;
    Some(host.trim_start_matches('[').trim_end_matches(']'))
}

/// Whoever poses as the owner of such an address reaches clients of the own host only.
fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use stdx::clock::Now;

    use super::*;

    fn inventory() -> Inventory {
        let member = |(id, host, address): (&str, &str, &str)| {
            serde_json::from_value(json!({"id": id, "host": host, "zone": "a", "address": address}))
                .expect("a member")
        };
        let members = [
            ("m1", "h1", "10.0.0.1:11211"),
            ("m2", "h2", "[fd00::2]:11211"),
            ("m3", "h1", "unix:/run/m3.sock"),
        ];
        Inventory::new(members.map(member)).expect("an inventory")
    }

    /// Those of the agent of h1, while the host h2 has the router r2.
    #[track_caller]
    fn check(role: &str, id: &str, wanted: &[&str], expected: Result<&[&str], &str>) {
        check_of("h1", (role, id), wanted, expected);
    }

    #[track_caller]
    fn check_of(host: &str, (role, id): (&str, &str), wanted: &[&str], expected: Result<&[&str], &str>) {
        let router =
            json!({"router": "r2", "view": "main", "generation": null, "loaded": null, "text": "loaded"});
        let turn = json!({"host": "h2", "zone": "a", "boot": 1, "turn": 1, "routers": [router]});
        let mut agents = Agents::new(Now::at_ms(0));
        agents.take(serde_json::from_value(turn).expect("a turn"), true, Now::at_ms(0)).expect("it is new");
        let question = CertifyQuestion {
            host: host.parse().expect("a name"),
            role: role.parse().expect("a role"),
            id: id.parse().expect("a name"),
            hosts: wanted.iter().map(|host| (*host).to_owned()).collect(),
            request: String::new(),
        };
        match (first_hosts(&question, &inventory(), &agents), expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected),
            (Err(reply), Err(words)) => {
                let json: Value = serde_json::from_str(&reply.json).expect("JSON");
                let error = json["error"].as_str().expect("an error");
                assert!(reply.status == 422 && error.contains(words), "{role} {id}: {error}");
            }
            (found, _) => panic!("{role} {id} {wanted:?}: {:?}", found.map_err(|reply| reply.json)),
        }
    }

    #[test]
    fn a_server_gets_the_address_of_its_member_whatever_its_agent_wants() {
        check("server", "m1", &["10.0.0.9"], Ok(&["10.0.0.1"]));
        check("server", "m2", &[], Err("the member m2 is on the host h2, and not on h1"));
        check("server", "m3", &[], Err("unix:/run/m3.sock, which no client reaches"));
        check("server", "m9", &[], Err("m9 is no member of the fleet yet"));
    }

    #[test]
    fn a_router_gets_addresses_of_its_hosts_members_and_no_others() {
        check("router", "r1", &["10.0.0.1", "127.0.0.1"], Ok(&["10.0.0.1", "127.0.0.1"]));
        check("router", "r1", &["::1"], Ok(&["::1"]));
        check(
            "router",
            "r1",
            &["10.0.0.1", "bank.example"],
            Err("no member of the host h1 has the address bank.example"),
        );
        check("router", "r1", &["fd00::2"], Err("no member of the host h1 has the address fd00::2"));
        check("router", "r1", &[], Err("it is not said where the router r1 is reached"));
        check("router", "r2", &["10.0.0.1"], Err("the router r2 is on the host h2, and not on h1"));
        check_of("h9", ("router", "r9"), &["127.0.0.1"], Err("the host h9 has no member"));
    }

    #[test]
    fn there_is_none_of_another_role() {
        for role in ["agent", "controller", "operator", "reader"] {
            check(role, "x", &["10.0.0.1"], Err("an agent gets certificates of servers and routers"));
        }
    }
}
