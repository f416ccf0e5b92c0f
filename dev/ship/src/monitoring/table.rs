//! The table of dashboards: rows of panels, and a panel is expressions with their legends, a unit, and a sentence that says
//! what to look for.

/// A page of Grafana.
#[derive(Clone, Copy, Debug)]
pub struct Dashboard {
    /// The name of its file without `.json`. With `evenkeel-` before it, the address in Grafana.
    pub name: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// Families of which each process that belongs here has one: jobs and instances are offered from them.
    pub families: &'static [&'static str],
    /// Whether a pool can be chosen.
    pub has_pools: bool,
    /// From the top: what somebody looks at who was woken up comes first.
    pub rows: &'static [Row],
}

/// Panels under a heading.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The heading.
    pub title: &'static str,
    /// From left to right.
    pub panels: &'static [Panel],
}

/// A picture of one or more expressions.
#[derive(Clone, Copy, Debug)]
pub struct Panel {
    /// The heading.
    pub title: &'static str,
    /// How the figures are drawn.
    pub kind: PanelKind,
    /// Grafana's name of the unit.
    pub unit: &'static str,
    /// What it shows, and what to look for.
    pub says: &'static str,
    /// Values that need somebody.
    pub bad: Bad,
    /// The expressions.
    pub queries: &'static [Query],
}

/// How figures are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PanelKind {
    /// Lines over time.
    Lines,
    /// Areas over time, one above the other: parts of a whole.
    Stack,
    /// Buckets of a histogram over time.
    Heat,
    /// The present figure alone.
    Figure,
    /// The present series, a line each.
    Table,
}

/// Values that need somebody: they are red.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bad {
    /// No value by itself.
    None,
    /// This value and all above.
    From(f64),
    /// All below this value.
    Below(f64),
}

/// An expression.
#[derive(Clone, Copy, Debug)]
pub struct Query {
    /// PromQL, in which `SCOPE` stands for the chosen jobs and instances, `POOLS` for the chosen jobs and pools, and `RATE` for a
    /// window that has at least four scrapes.
    pub text: &'static str,
    /// The name of a series: words, and labels in braces.
    pub legend: &'static str,
    /// The reason why a healthy system gives no figure.
    pub empty: Option<&'static str>,
}

/// Families that are there only if something is used: how their names begin, and what it is.
pub const FEATURES: [(&str, Feature); 14] = [
    ("evenkeel_flash_", Feature::Flash),
    ("memcached_extstore_", Feature::Flash),
    ("evenkeel_tls_", Feature::Tls),
    ("evenkeel_certificate_", Feature::Tls),
    ("evenkeel_route_certificate_", Feature::Tls),
    ("evenkeel_cluster_", Feature::ClusterFile),
    ("evenkeel_route_cluster_", Feature::ClusterFile),
    ("evenkeel_route_shadow_", Feature::Shadows),
    ("evenkeel_control_", Feature::Fleet),
    ("evenkeel_agent_", Feature::Fleet),
    ("evenkeel_tune_watch_", Feature::TuneWatch),
    ("evenkeel_tune_", Feature::TuneCheck),
    ("evenkeel_host_allowance_", Feature::Cloud),
    ("evenkeel_host_disk_", Feature::Disk),
];

/// What a family needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// A flash tier of a server.
    Flash,
    /// TLS of a server.
    Tls,
    /// Auto-discovery.
    ClusterFile,
    /// A router that compares its shadows.
    Shadows,
    /// A control plane whose processes have metrics.
    Fleet,
    /// A watch over settings of the host.
    TuneWatch,
    /// A check of the host.
    TuneCheck,
    /// A host of a cloud that tells its allowances.
    Cloud,
    /// A disk that counts its requests.
    Disk,
}

impl Feature {
    /// What is needed, for the reader of a panel.
    pub fn words(self) -> &'static str {
        match self {
            Feature::Flash => "servers with a flash tier (-o ext_path)",
            Feature::Tls => "TLS (-Z of servers, certificates of routers)",
            Feature::ClusterFile => "servers and routers with --cluster-file",
            Feature::Shadows => "routers with --compare-shadows or --shadow-report",
            Feature::Fleet => "controllers and agents with --metrics-listen",
            Feature::TuneWatch => "evenkeel tune watch --prometheus, read by node_exporter",
            Feature::TuneCheck => "evenkeel tune check --prometheus, read by node_exporter",
            Feature::Cloud => "hosts whose network driver counts allowances, as that of AWS does",
            Feature::Disk => "hosts with a disk of their own",
        }
    }

    /// What the family of this name needs.
    pub fn of(family: &str) -> Option<Feature> {
        FEATURES.iter().find(|(beginning, _)| family.starts_with(beginning)).map(|(_, feature)| *feature)
    }
}

impl Query {
    pub(super) const fn new(text: &'static str, legend: &'static str) -> Query {
        Query { text, legend, empty: None }
    }

    pub(super) const fn empty(self, reason: &'static str) -> Query {
        Query { empty: Some(reason), ..self }
    }

    /// The expression with Grafana's variables.
    pub fn expression(&self) -> String {
        self.text
            .replace("SCOPE", "job=~\"$job\", instance=~\"$instance\"")
            .replace("POOLS", "job=~\"$job\", pool=~\"$pool\"")
            .replace("RATE", "$__rate_interval")
    }

    /// What it needs, by the names of its families.
    pub fn features(&self) -> Vec<Feature> {
        let mut features = Vec::new();
        let words = self.text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        for feature in words.filter_map(Feature::of) {
            if !features.contains(&feature) {
                features.push(feature);
            }
        }
        features
    }
}

impl Panel {
    pub(super) const fn new(
        title: &'static str,
        kind: PanelKind,
        unit: &'static str,
        says: &'static str,
        queries: &'static [Query],
    ) -> Panel {
        Panel { title, kind, unit, says, bad: Bad::None, queries }
    }

    pub(super) const fn bad(self, bad: Bad) -> Panel {
        Panel { bad, ..self }
    }
}

/// Alerts that fire, at the top of every page.
pub(super) const ALERTS: Panel = Panel::new(
    "Alerts that fire",
    PanelKind::Table,
    "none",
    "Alerts of rules.yaml. Each has a section in the runbook, docs/monitoring.md, under its name.",
    &[Query::new("ALERTS{alertname=~\"Evenkeel.+\", alertstate=\"firing\"}", "{{alertname}}")
        .empty("nothing is wrong")],
);
