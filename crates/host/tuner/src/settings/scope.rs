//! Scope of a proposal: the parts of the host that it is about, and the permissions of the request.
//!
//! A strategy is about all of the plan, a profile about its kind of service, and the remedy of a finding about the
//! finding's subject. Which parts a subject means is decided here, for all settings alike.

use crate::observe::cpu_model::CpuModel;
use crate::observe::facts::{BlockDevice, Facts, ListeningSocket, Nic, Service, ServiceKind};

/// The parts of a host, and the permissions of the request.
#[derive(Clone)]
pub(crate) struct Scope<'a> {
    /// The host as it is.
    pub(crate) now: &'a CpuModel<'a>,
    /// The host with its interrupts where earlier proposals of the same plan put them.
    pub(crate) then: &'a CpuModel<'a>,
    /// The interfaces: the finding's one, or all of the plan if its subject is none of them.
    pub(crate) nics: Vec<&'a Nic>,
    /// The finding; `None`: nothing is left out.
    pub(crate) finding: Option<FindingSubject<'a>>,
    /// The kinds of services; `None`: all.
    pub(crate) kinds: Option<&'static [ServiceKind]>,
    /// The disks that were named for a flash tier; none: those of servers.
    pub(crate) named_disks: &'a [String],
    /// Whether listeners of running programs may be changed.
    pub(crate) live: bool,
    /// Whether real-time threads may take every CPU, as long as there is a limit for threads that never wait.
    pub(crate) accept_risk: bool,
    /// Whether the changes are for every start, and not for this moment.
    pub(crate) whole: bool,
}

/// The subject of a finding.
#[derive(Clone, Copy)]
pub(crate) struct FindingSubject<'a> {
    /// Its name: `eth0`, `memcached (PID 812)`, `127.0.0.1:11211`.
    pub(crate) name: &'a str,
    /// Whether it is good to know only.
    pub(crate) is_note: bool,
}

impl<'a> Scope<'a> {
    /// Everything on these interfaces and of all services.
    pub(crate) fn all(model: &'a CpuModel<'a>, nics: &[&'a Nic]) -> Scope<'a> {
        Scope {
            now: model,
            then: model,
            nics: nics.to_vec(),
            finding: None,
            kinds: None,
            named_disks: &[],
            live: false,
            accept_risk: false,
            whole: false,
        }
    }

    pub(crate) fn facts(&self) -> &'a Facts {
        self.now.facts
    }

    /// Whether it is the finding's subject, if there is a finding.
    fn is_meant(&self, name: &str) -> bool {
        self.finding.is_none_or(|finding| finding.name == name)
    }

    /// The interfaces without those that a finding does not name.
    pub(crate) fn named_nics(&self) -> impl Iterator<Item = &'a Nic> {
        self.nics.iter().copied().filter(|nic| self.is_meant(&nic.name))
    }

    /// The disks without those that a finding does not name.
    pub(crate) fn disks(&self) -> impl Iterator<Item = &'a BlockDevice> {
        self.facts().disks.iter().filter(|disk| self.is_meant(&disk.name))
    }

    /// The services without those that a finding does not name.
    pub(crate) fn services(&self) -> impl Iterator<Item = &'a Service> {
        self.facts().services.iter().filter(|service| self.is_meant(&service.to_string()))
    }

    /// The listeners that a finding names: several, if workers share a port.
    pub(crate) fn named_listeners(&self) -> Vec<&'a ListeningSocket> {
        let Some(finding) = self.finding else { return Vec::new() };
        self.facts().listeners.iter().filter(|listener| listener.address == finding.name).collect()
    }

    /// The listeners that a finding names; if it names none, those of services that gain.
    pub(crate) fn listeners(&self, gains: impl Fn(&Service) -> bool) -> Vec<&'a ListeningSocket> {
        let named = self.named_listeners();
        if !named.is_empty() {
            return named;
        }
        let is_kind = |service: &Service| self.kinds.is_none_or(|kinds| kinds.contains(&service.kind));
        let is_meant = |listener: &&ListeningSocket| {
            self.facts().service_of(listener).is_some_and(|service| is_kind(service) && gains(service))
        };
        self.facts().listeners.iter().filter(is_meant).collect()
    }
}
