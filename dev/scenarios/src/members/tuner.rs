//! The tuner beside a played agent: a look at the host, plans for those who ask, and changes of the host.

use std::collections::BTreeMap;

use anyhow::Result;
use control::{PlanReport, TuneAnswer, TuneBody, TuneOrders, TuneReport, TuneWhat};
use serde_json::{Value, json};

/// Findings of a look, with some 200 bytes each: 2 KB are usual.
const FINDINGS: usize = 8;
/// Settings that a plan changes.
const SETTINGS: usize = 8;

/// What a host says of its tuning, and is like.
pub(super) struct PlayedTuner {
    report: TuneReport,
    /// By their digests.
    texts: BTreeMap<String, String>,
    /// By the numbers of changes.
    hosts: BTreeMap<u64, ChangedHost>,
}

/// How the host is in one change.
#[derive(Clone, Copy, PartialEq)]
enum ChangedHost {
    AsBefore,
    /// It has not heard its controller since.
    Trying(u32),
    Kept(u32),
}

impl PlayedTuner {
    /// Of a host whose look says what no other one says.
    pub(super) fn new(host: &str) -> Result<PlayedTuner> {
        let finding = |number: usize| {
            json!({
                "rule": format!("rule-{number}"), "severity": "note", "subject": format!("queue {number} of eth0"),
                "cause": format!("{host} has dropped some packets there since it was started, which clients see as timeouts"),
                "change": "net.core.netdev_max_backlog: 1000 -> 4096", "causes": ["softirq-late"],
            })
        };
        let findings: Vec<Value> = (0..FINDINGS).map(finding).collect();
        let (mut tuner_texts, facts) = (BTreeMap::new(), facts()?);
        let look: TuneBody =
            serde_json::from_value(json!({"check": {"window_s": 3.0, "findings": findings}}))?;
        let ((body, look), (facts, host)) = (look.text(), facts.text());
        tuner_texts.insert(body.as_str().to_owned(), look);
        tuner_texts.insert(facts.as_str().to_owned(), host);
        let check = TuneAnswer::Done { body, facts: Some(facts), own: None, age_s: 60 };
        let (asked, plans, bodies) = (Vec::new(), Vec::new(), Vec::new());
        Ok(PlayedTuner {
            report: TuneReport { check, asked, plans, bodies, uid: 0 },
            texts: tuner_texts,
            hosts: BTreeMap::new(),
        })
    }

    /// What a turn says of tuning.
    pub(super) fn report(&self) -> &TuneReport {
        &self.report
    }

    /// What a turn says of changes.
    pub(super) fn changes(&self) -> Value {
        let word = |(number, host): (&u64, &ChangedHost)| {
            let word = match host {
                ChangedHost::AsBefore => json!("as_before"),
                ChangedHost::Trying(attempt) => json!({"trying": {"attempt": attempt}}),
                ChangedHost::Kept(attempt) => json!({"changed": {"attempt": attempt}}),
            };
            json!({"change": number, "word": word})
        };
        json!({"allowed": ["tune"], "words": self.hosts.iter().map(word).collect::<Vec<_>>()})
    }

    /// Does what it is told about changes. A host that hears its controller after it was changed keeps the change. True if one more is
    /// kept now.
    pub(super) fn change(&mut self, orders: &[control::ChangeOrder]) -> bool {
        let mut is_kept = false;
        for order in orders {
            let host = self.hosts.entry(order.order.change.0).or_insert(ChangedHost::AsBefore);
            *host = match (order.order.attempt, *host) {
                (None, _) => ChangedHost::AsBefore,
                (Some(told), ChangedHost::Kept(attempt)) if told == attempt => continue,
                (Some(told), ChangedHost::Trying(attempt)) if told == attempt => {
                    is_kept = true;
                    ChangedHost::Kept(told)
                }
                (Some(told), _) => ChangedHost::Trying(told),
            };
        }
        is_kept
    }

    /// Answers what is asked about tuning with the next turn.
    pub(super) fn answer(&mut self, orders: Option<TuneOrders>) -> Result<()> {
        let TuneOrders { lacks, asks } = orders.unwrap_or_default();
        let asked = |report: &TuneReport, id| report.plans.iter().any(|plan: &PlanReport| plan.ask == id);
        for ask in asks {
            if matches!(ask.what, TuneWhat::Plan(_)) && !asked(&self.report, ask.id.clone()) {
                let answer = self.plan()?;
                self.report.plans.push(PlanReport { ask: ask.id, answer });
            }
        }
        self.report.bodies =
            lacks.iter().filter_map(|digest| self.texts.get(digest.as_str()).cloned()).collect();
        Ok(())
    }

    /// A plan that is the same on all hosts.
    fn plan(&mut self) -> Result<TuneAnswer> {
        let TuneAnswer::Done { body: own, facts, .. } = self.report.check.clone() else {
            anyhow::bail!("the host was looked at");
        };
        let line = |number: usize| json!({"setting": format!("/proc/sys/net/core/setting_{number}"), "now": "1000", "wanted": "4096"});
        let lines: Vec<Value> = (0..SETTINGS).map(line).collect();
        let step = json!({"asked_by": "profile memcached", "risk": "low", "why": "a reason", "lines": lines});
        let plan = json!({"plan": {"form": facts, "steps": [step], "changes": SETTINGS}});
        let (body, text) = serde_json::from_value::<TuneBody>(plan)?.text();
        self.texts.insert(body.as_str().to_owned(), text);
        // What it would do is its own, as the names of its queues are.
        Ok(TuneAnswer::Done { body, facts, own: Some(own), age_s: 1 })
    }
}

fn facts() -> Result<TuneBody> {
    let nic = json!({"name": "eth0", "driver": "ena", "queues": 8});
    let facts = json!({
        "kernel": "6.1.0-18-cloud-amd64", "product": "r5.2xlarge", "cpus": "0-7", "nodes": 1, "threads": 2,
        "memory_bytes": 64_u64 << 30, "nics": [nic],
    });
    Ok(serde_json::from_value(json!({"facts": facts}))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(attempt: Option<u32>) -> Vec<control::ChangeOrder> {
        let digest = "a".repeat(64);
        let act = json!({"tune": {"wish": {"profile": "memcached"}, "own": digest}});
        let order = json!({"change": 3, "version": 1, "attempt": attempt});
        serde_json::from_value(json!([{"order": order, "act": act, "confirm_ms": 60_000}])).expect("an order")
    }

    #[test]
    fn a_change_is_kept_when_its_controller_was_heard_again() {
        let mut tuner = PlayedTuner::new("h1").expect("a tuner");
        let word = |tuner: &PlayedTuner| tuner.changes()["words"][0]["word"].clone();
        assert!(!tuner.change(&order(Some(1))));
        assert_eq!(word(&tuner), json!({"trying": {"attempt": 1}}));
        assert!(tuner.change(&order(Some(1))));
        assert_eq!(word(&tuner), json!({"changed": {"attempt": 1}}));
        assert!(!tuner.change(&order(None)));
        assert_eq!(word(&tuner), json!("as_before"));
    }

    #[test]
    fn texts_are_those_that_answers_name_and_each_host_has_a_look_of_its_own() {
        let mut one = PlayedTuner::new("h1").expect("a tuner");
        let other = PlayedTuner::new("h2").expect("a tuner");
        assert_ne!(one.report.check, other.report.check);
        let asks = json!({"asks": [{"id": "p1", "what": {"plan": {"profile": "memcached"}}}]});
        one.answer(serde_json::from_value(asks).expect("orders")).expect("answers");
        let TuneAnswer::Done { body, .. } = &one.report.plans[0].answer else { panic!("no plan") };
        one.answer(serde_json::from_value(json!({"lacks": [body]})).expect("orders")).expect("answers");
        assert_eq!(one.report.bodies.len(), 1);
        assert!(
            one.report.plans.len() == 1
                && (1_500..4_096).contains(&one.texts.values().map(String::len).max().expect("texts"))
        );
    }
}
