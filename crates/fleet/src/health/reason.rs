//! Reasons in words: what was seen, by whom, since when, what happens next, and what a person can do.

use super::verdict::{AgentSight, MemberVerdict};

/// All that the three kinds of observers see of one member, in words' parts.
pub(super) struct Seen<'a> {
    pub(super) member: &'a str,
    pub(super) host: &'a str,
    pub(super) agent: AgentSight,
    /// Seconds since the agent was heard.
    pub(super) heard_s: Option<u64>,
    /// Zones whose probes are answered in time, late, and not; and since how many seconds not.
    pub(super) answered: String,
    pub(super) late: String,
    pub(super) failed: String,
    pub(super) failing_s: Option<u64>,
    /// For each zone "name 3 of 9".
    pub(super) tko: String,
    /// Routers that accuse, if they are few.
    pub(super) accusers: String,
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
        let routers = if self.tko.is_empty() { "none with traffic" } else { &self.tko };
        let accusers = match self.accusers.is_empty() {
            true => String::new(),
            false => format!(" ({})", self.accusers),
        };
        format!(
            "{} on {}: agent: {agent}; probes: {probes}; routers with TKO: {routers}{accusers}.",
            self.member, self.host
        )
    }
}

/// What a verdict means.
pub(super) fn meaning(verdict: MemberVerdict) -> &'static str {
    match verdict {
        MemberVerdict::Unobserved => "Too few observers to judge",
        MemberVerdict::Healthy => "Healthy",
        MemberVerdict::AnnouncedRestart => "Restart announced",
        MemberVerdict::ProcessDown => "Process down or hung on a living host",
        MemberVerdict::Gone => "Host and process gone",
        MemberVerdict::AgentDead => "Agent silent, the member works",
        MemberVerdict::Partition => "Reached from some zones only",
        MemberVerdict::Slow => "Answers late",
        MemberVerdict::RouterIll => "A minority of routers cannot reach it",
        MemberVerdict::Disputed => "Observers contradict each other",
    }
}

/// What is done about a verdict that leads to no replacement, and what a person can do.
pub(super) fn advice(verdict: MemberVerdict) -> &'static str {
    match verdict {
        MemberVerdict::AgentDead => {
            "Nothing is replaced: the cache serves. Start the agent on the host again; look at its log and the host's load."
        }
        MemberVerdict::Partition => {
            "Nothing is replaced: routers that cannot reach it use their failover. Look at the network between these zones."
        }
        MemberVerdict::Slow => {
            "Slow members are never replaced automatically. Run `tune check` on the host; `control drain` if it stays slow."
        }
        MemberVerdict::RouterIll => {
            "Nothing is replaced: most routers reach it. Look at the named routers and their hosts."
        }
        MemberVerdict::Unobserved => {
            "Nothing is replaced without observers. See that agents, controllers of two zones and routers report."
        }
        _ => {
            "Nothing is replaced: that needs two kinds of observers that agree and none that contradicts. If it is dead: \
             `control replace`."
        }
    }
}
