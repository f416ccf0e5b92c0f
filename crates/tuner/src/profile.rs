//! What a kind of service wants of its host, each with the reason and where that comes from.
//!
//! Pure. A profile is asked for by name; it raises limits and never lowers one that somebody has raised further.

use serde::{Deserialize, Serialize};

use crate::change::{Holds, Risk, Setting, Stage};
use crate::facts::{Disk, Facts, ServiceKind};
use crate::signal::{Expected, Figure, Moves};
use crate::strategy::{Reason, Wishes};

/// Connections that may wait: what perftune and tuned's profiles set, and more than any burst that was reported.
const BACKLOG: u64 = 4096;

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

/// How a value is wanted.
#[derive(Clone, Copy)]
pub(crate) enum Want {
    AtLeast(u64),
    AtMost(u64),
    Exactly(u64),
    /// These bits, besides those that are set.
    Bits(u64),
}

/// A sysctl that is wanted.
pub(crate) struct Sysctl {
    pub(crate) name: &'static str,
    pub(crate) want: Want,
    pub(crate) reason: Reason,
}

impl Profile {
    /// All.
    pub const ALL: [Profile; 4] = [Profile::Memcached, Profile::Mysql, Profile::Redis, Profile::Generic];

    /// As it is typed.
    pub fn name(self) -> &'static str {
        match self {
            Profile::Memcached => "memcached",
            Profile::Mysql => "mysql",
            Profile::Redis => "redis",
            Profile::Generic => "generic",
        }
    }

    /// The profile of this name; `evenkeel` wants what memcached wants.
    pub fn named(name: &str) -> Option<Profile> {
        let name = if name == "evenkeel" { "memcached" } else { name };
        Profile::ALL.into_iter().find(|profile| profile.name() == name)
    }

    /// What it asks for.
    pub fn changes(self, facts: &Facts) -> Wishes {
        let mut wishes = Wishes { asked_by: format!("profile {}", self.name()), ..Wishes::default() };
        for sysctl in self.sysctls() {
            set(&mut wishes, facts, &sysctl);
        }
        self.huge_pages(&mut wishes, facts);
        if self == Profile::Mysql {
            facts.disks.iter().for_each(|disk| scheduler(&mut wishes, disk));
        }
        self.listeners(&mut wishes, facts);
        wishes
    }

    fn sysctls(self) -> Vec<Sysctl> {
        let mut wanted = vec![ACCEPT_QUEUE, SYN_QUEUE];
        match self {
            Profile::Memcached => wanted.extend([FAST_OPEN, SWAPPINESS]),
            Profile::Mysql => wanted.extend([SWAPPINESS, DIRTY_BACKGROUND, DIRTY]),
            Profile::Redis => wanted.extend([SWAPPINESS, OVERCOMMIT]),
            Profile::Generic => {}
        }
        wanted
    }

    fn huge_pages(self, wishes: &mut Wishes, facts: &Facts) {
        let wanted = match self {
            Profile::Memcached => "madvise",
            Profile::Mysql | Profile::Redis => "never",
            Profile::Generic => return,
        };
        // `madvise` and `never` alike keep huge pages from who has not asked; neither is a reason to change the other.
        if let Some(now) = facts.huge_pages.enabled.as_ref().filter(|now| *now == "always") {
            let setting = Setting::choice("/sys/kernel/mm/transparent_hugepage/enabled");
            wishes.wish(Stage::Memory, setting, now.clone(), wanted.into(), HUGE_PAGES);
        }
    }

    /// A listener's backlog is fixed when it begins to listen.
    fn listeners(self, wishes: &mut Wishes, facts: &Facts) {
        let option = |kind| match kind {
            ServiceKind::Memcached | ServiceKind::Evenkeel => "-b 4096",
            ServiceKind::Mysql => "back_log=4096",
            ServiceKind::Redis => "tcp-backlog 4096",
            ServiceKind::Generic => "a backlog of 4096",
        };
        for listener in facts.listeners.iter().filter(|listener| u64::from(listener.backlog) < BACKLOG) {
            let service = facts.services.iter().find(|service| Some(service.pid) == listener.pid);
            let Some(service) =
                service.filter(|service| self == Profile::Generic || self.suits(service.kind))
            else {
                continue;
            };
            wishes.advice.push(format!(
                "{} (PID {}) listens at {} with a backlog of {}: start it again with {}, after net.core.somaxconn is raised",
                service.name, service.pid, listener.address, listener.backlog, option(service.kind)
            ));
        }
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
            Expected::figure(Figure::ListenOverflows, Moves::StandsStill),
            Expected::words("the listener has to be started again first"),
        ],
    },
};
const SYN_QUEUE: Sysctl = Sysctl {
    name: "net.ipv4.tcp_max_syn_backlog",
    want: Want::AtLeast(BACKLOG),
    reason: Reason {
        why: "connections that are half open wait here (tcp(7)); seastar's perftune sets the same",
        risk: Risk::Low,
        signal: &[Expected::figure(Figure::SynQueueFull, Moves::StandsStill)],
    },
};
const FAST_OPEN: Sysctl = Sysctl {
    name: "net.ipv4.tcp_fastopen",
    // 1: clients, 2: servers (ip-sysctl.rst).
    want: Want::Bits(3),
    reason: Reason {
        why: "clients that support it send their first request with the SYN, a round trip sooner",
        risk: Risk::Low,
        signal: &[
            Expected::figure(Figure::FastOpens, Moves::Grows),
            Expected::words("the server has to set TCP_FASTOPEN"),
        ],
    },
};
pub(crate) const SWAPPINESS: Sysctl = Sysctl {
    name: "vm.swappiness",
    want: Want::AtMost(1),
    reason: Reason {
        why: "a cache whose memory is on the disk is slower than none; 1 swaps only to avoid running out of memory",
        risk: Risk::Low,
        signal: &[Expected::figure(Figure::Swapping, Moves::StandsStill)],
    },
};
const OVERCOMMIT: Sysctl = Sysctl {
    name: "vm.overcommit_memory",
    want: Want::Exactly(1),
    reason: Reason {
        why: "saving in the background forks, which otherwise fails when memory is half used (Redis administration guide)",
        risk: Risk::Moderate,
        signal: &[Expected::words("no more \"Can't save in background: fork\" in its log")],
    },
};
pub(crate) const DIRTY_BACKGROUND: Sysctl = Sysctl {
    name: "vm.dirty_background_ratio",
    want: Want::AtMost(5),
    reason: Reason {
        why: "writing begins earlier and in smaller portions (vm.rst), so reads wait less behind it",
        risk: Risk::Low,
        signal: &[Expected::figure(Figure::DiskWait, Moves::Falls)],
    },
};
pub(crate) const DIRTY: Sysctl = Sysctl {
    name: "vm.dirty_ratio",
    want: Want::AtMost(15),
    reason: Reason {
        why: "writers are slowed down before there is so much to write that everybody waits (vm.rst)",
        risk: Risk::Low,
        signal: &[Expected::figure(Figure::DiskWait, Moves::Falls)],
    },
};
pub(crate) const HUGE_PAGES: Reason = Reason {
    why: "huge pages for who has not asked cost memory, and pauses when pages are moved together or copied after a fork",
    risk: Risk::Low,
    signal: &[Expected::figure(Figure::Compaction, Moves::StandsStill)],
};
const SCHEDULER: Reason = Reason {
    why: "a disk that does not turn has no order that is better than the one of arrival",
    risk: Risk::Low,
    signal: &[
        Expected::figure(Figure::DiskWait, Moves::DoesNotRise),
        Expected::words("CPU time per request falls"),
    ],
};

pub(crate) fn set(wishes: &mut Wishes, facts: &Facts, sysctl: &Sysctl) {
    let Some(now) = facts.sysctl(sysctl.name) else {
        return wishes.refuse("kernel", format!("{} cannot be read", sysctl.name));
    };
    let wanted = match sysctl.want {
        Want::AtLeast(least) => now.max(least),
        Want::AtMost(most) => now.min(most),
        Want::Exactly(value) => value,
        Want::Bits(bits) => now | bits,
    };
    let setting = Setting::sysctl(sysctl.name, Holds::Number);
    wishes.wish(Stage::Sysctl, setting, now.to_string(), wanted.to_string(), sysctl.reason);
}

pub(crate) fn scheduler(wishes: &mut Wishes, disk: &Disk) {
    let Some(now) = disk.scheduler.as_ref().filter(|_| !disk.rotational) else { return };
    if disk.schedulers.iter().any(|choice| choice == "none") {
        let setting = Setting::choice(format!("/sys/block/{}/queue/scheduler", disk.name));
        wishes.wish(Stage::Disk, setting, now.clone(), "none".into(), SCHEDULER);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::Change;
    use crate::facts::{Listener, Service};

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
        let due = profile.changes(&host()).changes.into_iter().filter(Change::is_due);
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
    fn what_only_a_restart_changes_is_advice() {
        let mut facts = host();
        facts.services = vec![Service {
            pid: 8,
            name: "memcached".into(),
            kind: ServiceKind::Memcached,
            ..Service::default()
        }];
        facts.listeners = vec![Listener {
            address: "0.0.0.0:11211".into(),
            backlog: 128,
            pid: Some(8),
            ..Listener::default()
        }];
        let advice = Profile::named("evenkeel").unwrap().changes(&facts).advice;
        assert_eq!(advice.len(), 1);
        assert!(advice[0].contains("start it again with -b 4096"), "{advice:?}");
        assert!(Profile::Mysql.changes(&facts).advice.is_empty());
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_its_name() {
        let refusals = Profile::Generic.changes(&Facts::default()).refusals;
        assert_eq!(refusals[0].reason, "net.core.somaxconn cannot be read");
    }
}
