//! Documents about the fleet: status, history, differences, and where a key belongs.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::Ordering;

use admin::api::ApiReply;
use fleet::rollout::RolloutState;
use fleet::{
    ClusterName, Excluded, FleetContent, Generation, GenerationNumber, MemberId, SlotRecord, ViewName, texts,
};
use router::Operation;
use serde_json::{Value, json};
use stdx::words::counted;

use super::Controller;
use super::drain::phase_words;
use super::members::MemberState;
use super::replies::{document, refusal, register_away};
use crate::route_check::CheckedRoutes;
use crate::turn::{ProcessReport, TextReport};

/// Routers that are named because they are behind.
const BEHIND_SHOWN: usize = 3;
const DAY_S: i64 = 86_400;
/// A certificate of 30 days that is renewed in time has more than eight left.
const CERTIFICATE_LEFT_S: i64 = 8 * DAY_S;

impl Controller {
    pub(super) fn status(&self) -> ApiReply {
        let mut text = String::new();
        let mut line = |words: String| writeln!(text, "{words}").expect("writing to memory does not fail");
        match self.register.view().current() {
            None => line("no generation yet".to_owned()),
            Some(now) => line(format!("generation {}: {}", now.number, now.reason)),
        }
        if let Some(rollout) = &self.rollout {
            line(format!("rollout: {}", self.rollout_words(&rollout.state())));
        }
        if let Some(why) = self.register.away() {
            line(format!("the register is away, so nothing new is decided: {why}"));
        }
        if let Some(words) = &self.zones_line {
            line(words.clone());
        }
        for (scope, why) in self.register.view().frozen() {
            line(format!("frozen: {scope} ({why})"));
        }
        for (name, heard) in self.peers.heard() {
            let age_s = self.now.ms().saturating_sub(heard.ms()) / 1000;
            line(format!("controller {name} was heard {age_s} s ago"));
        }
        let certificate_end_s = self.certificate_end_s();
        if let Some(words) = certificate_end_s.and_then(|end_s| certificate_words(end_s, self.unix_s)) {
            line(words);
        }
        let quarantine: Vec<_> = self.watch.quarantine().held().collect();
        for (whose, reason) in &quarantine {
            line(format!("in quarantine: {whose} ({reason})"));
        }
        let notes: Vec<String> = self.health_notes.iter().cloned().chain(self.drain_line()).collect();
        for note in &notes {
            line(note.clone());
        }
        let unfit = self.excluded();
        let members: Vec<Value> = self
            .register
            .view()
            .inventory()
            .members()
            .map(|member| self.member_json(&member.id, &unfit))
            .collect();
        line(format!("{:<20} {:<10} {:<24} {:<18} {}", "MEMBER", "ZONE", "ADDRESS", "SLOT", "STATE"));
        for member in &members {
            let word = |name: &str| member[name].as_str().unwrap_or_default().to_owned();
            let (id, zone, address) = (word("id"), word("zone"), word("address"));
            line(format!("{id:<20} {zone:<10} {address:<24} {:<18} {}", word("slot"), word("state")));
        }
        let routers = self.routers_json();
        line(format!("{:<20} {:<10} {:<24} {}", "ROUTER", "VIEW", "GENERATION", "STATE"));
        for router in &routers {
            let word = |name: &str| router[name].as_str().unwrap_or_default().to_owned();
            let generation =
                router["generation"].as_u64().map_or("none".to_owned(), |number| number.to_string());
            line(format!("{:<20} {:<10} {generation:<24} {}", word("id"), word("view"), word("state")));
        }
        let json = json!({
            "generation": self.target(),
            "rollout": self.rollout.as_ref().map(|rollout| self.rollout_words(&rollout.state())),
            "certificate_end_s": certificate_end_s,
            "register_away": self.register.away(),
            "frozen": self.register.view().frozen(),
            "quarantine": quarantine.iter().map(|(whose, reason)| (whose.to_string(), reason)).collect::<Vec<_>>(),
            "drain": self.drain_json(),
            "health": notes,
            "members": members,
            "routers": routers,
        });
        document(text, json)
    }

    /// The last second of this controller's certificate, if it has one.
    fn certificate_end_s(&self) -> Option<u64> {
        let end_s = self.certificate_end_s.as_ref()?.load(Ordering::Relaxed);
        Some(end_s).filter(|end_s| *end_s > 0)
    }

    fn member_json(&self, id: &MemberId, unfit: &Excluded) -> Value {
        let member = self.register.view().inventory().get(id).expect("it is in the inventory");
        let slot = match self.member_state(id) {
            MemberState::InSlot { cluster, slot } => format!("{cluster}/{slot}"),
            MemberState::Spare if unfit.contains_key(id) => "no spare now".to_owned(),
            MemberState::Spare => "spare".to_owned(),
            MemberState::Stale => "to be emptied".to_owned(),
        };
        let seconds = |since: stdx::clock::Now| self.now.ms().saturating_sub(since.ms()) / 1000;
        let probe = match self.probes.get(id) {
            None => "not probed yet".to_owned(),
            Some(probe) => match probe.answer() {
                Ok(after) => format!("answers within {} µs", after.as_micros()),
                Err(why) => format!("does not answer for {} s: {why}", seconds(probe.since())),
            },
        };
        let silent = self.agents.get(&member.host).filter(|agent| agent.is_silent());
        let silent = silent.map(|agent| format!("its agent is silent for {} s", seconds(agent.heard())));
        let said = self.report_of(id).map(|report| match report.process {
            ProcessReport::Running { pid } => format!("process {pid}"),
            ProcessReport::Restarting { left_ms } => format!("is restarted, {} s left", left_ms / 1000),
            ProcessReport::Down => "its process does not run".to_owned(),
        });
        let agent = silent.or(said).unwrap_or_else(|| "no agent".to_owned());
        let state = [agent, probe].join("; ");
        json!({
            "id": id, "host": member.host, "zone": member.zone, "address": member.address,
            "slot": slot, "state": state, "is_held": member.is_held,
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
        let target = self.target();
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

    /// The policy in force, as it was given.
    pub(super) fn policy(&self) -> ApiReply {
        match self.register.policy_text() {
            Ok(Some(text)) => document(text.clone(), json!({"policy": text})),
            Ok(None) => refusal(
                404,
                "the fleet has no policy\n  hint: `control plan --policy FILE --apply --why …` gives it one",
            ),
            Err(error) => register_away(&error),
        }
    }

    pub(super) fn history(&self) -> ApiReply {
        let mut text = String::new();
        let mut json = Vec::new();
        let before =
            |one: &Generation| one.parent.and_then(|number| self.register.view().generations().get(&number));
        for one in self.register.view().generations().values().rev() {
            let steps = before(one).map_or(Vec::new(), |before| differences(&before.content, &one.content));
            let _ = writeln!(text, "generation {}: {}", one.number, one.reason);
            for step in &steps {
                let _ = writeln!(text, "  {step}");
            }
            json.push(
                json!({"generation": one.number, "parent": one.parent, "reason": one.reason, "steps": steps}),
            );
        }
        if text.is_empty() {
            text = "no generation yet\n".to_owned();
        }
        document(text, json!({"generations": json}))
    }

    pub(super) fn difference(&self, from: GenerationNumber, to: Option<GenerationNumber>) -> ApiReply {
        let Some(to) = to.or(self.target()) else { return refusal(404, "there is no generation yet") };
        let find = |number| self.register.view().generations().get(&number);
        let (Some(old), Some(new)) = (find(from), find(to)) else {
            let missing = if find(from).is_none() { from } else { to };
            return refusal(
                404,
                &format!("generation {missing} is not kept\n  hint: `control history` lists those that are"),
            );
        };
        let steps = differences(&old.content, &new.content);
        let mut text =
            if steps.is_empty() { format!("{from} and {to} are the same\n") } else { String::new() };
        for step in &steps {
            let _ = writeln!(text, "{step}");
        }
        let (before, after) = (&old.content, &new.content);
        let (old_texts, new_texts) = (texts(before), texts(after));
        let mut keys = BTreeMap::new();
        for (view, new) in &new_texts {
            let both = old_texts.get(view).filter(|old| *old != new).and_then(|old| {
                let checked = |name, text, content: &FleetContent| {
                    CheckedRoutes::compile_for(name, text, content.route_prefix(view)).ok()
                };
                Some((checked("from", old, before)?, checked("to", new, after)?))
            });
            if let Some((old, new)) = both {
                let sentence =
                    old.difference(&new, crate::route_check::KEYS_SAMPLED, 1, self.unix_s).sentence();
                let _ = writeln!(text, "view {view}: {sentence}");
                keys.insert(view.clone(), sentence);
            }
        }
        document(text, json!({"from": from, "to": to, "steps": steps, "keys": keys}))
    }

    pub(super) fn why(&self, key: &[u8], view: Option<&ViewName>) -> ApiReply {
        let Some(current) = self.register.view().current() else {
            return refusal(404, "there is no generation yet");
        };
        let texts = texts(&current.content);
        if let Some(view) = view.filter(|view| !texts.contains_key(*view)) {
            let known: Vec<&str> = texts.keys().map(ViewName::as_str).collect();
            return refusal(404, &format!("there is no view {view}; there are {}", known.join(", ")));
        }
        let mut text = String::new();
        let mut json = BTreeMap::new();
        for (name, routes) in texts.iter().filter(|(name, _)| view.is_none_or(|view| view == *name)) {
            let prefix = current.content.route_prefix(name);
            let routes = match CheckedRoutes::compile_for("routes", routes, prefix) {
                Ok(routes) => routes,
                Err(error) => return refusal(500, &error),
            };
            let _ = writeln!(text, "view {name}:");
            let mut of_view = BTreeMap::new();
            for (operation, word) in
                [(Operation::Get, "get"), (Operation::Set, "set"), (Operation::Delete, "delete")]
            {
                let servers = routes.servers_of(operation, key, self.unix_s);
                let places: Vec<String> =
                    servers.iter().map(|address| self.place(current, address)).collect();
                let _ = writeln!(text, "  {word:<7} {}", places.join(", then "));
                of_view.insert(word, servers);
            }
            json.insert(name.clone(), of_view);
        }
        let _ = writeln!(text, "by generation {}: {}", current.number, current.reason);
        document(text, json!({"generation": current.number, "servers": json}))
    }

    /// Whose an address is, and since when.
    fn place(&self, current: &Generation, address: &str) -> String {
        // Routers write an address without the parts that have defaults.
        let found = current.content.slot_at(address).or_else(|| {
            let slots = current
                .content
                .clusters
                .iter()
                .flat_map(|cluster| cluster.slots.iter().map(move |slot| (cluster, slot)));
            slots.into_iter().find(|(_, slot)| address.starts_with(&slot.address))
        });
        let Some((cluster, slot)) = found else { return address.to_owned() };
        let had = |one: &&Generation| {
            let slots = one.content.cluster(&cluster.name).map(|cluster| &cluster.slots);
            slots.is_some_and(|slots| slots.iter().any(|old| old.id == slot.id && old.member == slot.member))
        };
        let since = self.register.view().generations().values().rev().take_while(had).last();
        let since = since.map_or(current.number, |since| since.number);
        let (cluster, id, member) = (&cluster.name, &slot.id, &slot.member);
        format!("{member} at {address} ({cluster}/{id}, since generation {since})")
    }
}

/// How two contents differ, a line each.
pub(super) fn differences(old: &FleetContent, new: &FleetContent) -> Vec<String> {
    let mut steps = Vec::new();
    for cluster in &new.clusters {
        let name = &cluster.name;
        let Some(before) = old.cluster(name) else {
            steps.push(format!("cluster {name}: begins, with {}", counted(cluster.slots.len(), "slot")));
            continue;
        };
        if before.pool != cluster.pool {
            steps.push(format!("cluster {name}: other attributes of the pool"));
        }
        if (&before.gutter, &before.warm_up) != (&cluster.gutter, &cluster.warm_up) {
            steps.push(format!("cluster {name}: another gutter or warm-up"));
        }
        for (before, after) in before.slots.iter().zip(&cluster.slots) {
            steps.extend(drain_step(name, before, after));
            if before.member != after.member {
                let (id, member, left) = (&after.id, &after.member, &before.member);
                steps.push(format!("cluster {name}: {member} takes slot {id} in place of {left}"));
            } else if before.address != after.address {
                steps.push(format!("cluster {name}: {} is at {}", after.member, after.address));
            } else if before.is_cold != after.is_cold && after.drain.is_none() {
                let word = if after.is_cold { "begins" } else { "ends" };
                steps.push(format!("cluster {name}: the warm-up of {} {word}", after.member));
            }
        }
        for slot in cluster.slots.iter().skip(before.slots.len()) {
            steps.push(format!("cluster {name}: slot {} is added, {} takes it", slot.id, slot.member));
        }
        for slot in before.slots.iter().skip(cluster.slots.len()) {
            steps.push(format!("cluster {name}: slot {} goes, {} leaves it", slot.id, slot.member));
        }
    }
    for gone in old.clusters.iter().filter(|cluster| new.cluster(&cluster.name).is_none()) {
        steps.push(format!("cluster {}: goes", gone.name));
    }
    for view in &new.views {
        match old.views.iter().find(|before| before.name == view.name) {
            None => steps.push(format!("view {}: begins", view.name)),
            Some(before) if before != view => {
                steps.push(format!("view {}: other routes or pools", view.name))
            }
            Some(_) => {}
        }
    }
    for gone in old.views.iter().filter(|before| new.views.iter().all(|view| view.name != before.name)) {
        steps.push(format!("view {}: goes", gone.name));
    }
    steps
}

/// What a person reads about a certificate that is about to run out. One that is renewed has more time left.
fn certificate_words(end_s: u64, now_s: i64) -> Option<String> {
    let left_s = end_s.cast_signed().saturating_sub(now_s);
    match left_s {
        ..0 => Some("this controller's certificate has run out: others refuse it".to_owned()),
        0..CERTIFICATE_LEFT_S => {
            let left = counted((left_s / DAY_S + 1).unsigned_abs() as usize, "day");
            Some(format!("this controller's certificate runs out within {left}"))
        }
        _ => None,
    }
}

/// What becomes of a slot's drain.
fn drain_step(cluster: &ClusterName, before: &SlotRecord, after: &SlotRecord) -> Option<String> {
    if before.drain == after.drain {
        return None;
    }
    let words = match (&after.drain, after.drained()) {
        (Some(drain), Some((old, new))) => phase_words(drain.phase, old, new),
        _ => format!("{} alone has it", after.member),
    };
    Some(format!("cluster {cluster}: the drain of slot {}: {words}", after.id))
}
