//! Tuning of hosts: people's questions go to the agents of a scope, and what these have answered is shown.

use std::collections::{BTreeMap, BTreeSet};

use admin::api::ApiReply;
use fleet::tuning::{HostAnswer, HostPlace, HostScope, NoAnswer};
use fleet::{HostId, TuneAskId};
use serde_json::json;

use crate::controller::Controller;
use crate::controller::answers::replies::{document, refusal};
use crate::controller::answers::tuning::{AskedHosts, check_document, plan_document};
use crate::controller::tuning::OpenAsk;
use crate::service::turn::TuneWhat;

impl Controller {
    /// Forgets what is over, and sends other controllers what they lack.
    pub(crate) fn follow_tuning(&mut self) {
        let is_other = self.tuning.sweep(&self.agents, self.now);
        self.orders.if_so(is_other);
        self.peers.send_lacked(&self.tuning);
    }

    /// What the tuner has found on the hosts of a scope.
    pub(crate) fn tune_check(&self, scope: &HostScope) -> ApiReply {
        let places = self.host_places();
        let hosts = match scope.hosts(&places) {
            Ok(hosts) => hosts,
            Err(error) => return refusal(422, &error.to_string()),
        };
        let answers = hosts.iter().map(|place| (*place, self.tuning.check_of(self.agents.get(&place.host))));
        check_document(scope, &answers.collect::<AskedHosts>())
    }

    /// Asks the hosts of a scope, here and by the other controllers.
    pub(crate) fn tune_ask(&mut self, scope: &HostScope, what: TuneWhat) -> ApiReply {
        let places = self.host_places();
        let hosts: BTreeSet<HostId> = match scope.hosts(&places) {
            Ok(hosts) => hosts.into_iter().map(|place| place.host.clone()).collect(),
            Err(error) => return refusal(422, &error.to_string()),
        };
        let count = hosts.len();
        let here = (&self.settings.host, self.unix_s, self.now);
        match self.tuning.ask(what, scope.to_string(), hosts, here) {
            Ok(asked) => {
                self.peers.tell_ask(&asked);
                self.orders.if_so(true);
                let id = &asked.ask.id;
                document(
                    format!("{count} hosts are asked: question {id}\n"),
                    json!({"id": id, "hosts": count}),
                )
            }
            Err(error) => refusal(422, &error.to_string()),
        }
    }

    /// How many hosts have answered a question.
    pub(crate) fn tune_asked(&self, id: &TuneAskId) -> ApiReply {
        let Some(open) = self.tuning.get(id) else { return unknown(id) };
        let mut counts: BTreeMap<&'static str, usize> = BTreeMap::new();
        let mut waiting = Vec::new();
        for host in &open.hosts {
            match self.missing(host, open) {
                None => *counts.entry("answered").or_default() += 1,
                Some(why) => {
                    *counts.entry(why.word()).or_default() += 1;
                    if why.is_passing() {
                        waiting.push(host);
                    }
                }
            }
        }
        let (all, waits) = (open.hosts.len(), waiting.len());
        let text = format!(
            "{} of {all} hosts have answered, {waits} are waited for\n",
            counts.get("answered").unwrap_or(&0)
        );
        waiting.truncate(3);
        let json = json!({
            "id": id, "hosts": all, "counts": counts, "waiting": waits, "waiting_for": waiting,
            "age_s": open.age_ms(self.now) / 1000,
        });
        document(text, json)
    }

    /// Why a host has not answered a question; none if it has.
    fn missing(&self, host: &HostId, open: &OpenAsk) -> Option<NoAnswer> {
        let record = self.agents.get(host);
        let id = &open.ask.id;
        match open.ask.what {
            TuneWhat::Plan(_) => match self.tuning.plan_of(record, id) {
                HostAnswer::Given(_) => None,
                HostAnswer::Missing(why) => Some(why),
            },
            TuneWhat::Check => match self.tuning.check_of(record) {
                // What it has found before is no answer to this question.
                HostAnswer::Given(_) | HostAnswer::Missing(NoAnswer::Failed(_))
                    if !has_answered(record, id) =>
                {
                    Some(NoAnswer::Waiting)
                }
                HostAnswer::Given(_) => None,
                HostAnswer::Missing(why) => Some(why),
            },
        }
    }

    /// What hosts have planned.
    pub(crate) fn tune_plan(&self, id: &TuneAskId) -> ApiReply {
        let Some(open) = self.tuning.get(id) else { return unknown(id) };
        let TuneWhat::Plan(wish) = &open.ask.what else {
            return refusal(422, &format!("the question {id} was not for a plan"));
        };
        let places = self.host_places();
        let left_s = open.left_ms(self.now) / 1000;
        plan_document(id, wish, (&open.scope, left_s), &self.answers_of(open, &places))
    }

    /// What the hosts of a question have planned.
    pub(crate) fn answers_of<'a>(&'a self, open: &OpenAsk, places: &'a [HostPlace]) -> AskedHosts<'a> {
        let known: BTreeMap<&HostId, &HostPlace> = places.iter().map(|place| (&place.host, place)).collect();
        // One that has left the fleet since is not asked any more, nor shown.
        let places = open.hosts.iter().filter_map(|host| known.get(host).copied());
        let id = &open.ask.id;
        places.map(|place| (place, self.tuning.plan_of(self.agents.get(&place.host), id))).collect()
    }

    /// All hosts that are known, by the inventory or because their agents have spoken.
    pub(crate) fn host_places(&self) -> Vec<HostPlace> {
        let view = self.register.view();
        let mut places: BTreeMap<&HostId, HostPlace> = BTreeMap::new();
        let new = |host: &HostId, zone| HostPlace {
            host: host.clone(),
            zone,
            clusters: BTreeSet::new(),
            classes: BTreeSet::new(),
        };
        for (host, record) in self.agents.iter() {
            places.insert(host, new(host, Some(record.report().zone.clone())));
        }
        for member in view.inventory().members() {
            let place =
                places.entry(&member.host).or_insert_with(|| new(&member.host, Some(member.zone.clone())));
            place.clusters.extend(view.slot_of(&member.id).map(|(cluster, _)| cluster.name.clone()));
            place.classes.extend(member.class.clone());
        }
        places.into_values().collect()
    }
}

fn has_answered(record: Option<&crate::controller::observing::agents::AgentRecord>, id: &TuneAskId) -> bool {
    record.and_then(|record| record.report().tune.as_ref()).is_some_and(|tune| tune.asked.contains(id))
}

pub(crate) fn unknown(id: &TuneAskId) -> ApiReply {
    refusal(
        404,
        &format!(
            "no question {id} is open\n  hint: a plan is kept for an hour, a look for 5 min, by controllers that have not been \
             started again since"
        ),
    )
}
