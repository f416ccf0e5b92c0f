//! Profiles: settings for a kind of service, by name.
//!
//! A profile is requested by name; it raises limits and never lowers one that is already higher.

use serde::{Deserialize, Serialize};

use crate::observe::facts::ServiceKind;
use crate::settings::proposal::Propose;
use crate::settings::{disks, flash, listen_queue, memory, sysctls};

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
    /// The disks of a flash tier (`-o ext_path` of memcached and evenkeel).
    Flash,
    /// Any server.
    Generic,
}

impl Profile {
    /// All.
    pub const ALL: [Profile; 5] =
        [Profile::Memcached, Profile::Mysql, Profile::Redis, Profile::Flash, Profile::Generic];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Profile::Memcached => "memcached",
            Profile::Mysql => "mysql",
            Profile::Redis => "redis",
            Profile::Flash => "flash",
            Profile::Generic => "generic",
        }
    }

    /// The profile of this name; `evenkeel` has memcached's.
    pub fn named(name: &str) -> Option<Profile> {
        let name = if name == "evenkeel" { "memcached" } else { name };
        Profile::ALL.into_iter().find(|profile| profile.name() == name)
    }

    /// Its name as a requester of changes.
    pub(crate) fn asked_by(self) -> String {
        format!("profile {}", self.name())
    }

    /// Its settings.
    pub(crate) fn settings(self) -> &'static [Propose] {
        match self {
            Profile::Memcached => &[
                sysctls::accept_queues,
                sysctls::fast_open,
                sysctls::swappiness_of_swap,
                memory::huge_pages_on_request,
                listen_queue::longer,
                listen_queue::fast_open,
            ],
            Profile::Mysql => &[
                sysctls::accept_queues,
                sysctls::swappiness_of_swap,
                sysctls::dirty_pages,
                memory::no_huge_pages,
                disks::no_scheduler,
                listen_queue::longer,
            ],
            Profile::Redis => &[
                sysctls::accept_queues,
                sysctls::swappiness_of_swap,
                sysctls::overcommit,
                memory::no_huge_pages,
                listen_queue::longer,
            ],
            Profile::Flash => &[flash::scheduler, flash::merges, flash::read_ahead, flash::advice],
            Profile::Generic => &[sysctls::accept_queues, listen_queue::longer],
        }
    }

    /// The kinds of services that it is for; `None`: all.
    pub(crate) fn kinds(self) -> Option<&'static [ServiceKind]> {
        match self {
            Profile::Memcached | Profile::Flash => Some(&[ServiceKind::Memcached, ServiceKind::Evenkeel]),
            Profile::Mysql => Some(&[ServiceKind::Mysql]),
            Profile::Redis => Some(&[ServiceKind::Redis]),
            Profile::Generic => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::cpu_model::CpuModel;
    use crate::observe::facts::{BlockDevice, Facts, ListeningSocket, Service};
    use crate::settings::change::{Change, Stage};
    use crate::settings::proposal::ProposedChanges;
    use crate::settings::scope::Scope;

    fn changes(profile: Profile, facts: &Facts, live: bool) -> ProposedChanges {
        let model = CpuModel::of(facts);
        let scope = Scope { kinds: profile.kinds(), live, ..Scope::all(&model, &[]) };
        ProposedChanges::of(profile.asked_by(), profile.settings(), &scope)
    }

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
        facts.disks = vec![BlockDevice {
            name: "sda".into(),
            scheduler: Some("mq-deadline".into()),
            schedulers: vec!["none".into(), "mq-deadline".into()],
            ..BlockDevice::default()
        }];
        facts
    }

    #[track_caller]
    fn check(profile: Profile, wanted: &[&str]) {
        let due = changes(profile, &host(), false).changes.into_iter().filter(Change::is_due);
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
            let changes = changes(Profile::Redis, &facts, false).changes;
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
            let changes = changes(Profile::Generic, &facts, false).changes;
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
            let proposed = changes(profile, &facts, live);
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
        let refusals = changes(Profile::Generic, &Facts::default(), false).refusals;
        assert_eq!(refusals[0].reason, "net.core.somaxconn cannot be read");
    }
}
