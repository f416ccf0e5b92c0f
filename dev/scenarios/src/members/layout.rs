//! Hosts of the large fleet: which has a server, how many routers, and their names.

use serde::{Deserialize, Serialize};

/// Controllers that share the agents.
pub(super) const CONTROLLERS: usize = 3;

/// Of members that have a host each, one in so many is a server.
const MEMBERS_PER_SERVER: usize = 5;

/// Members on their hosts.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct FleetLayout {
    members: usize,
    /// On each host: one, which is a server or a router, or a server and routers.
    per_host: usize,
}

impl FleetLayout {
    pub(super) fn new(members: usize, per_host: usize) -> FleetLayout {
        FleetLayout { members, per_host: per_host.max(1) }
    }

    pub(super) fn hosts(self) -> usize {
        self.members.div_ceil(self.per_host)
    }

    /// The first hosts have them.
    pub(super) fn servers(self) -> usize {
        if self.per_host == 1 { self.members.div_ceil(MEMBERS_PER_SERVER) } else { self.hosts() }
    }

    pub(super) fn routers(self) -> usize {
        (0..self.hosts()).map(|host| self.routers_of(host)).sum()
    }

    pub(super) fn has_server(self, host: usize) -> bool {
        host < self.servers()
    }

    pub(super) fn routers_of(self, host: usize) -> usize {
        if self.per_host == 1 { usize::from(!self.has_server(host)) } else { self.per_host - 1 }
    }
}

/// The host and the zone of a number.
pub(super) fn names(number: usize) -> (String, String) {
    (format!("h{number}"), format!("z{}", number % CONTROLLERS + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_have_a_host_each_or_share_one() {
        let sizes = |members, per_host| {
            let layout = FleetLayout::new(members, per_host);
            (layout.hosts(), layout.servers(), layout.routers())
        };
        assert_eq!(sizes(25_000, 1), (25_000, 5_000, 20_000));
        assert_eq!(sizes(25_000, 5), (5_000, 5_000, 20_000));
    }
}
