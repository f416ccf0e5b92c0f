//! Verdicts: a table from the three kinds of observers to one state of a member.
//!
//! No time and no counting here. Two kinds of observers that *accuse* (an agent that says "down", probes that fail from
//! every zone, more than half of the routers) are needed for a verdict that leads to a replacement, or one and routers that
//! attest that they do not use the member. Silence never accuses.

/// The state of a process, as the host's agent tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AgentSight {
    /// Not heard since the controller started, or since the member is known.
    Unknown,
    /// Not heard for longer than a turn takes.
    Silent,
    /// The process runs.
    Running,
    /// The process does not run.
    Down,
    /// It is being started again, as announced.
    Restarting,
}

/// What probes from all zones say together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProbeSight {
    /// Probes of too few zones.
    Unknown,
    /// It answers.
    Ok,
    /// It answers every zone, but late.
    Late,
    /// It answers some zones, and others not.
    SomeZones,
    /// It answers no zone.
    Failed,
}

/// What routers that have traffic for the member say together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RouterSight {
    /// No router is heard.
    Unknown,
    /// Routers are heard, and none of them asks it: they know nothing of it, and miss nothing without it.
    Unused,
    /// No router has it as TKO.
    Ok,
    /// One router of several.
    One,
    /// More than half in one zone, and none elsewhere.
    OneZone,
    /// Several, but at most half.
    Some,
    /// More than half.
    Most,
}

/// The state of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MemberVerdict {
    /// Too little is known. Never a reason to act.
    Unobserved,
    /// Two kinds of observers see it at work.
    Healthy,
    /// Away as announced.
    AnnouncedRestart,
    /// The host lives, the process does not answer: whatever runs the host's services starts it again.
    ProcessDown,
    /// Host and process are away.
    Gone,
    /// The process works, its host's agent does not.
    AgentDead,
    /// It is reached from some zones only.
    Partition,
    /// It answers late.
    Slow,
    /// It goes away again and again, and is away for a good part of the time.
    Flapping,
    /// It went away several times within some minutes, and was back soon.
    Unsteady,
    /// A minority of routers cannot reach it.
    RouterIll,
    /// One kind of observer accuses it and no other kind agrees, or one that saw it at work contradicts.
    Disputed,
}

impl MemberVerdict {
    /// The members with this verdict are candidates for a replacement.
    pub fn may_replace(self) -> bool {
        matches!(self, MemberVerdict::ProcessDown | MemberVerdict::Gone | MemberVerdict::Flapping)
    }

    /// The guard counts members with this verdict as lost. A silent agent counts: mass silence is an error of the
    /// observers more often than a loss.
    pub fn is_suspect(self) -> bool {
        self.may_replace() || matches!(self, MemberVerdict::AgentDead | MemberVerdict::Disputed)
    }
}

/// The verdict for one combination.
pub fn judge(agent: AgentSight, probes: ProbeSight, routers: RouterSight) -> MemberVerdict {
    use MemberVerdict as V;
    let says_down = agent == AgentSight::Down;
    let fails = probes == ProbeSight::Failed;
    let is_tko = routers == RouterSight::Most;
    let is_split = probes == ProbeSight::SomeZones || routers == RouterSight::OneZone;
    match agent {
        AgentSight::Restarting => V::AnnouncedRestart,
        // A router's traffic or an answer to a probe proves that something works there, whatever two others say.
        AgentSight::Down if fails && routers != RouterSight::Ok => V::ProcessDown,
        AgentSight::Down if is_tko && probes == ProbeSight::Unknown => V::ProcessDown,
        AgentSight::Running if fails && is_tko => V::ProcessDown,
        AgentSight::Silent if fails && is_tko => V::Gone,
        // Nobody reads from it, so an error of the probes would cost nobody a miss.
        AgentSight::Silent if fails && routers == RouterSight::Unused => V::Gone,
        AgentSight::Unknown if fails && is_tko => V::Unobserved,
        _ if says_down || fails => V::Disputed,
        _ if is_split => V::Partition,
        _ if probes == ProbeSight::Late => V::Slow,
        _ if is_tko => V::Disputed,
        _ => judge_working(agent, probes, routers),
    }
}

/// The verdict where nobody accuses: the probes are unknown or in time, the routers are unknown, fine or a minority.
fn judge_working(agent: AgentSight, probes: ProbeSight, routers: RouterSight) -> MemberVerdict {
    use MemberVerdict as V;
    let answers = probes == ProbeSight::Ok;
    let serves = !matches!(routers, RouterSight::Unknown | RouterSight::Unused);
    match agent {
        AgentSight::Silent if answers || serves => V::AgentDead,
        AgentSight::Running if matches!(routers, RouterSight::One | RouterSight::Some) => V::RouterIll,
        AgentSight::Running if answers || serves => V::Healthy,
        AgentSight::Unknown if answers && routers == RouterSight::Ok => V::Healthy,
        _ => V::Unobserved,
    }
}

/// The condition that a replacement lacks where an observer accuses a member, or too little is known of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unmet {
    /// Its agent was not heard since this controller began.
    AgentUnheard,
    /// Probes from too few zones count.
    ProbeZones,
    /// Probes are answered.
    ProbesAnswered,
    /// Routers that use it reach it.
    RoutersReachIt,
    /// No router is heard.
    NoRouters,
    /// The process runs, as its agent says, and no router uses it: the probes are alone.
    ProbesAlone,
}

/// The condition that decided that a member is not replaced. It says nothing about members that may be.
pub fn unmet(agent: AgentSight, probes: ProbeSight, routers: RouterSight) -> Unmet {
    match (probes, routers) {
        (ProbeSight::Unknown, _) => Unmet::ProbeZones,
        (ProbeSight::Ok | ProbeSight::Late | ProbeSight::SomeZones, _) => Unmet::ProbesAnswered,
        (ProbeSight::Failed, _) if agent == AgentSight::Unknown => Unmet::AgentUnheard,
        (ProbeSight::Failed, RouterSight::Unknown) => Unmet::NoRouters,
        (ProbeSight::Failed, RouterSight::Unused) => Unmet::ProbesAlone,
        (ProbeSight::Failed, _) => Unmet::RoutersReachIt,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use AgentSight as A;
    use MemberVerdict as V;
    use ProbeSight as P;
    use RouterSight as R;

    const AGENTS: [A; 5] = [A::Unknown, A::Silent, A::Running, A::Down, A::Restarting];
    const PROBES: [P; 5] = [P::Unknown, P::Ok, P::Late, P::SomeZones, P::Failed];
    const ROUTERS: [R; 7] = [R::Unknown, R::Unused, R::Ok, R::One, R::OneZone, R::Some, R::Most];

    /// Every combination of the three sets gives this verdict.
    #[track_caller]
    fn check(agents: &[A], probes: &[P], routers: &[R], expected: V) {
        for (agent, probe, router) in cells(agents, probes, routers) {
            assert_eq!(judge(agent, probe, router), expected, "{agent:?} {probe:?} {router:?}");
        }
    }

    fn cells(agents: &[A], probes: &[P], routers: &[R]) -> Vec<(A, P, R)> {
        let pairs = agents.iter().flat_map(|a| probes.iter().map(move |p| (*a, *p)));
        pairs.flat_map(|(a, p)| routers.iter().map(move |r| (a, p, *r))).collect()
    }

    #[test]
    fn a_process_that_is_down_on_a_living_host_may_be_replaced() {
        check(&[A::Running, A::Down], &[P::Failed], &[R::Most], V::ProcessDown);
    }

    #[test]
    fn a_dead_agent_beside_a_working_process_is_no_reason_to_act() {
        check(&[A::Silent], &[P::Ok], &[R::Ok], V::AgentDead);
    }

    #[test]
    fn a_silent_host_that_neither_probes_nor_routers_reach_is_gone() {
        check(&[A::Silent], &[P::Failed], &[R::Most], V::Gone);
    }

    #[test]
    fn a_failure_from_one_zone_only_is_a_partition() {
        check(&[A::Unknown, A::Silent, A::Running], &[P::SomeZones], &ROUTERS, V::Partition);
        let not_failed = [P::Unknown, P::Ok, P::Late, P::SomeZones];
        check(&[A::Unknown, A::Silent, A::Running], &not_failed, &[R::OneZone], V::Partition);
    }

    #[test]
    fn a_minority_of_routers_is_ill_itself() {
        check(&[A::Running], &[P::Ok], &[R::One, R::Some], V::RouterIll);
    }

    #[test]
    fn late_answers_are_slow() {
        let routers = [R::Unknown, R::Unused, R::Ok, R::One, R::Some, R::Most];
        check(&[A::Running, A::Silent, A::Unknown], &[P::Late], &routers, V::Slow);
    }

    #[test]
    fn an_announced_restart_is_waited_for_whatever_others_see() {
        check(&[A::Restarting], &PROBES, &ROUTERS, V::AnnouncedRestart);
    }

    #[test]
    fn all_175_cells_have_the_verdict_of_the_table() {
        let mut table = std::collections::BTreeMap::new();
        let mut rows = |agents: &[A], probes: &[P], routers: &[R], verdict| {
            for cell in cells(agents, probes, routers) {
                assert_eq!(table.insert(cell, verdict), None, "{cell:?} stands in two rows");
            }
        };
        let but_most = [R::Unknown, R::Unused, R::Ok, R::One, R::OneZone, R::Some];
        let but_most_and_unused = [R::Unknown, R::Ok, R::One, R::OneZone, R::Some];
        let not_asked = [R::Unknown, R::Unused];
        let minority_or_none = [R::Unknown, R::Unused, R::Ok, R::One, R::Some];
        rows(&[A::Restarting], &PROBES, &ROUTERS, V::AnnouncedRestart);
        let but_ok = [R::Unknown, R::Unused, R::One, R::OneZone, R::Some, R::Most];
        rows(&[A::Down], &[P::Failed], &but_ok, V::ProcessDown);
        rows(&[A::Down], &[P::Failed], &[R::Ok], V::Disputed);
        rows(&[A::Down], &[P::Unknown], &[R::Most], V::ProcessDown);
        rows(&[A::Down], &[P::Ok, P::Late, P::SomeZones], &[R::Most], V::Disputed);
        rows(&[A::Down], &[P::Unknown, P::Ok, P::Late, P::SomeZones], &but_most, V::Disputed);
        rows(&[A::Running], &[P::Failed], &[R::Most], V::ProcessDown);
        rows(&[A::Silent], &[P::Failed], &[R::Most, R::Unused], V::Gone);
        rows(&[A::Unknown], &[P::Failed], &[R::Most], V::Unobserved);
        let living = [A::Unknown, A::Silent, A::Running];
        rows(&[A::Unknown, A::Running], &[P::Failed], &but_most, V::Disputed);
        rows(&[A::Silent], &[P::Failed], &but_most_and_unused, V::Disputed);
        rows(&living, &[P::SomeZones], &ROUTERS, V::Partition);
        rows(&living, &[P::Unknown, P::Ok, P::Late], &[R::OneZone], V::Partition);
        rows(&living, &[P::Late], &[R::Unknown, R::Unused, R::Ok, R::One, R::Some, R::Most], V::Slow);
        rows(&living, &[P::Unknown, P::Ok], &[R::Most], V::Disputed);
        rows(&[A::Silent], &[P::Ok], &minority_or_none, V::AgentDead);
        rows(&[A::Silent], &[P::Unknown], &[R::Ok, R::One, R::Some], V::AgentDead);
        rows(&[A::Silent], &[P::Unknown], &not_asked, V::Unobserved);
        rows(&[A::Running], &[P::Unknown, P::Ok], &[R::One, R::Some], V::RouterIll);
        rows(&[A::Running], &[P::Unknown, P::Ok], &[R::Ok], V::Healthy);
        rows(&[A::Running], &[P::Ok], &not_asked, V::Healthy);
        rows(&[A::Running], &[P::Unknown], &not_asked, V::Unobserved);
        rows(&[A::Unknown], &[P::Ok], &[R::Ok], V::Healthy);
        rows(&[A::Unknown], &[P::Ok], &[R::Unknown, R::Unused, R::One, R::Some], V::Unobserved);
        rows(&[A::Unknown], &[P::Unknown], &minority_or_none, V::Unobserved);
        assert_eq!(table.len(), AGENTS.len() * PROBES.len() * ROUTERS.len());
        for ((agent, probe, router), verdict) in table {
            assert_eq!(judge(agent, probe, router), verdict, "{agent:?} {probe:?} {router:?}");
        }
    }

    #[test]
    fn a_replacement_needs_two_kinds_of_observers_that_accuse_or_routers_that_do_not_use_it() {
        for (agent, probe, router) in cells(&AGENTS, &PROBES, &ROUTERS) {
            let accusers = [agent == A::Down, probe == P::Failed, router == R::Most];
            let count = accusers.into_iter().filter(|accuses| *accuses).count();
            let verdict = judge(agent, probe, router);
            let is_unused = agent == A::Silent && router == R::Unused && count == 1;
            assert!(
                !verdict.may_replace() || count >= 2 || is_unused,
                "{agent:?} {probe:?} {router:?}: {verdict:?}"
            );
        }
    }

    /// Whether the condition is what was seen.
    fn is_so(unmet: Unmet, agent: A, probes: P, routers: R) -> bool {
        match unmet {
            Unmet::AgentUnheard => agent == A::Unknown,
            Unmet::ProbeZones => probes == P::Unknown,
            Unmet::ProbesAnswered => !matches!(probes, P::Unknown | P::Failed),
            Unmet::RoutersReachIt => matches!(routers, R::Ok | R::One | R::OneZone | R::Some),
            Unmet::NoRouters => routers == R::Unknown,
            Unmet::ProbesAlone => agent == A::Running && routers == R::Unused,
        }
    }

    #[test]
    fn a_refused_replacement_names_a_condition_that_was_seen() {
        for (agent, probe, router) in cells(&AGENTS, &PROBES, &ROUTERS) {
            let verdict = judge(agent, probe, router);
            if matches!(verdict, V::Disputed | V::Unobserved) {
                let unmet = unmet(agent, probe, router);
                assert!(is_so(unmet, agent, probe, router), "{agent:?} {probe:?} {router:?}: {unmet:?}");
            }
        }
    }
}
