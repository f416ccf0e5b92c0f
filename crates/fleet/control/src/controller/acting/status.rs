//! The status of the fleet, as its controller knows it.

use std::collections::BTreeMap;
use std::fmt::Write;

use admin::api::ApiReply;
use fleet::rollout::{RolloutLane, RolloutState};
use fleet::{HostId, MemberId};
use serde_json::{Value, json};
use stdx::clock::Now;
use stdx::words::counted;

use crate::controller::answers::changes::{change_brief, change_line};
use crate::controller::answers::figures::FiguresSource;
use crate::controller::answers::replies::document;
use crate::controller::answers::signing::certificate_words;
use crate::controller::answers::standards::standards_status;
use crate::controller::observing::agents::AgentRecord;
use crate::controller::observing::member_facts::{MemberCode, MemberState};
use crate::controller::slots::drains::drain_json;
use crate::controller::slots::resizes::resize_json;
use crate::controller::tuning::standards::HostStandards;
use crate::controller::{Controller, answers};
use crate::service::questions::{FiguresQuestion, ShadowsQuestion};
use crate::service::turn::{AgentFacts, ProcessReport, TextReport};

/// Programs of agents that are shown: before, after, and one by hand.
const PROGRAMS_SHOWN: usize = 3;
/// Letters of a program's digest that are shown.
const PROGRAM_SHOWN: usize = 12;
/// Routers that are named because they are behind, and hosts of a program.
const BEHIND_SHOWN: usize = 3;

impl Controller {
    /// The status, for people and for programs.
    pub(crate) fn status(&self) -> ApiReply {
        let view = self.register.view();
        let members = self.facts().codes().into_iter().map(|(id, code)| self.member_json(&id, code));
        let (members, routers) = (members.collect::<Vec<Value>>(), self.routers_json());
        let drain = self.drains.line(view);
        let changes = self.tuning.changes.iter().map(|(_, open)| change_line(open.change()));
        let notes: Vec<String> = self.health.notes().iter().cloned().chain(drain).chain(changes).collect();
        let tunings = view.policy().map_or(&[][..], |policy| &policy.tunings);
        let standards = HostStandards::of(view, &self.agents);
        let (standard_lines, standards) = standards_status(tunings, &standards, &self.tuning.standards);
        let mut text = String::new();
        let resources = self.resource_lines();
        for line in self.first_lines().iter().chain(&notes).chain(&standard_lines).chain(&resources) {
            writeln!(text, "{line}").expect("writing to memory does not fail");
        }
        write_members(&mut text, &members).expect("writing to memory does not fail");
        write_routers(&mut text, &routers).expect("writing to memory does not fail");
        let json = json!({
            "generation": view.target(),
            "rollout": self.rollout.state().map(|state| self.rollout_words(&state)),
            "rollout_state": self.rollout_fields(),
            "certificate_end_s": self.signing.certificate_end_s(),
            "register_away": self.register.away(),
            "frozen": view.frozen(),
            "quarantine": self.health.held().map(|(whose, reason)| (whose.to_string(), reason)).collect::<Vec<_>>(),
            "drain": drain_json(view),
            "resize": resize_json(view),
            "changes": self.tuning.changes.iter().map(|(_, open)| change_brief(open.change())).collect::<Vec<_>>(),
            "standards": standards,
            "health": notes,
            "resources": resources,
            "members": members,
            "routers": routers,
            "agents": self.agents_json(),
        });
        document(text, json)
    }

    /// Figures of members, and service levels.
    pub(crate) fn figures_document(&self, question: &FiguresQuestion) -> ApiReply {
        answers::figures::figures(&self.figures_source(), question)
    }

    /// What routers have found about shadows.
    pub(crate) fn shadows_document(&self, question: &ShadowsQuestion) -> ApiReply {
        answers::shadows::shadows(&self.figures_source(), question)
    }

    /// Where figures come from, at this moment.
    pub(crate) fn figures_source(&self) -> FiguresSource<'_> {
        let (agents, now, unix_s) = (&self.agents, self.now, self.unix_s);
        FiguresSource { controller: &self.settings.host, view: self.register.view(), agents, now, unix_s }
    }

    /// What is in force, and what is not as it should be.
    fn first_lines(&self) -> Vec<String> {
        let view = self.register.view();
        let mut lines = vec![match view.current() {
            None => "no generation yet".to_owned(),
            Some(now) => format!("generation {}: {}", now.number, now.reason),
        }];
        lines.extend(self.rollout.state().map(|state| format!("rollout: {}", self.rollout_words(&state))));
        if let Some(why) = self.register.away() {
            lines.push(format!("the register is away, so nothing new is decided: {why}"));
        }
        lines.extend(self.health.zones_line().map(str::to_owned));
        lines.extend(view.frozen().iter().map(|(scope, why)| format!("frozen: {scope} ({why})")));
        lines.extend(self.peers.heard().map(|(name, heard)| {
            let age_s = self.now.ms().saturating_sub(heard.ms()) / 1000;
            format!("controller {name} was heard {age_s} s ago")
        }));
        let end_s = self.signing.certificate_end_s();
        lines.extend(end_s.and_then(|end_s| certificate_words(end_s, self.unix_s)));
        lines.extend(self.health.held().map(|(whose, reason)| format!("in quarantine: {whose} ({reason})")));
        lines.extend(self.agents_words());
        lines
    }

    /// Which program each agent runs.
    fn agents_json(&self) -> Vec<Value> {
        let json = |(host, record): (&HostId, &AgentRecord)| {
            let agent = record.report().agent.as_ref();
            json!({
                "host": host, "version": agent.map(|agent| &agent.version),
                "program": agent.and_then(|agent| agent.program.as_ref()), "is_silent": record.is_silent(),
            })
        };
        self.agents.iter().map(json).collect()
    }

    /// Agents that run different programs, the most frequent first.
    fn agents_words(&self) -> Option<String> {
        let mut programs = BTreeMap::<(&str, &str), Vec<&HostId>>::new();
        for (host, record) in self.agents.iter() {
            let Some(agent) = &record.report().agent else { continue };
            // One that does not say its bytes is no other one.
            let AgentFacts { version, program: Some(program), .. } = &**agent else { continue };
            programs.entry((version, &program.as_str()[..PROGRAM_SHOWN])).or_default().push(host);
        }
        let mut programs: Vec<_> = programs.into_iter().collect();
        programs.sort_by_key(|(_, hosts)| std::cmp::Reverse(hosts.len()));
        let [_, _, ..] = &*programs else { return None };
        let words = programs.iter().take(PROGRAMS_SHOWN).map(|((version, program), hosts)| {
            let named: Vec<&str> = hosts.iter().take(BEHIND_SHOWN).map(|host| host.as_str()).collect();
            let more = if hosts.len() > named.len() { ", …" } else { "" };
            format!("{version} ({program}) on {}: {}{more}", counted(hosts.len(), "host"), named.join(", "))
        });
        Some(format!("agents run different programs: {}", words.collect::<Vec<_>>().join("; ")))
    }

    /// The rollout of the generation in force, in fields.
    pub(super) fn rollout_fields(&self) -> Value {
        let Some(state) = self.rollout.state() else { return Value::Null };
        let target = self.register.target();
        let routers = || self.agents.routers();
        let (wave, waits_for) = match &state {
            RolloutState::Going { wave, waits_for } => (Some(wave.to_string()), waits_for.as_ref()),
            _ => (None, None),
        };
        let halted_why = match &state {
            RolloutState::Halted(evidence) => Some(evidence.to_string()),
            _ => None,
        };
        json!({
            "generation": target, "state": state.word(), "lane": self.rollout.lane().map(RolloutLane::word),
            "wave": wave, "waits_for": waits_for,
            "have": routers().filter(|router| router.generation >= target).count(), "of": routers().count(),
            "halted_why": halted_why,
        })
    }

    fn member_json(&self, id: &MemberId, code: MemberCode) -> Value {
        let member = self.register.view().inventory().get(id).expect("it is in the inventory");
        let slot = match self.facts().state(id) {
            MemberState::InSlot { cluster, slot } => format!("{cluster}/{slot}"),
            MemberState::Spare if code != MemberCode::Spare => "takes no slot now".to_owned(),
            MemberState::Spare => "spare".to_owned(),
            MemberState::Stale => "to be emptied".to_owned(),
        };
        let seconds = |since: Now| self.now.ms().saturating_sub(since.ms()) / 1000;
        let probe = match self.probes.get(id) {
            None => "not probed yet".to_owned(),
            Some(probe) => match probe.answer() {
                Ok(after) => format!("answers within {} µs", after.as_micros()),
                Err(why) => format!("does not answer for {} s: {why}", seconds(probe.since())),
            },
        };
        let answer = self.probes.get(id).map(|probe| probe.answer());
        let probe_us = answer.and_then(|answer| answer.as_ref().ok()).map(|after| after.as_micros() as u64);
        let probe_since = self.probes.get(id).map(|probe| self.unix_s - seconds(probe.since()).cast_signed());
        let process = self.facts().report_of(id).map(|report| report.process);
        let pid = process.and_then(|process| match process {
            ProcessReport::Running { pid } => Some(pid),
            _ => None,
        });
        let heard = self.agents.get(&member.host).filter(|agent| !agent.is_silent());
        let next = process.zip(heard).and_then(|(process, agent)| match process {
            // It was left when the agent said so.
            ProcessReport::Restarting { left_ms } => Some(json!({
                "what": "counts as lost if it is not started again",
                "at_unix": self.unix_s + i64::from(left_ms / 1000) - seconds(agent.heard()).cast_signed(),
            })),
            _ => None,
        });
        let silent = self.agents.get(&member.host).filter(|agent| agent.is_silent());
        let silent = silent.map(|agent| format!("its agent is silent for {} s", seconds(agent.heard())));
        let said = self.facts().report_of(id).map(|report| match report.process {
            ProcessReport::Running { pid } => format!("process {pid}"),
            ProcessReport::Restarting { left_ms } => format!("is restarted, {} s left", left_ms / 1000),
            ProcessReport::Down => "its process does not run".to_owned(),
        });
        let agent = silent.or(said).unwrap_or_else(|| "no agent".to_owned());
        let state = [agent, probe].join("; ");
        json!({
            "id": id, "host": member.host, "zone": member.zone, "address": member.address,
            "slot": slot, "state": state, "state_code": code.word(), "is_held": member.is_held,
            "probe_us": probe_us, "since_unix": probe_since, "pid": pid, "next": next,
            "figures": self.agents.figures().brief(id, self.now),
            "last_probe_s": self.probes.get(id).map(|probe| seconds(probe.at())),
        })
    }

    fn routers_json(&self) -> Vec<Value> {
        let all = self.agents.iter().flat_map(|(host, record)| {
            record.report().routers.iter().map(move |router| (host, record, router))
        });
        let json = all.map(|(host, record, router)| {
            let state = match &router.text {
                _ if record.is_silent() => "its agent is silent".to_owned(),
                TextReport::Loaded if router.loaded.is_none() => "does not answer".to_owned(),
                TextReport::Loaded => "has loaded its text".to_owned(),
                TextReport::Waiting => "has a new text and has not loaded it yet".to_owned(),
                TextReport::Refused { generation, reason } => {
                    format!("refuses generation {generation}: {reason}")
                }
                TextReport::Crashed { generation, reason } => {
                    format!("went back from generation {generation}: {reason}")
                }
                TextReport::Foreign => "has a file that somebody else has written".to_owned(),
            };
            let state = match &router.trouble {
                Some(trouble) => format!("{state}; its agent cannot go on: {trouble}"),
                None => state,
            };
            json!({
                "id": router.router, "host": host, "view": router.view, "zone": record.report().zone,
                "generation": router.generation, "state": state, "trouble": router.trouble, "suspects": router.suspects,
            })
        });
        json.collect()
    }

    fn rollout_words(&self, state: &RolloutState) -> String {
        match state {
            RolloutState::Done => self.done_words(),
            RolloutState::Frozen => "frozen; no further router gets it".to_owned(),
            RolloutState::RollingBack { to } => format!("goes back, by generation {to}"),
            RolloutState::Halted(evidence) => format!("halted: {evidence}"),
            RolloutState::Going { wave, waits_for: Some(router) } => format!("{wave}; waits for {router}"),
            RolloutState::Going { wave, waits_for: None } => wave.to_string(),
        }
    }

    /// Who has the target once its rollout is done: a router that is not heard is not waited for.
    fn done_words(&self) -> String {
        let target = self.register.target();
        let known = self
            .agents
            .iter()
            .flat_map(|(_, record)| record.report().routers.iter().map(move |one| (record, one)));
        let routers = self.agents.routers().count();
        let behind: Vec<String> = known
            .filter(|(_, router)| router.generation < target)
            .map(|(record, router)| {
                let has = router.generation.map_or("none".to_owned(), |has| format!("generation {has}"));
                let silent = if record.is_silent() { ", and its agent is silent" } else { "" };
                format!("{} has {has}{silent}", router.router)
            })
            .collect();
        match &*behind {
            [] => "all routers have it".to_owned(),
            all if all.len() == routers => {
                format!("no router has it; {}", all[..all.len().min(BEHIND_SHOWN)].join("; "))
            }
            few if few.len() <= BEHIND_SHOWN => {
                format!("all other routers have it; {}", few.join("; "))
            }
            many => format!(
                "{} routers do not have it; among them: {}",
                many.len(),
                many[..BEHIND_SHOWN].join("; ")
            ),
        }
    }
}

fn write_members(text: &mut String, members: &[Value]) -> std::fmt::Result {
    writeln!(text, "{:<20} {:<10} {:<24} {:<18} STATE", "MEMBER", "ZONE", "ADDRESS", "SLOT")?;
    members.iter().try_for_each(|member| {
        let word = |name: &str| member[name].as_str().unwrap_or_default();
        let (id, zone, address) = (word("id"), word("zone"), word("address"));
        writeln!(text, "{id:<20} {zone:<10} {address:<24} {:<18} {}", word("slot"), word("state"))
    })
}

fn write_routers(text: &mut String, routers: &[Value]) -> std::fmt::Result {
    writeln!(text, "{:<20} {:<10} {:<24} STATE", "ROUTER", "VIEW", "GENERATION")?;
    routers.iter().try_for_each(|router| {
        let word = |name: &str| router[name].as_str().unwrap_or_default();
        let generation = router["generation"].as_u64().map_or("none".to_owned(), |number| number.to_string());
        writeln!(text, "{:<20} {:<10} {generation:<24} {}", word("id"), word("view"), word("state"))
    })
}
