//! What to change, in order, and nothing that is so already.
//!
//! Pure: from [`Facts`] and what was asked for to a [`Plan`]. Asked for can be a strategy, a profile, and whatever
//! findings have a strategy that mends them; who asks first for a setting has it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::change::{Change, Refusal, Setting};
use crate::facts::{Facts, Nic};
use crate::finding::{Finding, Verdict};
use crate::profile::Profile;
use crate::strategy::{self, Strategy, Wishes};

/// What a plan is to be made from.
#[derive(Clone, Debug, Default)]
pub struct Asked<'a> {
    /// A layout.
    pub strategy: Option<Strategy>,
    /// A kind of service.
    pub profile: Option<Profile>,
    /// What was found.
    pub findings: &'a [Finding],
    /// The only interface that is meant; `None`: all physical ones that are up.
    pub nic: Option<&'a str>,
    /// Also what is so already: it has to be so after the next start, too.
    pub whole: bool,
}

/// What to change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// In the order in which they are to be made.
    pub changes: Vec<Change>,
    /// What was asked for and is not planned.
    #[serde(default)]
    pub refusals: Vec<Refusal>,
    /// What no live setting can do.
    #[serde(default)]
    pub advice: Vec<String>,
}

/// What mends what a rule finds.
const MENDS: [(&str, Mend); 15] = [
    ("rps-redundant", Mend::NoSteering),
    ("rps-harmful", Mend::NoSteering),
    ("softirq-one-core", Mend::Strategy(Strategy::RpsRfs)),
    ("irqs-piled-up", Mend::Strategy(Strategy::Spread)),
    ("rps-missing", Mend::Strategy(Strategy::RpsRfs)),
    ("rfs-off", Mend::Strategy(Strategy::RpsRfs)),
    ("rfs-half-set", Mend::Strategy(Strategy::RpsRfs)),
    ("xps-missing", Mend::Strategy(Strategy::Xps)),
    ("xps-crossed", Mend::Strategy(Strategy::Xps)),
    ("interrupt-per-packet", Mend::Strategy(Strategy::Defer50)),
    ("scheduling-delay", Mend::Strategy(Strategy::SchedSlice)),
    ("accept-overflow", Mend::Profile(Profile::Generic)),
    ("backlog-small", Mend::Profile(Profile::Generic)),
    ("somaxconn-low", Mend::Profile(Profile::Generic)),
    ("syn-queue-full", Mend::Profile(Profile::Generic)),
];

#[derive(Clone, Copy)]
enum Mend {
    Strategy(Strategy),
    Profile(Profile),
    NoSteering,
}

/// The strategy that was asked for, by itself or by the rule of a finding.
pub fn strategy_behind(asked_by: &str) -> Option<Strategy> {
    let of_rule = MENDS.iter().find_map(|(rule, mend)| match mend {
        Mend::Strategy(strategy) if *rule == asked_by => Some(*strategy),
        _ => None,
    });
    Strategy::named(asked_by).or(of_rule)
}

/// The profile that a finding's rule asked for.
pub fn profile_behind(asked_by: &str) -> Option<Profile> {
    MENDS.iter().find_map(|(rule, mend)| match mend {
        Mend::Profile(profile) if *rule == asked_by => Some(*profile),
        _ => None,
    })
}

/// Makes a plan.
pub fn plan(facts: &Facts, asked: &Asked) -> Plan {
    let nics = meant(facts, asked.nic);
    let mut plan = Plan::default();
    let mut taken = BTreeSet::new();
    for finding in asked.findings.iter().filter(|finding| finding.verdict == Verdict::Fixable) {
        let Some((_, mend)) = MENDS.iter().find(|(rule, _)| *rule == finding.rule) else { continue };
        let about: Vec<&Nic> = nics.iter().copied().filter(|nic| nic.name == finding.subject).collect();
        let wishes = match mend {
            Mend::Strategy(strategy) => {
                strategy.changes(facts, if about.is_empty() { &nics } else { &about })
            }
            Mend::Profile(profile) => profile.changes(facts),
            Mend::NoSteering => strategy::unsteered(&about),
        };
        plan.add(wishes, Some(&finding.rule), asked.whole, &mut taken);
    }
    if let Some(strategy) = asked.strategy {
        plan.add(strategy.changes(facts, &nics), None, asked.whole, &mut taken);
    }
    if let Some(profile) = asked.profile {
        plan.add(profile.changes(facts), None, asked.whole, &mut taken);
    }
    // The order inside of a stage is the one that the strategy gave.
    plan.changes.sort_by_key(|change| change.stage);
    plan
}

impl Plan {
    fn add(&mut self, wishes: Wishes, rule: Option<&str>, whole: bool, taken: &mut BTreeSet<Setting>) {
        for change in wishes.changes {
            if taken.insert(change.setting.clone()) && (whole || change.is_due()) {
                let asked_by = rule.map_or(change.asked_by, str::to_owned);
                self.changes.push(Change { asked_by, ..change });
            }
        }
        for refusal in wishes.refusals {
            let asked_by = rule.map_or(refusal.asked_by, str::to_owned);
            let known = |other: &Refusal| other.subject == refusal.subject && other.reason == refusal.reason;
            if !self.refusals.iter().any(known) {
                self.refusals.push(Refusal { asked_by, ..refusal });
            }
        }
        for advice in wishes.advice {
            if !self.advice.contains(&advice) {
                self.advice.push(advice);
            }
        }
    }
}

/// The interface that was named, or those that carry the host's traffic.
fn meant<'f>(facts: &'f Facts, name: Option<&str>) -> Vec<&'f Nic> {
    let is_meant = |nic: &&Nic| match name {
        Some(name) => nic.name == name,
        None => nic.is_wire(),
    };
    facts.nics.iter().filter(is_meant).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Severity;
    use crate::shapes::{ENA, Shape};

    const HOST: Shape = Shape { cpus: 32, threads: 1, nodes: 2, queues: 4, irqs: ENA };

    fn finding(rule: &str, verdict: Verdict) -> Finding {
        Finding {
            rule: rule.into(),
            severity: Severity::Warning,
            subject: "eth0".into(),
            cause: String::new(),
            effect: String::new(),
            verdict,
            evidence: Vec::new(),
        }
    }

    #[track_caller]
    fn check(findings: &[Finding], wanted: &[(&str, &str)]) {
        let plan = plan(&HOST.facts(), &Asked { findings, ..Asked::default() });
        let file = |change: &Change| change.setting.to_string().rsplit('/').next().unwrap().to_owned();
        let mut said: Vec<_> =
            plan.changes.iter().map(|change| (file(change), change.asked_by.clone())).collect();
        said.dedup();
        let wanted: Vec<_> = wanted.iter().map(|(file, by)| (file.to_string(), by.to_string())).collect();
        assert_eq!(said, wanted);
    }

    #[test]
    fn findings_are_mended_in_the_order_of_stages() {
        check(
            &[finding("xps-missing", Verdict::Fixable), finding("irqs-piled-up", Verdict::Fixable)],
            &[("smp_affinity", "irqs-piled-up"), ("xps_cpus", "xps-missing")],
        );
    }

    #[test]
    fn what_cannot_be_mended_here_asks_for_nothing() {
        check(&[finding("xps-missing", Verdict::NotHere { reason: String::new() })], &[]);
        check(&[finding("allowance-exceeded", Verdict::Fixable)], &[]);
    }

    #[test]
    fn only_rules_that_there_are_ask_for_anything() {
        for (rule, _) in MENDS {
            assert!(crate::rules::explain(rule).is_some(), "{rule}");
        }
    }

    #[test]
    fn what_is_so_already_is_left_out() {
        let asked = Asked { strategy: Some(Strategy::Spread), ..Asked::default() };
        let mut facts = HOST.facts();
        for _ in 0..4 {
            let before = plan(&facts, &asked).changes;
            let Some(first) = before.first() else { break };
            let irq = first.setting.irq().unwrap();
            let cpus = crate::CpuSet::parse_mask(&first.wanted).unwrap();
            facts.interrupts.iter_mut().find(|other| other.irq == irq).unwrap().affinity = cpus;
            assert_eq!(plan(&facts, &asked).changes, before[1..]);
        }
        assert!(plan(&facts, &asked).changes.is_empty());
    }

    #[test]
    fn an_interface_that_is_not_there_is_refused() {
        let asked = Asked { strategy: Some(Strategy::Xps), nic: Some("eth9"), ..Asked::default() };
        let plan = plan(&HOST.facts(), &asked);
        assert_eq!((plan.changes.len(), plan.refusals.len()), (0, 1));
    }
}
