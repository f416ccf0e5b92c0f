//! Documents about the tuning of hosts: what was found, and what would be changed.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use admin::api::ApiReply;
use fleet::tuning::{
    AnswerDigest, CheckedHost, FindingRow, HostAnswer, HostFacts, HostPlace, HostPlan, HostScope, NoAnswer,
    PlanGroup, PlannedHost, TuningState, finding_rows, plan_groups,
};
use fleet::{HostId, TuneAskId};
use serde_json::{Value, json};
use stdx::words::counted;

use super::replies::document;
use crate::controller::tuning::HeardAnswer;
use crate::service::turn::{PlanWish, TuneBody, answer_digest};

/// Hosts that are named in a line; the others are counted.
const HOSTS_SHOWN: usize = 3;
/// Settings of a step that are shown; JSON has all.
const LINES_SHOWN: usize = 4;
/// Rows of a table, kinds of hosts, causes and groups that are shown; JSON has all of them.
const ROWS_SHOWN: usize = 100;
/// Hosts up to which JSON has what each of them has found: 4 KB of each. Of more, it has the table.
const CHECKS_SHOWN: usize = 500;

/// Hosts that were asked, each with its answer.
pub(crate) type AskedHosts<'a> = Vec<(&'a HostPlace, HostAnswer<HeardAnswer<'a>>)>;

/// What the tuner has found on these hosts.
pub(crate) fn check_document(scope: &HostScope, asked: &AskedHosts<'_>) -> ApiReply {
    let given = given(asked);
    let kinds: Vec<String> = given.iter().map(|(_, answer)| answer.kind()).collect();
    let checks = given.iter().zip(&kinds).filter_map(|((place, answer), kind)| match answer.body {
        TuneBody::Check(check) => Some(CheckedHost { host: &place.host, kind, check }),
        _ => None,
    });
    let checks: Vec<CheckedHost<'_>> = checks.collect();
    let rows = finding_rows(&checks);
    let oldest_s = given.iter().map(|(_, answer)| answer.age_s).max();
    let missing = missing(asked);
    let states = states(&checks);
    let without_root: Vec<&HostId> =
        given.iter().filter(|(_, answer)| answer.uid != 0).map(|(place, _)| &place.host).collect();
    let cut: usize = checks.iter().map(|one| one.check.cut).sum();
    let mut text = String::new();
    let written = (|| -> fmt::Result {
        writeln!(text, "{} of {scope}: {} have answered", counted(asked.len(), "host"), checks.len())?;
        if let Some(oldest_s) = oldest_s {
            writeln!(text, "the oldest answer is {} min old", oldest_s / 60)?;
        }
        write_missing(&mut text, &missing)?;
        if !without_root.is_empty() {
            writeln!(text, "seen without the rights of root, and so less: {}", named(&without_root))?;
        }
        for (state, hosts) in &states {
            writeln!(text, "{state}: {}", named(hosts))?;
        }
        if cut > 0 {
            writeln!(
                text,
                "{} of less severity are not shown: `evenkeel tune check` on the host has all",
                counted(cut, "finding")
            )?;
        }
        write_rows(&mut text, &rows, &kinds)
    })();
    written.expect("writing to memory does not fail");
    let facts: BTreeMap<&HostId, Option<&HostFacts>> =
        given.iter().map(|(place, answer)| (&place.host, answer.host_facts())).collect();
    let host = |one: &CheckedHost<'_>| {
        let facts = facts.get(one.host).copied().flatten();
        json!({"host": one.host, "kind": one.kind, "facts": facts, "check": one.check})
    };
    let each: Option<Vec<Value>> = (checks.len() <= CHECKS_SHOWN).then(|| checks.iter().map(host).collect());
    let json = json!({
        "hosts": asked.len(), "answered": checks.len(), "oldest_s": oldest_s, "scope": scope.to_string(),
        "missing": missing_json(&missing), "without_root": without_root, "cut": cut, "rows": rows,
        "states": states.iter().map(|(state, hosts)| json!({"state": state, "hosts": hosts})).collect::<Vec<_>>(),
        "checks": each,
    });
    document(text, json)
}

/// What these hosts have planned.
pub(crate) fn plan_document(
    id: &TuneAskId,
    wish: &PlanWish,
    (scope, left_s): (&str, u64),
    asked: &AskedHosts<'_>,
) -> ApiReply {
    let given = given(asked);
    let kinds: Vec<String> = given.iter().map(|(_, answer)| answer.kind()).collect();
    let planned = given.iter().zip(&kinds).filter_map(|((place, answer), kind)| match answer.body {
        TuneBody::Plan(plan) => Some(PlannedHost { place, kind, plan }),
        _ => None,
    });
    let groups = plan_groups(&planned.collect::<Vec<_>>());
    let own: BTreeMap<&HostId, &AnswerDigest> =
        given.iter().filter_map(|(place, answer)| Some((&place.host, answer.own?))).collect();
    let (kind, name) = wish.words();
    let digest = plan_name(wish, &own);
    let missing = missing(asked);
    let mut text = String::new();
    let written = (|| -> fmt::Result {
        let all = counted(asked.len(), "host");
        writeln!(
            text,
            "{kind} {name} on {all} of {scope}: {} have planned, nothing is changed",
            given.len()
        )?;
        writeln!(text, "plan {digest}, kept for {} min", left_s / 60)?;
        write_missing(&mut text, &missing)?;
        let shown = groups.iter().take(ROWS_SHOWN).enumerate();
        shown.into_iter().try_for_each(|(number, group)| write_group(&mut text, number + 1, group))?;
        write_more(&mut text, groups.len(), "group")
    })();
    written.expect("writing to memory does not fail");
    let json = json!({
        "id": id, "plan": digest, kind: name, "scope": scope, "kept_s": left_s, "hosts": asked.len(), "planned": given.len(),
        "missing": missing_json(&missing), "groups": groups.iter().map(|group| group_json(group, &own)).collect::<Vec<_>>(),
    });
    document(text, json)
}

/// The name of what all hosts have planned: it is another one if one of them would do something else.
fn plan_name(wish: &PlanWish, own: &BTreeMap<&HostId, &AnswerDigest>) -> AnswerDigest {
    let (kind, name) = wish.words();
    let lines = own.iter().map(|(host, digest)| format!("{host} {digest}\n"));
    answer_digest(format!("{kind} {name}\n{}", lines.collect::<String>()).as_bytes())
}

fn given<'a>(asked: &AskedHosts<'a>) -> Vec<(&'a HostPlace, HeardAnswer<'a>)> {
    let given = asked.iter().filter_map(|(place, answer)| match answer {
        HostAnswer::Given(answer) => Some((*place, *answer)),
        HostAnswer::Missing(_) => None,
    });
    given.collect()
}

fn missing<'a>(asked: &'a AskedHosts<'a>) -> BTreeMap<&'a NoAnswer, Vec<&'a HostId>> {
    let mut missing: BTreeMap<&NoAnswer, Vec<&HostId>> = BTreeMap::new();
    for (place, answer) in asked {
        if let HostAnswer::Missing(why) = answer {
            missing.entry(why).or_default().push(&place.host);
        }
    }
    missing
}

fn missing_json(missing: &BTreeMap<&NoAnswer, Vec<&HostId>>) -> Vec<Value> {
    missing
        .iter()
        .map(|(why, hosts)| json!({"cause": why.word(), "why": why.to_string(), "hosts": hosts}))
        .collect()
}

fn write_missing(text: &mut String, missing: &BTreeMap<&NoAnswer, Vec<&HostId>>) -> fmt::Result {
    missing.iter().take(ROWS_SHOWN).try_for_each(|(why, hosts)| {
        writeln!(text, "no answer of {} ({}): {why}", counted(hosts.len(), "host"), named(hosts))
    })?;
    write_more(text, missing.len(), "cause")
}

/// How many of so many were not shown.
fn write_more(text: &mut String, all: usize, what: &str) -> fmt::Result {
    match all.saturating_sub(ROWS_SHOWN) {
        0 => Ok(()),
        more => writeln!(text, "and {}, which --json has", counted(more, &format!("more {what}"))),
    }
}

/// Hosts by what the tuner has in force on them.
fn states<'a>(checks: &[CheckedHost<'a>]) -> BTreeMap<&'static str, Vec<&'a HostId>> {
    let mut states: BTreeMap<&'static str, Vec<&HostId>> = BTreeMap::new();
    for one in checks {
        for word in state_words(&one.check.state) {
            states.entry(word).or_default().push(one.host);
        }
    }
    states
}

fn state_words(state: &TuningState) -> Vec<&'static str> {
    let has = |phase: &str| state.plans.iter().any(|plan| plan.phase == phase);
    let words = [
        (state.unknown.is_some(), "what is in force is not known in full"),
        (state.plans_all > 0, "plans are in force"),
        (has("waiting"), "a plan waits for its confirmation"),
        (has("interrupted"), "a plan was interrupted: `evenkeel tune rollback` there undoes it"),
        (state.plans.iter().any(|plan| plan.drifted > 0), "settings of a plan have other values now"),
        (state.files > 0, "settings persist"),
        (state.files_changed > 0, "files that persist settings were changed"),
        (state.doubts > 0, "journals have doubts: `evenkeel tune status` there names them"),
    ];
    words.into_iter().filter(|(is_so, _)| *is_so).map(|(_, word)| word).collect()
}

fn write_rows(text: &mut String, rows: &[FindingRow], kinds: &[String]) -> fmt::Result {
    // A letter for each kind keeps the table narrow.
    let mut of: BTreeMap<&str, usize> = BTreeMap::new();
    kinds.iter().for_each(|kind| *of.entry(kind).or_default() += 1);
    let letters: BTreeMap<&str, String> =
        of.keys().enumerate().map(|(number, kind)| (*kind, letters_of(number))).collect();
    for (kind, count) in of.iter().take(ROWS_SHOWN) {
        writeln!(text, "{}: {kind} ({})", letters[kind], counted(*count, "host"))?;
    }
    write_more(text, of.len(), "kind")?;
    if rows.is_empty() {
        return writeln!(text, "{}", if of.is_empty() { "Nothing is known." } else { "Nothing was found." });
    }
    writeln!(text, "{:<9} {:<24} {:<4} {:>11}  CHANGE", "SEVERITY", "FINDING", "KIND", "HOSTS")?;
    rows.iter().take(ROWS_SHOWN).try_for_each(|row| {
        let (letter, hosts) = (&letters[&*row.kind], format!("{} of {}", row.hosts, row.of));
        let examples: Vec<&HostId> = row.examples.iter().collect();
        let (severity, examples) = (row.severity.word(), named_of(&examples, row.hosts));
        writeln!(text, "{severity:<9} {:<24} {letter:<4} {hosts:>11}  {} ({examples})", row.rule, row.change)
    })?;
    write_more(text, rows.len(), "row")
}

/// A to Z, then AA and so on.
fn letters_of(number: usize) -> String {
    let letter = char::from(b'A' + (number % 26) as u8);
    match number / 26 {
        0 => letter.to_string(),
        before => letters_of(before - 1) + &letter.to_string(),
    }
}

fn write_group(text: &mut String, number: usize, group: &PlanGroup) -> fmt::Result {
    let hosts: Vec<&HostId> = group.hosts.iter().collect();
    let (all, names) = (counted(hosts.len(), "host"), named(&hosts));
    writeln!(text, "\ngroup {number}: {all} ({names}) with equal plans, {}", counted(group.pairs(), "pair"))?;
    write_plan(text, &group.plan)?;
    for (refused, count) in &group.refused {
        let (on, by) = (counted(*count, "host"), &refused.asked_by);
        writeln!(text, "  not planned on {on} ({by}): {}: {}", refused.subject, refused.reason)?;
    }
    group.plan.advice.iter().try_for_each(|advice| writeln!(text, "  to do by hand: {advice}"))?;
    if !group.plan.is_empty() {
        let alone: Vec<&HostId> = group.alone().collect();
        if !alone.is_empty() {
            writeln!(text, "  no other host of equal cluster, zone, class and kind: {}", named(&alone))?;
        }
    }
    Ok(())
}

fn write_plan(text: &mut String, plan: &HostPlan) -> fmt::Result {
    if plan.is_empty() {
        return writeln!(text, "  nothing to change");
    }
    for step in &plan.steps {
        for line in step.lines.iter().take(LINES_SHOWN) {
            writeln!(text, "  {}: {} → {}", line.setting, line.now, line.wanted)?;
        }
        if let more @ 1.. = step.lines.len().saturating_sub(LINES_SHOWN) {
            writeln!(text, "  and {} like these", counted(more, "setting"))?;
        }
        writeln!(text, "      why   {} ({})", step.why, step.asked_by)?;
        writeln!(text, "      risk  {}", step.risk)?;
    }
    if plan.cut > 0 {
        writeln!(text, "  and {} that are too many to be sent", counted(plan.cut, "setting"))?;
    }
    if plan.continues {
        writeln!(
            text,
            "  then the rest is planned, because queues and interrupts have other numbers after these"
        )?;
    }
    writeln!(text, "  undo: each setting gets the value that it had on its host")
}

fn group_json(group: &PlanGroup, own: &BTreeMap<&HostId, &AnswerDigest>) -> Value {
    let host = |host: &HostId| json!({"host": host, "digest": own.get(host)});
    let refused =
        |(refused, count): &(fleet::tuning::PlanRefused, usize)| json!({"refused": refused, "hosts": count});
    json!({
        "form": group.form, "hosts": group.hosts.iter().map(host).collect::<Vec<_>>(), "pairs": group.pairs(),
        "plan": group.plan, "refused": group.refused.iter().map(refused).collect::<Vec<_>>(), "similar": group.similar,
        "is_empty": group.plan.is_empty(),
    })
}

fn named(hosts: &[&HostId]) -> String {
    named_of(hosts, hosts.len())
}

/// The first of so many hosts by name.
fn named_of(hosts: &[&HostId], all: usize) -> String {
    let shown: Vec<&str> = hosts.iter().take(HOSTS_SHOWN).map(|host| host.as_str()).collect();
    match all - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
