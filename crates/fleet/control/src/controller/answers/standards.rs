//! Standards of hosts in the status: how many hosts meet each, and which of them need a person.

use std::collections::BTreeMap;

use fleet::HostId;
use fleet::TuningPolicy;
use fleet::tuning::standards::{HostStandard, StandardSaid, StandardState};
use serde_json::{Value, json};
use stdx::words::counted;

use crate::controller::tuning::standards::{HostByStandard, HostStandards, StandardOrders};

/// Hosts that are named because they need a person, of each standard.
const NAMED_MAX: usize = 3;

/// Lines for people, and the same for programs.
pub(crate) fn standards_status(
    tunings: &[TuningPolicy],
    standards: &HostStandards<'_>,
    orders: &StandardOrders,
) -> (Vec<String>, Value) {
    let (mut lines, mut rows) = (Vec::new(), Vec::new());
    for tuning in tunings {
        let is_its =
            |row: &HostByStandard<'_>| matches!(row.standard, HostStandard::One(own) if own == tuning);
        let hosts = standards.iter().filter(|(_, row)| is_its(row));
        let (counts, needy) = counted_hosts(hosts, orders);
        let (wish, whose, of_all) = (tuning.wish(), tuning.whose(), counts.values().sum::<usize>());
        let (kind, name) = wish.words();
        let words: Vec<String> = counts
            .iter()
            .map(|(state, count)| format!("{} {count}", state.word().replace('_', " ")))
            .collect();
        lines.push(match of_all {
            0 => format!("standard of {whose}, {kind} {name}: no host"),
            _ => format!(
                "standard of {whose}, {kind} {name}: {} ({})",
                counted(of_all, "host"),
                words.join(", ")
            ),
        });
        lines.extend(person_lines(&needy));
        let mut states: BTreeMap<_, _> = StandardState::ALL.map(|state| (state.word(), 0)).into();
        states.extend(counts.iter().map(|(state, count)| (state.word(), *count)));
        rows.push(json!({
            "class": tuning.class, "wish": wish, "drift": tuning.drift, "hosts": of_all, "states": states,
            "needy": needy.len(), "first_needy": first_of(&needy),
        }));
    }
    let mixed = standards.iter().filter(|(_, row)| row.standard == HostStandard::Mixed);
    let (_, mixed) = counted_hosts(mixed, orders);
    lines.extend(person_lines(&mixed));
    (lines, json!({"of": rows, "mixed": mixed.len(), "first_mixed": first_of(&mixed)}))
}

/// Hosts that need a person because of their standard, by their names.
pub(crate) fn waiting_hosts<'c>(
    standards: &HostStandards<'c>,
    orders: &StandardOrders,
) -> Vec<(&'c HostId, StandardState)> {
    let states = standards.iter().filter_map(|(host, row)| Some((host, row.state?)));
    states.filter(|(host, state)| state.needs_person(orders.is_granted(host))).collect()
}

type Needy<'c> = Vec<(&'c HostId, StandardState, String)>;

fn counted_hosts<'a, 'c: 'a>(
    hosts: impl Iterator<Item = (&'c HostId, &'a HostByStandard<'c>)>,
    orders: &StandardOrders,
) -> (BTreeMap<StandardState, usize>, Needy<'c>) {
    let (mut counts, mut needy) = (BTreeMap::new(), Vec::new());
    for (host, row) in hosts {
        let Some(state) = row.state else { continue };
        *counts.entry(state).or_default() += 1;
        if let Some(why) = orders.missing(host, row) {
            needy.push((host, state, why.to_owned()));
        } else if state.needs_person(orders.is_granted(host)) {
            needy.push((host, state, why(row, state)));
        }
    }
    (counts, needy)
}

fn why(row: &HostByStandard<'_>, state: StandardState) -> String {
    match (state, row.said) {
        (StandardState::Mixed, _) => {
            "its members have classes with different standards, so it has none".to_owned()
        }
        (_, StandardSaid::Word(word)) => word.to_string(),
        (_, StandardSaid::OlderAgent) => "its agent is of an older version, which knows of none".to_owned(),
        (_, StandardSaid::Silent | StandardSaid::Nothing) => "it has said nothing of it".to_owned(),
    }
}

fn person_lines(needy: &Needy<'_>) -> Vec<String> {
    let mut lines: Vec<String> =
        needy.iter().take(NAMED_MAX).map(|(host, _, why)| format!("  {host}: {why}")).collect();
    if needy.len() > NAMED_MAX {
        lines.push(format!("  and {} more hosts need a person", needy.len() - NAMED_MAX));
    }
    lines
}

fn first_of(needy: &Needy<'_>) -> Vec<Value> {
    let json = |(host, state, why): &(&HostId, StandardState, String)| json!({"host": host, "state": state.word(), "why": why});
    needy.iter().take(NAMED_MAX).map(json).collect()
}
