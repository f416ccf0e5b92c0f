//! Built-in workloads: what is published about production caches, as values for flags.
//!
//! The numbers are facts from the papers and tables that `SOURCES` names; nothing else is taken from there.

use std::fmt::{self, Write};
use std::str::FromStr;

/// A workload by its name, or the request to list all names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Workload(Choice);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Choice {
    List,
    Profile(&'static WorkloadProfile),
}

/// The flags that a workload sets.
#[derive(Debug, PartialEq)]
pub(crate) struct WorkloadProfile {
    pub(crate) name: &'static str,
    pub(crate) mix: &'static str,
    pub(crate) key_size: &'static str,
    pub(crate) value_size: &'static str,
    pub(crate) ttl: &'static str,
    pub(crate) popularity: &'static str,
    pub(crate) arrivals: &'static str,
}

const fn twitter(
    name: &'static str,
    [key_size, value_size, ttl, mix, popularity]: [&'static str; 5],
) -> WorkloadProfile {
    WorkloadProfile { name, mix, key_size, value_size, ttl, popularity, arrivals: "poisson" }
}

/// For Twitter's clusters the mean sizes are published: all items have them. Of TTLs and commands the frequent ones
/// are published; the rest up to 1 is shared among TTLs, and counts as sets among commands. `cas` needs a unique: it
/// is a set here.
pub(crate) static PROFILES: [WorkloadProfile; 14] = [
    WorkloadProfile {
        name: "etc",
        mix: "get=30,set=1",
        key_size: "fb_key",
        value_size: "fb_value",
        ttl: "0",
        popularity: "zipf:0.99",
        arrivals: "pareto",
    },
    twitter("twitter:c9", ["32", "39", "2h", "get=0.99,set=0.01", "zipf:1.68"]),
    twitter("twitter:c12", ["44", "1030", "300s", "set=0.8,get=0.2", "zipf:0.3"]),
    twitter("twitter:c14", ["96", "414", "1d", "get=0.65,delete=0.22,set=0.13", "zipf:1.3"]),
    twitter("twitter:c15", ["18", "102", "30s", "set=1", "zipf:0.02"]),
    twitter("twitter:c18", ["18", "37", "12h", "get=0.96,set=0.04", "zipf:2.1"]),
    twitter("twitter:c22", ["54", "4", "1d:0.85,1h:0.11", "get=0.72,incr=0.18,set=0.1", "zipf:0.76"]),
    twitter("twitter:c25", ["49", "28", "30d", "get=0.95,set=0.05", "zipf:0.99"]),
    twitter(
        "twitter:c27",
        ["66", "8", "92.6d:0.28,1d:0.25,1h:0.2,4h:0.18,6h:0.06", "get=0.85,set=0.15", "zipf:1.07"],
    ),
    twitter("twitter:c29", ["36", "799", "1h:0.67,2h:0.33", "get=0.86,set=0.14", "zipf:1.23"]),
    twitter("twitter:c37", ["72", "20134", "20s", "get=0.63,set=0.37", "zipf:0.43"]),
    twitter("twitter:c44", ["25", "22", "30d", "get=0.98,set=0.02", "zipf:1.41"]),
    twitter("twitter:c50", ["18", "67485", "900s", "get=0.52,set=0.48", "zipf:1.28"]),
    twitter(
        "twitter:c52",
        ["20", "273", "1d:0.65,14d:0.27,12h:0.07", "get=0.91,add=0.04,gets=0.02,set=0.03", "zipf:1.21"],
    ),
];

const SOURCES: &str = "\
etc: Facebook's pool of that name. Atikoglu, Xu, Frachtenberg, Jiang, Paleczny: Workload analysis of a large-scale
  key-value store, SIGMETRICS 2012. The paper has no law of popularity: zipf:0.99 is YCSB's.
  --arrivals is pareto.
twitter: clusters of Twitter's. Yang, Yue, Rashmi: A large scale analysis of hundreds of in-memory cache clusters at
  Twitter, OSDI 2020; statistics of March 2020 from github.com/twitter/cache-trace (CC BY 4.0). Mean sizes; the frequent
  TTLs; cas counted as set.
Every one leaves --keys and --rate to you; flags beside --workload override it.
";

impl FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> Result<Workload, String> {
        if text == "list" {
            return Ok(Workload(Choice::List));
        }
        let profile = PROFILES.iter().find(|profile| profile.name == text);
        let unknown = || String::from("no workload has this name; `--workload list` shows them");
        profile.map(|profile| Workload(Choice::Profile(profile))).ok_or_else(unknown)
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Choice::List => "list",
            Choice::Profile(profile) => profile.name,
        })
    }
}

/// Flags without a workload.
pub(crate) static PLAIN: WorkloadProfile = WorkloadProfile {
    name: "",
    mix: "get=1",
    key_size: "14",
    value_size: "100",
    ttl: "0",
    popularity: "uniform",
    arrivals: "poisson",
};

impl Workload {
    /// Its flags; `None` is the request to list all names.
    pub(crate) fn profile(self) -> Option<&'static WorkloadProfile> {
        match self.0 {
            Choice::List => None,
            Choice::Profile(profile) => Some(profile),
        }
    }
}

/// All workloads, for people.
pub(crate) fn table() -> String {
    let mut table = String::new();
    let mut row = |[name, keys, values, ttl, popularity, mix]: [&str; 6]| {
        writeln!(table, "{name:<12} {keys:<7} {values:<9} {popularity:<10} {mix:<36} {ttl}")
            .expect("a string takes everything");
    };
    row(["workload", "keys", "values", "TTLs", "popularity", "mix"]);
    for WorkloadProfile { name, key_size, value_size, ttl, popularity, mix, .. } in &PROFILES {
        row([name, key_size, value_size, ttl, popularity, mix]);
    }
    format!("{table}\n{SOURCES}")
}
