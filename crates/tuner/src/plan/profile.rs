//! Profiles: settings for a kind of service, each with the reason and its source.
//!
//! Pure. A profile is requested by name; it raises limits and never lowers one that is already higher.

use serde::{Deserialize, Serialize};

use crate::observe::facts::{Disk, Facts, ListeningSocket, ServiceKind};
use crate::plan::change::{Holds, Risk, Setting, Stage};
use crate::plan::listen_queue;
use crate::plan::proposal::{ProposedChanges, Reason};
use crate::plan::signal::{ExpectedSignals, Figure, Moves};

/// The length of the longest queue that a profile requests.
const BACKLOG: u64 = listen_queue::BACKLOG as u64;

/// A kind of service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// memcached and evenkeel.
    Memcached,
    /// MySQL and MariaDB.
    Mysql,
    /// Redis and Valkey.
    Redis,
    /// Any server.
    Generic,
}

/// The operator of a value.
#[derive(Clone, Copy)]
pub(crate) enum Want {
    AtLeast(u64),
    AtMost(u64),
    Exactly(u64),
    /// These bits, besides those that are set.
    Bits(u64),
}

/// A requested sysctl.
pub(crate) struct Sysctl {
    pub(crate) name: &'static str,
    pub(crate) want: Want,
    pub(crate) reason: Reason,
}

impl Profile {
    /// All.
    pub const ALL: [Profile; 4] = [Profile::Memcached, Profile::Mysql, Profile::Redis, Profile::Generic];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Profile::Memcached => "memcached",
            Profile::Mysql => "mysql",
            Profile::Redis => "redis",
            Profile::Generic => "generic",
        }
    }

    /// The profile of this name; `evenkeel` has memcached's.
    pub fn named(name: &str) -> Option<Profile> {
        let name = if name == "evenkeel" { "memcached" } else { name };
        Profile::ALL.into_iter().find(|profile| profile.name() == name)
    }

    /// Its changes; `live`: also of programs while they run.
    pub fn changes(self, facts: &Facts, live: bool) -> ProposedChanges {
        let mut proposed = self.limits(facts);
        self.huge_pages(&mut proposed, facts);
        if self == Profile::Mysql {
            facts.disks.iter().for_each(|disk| scheduler(&mut proposed, disk));
        }
        listen_queue::longer(&mut proposed, facts, self.listeners(facts), live);
        if self == Profile::Memcached {
            listen_queue::fast_open(&mut proposed, facts, self.listeners(facts), live);
        }
        proposed
    }

    /// Of these, the limits of the host.
    pub(crate) fn limits(self, facts: &Facts) -> ProposedChanges {
        let mut proposed =
            ProposedChanges { asked_by: format!("profile {}", self.name()), ..ProposedChanges::default() };
        for sysctl in self.sysctls(facts) {
            set(&mut proposed, facts, &sysctl);
        }
        proposed
    }

    fn sysctls(self, facts: &Facts) -> Vec<Sysctl> {
        let mut wanted = vec![ACCEPT_QUEUE];
        // With cookies the listener's backlog alone bounds its handshakes (tcp_conn_request in net/ipv4/tcp_input.c).
        if facts.sysctl("net.ipv4.tcp_syncookies").unwrap_or(0) == 0 {
            wanted.push(SYN_QUEUE);
        }
        match self {
            Profile::Memcached => wanted.extend([FAST_OPEN, SWAPPINESS]),
            Profile::Mysql => wanted.extend([SWAPPINESS, DIRTY_BACKGROUND, DIRTY]),
            Profile::Redis => wanted.extend([SWAPPINESS, OVERCOMMIT]),
            Profile::Generic => {}
        }
        if facts.swap_bytes == Some(0) {
            wanted.retain(|sysctl| sysctl.name != SWAPPINESS.name);
        }
        wanted
    }

    fn huge_pages(self, proposed: &mut ProposedChanges, facts: &Facts) {
        let wanted = match self {
            Profile::Memcached => "madvise",
            Profile::Mysql | Profile::Redis => "never",
            Profile::Generic => return,
        };
        // `madvise` and `never` alike keep huge pages from programs that did not ask; neither is a reason to change
        // the other.
        if let Some(now) = facts.huge_pages.enabled.as_ref().filter(|now| *now == "always") {
            let setting = Setting::choice("/sys/kernel/mm/transparent_hugepage/enabled");
            proposed.propose(Stage::Memory, setting, now.clone(), wanted.into(), HUGE_PAGES);
        }
    }

    /// Those of the services of the plan.
    fn listeners(self, facts: &Facts) -> impl Iterator<Item = &ListeningSocket> {
        facts.listeners.iter().filter(move |listener| {
            facts
                .service_of(listener)
                .is_some_and(|service| self == Profile::Generic || self.suits(service.kind))
        })
    }

    fn suits(self, kind: ServiceKind) -> bool {
        match kind {
            ServiceKind::Memcached | ServiceKind::Evenkeel => self == Profile::Memcached,
            ServiceKind::Mysql => self == Profile::Mysql,
            ServiceKind::Redis => self == Profile::Redis,
            ServiceKind::Generic => self == Profile::Generic,
        }
    }
}

const ACCEPT_QUEUE: Sysctl = Sysctl {
    name: "net.core.somaxconn",
    want: Want::AtLeast(BACKLOG),
    reason: Reason {
        why: "it cuts every listener's backlog when it begins to listen (listen(2)); clients that find it full wait a second",
        risk: Risk::Low,
        signal: &[
            ExpectedSignals::figure(Figure::ListenOverflows, Moves::StandsStill),
            ExpectedSignals::words("the listener has to be started again or changed with --live first"),
        ],
    },
};
const SYN_QUEUE: Sysctl = Sysctl {
    name: "net.ipv4.tcp_max_syn_backlog",
    want: Want::AtLeast(BACKLOG),
    reason: Reason {
        why: "without SYN cookies handshakes of unknown clients are dropped from three quarters of it on",
        risk: Risk::Low,
        signal: &[ExpectedSignals::figure(Figure::SynQueueFull, Moves::StandsStill)],
    },
};
pub(crate) const FAST_OPEN: Sysctl = Sysctl {
    name: "net.ipv4.tcp_fastopen",
    // 1: clients, 2: servers (ip-sysctl.rst).
    want: Want::Bits(3),
    reason: Reason {
        why: "clients that support it send their first request with the SYN, a round trip sooner",
        risk: Risk::Low,
        signal: &[
            ExpectedSignals::figure(Figure::FastOpens, Moves::Grows),
            ExpectedSignals::words("the server has to set TCP_FASTOPEN"),
        ],
    },
};
pub(crate) const SWAPPINESS: Sysctl = Sysctl {
    name: "vm.swappiness",
    want: Want::AtMost(1),
    reason: Reason {
        why: "a cache whose memory is on the disk is slower than none; 1 swaps only to avoid running out of memory",
        risk: Risk::Low,
        signal: &[ExpectedSignals::figure(Figure::Swapping, Moves::StandsStill)],
    },
};
const OVERCOMMIT: Sysctl = Sysctl {
    name: "vm.overcommit_memory",
    want: Want::Exactly(1),
    reason: Reason {
        why: "saving in the background forks, which otherwise fails when memory is half used (Redis administration guide)",
        risk: Risk::Moderate,
        signal: &[ExpectedSignals::words("no more \"Can't save in background: fork\" in its log")],
    },
};
pub(crate) const DIRTY_BACKGROUND: Sysctl = Sysctl {
    name: "vm.dirty_background_ratio",
    want: Want::AtMost(5),
    reason: Reason {
        why: "writing begins earlier and in smaller portions (vm.rst), so reads wait less behind it",
        risk: Risk::Low,
        signal: &[ExpectedSignals::figure(Figure::DiskWait, Moves::Falls)],
    },
};
pub(crate) const DIRTY: Sysctl = Sysctl {
    name: "vm.dirty_ratio",
    want: Want::AtMost(15),
    reason: Reason {
        why: "write-back begins before so much has gathered that all programs wait for it (vm.rst)",
        risk: Risk::Low,
        signal: &[ExpectedSignals::figure(Figure::DiskWait, Moves::Falls)],
    },
};
pub(crate) const HUGE_PAGES: Reason = Reason {
    why: "huge pages for programs that did not ask cost memory, and pauses when pages are compacted or copied after a fork",
    risk: Risk::Low,
    signal: &[ExpectedSignals::figure(Figure::Compaction, Moves::StandsStill)],
};
const SCHEDULER: Reason = Reason {
    why: "a disk that does not turn has no order that is better than the one of arrival",
    risk: Risk::Low,
    signal: &[
        ExpectedSignals::figure(Figure::DiskWait, Moves::DoesNotRise),
        ExpectedSignals::words("CPU time per request falls"),
    ],
};

/// Memory of a waiting entry (slabinfo of Linux 6.1 and 6.18): a connection, one that is half open, a packet with its
/// buffer.
pub(crate) const CONNECTION_BYTES: u64 = 2560;
const HALF_OPEN_BYTES: u64 = 320;
const PACKET_BYTES: u64 = 256 + 2048;

/// Memory of a full queue of this length.
fn bytes(facts: &Facts, name: &str, length: u64) -> Option<u64> {
    match name {
        "net.core.somaxconn" => Some(length * CONNECTION_BYTES),
        "net.ipv4.tcp_max_syn_backlog" => Some(length * HALF_OPEN_BYTES),
        "net.core.netdev_max_backlog" => Some(length * PACKET_BYTES * facts.online().len() as u64),
        _ => None,
    }
}

pub(crate) fn set(proposed: &mut ProposedChanges, facts: &Facts, sysctl: &Sysctl) {
    let Some(now) = facts.sysctl(sysctl.name) else {
        return proposed.refuse("kernel", format!("{} cannot be read", sysctl.name));
    };
    let wanted = match sysctl.want {
        Want::AtLeast(least) => now.max(least),
        Want::AtMost(most) => now.min(most),
        Want::Exactly(value) => value,
        Want::Bits(bits) => now | bits,
    };
    let setting = Setting::sysctl(sysctl.name, Holds::Number);
    proposed.propose(Stage::Sysctl, setting, now.to_string(), wanted.to_string(), sysctl.reason);
    bytes(facts, sysctl.name, wanted).into_iter().for_each(|bytes| proposed.at_cost(bytes));
}

pub(crate) fn scheduler(proposed: &mut ProposedChanges, disk: &Disk) {
    let Some(now) = disk.scheduler.as_ref().filter(|_| !disk.rotational) else { return };
    if disk.schedulers.iter().any(|choice| choice == "none") {
        let setting = Setting::choice(format!("/sys/block/{}/queue/scheduler", disk.name));
        proposed.propose(Stage::Disk, setting, now.clone(), "none".into(), SCHEDULER);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::facts::Service;
    use crate::plan::change::Change;

    fn host() -> Facts {
        let sysctls = [
            ("net.core.somaxconn", "128"),
            ("net.ipv4.tcp_max_syn_backlog", "65536"),
            ("net.ipv4.tcp_fastopen", "1025"),
            ("vm.swappiness", "60"),
            ("vm.dirty_ratio", "20"),
            ("vm.dirty_background_ratio", "3"),
            ("vm.overcommit_memory", "0"),
        ];
        let sysctls = sysctls.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let mut facts = Facts { sysctls, ..Facts::default() };
        facts.huge_pages.enabled = Some("always".into());
        facts.disks = vec![Disk {
            name: "sda".into(),
            scheduler: Some("mq-deadline".into()),
            schedulers: vec!["none".into(), "mq-deadline".into()],
            ..Disk::default()
        }];
        facts
    }

    #[track_caller]
    fn check(profile: Profile, wanted: &[&str]) {
        let due = profile.changes(&host(), false).changes.into_iter().filter(Change::is_due);
        let said = due.map(|change| {
            let path = change.setting.to_string();
            format!("{} {}", path.rsplit('/').next().unwrap(), change.wanted)
        });
        assert_eq!(said.collect::<Vec<_>>(), wanted);
    }
    #[test]
    fn limits_are_raised_and_never_lowered() {
        check(Profile::Generic, &["somaxconn 4096"]);
        check(
            Profile::Memcached,
            &["somaxconn 4096", "tcp_fastopen 1027", "swappiness 1", "enabled madvise"],
        );
        check(Profile::Redis, &["somaxconn 4096", "swappiness 1", "overcommit_memory 1", "enabled never"]);
        check(
            Profile::Mysql,
            &["somaxconn 4096", "swappiness 1", "dirty_ratio 15", "enabled never", "scheduler none"],
        );
    }

    #[test]
    fn without_swap_nothing_is_swapped_whatever_the_setting() {
        let wanted = |swap_bytes: Option<u64>| {
            let facts = Facts { swap_bytes, ..host() };
            let changes = Profile::Redis.changes(&facts, false).changes;
            changes.iter().any(|change| change.setting.to_string().ends_with("swappiness"))
        };
        assert_eq!([None, Some(1 << 30), Some(0)].map(wanted), [true, true, false]);
    }

    #[test]
    fn the_limit_of_handshakes_is_set_only_where_there_are_no_cookies() {
        let wanted = |cookies: &str| {
            let mut facts = host();
            facts.sysctls.insert("net.ipv4.tcp_max_syn_backlog".into(), "512".into());
            facts.sysctls.insert("net.ipv4.tcp_syncookies".into(), cookies.into());
            let changes = Profile::Generic.changes(&facts, false).changes;
            changes.iter().any(|change| change.setting.to_string().ends_with("tcp_max_syn_backlog"))
        };
        assert_eq!(["0", "1", "2"].map(wanted), [true, false, false]);
    }

    #[test]
    fn a_profile_means_the_listeners_of_its_kind_of_service() {
        let mut facts = host();
        facts.kernel.version = (6, 1);
        facts.services = vec![Service {
            pid: 8,
            name: "memcached".into(),
            kind: ServiceKind::Memcached,
            ..Service::default()
        }];
        facts.listeners = [8, 9]
            .map(|pid| ListeningSocket {
                address: format!("0.0.0.0:{pid}"),
                backlog: 128,
                pid: Some(pid),
                started: Some(1),
                fast_open: Some(0),
                ..ListeningSocket::default()
            })
            .into();
        let asked = |profile: Profile, live| {
            let proposed = profile.changes(&facts, live);
            let is_listener = |change: &&Change| change.stage == Stage::Listener;
            (proposed.changes.iter().filter(is_listener).count(), proposed.advice.len())
        };
        let memcached = Profile::named("evenkeel").unwrap();
        assert_eq!(
            (asked(memcached, false), asked(memcached, true)),
            ((0, 2), (2, 2)),
            "backlog and Fast Open"
        );
        assert_eq!((asked(Profile::Mysql, true), asked(Profile::Generic, true)), ((0, 0), (1, 1)));
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_its_name() {
        let refusals = Profile::Generic.changes(&Facts::default(), false).refusals;
        assert_eq!(refusals[0].reason, "net.core.somaxconn cannot be read");
    }
}
