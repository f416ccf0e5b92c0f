//! The fleet that most scenarios are about: three members of etcd, three controllers, nine servers with an agent each, and
//! six routers, all of them processes of this host.

use anyhow::{Result, ensure};
use end_to_end::fleet::{DecisionStore, Fleet, HostKind};
use end_to_end::network::FleetNetwork;
use end_to_end::subject::{ServerUnderTest, SocketDriver};
use serde_json::json;

pub(crate) const SERVERS: usize = 9;
pub(crate) const ROUTERS: usize = 6;
/// Two servers are spares: where a slot change fails, the second one takes the slot.
pub(crate) const SLOTS: usize = 7;

/// The guard must not hold what is lost on purpose: losses are counted together for 20 s, and not for a minute and an hour.
pub(crate) const HEALTH: &str =
    "observation_window_ms = 30000\n[guard]\nwindow_ms = 20000\nreplaced_window_ms = 20000\n";

/// The fleet, with its first generation in all routers.
pub(crate) fn begin() -> Result<Fleet> {
    let mut fleet = of_ours(DecisionStore::Etcd(3));
    ensure!(!fleet.etcd.is_empty(), "there is no etcd (Debian: etcd-server)");
    fleet.write("health.toml", HEALTH);
    fleet.controller_flags = ["--health", "health.toml"].map(str::to_owned).to_vec();
    (1..=3).for_each(|number| fleet.controller(number, 3));
    eprintln!("three members of etcd and three controllers run; now {SERVERS} servers and {ROUTERS} routers");
    for host in 1..=SERVERS {
        fleet.host_with(host, HostKind { has_no_router: host > ROUTERS, ..HostKind::default() });
    }
    fleet.begin(&policy());
    Ok(fleet)
}

/// A fleet whose servers are ours, and nothing of it yet.
pub(crate) fn of_ours(place: DecisionStore) -> Fleet {
    Fleet::of(FleetNetwork::loopback(), place, ServerUnderTest::evenkeel(SocketDriver::Uring))
}

/// One cluster; a server that does not answer is replaced by one of the others, which follows from the key.
fn policy() -> String {
    let route = json!({"route": {
        "type": "FailoverRoute",
        "children": ["PoolRoute|web", "Pool|web"],
        "failover_policy": {
            "type": "DeterministicOrderPolicy", "max_tries": SLOTS + 1, "max_error_tries": SLOTS,
        },
    }});
    format!(
        "fleet = \"prod\"\n[[cluster]]\nname = \"web\"\nslots = {SLOTS}\n[[view]]\nname = \"main\"\nroutes = '''\n{route}\n'''\n"
    )
}
