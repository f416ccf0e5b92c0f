//! Reasons in words: what was seen, by whom, since when, what happens next, and what a person can do.
//!
//! What decided is a value ([`Unmet`], a verdict), and the words are made of it.

use super::verdict::{AgentSight, MemberVerdict, Unmet};

/// All that the three kinds of observers see of one member, in words' parts.
pub(super) struct Seen<'a> {
    pub(super) member: &'a str,
    pub(super) host: &'a str,
    pub(super) verdict: MemberVerdict,
    pub(super) agent: AgentSight,
    /// Seconds since the agent was heard.
    pub(super) heard_s: Option<u64>,
    /// Zones whose probes are answered in time, late, and not; and since how many seconds not.
    pub(super) answered: String,
    pub(super) late: String,
    pub(super) failed: String,
    pub(super) failing_s: Option<u64>,
    /// Zones whose word is needed, controllers that were never heard, and zones of those that do not vote.
    pub(super) zones_needed: u8,
    pub(super) unheard: usize,
    pub(super) without_vote: usize,
    /// Routers that read its cluster.
    pub(super) serving: u32,
    /// For each zone "name 3 of 9".
    pub(super) tko: String,
    /// Routers that accuse, if they are few.
    pub(super) accusers: String,
    /// Parts of the last minute in which agent, probes and routers had it as away, and probes as late.
    pub(super) away_percent: [u8; 3],
    pub(super) late_percent: u8,
    /// Its falls, and the window in which they count.
    pub(super) falls: usize,
    pub(super) falls_within_s: u64,
}

impl Seen<'_> {
    /// What was seen, by whom, since when.
    pub(super) fn evidence(&self) -> String {
        let heard = self.heard_s.map_or("never".to_owned(), |seconds| format!("{seconds} s ago"));
        let agent = match self.agent {
            AgentSight::Unknown => "not heard yet".to_owned(),
            AgentSight::Silent => format!("silent, last heard {heard}"),
            AgentSight::Running => format!("process runs (heard {heard})"),
            AgentSight::Down => format!("process is down (heard {heard})"),
            AgentSight::Restarting => format!("restart announced (heard {heard})"),
        };
        let mut probes = Vec::new();
        for (what, zones) in
            [("answered", &self.answered), ("answered late", &self.late), ("failed", &self.failed)]
        {
            if !zones.is_empty() {
                let since = self.failing_s.filter(|_| what == "failed");
                let since = since.map(|seconds| format!(" for {seconds} s")).unwrap_or_default();
                probes.push(format!("{what} in {zones}{since}"));
            }
        }
        let probes = if probes.is_empty() { "none that counts".to_owned() } else { probes.join(", ") };
        let routers = match (self.tko.is_empty(), self.serving) {
            (false, _) => self.tko.clone(),
            (true, 0) => "none is heard".to_owned(),
            (true, 1) => "the one that is heard does not use it".to_owned(),
            (true, count) => format!("none of the {count} that are heard uses it"),
        };
        let accusers = match self.accusers.is_empty() {
            true => String::new(),
            false => format!(" ({})", self.accusers),
        };
        let minutes = match self.verdict {
            MemberVerdict::Flapping | MemberVerdict::Unsteady => {
                let [agent, probes, routers] = self.away_percent;
                format!(
                    " At least {} falls in {} s; in the last minute away {agent} % of the time as its agent says, {probes} % as \
                     probes find, {routers} % as routers do.",
                    self.falls, self.falls_within_s
                )
            }
            MemberVerdict::Slow => format!(" Late: {} % of the last minute's probes.", self.late_percent),
            _ => String::new(),
        };
        format!(
            "{} on {}: agent: {agent}; probes: {probes}; routers with TKO: {routers}{accusers}.{minutes}",
            self.member, self.host
        )
    }

    /// What is done about a verdict that leads to no replacement, and what a person can do.
    pub(super) fn advice(&self, unmet: Option<Unmet>) -> String {
        match (self.verdict, unmet) {
            (MemberVerdict::AgentDead, _) => {
                "Nothing is replaced: the cache serves. Start the agent on the host again; look at its log and the host's load."
                    .to_owned()
            }
            (MemberVerdict::Partition, _) => {
                "Nothing is replaced: routers that cannot reach it use their failover. Look at the network between these zones."
                    .to_owned()
            }
            (MemberVerdict::Slow, _) => {
                "Slow members are never replaced automatically. Run `tune check` on the host; `control drain` if it stays slow."
                    .to_owned()
            }
            (MemberVerdict::Unsteady, _) => {
                "Nothing is replaced as long as it is away for a small part of the time only. Look at the server's log for why it \
                 ends or hangs; `control drain` if it goes on."
                    .to_owned()
            }
            (MemberVerdict::RouterIll, _) => {
                "Nothing is replaced: most routers reach it. Look at the named routers and their hosts.".to_owned()
            }
            (_, Some(unmet)) => {
                format!("Nothing is replaced: {}. If it is dead: `control replace`.", self.why_not(unmet))
            }
            (_, None) => "Nothing is replaced. If it is dead: `control replace`.".to_owned(),
        }
    }

    /// The condition that failed.
    fn why_not(&self, unmet: Unmet) -> String {
        match unmet {
            Unmet::AgentUnheard => {
                "its agent was not heard since this controller began, and another kind of observer than \
                                    the one that accuses it must have a word"
                    .to_owned()
            }
            Unmet::ProbeZones => self.missing_zones(),
            Unmet::ProbesAnswered => "it answers probes".to_owned(),
            Unmet::RoutersReachIt => "probes fail, and routers that use it reach it".to_owned(),
            Unmet::NoRouters => {
                "probes fail, and no router that reads its cluster is heard, so nobody else can confirm it"
                    .to_owned()
            }
            Unmet::ProbesAlone => {
                "probes fail, but its agent says that the process runs, and no router uses it that could tell"
                    .to_owned()
            }
        }
    }

    fn missing_zones(&self) -> String {
        let needed = self.zones_needed;
        let mut words = match needed {
            1 => "probes of no controller count".to_owned(),
            _ => format!("probes count once controllers of {needed} zones have made them"),
        };
        match self.unheard {
            0 => {}
            1 => words += "; one controller was not heard since this one began, so its zone is not known",
            count => {
                words += &format!(
                    "; {count} controllers were not heard since this one began, so their zones are not known"
                );
            }
        }
        if self.without_vote > 0 {
            words += "; controllers that reach far fewer members than a minute ago do not vote";
        }
        words
    }
}

/// What a verdict means, and of one that several conditions lead to, which it was.
pub(super) fn meaning(verdict: MemberVerdict, unmet: Option<Unmet>) -> &'static str {
    match verdict {
        MemberVerdict::Unobserved => "Too few observers to judge",
        MemberVerdict::Healthy => "Healthy",
        MemberVerdict::AnnouncedRestart => "Restart announced",
        MemberVerdict::ProcessDown => "Process down or hung on a living host",
        MemberVerdict::Gone => "Host and process gone",
        MemberVerdict::AgentDead => "Agent silent, the member works",
        MemberVerdict::Partition => "Reached from some zones only",
        MemberVerdict::Slow => "Answers late",
        MemberVerdict::Flapping => "Away again and again",
        MemberVerdict::Unsteady => "Away for moments, several times",
        MemberVerdict::RouterIll => "A minority of routers cannot reach it",
        MemberVerdict::Disputed => match unmet {
            Some(Unmet::ProbesAnswered | Unmet::RoutersReachIt) => "Observers contradict each other",
            _ => "Accused, and nobody confirms it",
        },
    }
}
