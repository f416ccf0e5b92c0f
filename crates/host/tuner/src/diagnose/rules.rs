//! Rules: findings about the limits of a host's services, from its facts and counters.
//!
//! A rule is a name, a pure function and an explanation. Nothing here reads a file or a clock, and every finding has
//! numbers as evidence. Each module holds the rules of one subject, with its thresholds and their sources.

mod connections;
mod contention;
mod cores;
mod datagrams;
mod disks;
mod figures;
mod fold;
mod host;
mod limits;
mod listeners;
mod memory;
mod packets;
mod placement;
mod queues;
mod rule;
mod scheduling;
mod stalled;
mod steering;
mod system;

#[cfg(test)]
mod published;
#[cfg(test)]
mod situation;

use crate::{Facts, Finding, Series};
use host::RuleInput;
use rule::Rule;

pub(crate) use host::is_allowance;

pub use figures::{bytes, number, per_second, percent};
pub use rule::Explanation;
pub(crate) use rule::{AtBoot, Remedy, RemedyOrder, SettingsRemedy};

/// All rules, by subject.
const SUBJECTS: [&[Rule]; 15] = [
    packets::RULES,
    placement::RULES,
    steering::RULES,
    queues::RULES,
    limits::RULES,
    stalled::RULES,
    listeners::RULES,
    connections::RULES,
    datagrams::RULES,
    contention::RULES,
    scheduling::RULES,
    memory::RULES,
    disks::RULES,
    system::RULES,
    cores::RULES,
];

/// The findings of all rules, most severe first: each cause once, with its consequences and with similar findings.
pub fn judge(facts: &Facts, series: &Series) -> Vec<Finding> {
    let host = RuleInput::new(facts, series);
    fold::fold(&host, found(&host))
}

/// The findings of each rule by itself, most severe first.
pub(crate) fn judge_each(facts: &Facts, series: &Series) -> Vec<Finding> {
    found(&RuleInput::new(facts, series))
}

fn found(host: &RuleInput) -> Vec<Finding> {
    let mut findings: Vec<Finding> = rules()
        .flat_map(|rule| {
            let named = |finding| Finding { rule: rule.explanation.rule.to_owned(), ..finding };
            (rule.find)(host).into_iter().map(named)
        })
        .collect();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}

/// Findings each by itself, in the order of [`judge_each`], with the rule of each one's cause.
pub(crate) fn unfold(findings: &[Finding]) -> Vec<(Finding, Option<&str>)> {
    let mut each: Vec<_> = findings.iter().flat_map(Finding::unfolded).collect();
    let order = |finding: &Finding| explanations().position(|explanation| explanation.rule == finding.rule);
    each.sort_by_cached_key(|(finding, _)| (std::cmp::Reverse(finding.severity), order(finding)));
    each
}

/// A rule's explanation, by its name.
pub fn explain(rule: &str) -> Option<&'static Explanation> {
    explanations().find(|explanation| explanation.rule == rule)
}

/// The remedy of a rule's findings, by its name.
pub(crate) fn remedy(rule: &str) -> Option<Remedy> {
    rules().find(|known| known.explanation.rule == rule).map(|rule| rule.remedy)
}

/// The explanations of all rules.
pub fn explanations() -> impl Iterator<Item = &'static Explanation> + Clone {
    rules().map(|rule| &rule.explanation)
}

fn rules() -> impl Iterator<Item = &'static Rule> + Clone {
    SUBJECTS.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_rule_has_a_name_of_its_own_and_a_whole_explanation() {
        let mut names = BTreeSet::new();
        for explanation in explanations() {
            let rule = explanation.rule;
            assert!(names.insert(rule), "{rule} twice");
            assert!(rule.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'), "{rule}");
            for text in [explanation.evidence, explanation.meaning, explanation.remedy] {
                assert!(text.ends_with('.'), "{rule}: {text}");
            }
            assert!(std::ptr::eq(explain(rule).unwrap(), explanation));
        }
    }

    #[test]
    fn every_rule_has_a_line_in_the_documentation() {
        let page = include_str!("../../../../../docs/tune/check.md");
        for Explanation { rule, title, .. } in explanations() {
            let line = format!("| `{rule}` | {title}");
            assert!(page.lines().any(|found| found.starts_with(&line)), "docs/tune/check.md lacks {line} |");
        }
    }
}
