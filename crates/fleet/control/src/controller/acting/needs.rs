//! Entries about what needs a person: one for each thing that is not as it should be, the most urgent first, with the command that shows or mends it.

use std::collections::BTreeMap;

use fleet::MemberId;
use fleet::rollout::RolloutState;
use fleet::tuning::standards::StandardState;
use fleet::tuning::{FindingLine, FindingSeverity};
use fleet::waves::{ChangeState, WaitsFor};
use serde::Serialize;
use stdx::words::counted;

use super::figures::RouterCode;
use super::resources::{ALLOWANCE_RULE, findings, pressed_hosts, pressed_words};
use crate::controller::Controller;
use crate::controller::answers::changes::waits_words;
use crate::controller::answers::signing::certificate_words;
use crate::controller::answers::standards::waiting_hosts;
use crate::controller::observing::member_facts::{MemberCode, MemberState};
use crate::controller::tuning::standards::HostStandards;

/// Names in an entry about several routers or hosts.
const NAMES_MAX: usize = 5;

/// How urgent it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Urgency {
    /// Requests are lost, or nothing can be decided.
    Now,
    /// It goes wrong unless somebody does something, or is decided soon without a person.
    Soon,
    /// It stays so until a person ends it.
    Note,
}

/// What an entry is about, so that a page can show it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "kind", content = "id", rename_all = "snake_case")]
pub(super) enum NeedAbout {
    /// The controllers and their register.
    Control,
    /// The roll-out of the generation in force.
    Rollout,
    /// A server.
    Member(String),
    /// Routers.
    Routers,
    /// A host.
    Host(String),
    /// Agents of hosts.
    Agents,
    /// A change of hosts, by its number.
    Change(u64),
    /// Standards of hosts.
    Standards,
    /// A scope in which nothing changes.
    Frozen(String),
}

/// An entry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct Need {
    pub(super) urgency: Urgency,
    pub(super) about: NeedAbout,
    /// What is not as it should be, as a sentence.
    pub(super) text: String,
    /// What to type, to see more or to mend it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) command: Option<String>,
}

impl Need {
    fn new(urgency: Urgency, about: NeedAbout, text: String, command: Option<String>) -> Need {
        Need { urgency, about, text, command }
    }
}

/// All that needs a person now.
pub(super) fn needs(
    controller: &Controller,
    codes: &BTreeMap<MemberId, MemberCode>,
    standards: &HostStandards<'_>,
) -> Vec<Need> {
    let mut needs = of_control(controller);
    needs.extend(codes.iter().filter_map(|(id, code)| of_member(controller, id, *code)));
    needs.extend(of_routers(controller));
    needs.extend(of_hosts(controller));
    needs.extend(of_findings(controller));
    needs.extend(of_cpus(controller));
    needs.extend(of_standards(controller, standards));
    needs.sort();
    needs
}

fn of_control(controller: &Controller) -> Vec<Need> {
    let (view, mut needs) = (controller.register.view(), Vec::new());
    let mut say = |urgency, about, text: String, command: Option<&str>| {
        needs.push(Need::new(urgency, about, text, command.map(str::to_owned)));
    };
    if let Some(why) = controller.register.away() {
        let text = format!("The register does not answer, so nothing new is decided: {why}.");
        say(Urgency::Now, NeedAbout::Control, text, None);
    }
    if view.current().is_none() {
        let text = "There is no generation yet, so routers have nothing to read.".to_owned();
        let command = "evenkeel control plan --policy FILE --apply --why 'the first generation'";
        say(Urgency::Soon, NeedAbout::Control, text, Some(command));
    }
    let end_s = controller.signing.certificate_end_s();
    if let Some(words) = end_s.and_then(|end_s| certificate_words(end_s, controller.unix_s)) {
        say(Urgency::Soon, NeedAbout::Control, sentence(&words), None);
    }
    match controller.rollout.state() {
        Some(RolloutState::Halted(evidence)) => {
            let text = format!("The rollout is halted: {evidence}.");
            say(Urgency::Soon, NeedAbout::Rollout, text, Some("evenkeel control rollout resume --why …"));
        }
        Some(RolloutState::RollingBack { to }) => {
            let text = format!("The rollout has failed, and routers go back, by generation {to}.");
            say(Urgency::Note, NeedAbout::Rollout, text, Some("evenkeel control status"));
        }
        _ => {}
    }
    for (scope, why) in view.frozen() {
        let text = format!("Nothing changes in {scope}: {why}.");
        let command = format!("evenkeel control thaw {scope} --why …");
        say(Urgency::Note, NeedAbout::Frozen(scope.clone()), text, Some(&command));
    }
    needs
}

fn of_member(controller: &Controller, id: &MemberId, code: MemberCode) -> Option<Need> {
    let place = || match controller.facts().state(id) {
        MemberState::InSlot { cluster, slot } => format!("slot {slot} of {cluster}"),
        MemberState::Spare | MemberState::Stale => "no slot".to_owned(),
    };
    let (urgency, text, command) = match code {
        MemberCode::Lost => {
            let text = format!("Server {id} is lost, and its slot ({}) has no other one yet.", place());
            (Urgency::Now, text, format!("evenkeel control replace {id}"))
        }
        MemberCode::Suspect => {
            let text = format!(
                "Server {id} ({}) may be lost: its probe, its agent or its process is missing.",
                place()
            );
            (Urgency::Soon, text, "evenkeel control status".to_owned())
        }
        MemberCode::Held => {
            let text = format!("Server {id} takes no slot: it or its host is in quarantine.");
            (Urgency::Note, text, "evenkeel control status".to_owned())
        }
        MemberCode::Serving
        | MemberCode::Draining
        | MemberCode::Unknown
        | MemberCode::Spare
        | MemberCode::Unfit
        | MemberCode::Emptying => return None,
    };
    Some(Need::new(urgency, NeedAbout::Member(id.to_string()), text, Some(command)))
}

fn of_routers(controller: &Controller) -> Vec<Need> {
    let target = controller.register.target();
    let is_over = matches!(controller.rollout.state(), Some(RolloutState::Done) | None);
    let mut names: BTreeMap<RouterCode, Vec<String>> = BTreeMap::new();
    for (_, record) in controller.agents.iter() {
        for router in &record.report().routers {
            let code = RouterCode::of(record, router, target);
            let is_well = code == RouterCode::Current || code == RouterCode::Behind && !is_over;
            if !is_well {
                names.entry(code).or_default().push(router.router.to_string());
            }
        }
    }
    let need = |(code, names): (RouterCode, Vec<String>)| {
        let have = if names.len() == 1 { "has" } else { "have" };
        let run = if names.len() == 1 { "runs" } else { "run" };
        let who = format!("{} ({})", counted(names.len(), "router"), listed(&names));
        let (urgency, text) = match code {
            RouterCode::Refusing => {
                (Urgency::Soon, format!("{who} {have} refused the routes in force or cannot load them."))
            }
            RouterCode::Behind => {
                (Urgency::Soon, format!("{who} {run} an older configuration, and the rollout is over."))
            }
            RouterCode::Silent => (Urgency::Note, format!("Of {who}, the agent is not heard.")),
            RouterCode::Current => return None,
        };
        Some(Need::new(urgency, NeedAbout::Routers, text, Some("evenkeel control status".to_owned())))
    };
    names.into_iter().filter_map(need).collect()
}

fn of_hosts(controller: &Controller) -> Vec<Need> {
    let silent = controller.agents.iter().filter(|(_, record)| record.is_silent());
    let silent: Vec<String> = silent.map(|(host, _)| host.to_string()).collect();
    let mut needs = Vec::new();
    if !silent.is_empty() {
        let text = format!("Not heard any more: {} ({}).", counted(silent.len(), "agent"), listed(&silent));
        needs.push(Need::new(
            Urgency::Note,
            NeedAbout::Agents,
            text,
            Some("evenkeel control status".to_owned()),
        ));
    }
    for (number, open) in controller.tuning.changes.iter() {
        let change = open.change();
        let (number, what) = (number.0, &change.plan().what);
        let (urgency, text, command) = match change.state() {
            ChangeState::Halted(cause) => {
                let text = format!("Change {number} ({what}) is halted: {cause}.");
                (Urgency::Soon, text, format!("evenkeel control tune status {number}"))
            }
            ChangeState::Undoing { cause, left } => {
                let text =
                    format!("Change {number} ({what}) goes back, {} left: {cause}.", counted(left, "host"));
                (Urgency::Note, text, format!("evenkeel control tune status {number}"))
            }
            // What is not known may be known in a moment, or only after a person has done something.
            ChangeState::Going { waits_for: waits_for @ WaitsFor::Signal { .. }, .. } => {
                let text = format!("Change {number} ({what}) {}.", waits_words(&waits_for));
                (Urgency::Note, text, format!("evenkeel control tune status {number}"))
            }
            ChangeState::Going {
                waits_for: WaitsFor::Time | WaitsFor::Register | WaitsFor::Host(_), ..
            }
            | ChangeState::Done
            | ChangeState::Undone(_) => continue,
        };
        needs.push(Need::new(urgency, NeedAbout::Change(number), text, Some(command)));
    }
    needs
}

/// One entry for each rule whose finding is critical, which is about the first of its hosts: many may have the same. An allowance of the
/// cloud that was used up is a limit that was met, however little was held back.
fn of_findings(controller: &Controller) -> Vec<Need> {
    let mut rules: BTreeMap<&str, (&FindingLine, Vec<String>)> = BTreeMap::new();
    for (host, record) in controller.agents.iter() {
        let needs_somebody = |finding: &&FindingLine| {
            finding.severity == FindingSeverity::Critical || finding.rule == ALLOWANCE_RULE
        };
        for finding in findings(controller, record).iter().filter(needs_somebody) {
            let (_, hosts) = rules.entry(&finding.rule).or_insert((finding, Vec::new()));
            if hosts.last().is_none_or(|last| *last != host.as_str()) {
                hosts.push(host.to_string());
            }
        }
    }
    let need = |(rule, (finding, hosts)): (&str, (&FindingLine, Vec<String>))| {
        let (who, FindingLine { subject, cause, .. }) = (counted(hosts.len(), "host"), finding);
        let text = format!("The tuner finds {rule} at {who} ({}): {subject}: {cause}.", listed(&hosts));
        let command = format!("evenkeel control tune check --hosts host={}", hosts[0]);
        Need::new(Urgency::Soon, NeedAbout::Host(hosts[0].clone()), text, Some(command))
    };
    rules.into_iter().map(need).collect()
}

/// One entry for all hosts whose servers use more CPU than is planned, about the fullest.
fn of_cpus(controller: &Controller) -> Option<Need> {
    let pressed = pressed_hosts(controller);
    let text = sentence(&pressed_words(&pressed)?);
    let command = "evenkeel advise --running --control ADDR".to_owned();
    Some(Need::new(Urgency::Note, NeedAbout::Host(pressed[0].host.to_string()), text, Some(command)))
}

/// One entry for all hosts: a standard may be new to thousands of them.
fn of_standards(controller: &Controller, standards: &HostStandards<'_>) -> Option<Need> {
    let waiting = waiting_hosts(standards, &controller.tuning.standards);
    let names: Vec<String> = waiting.iter().map(|(host, _)| host.to_string()).collect();
    let mut counts: BTreeMap<StandardState, usize> = BTreeMap::new();
    waiting.iter().for_each(|(_, state)| *counts.entry(*state).or_default() += 1);
    let counts: Vec<String> =
        counts.iter().map(|(state, count)| format!("{} {count}", state.word().replace('_', " "))).collect();
    (!names.is_empty()).then(|| {
        let who = format!("{} ({})", counted(names.len(), "host"), listed(&names));
        let text = format!("Standards of hosts wait for a person at {who}: {}.", counts.join(", "));
        Need::new(Urgency::Note, NeedAbout::Standards, text, Some("evenkeel control status".to_owned()))
    })
}

fn listed(names: &[String]) -> String {
    let shown = names[..names.len().min(NAMES_MAX)].join(", ");
    match names.len().saturating_sub(NAMES_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// A clause as a sentence.
fn sentence(words: &str) -> String {
    let mut letters = words.chars();
    let first = letters.next().map(|first| first.to_uppercase().collect::<String>()).unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}
