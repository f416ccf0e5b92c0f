//! The places of a fleet's processes: all of them on one loopback, or each host in a network namespace of its own.

mod apart;

use std::net::Ipv4Addr;
use std::process::Command;

use apart::{Bridge, Hosts};
pub use apart::{in_namespaces, unique_name};

/// A host of a fleet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FleetHost {
    /// That of a controller, with its member of etcd.
    Controller(usize),
    /// That of an agent, with what is beside it.
    Host(usize),
}

impl FleetHost {
    fn name(self) -> String {
        match self {
            FleetHost::Controller(number) => format!("c{number}"),
            FleetHost::Host(number) => format!("h{number}"),
        }
    }
}

/// The network of a fleet.
#[derive(Debug, Clone, Copy)]
pub struct FleetNetwork(Option<Hosts>);

impl FleetNetwork {
    /// One loopback for all.
    pub fn loopback() -> FleetNetwork {
        FleetNetwork(None)
    }

    /// A namespace for each host: see [`in_namespaces`].
    pub fn of_hosts(controllers: usize, hosts: usize) -> FleetNetwork {
        let controllers = (1..=controllers).map(FleetHost::Controller);
        FleetNetwork(Some(Hosts::new(controllers.chain((1..=hosts).map(FleetHost::Host)))))
    }

    /// The address of a host.
    pub fn ip(self, place: FleetHost) -> Ipv4Addr {
        self.0.map_or(Ipv4Addr::LOCALHOST, |_| Hosts::ip(place))
    }

    /// Does something on a host: sockets and processes that it makes are there.
    pub fn within<T: Send>(self, place: FleetHost, work: impl FnOnce() -> T + Send) -> T {
        match self.0 {
            None => work(),
            Some(_) => Hosts::within(place, work),
        }
    }

    /// Takes hosts away from all others, to a bridge where they reach each other. Their links stay up.
    pub fn part(self, places: &[FleetHost]) {
        places.iter().for_each(|place| Hosts::attach(*place, Bridge::Apart));
    }

    /// Brings them back.
    pub fn join(self, places: &[FleetHost]) {
        places.iter().for_each(|place| Hosts::attach(*place, Bridge::Main));
    }

    /// Takes the link of a host down, as when its cable is drawn.
    pub fn unplug(self, place: FleetHost) {
        ip(&["link", "set", &place.name(), "down"]);
    }

    /// Brings it up again.
    pub fn plug(self, place: FleetHost) {
        ip(&["link", "set", &place.name(), "up"]);
    }

    /// Loses without a sign what one host sends to another one. What comes back arrives.
    pub fn lose(self, from: FleetHost, to: FleetHost) {
        // A wrong hardware address: frames leave the host, and nobody takes them.
        let to = self.ip(to).to_string();
        let nobody = ["lladdr", "02:00:00:00:00:ff", "dev", "eth0", "nud", "permanent"];
        ip(&[&["-n", &from.name(), "neigh", "replace", &to][..], &nobody].concat());
    }

    /// Loses nothing more between them.
    pub fn lose_no_more(self, from: FleetHost, to: FleetHost) {
        ip(&["-n", &from.name(), "neigh", "del", &self.ip(to).to_string(), "dev", "eth0"]);
    }
}

/// Runs `ip` of iproute2, in a run that [`in_namespaces`] has begun.
///
/// # Panics
/// If it fails.
#[track_caller]
pub fn ip(words: &[&str]) {
    let output = Command::new("ip").args(words).output().expect("ip of iproute2");
    assert!(output.status.success(), "ip {words:?}: {}", String::from_utf8_lossy(&output.stderr));
}
