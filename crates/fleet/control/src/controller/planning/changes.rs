//! Planning changes of hosts: what hosts have answered becomes a draft with kinds of hosts, and names for those that are left out.

use std::collections::{BTreeMap, BTreeSet};

use fleet::HostId;
use fleet::figures::shadow::GateState;
use fleet::tuning::{AnswerDigest, HostAnswer, HostPlace};
use fleet::waves::{ChangeDraft, ChangeNumber, ChangePlan, HostRole, HostsAlike, PlannedHost, WaveSettings};
use serde_json::{Map, Value};

use crate::controller::answers::tuning::AskedHosts;
use crate::controller::changes::draft::{DraftedChange, kind_word};
use crate::controller::observing::agents::Agents;
use crate::controller::tuning::HeardAnswer;
use crate::decisions::changes::ChangeAct;
use crate::service::questions::changes::ChangeTerms;
use crate::service::turn::{ActKind, PlanWish, TuneBody, TurnReport, answer_digest};

/// Digits of a plan's digest that name a kind of hosts: kinds of one change are few.
const GROUP_LEN: usize = 12;
/// Word with which a person accepts every kind that cannot be judged.
const ALL_KINDS: &str = "all";

/// The settings of a change: those of the policy with those of the question put in.
///
/// # Errors
/// Says what was found and what is accepted.
pub(crate) fn settings_of(policy: &WaveSettings, given: &Map<String, Value>) -> Result<WaveSettings, String> {
    let mut settings = serde_json::to_value(policy).map_err(|error| error.to_string())?;
    for (name, value) in given {
        settings[name.as_str()] = value.clone();
    }
    let settings: WaveSettings =
        serde_json::from_value(settings).map_err(|error| format!("settings of the waves: {error}"))?;
    settings.check().map_err(|error| error.to_string())?;
    Ok(settings)
}

/// The draft of a tuning or an upgrade.
///
/// # Errors
/// If a kind of hosts is accepted that there is not.
pub(crate) fn change_draft(
    asked: &AskedHosts<'_>,
    agents: &Agents,
    (wish, mut settings): (&PlanWish, WaveSettings),
    (terms, gate): (&ChangeTerms, Option<GateState>),
) -> Result<DraftedChange, String> {
    let (mut hosts, mut own, mut left) = (Vec::new(), BTreeMap::new(), Vec::new());
    let (mut advice, mut by_hand) = (Vec::new(), Vec::new());
    if ActKind::of(wish) == ActKind::Upgrade {
        one_program(asked)?;
        // One host that could not have it is one too many, unless a person or the policy says otherwise.
        let is_usual = settings.troubled_max == WaveSettings::default().troubled_max;
        if is_usual && !terms.settings.contains_key("troubled_max") {
            settings.troubled_max = 0;
        }
    }
    for (place, answer) in asked {
        let report = agents.get(&place.host).map(|record| record.report());
        if let Some(agent) = report.and_then(|report| report.agent.as_ref())
            && ActKind::of(wish) == ActKind::Upgrade
        {
            by_hand.extend(agent.by_hand.iter().map(|member| (member.clone(), place.host.clone())));
        }
        match planned(place, answer, report, ActKind::of(wish)) {
            Ok((host, digest)) => {
                if let HostAnswer::Given(HeardAnswer { body: TuneBody::Plan(plan), .. }) = answer
                    && ActKind::of(wish) == ActKind::Upgrade
                {
                    advice.extend(plan.advice.iter().map(|words| (host.host.clone(), words.clone())));
                }
                own.insert(host.host.clone(), digest);
                hosts.push(host);
            }
            Err(why) => left.push((place.host.clone(), why)),
        }
    }
    let kinds = ChangePlan::kinds_of(&hosts);
    let (kind, name) = wish.words();
    let is_upgrade = ActKind::of(wish) == ActKind::Upgrade;
    let draft = ChangeDraft {
        number: ChangeNumber(0),
        what: if is_upgrade { format!("upgrade to {name}") } else { format!("tune with the {kind} {name}") },
        accepted: accepted(&kinds, &terms.accept)?,
        hosts,
        promised: terms.promised.clone(),
        // A process that is replaced again and again is no measurement.
        restarts: is_upgrade,
        takes_turns: !is_upgrade,
        settings,
    };
    let act = ChangeAct { wish: wish.clone(), own };
    let objective = terms.objective.clone();
    let text = serde_json::to_vec(&(&draft, &act, &objective, &terms.gate))
        .expect("it has names, texts and numbers");
    let gate = terms.gate.clone().zip(gate);
    Ok(DraftedChange { draft, act, objective, gate, left, advice, by_hand, digest: answer_digest(&text) })
}

/// The host as it is planned, and what it would do; otherwise why it is left out.
fn planned(
    place: &HostPlace,
    answer: &HostAnswer<HeardAnswer<'_>>,
    report: Option<&TurnReport>,
    kind: ActKind,
) -> Result<(PlannedHost, AnswerDigest), String> {
    let answer = match answer {
        HostAnswer::Given(answer) => answer,
        HostAnswer::Missing(why) => return Err(why.to_string()),
    };
    let (TuneBody::Plan(plan), Some(report)) = (answer.body, report) else {
        return Err("its answer is no plan".to_owned());
    };
    if plan.is_empty() {
        return Err("nothing to change".to_owned());
    }
    match &report.changes {
        None => return Err("its agent is of an older version, which changes nothing".to_owned()),
        Some(changes) if !changes.allowed.contains(&kind) => {
            let table = if kind == ActKind::Upgrade { "[upgrade]" } else { "[tune] apply" };
            return Err(format!("its agent's file does not allow it, or it does not run as root ({table})"));
        }
        Some(_) => {}
    }
    let (Some(form), Some(own)) = (&plan.form, answer.own) else {
        return Err("its tuner is of an older version, whose plans cannot be compared".to_owned());
    };
    let controllers = report.agent.as_ref().map_or(0, |agent| agent.controllers);
    let is_last = kind == ActKind::Upgrade && controllers > 0;
    let role = match (report.members.is_empty(), report.routers.is_empty()) {
        (false, true) => HostRole::Server,
        (true, false) => HostRole::Router,
        (false, false) => HostRole::Both,
        (true, true) if is_last => HostRole::Controller,
        (true, true) => {
            return Err("it runs neither a server nor a router, so nothing of it is measured".to_owned());
        }
    };
    let classes: Vec<&str> = place.classes.iter().map(String::as_str).collect();
    let host = PlannedHost {
        host: place.host.clone(),
        zone: place.zone.clone().unwrap_or_else(|| report.zone.clone()),
        class: (!classes.is_empty()).then(|| classes.join("+")),
        group: form.as_str()[..GROUP_LEN].to_owned(),
        role,
        clusters: place.clusters.clone(),
        is_last,
    };
    Ok((host, own.clone()))
}

/// Refuses a version that is not the same program on all hosts of an architecture.
fn one_program(asked: &AskedHosts<'_>) -> Result<(), String> {
    let mut programs: BTreeMap<&str, (&str, &HostId)> = BTreeMap::new();
    for (place, answer) in asked {
        let HostAnswer::Given(HeardAnswer { body: TuneBody::Plan(plan), .. }) = answer else { continue };
        for line in plan.steps.iter().flat_map(|step| &step.lines) {
            let (program, first) = programs.entry(&line.setting).or_insert((&line.wanted, &place.host));
            if *program != line.wanted {
                return Err(format!(
                    "{}: {first} has {program}, and {} has {}; one version has to be the same program on all hosts",
                    line.setting, place.host, line.wanted
                ));
            }
        }
    }
    Ok(())
}

fn accepted(kinds: &BTreeSet<HostsAlike>, words: &[String]) -> Result<BTreeSet<HostsAlike>, String> {
    let mut accepted = BTreeSet::new();
    for word in words {
        let meant = kinds.iter().filter(|kind| *word == ALL_KINDS || *word == kind_word(kind));
        let before = accepted.len();
        accepted.extend(meant.cloned());
        let is_meant = *word == ALL_KINDS || kinds.iter().any(|kind| *word == kind_word(kind));
        if accepted.len() == before && !is_meant {
            let there: Vec<String> = kinds.iter().map(kind_word).collect();
            return Err(format!(
                "accept: expected {ALL_KINDS} or one of {}, found {word:?}",
                there.join(", ")
            ));
        }
    }
    Ok(accepted)
}
