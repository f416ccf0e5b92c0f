//! Groups of statistics that a client can ask for.

/// What `stats` was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum StatsGroup {
    Basic,
    Detailed,
    Ods,
    Count,
    All,
    /// Requests by command.
    Commands,
    /// mcrouter knows the group, and nothing is in it.
    CommandErrors,
    Servers,
    SuspectServers,
    Version,
    /// The keys with most requests. mcrouter has no such group.
    Hot,
    /// Statistics that others add to mcrouter's: none.
    External,
}

impl StatsGroup {
    /// The group of this name.
    pub(crate) fn by_name(name: &str) -> Option<StatsGroup> {
        Some(match name {
            "" | "basic" => StatsGroup::Basic,
            "detailed" => StatsGroup::Detailed,
            "ods" => StatsGroup::Ods,
            "count" => StatsGroup::Count,
            "all" => StatsGroup::All,
            "cmd-error" => StatsGroup::CommandErrors,
            "servers" => StatsGroup::Servers,
            "suspect_servers" => StatsGroup::SuspectServers,
            "hot" => StatsGroup::Hot,
            "version" => StatsGroup::Version,
            "external" => StatsGroup::External,
            cmd if cmd.starts_with("cmd") => StatsGroup::Commands,
            _ => return None,
        })
    }
}
