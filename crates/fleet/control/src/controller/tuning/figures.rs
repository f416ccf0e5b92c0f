//! Figures of the hosts' tuning, for metrics.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use fleet::tuning::{FindingSeverity, HostAnswer, NoAnswer};

use super::FleetTuning;
use crate::controller::observing::agents::Agents;
use crate::service::turn::TuneBody;

/// Findings that are shown: the tuner has some fifty rules with three severities, and a hostile agent may invent others.
const FINDINGS_MAX: usize = 100;

/// What is known of the tuning of hosts, in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TuneFigures {
    /// Hosts by what is known of their last check; all words are there.
    pub(crate) hosts: BTreeMap<&'static str, u64>,
    /// Hosts by finding and severity, those of most hosts first.
    pub(crate) findings: Vec<((String, FindingSeverity), u64)>,
    /// Age of the oldest check, in seconds.
    pub(crate) oldest_s: Option<u64>,
}

impl FleetTuning {
    /// The figures of hosts with these agents.
    pub(crate) fn figures(&self, agents: &Agents) -> TuneFigures {
        // Hosts without an agent are not among these.
        let words =
            NoAnswer::WORDS.into_iter().filter(|word| *word != NoAnswer::NoAgent.word()).chain(["given"]);
        let mut figures =
            TuneFigures { hosts: words.map(|word| (word, 0)).collect(), ..TuneFigures::default() };
        let mut findings: BTreeMap<(&str, FindingSeverity), u64> = BTreeMap::new();
        for (_, record) in agents.iter() {
            let answer = match self.check_of(Some(record)) {
                HostAnswer::Missing(why) => {
                    *figures.hosts.entry(why.word()).or_default() += 1;
                    continue;
                }
                HostAnswer::Given(answer) => answer,
            };
            *figures.hosts.entry("given").or_default() += 1;
            figures.oldest_s = figures.oldest_s.max(Some(answer.age_s));
            let TuneBody::Check(check) = answer.body else { continue };
            let mut of_host: Vec<_> =
                check.findings.iter().map(|finding| (&*finding.rule, finding.severity)).collect();
            of_host.sort_unstable();
            of_host.dedup();
            of_host.into_iter().for_each(|found| *findings.entry(found).or_default() += 1);
        }
        let mut findings: Vec<_> = findings.into_iter().collect();
        findings.sort_by_key(|(_, hosts)| Reverse(*hosts));
        let named = findings.into_iter().take(FINDINGS_MAX);
        figures.findings =
            named.map(|((rule, severity), hosts)| ((rule.to_owned(), severity), hosts)).collect();
        figures
    }
}
