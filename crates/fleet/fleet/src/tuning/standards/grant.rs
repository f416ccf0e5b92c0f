//! Grants: which hosts may be brought to their standard now.

use std::collections::BTreeSet;

use super::{HostStandard, StandardSaid, StandardWord};
use crate::HostId;
use crate::policy::DriftPolicy;

/// Hosts with work that are repaired at one time: if a standard does harm, it does so to few.
pub const REPAIRS_AT_ONCE_MAX: usize = 4;

/// A host, for the decision whether it may act.
#[derive(Clone, Copy, Debug)]
pub struct StandardHost<'a> {
    /// Which.
    pub host: &'a HostId,
    /// What it shall have.
    pub standard: HostStandard<'a>,
    /// What is heard of it.
    pub said: StandardSaid<'a>,
    /// A member of it has a slot, or it has a router.
    pub has_work: bool,
    /// A person or the guard has frozen a scope that it is in.
    pub is_frozen: bool,
    /// It is in a change of hosts that is on its way.
    pub is_in_change: bool,
    /// It had work and was being tuned, or might be, when it was heard last: the standard may be what has cut it off.
    pub is_cut_off: bool,
}

impl StandardHost<'_> {
    fn is_being_repaired(&self) -> bool {
        self.is_cut_off || self.has_work && self.said == StandardSaid::Word(&StandardWord::Tuning)
    }
}

/// Hosts that may be tuned now. `hosts` are all of the fleet, in the order of their names, so that all controllers that hear the same decide the
/// same.
pub fn granted<'a>(hosts: &[StandardHost<'a>]) -> BTreeSet<&'a HostId> {
    let mut repaired = hosts.iter().filter(|host| host.is_being_repaired()).count();
    let may_act = |host: &&StandardHost<'a>| {
        let (HostStandard::One(standard), StandardSaid::Word(word)) = (host.standard, host.said) else {
            return false;
        };
        if host.is_frozen || host.is_in_change {
            return false;
        }
        match word {
            StandardWord::Lacks { .. } | StandardWord::Drifted { .. } if !host.has_work => true,
            StandardWord::Drifted { .. } if standard.drift == DriftPolicy::Repair => {
                repaired += 1;
                repaired <= REPAIRS_AT_ONCE_MAX
            }
            _ => false,
        }
    };
    hosts.iter().filter(may_act).map(|host| host.host).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FleetPolicy;

    fn lacks() -> StandardWord {
        StandardWord::Lacks { settings: 2, first: "a is 1, and 2 is wanted".to_owned() }
    }

    fn drifted() -> StandardWord {
        StandardWord::Drifted { settings: 1, first: "a is 1, and 2 is wanted".to_owned() }
    }

    /// Whether a host of this kind may act.
    fn may_act(drift: &str, word: &StandardWord, change: impl Fn(&mut StandardHost<'_>)) -> bool {
        let text = format!("fleet = \"f\"\n[[tuning]]\nprofile = \"a\"\ndrift = \"{drift}\"\n");
        let tunings = FleetPolicy::parse(&text).expect("a policy").tunings;
        let host: HostId = "h1".parse().expect("a name");
        let mut one = StandardHost {
            host: &host,
            standard: HostStandard::One(&tunings[0]),
            said: StandardSaid::Word(word),
            has_work: false,
            is_frozen: false,
            is_in_change: false,
            is_cut_off: false,
        };
        change(&mut one);
        !granted(&[one]).is_empty()
    }

    #[test]
    fn a_host_without_work_is_tuned_at_once_and_one_with_work_only_gets_back_what_it_had() {
        let works = |host: &mut StandardHost<'_>| host.has_work = true;
        for word in [lacks(), drifted()] {
            assert!(may_act("report", &word, |_| {}) && may_act("repair", &word, |_| {}), "{word}");
        }
        assert!(!may_act("report", &lacks(), works) && !may_act("repair", &lacks(), works));
        assert!(!may_act("report", &drifted(), works) && may_act("repair", &drifted(), works));
    }

    #[test]
    fn nothing_is_granted_to_a_host_that_is_frozen_in_a_change_or_says_nothing_of_this_standard() {
        for word in [lacks(), drifted()] {
            assert!(!may_act("repair", &word, |host| host.is_frozen = true));
            assert!(!may_act("repair", &word, |host| host.is_in_change = true));
            for said in [StandardSaid::Silent, StandardSaid::OlderAgent, StandardSaid::Nothing] {
                assert!(!may_act("repair", &word, |host| host.said = said), "{said:?}");
            }
            for standard in [HostStandard::None, HostStandard::Mixed] {
                assert!(!may_act("repair", &word, |host| host.standard = standard));
            }
        }
        let reason = || "r".to_owned();
        for word in [
            StandardWord::Unknown,
            StandardWord::Meets,
            StandardWord::Tuning,
            StandardWord::SteppedAside { reason: reason() },
            StandardWord::Refused { reason: reason() },
        ] {
            assert!(!may_act("repair", &word, |_| {}), "{word}");
        }
    }

    #[test]
    fn few_hosts_with_work_are_repaired_at_once_and_those_under_way_count() {
        let text = "fleet = \"f\"\n[[tuning]]\nprofile = \"a\"\ndrift = \"repair\"\n";
        let tunings = FleetPolicy::parse(text).expect("a policy").tunings;
        let names: Vec<HostId> = (0..9).map(|at| format!("h{at}").parse().expect("a name")).collect();
        let (drifted, tuning) = (drifted(), StandardWord::Tuning);
        let hosts = |under_way: usize, has_work: bool| -> Vec<StandardHost<'_>> {
            let one = |(at, host)| StandardHost {
                host,
                standard: HostStandard::One(&tunings[0]),
                said: StandardSaid::Word(if at >= names.len() - under_way { &tuning } else { &drifted }),
                has_work,
                is_frozen: false,
                is_in_change: false,
                is_cut_off: false,
            };
            names.iter().enumerate().map(one).collect()
        };
        for under_way in 0..=REPAIRS_AT_ONCE_MAX {
            let found: Vec<&HostId> = granted(&hosts(under_way, true)).into_iter().collect();
            let expected: Vec<&HostId> = names.iter().take(REPAIRS_AT_ONCE_MAX - under_way).collect();
            assert_eq!(found, expected, "the first ones by name, with {under_way} under way");
        }
        assert!(granted(&hosts(REPAIRS_AT_ONCE_MAX + 1, true)).is_empty());
        assert_eq!(granted(&hosts(2, false)).len(), 7, "hosts without work wait for nobody");
        // One that was cut off keeps its place, also when its slots have gone to others.
        let mut cut = hosts(0, true);
        for host in &mut cut[..3] {
            (host.said, host.has_work, host.is_cut_off) = (StandardSaid::Silent, false, true);
        }
        assert_eq!(granted(&cut).into_iter().collect::<Vec<_>>(), [&names[3]]);
    }
}
