//! Tuning of hosts: the texts of their answers, and the questions that are open. All of it is in memory, and heard again after a restart.
//!
//! The heads of answers, which name texts, are in the last turn of each agent. Nothing here changes a host.

pub(crate) mod figures;
pub(crate) mod standards;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fleet::tuning::{AnswerDigest, HostAnswer, HostFacts, NoAnswer, PLAN_LEN_MAX};
use fleet::{HostId, TuneAskId};
use serde::{Deserialize, Serialize};
use stdx::clock::Now;
use stdx::prng::mix;

use super::changes::FleetChanges;
use super::observing::agents::{AgentRecord, Agents};
use crate::service::turn::{
    ASKS_MAX, TuneAnswer, TuneAsk, TuneBody, TuneOrders, TuneReport, TuneWhat, TurnReport, answer_digest,
};
use standards::StandardOrders;

/// Bytes of all texts: 25,000 checks of the usual 2 KB, and the plans of some hundred groups. A text beyond is not kept, and its host
/// is shown as one whose answer is on its way.
const BODIES_LEN_MAX: usize = 64 * 1024 * 1024;
/// Time for which a plan is kept, so that it can be looked at and carried out.
const PLAN_KEPT_MS: u64 = 3_600_000;
/// Time in which hosts look again. A look takes half a minute.
const LOOK_WITHIN_MS: u64 = 300_000;
/// Interval at which texts that no answer names any more are forgotten.
const SWEEP_EVERY_MS: u64 = 60_000;
/// Texts that another controller is asked for at one time, and sent: 8 MB of the longest.
pub(crate) const BODIES_PER_MESSAGE: usize = 200;

/// A question to hosts, as controllers tell each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetAsk {
    /// The question.
    pub ask: TuneAsk,
    /// Whom it is for, as it was typed.
    pub scope: String,
    /// The hosts of the scope.
    pub hosts: BTreeSet<HostId>,
    /// How long ago it was asked.
    pub age_ms: u64,
}

/// A question that is open.
#[derive(Clone, Debug)]
pub(crate) struct OpenAsk {
    pub(crate) ask: TuneAsk,
    pub(crate) scope: String,
    pub(crate) hosts: BTreeSet<HostId>,
    begun: Now,
}

/// A text, and what it says.
struct KnownBody {
    text: Arc<str>,
    /// Why it is not understood, if it is not.
    body: Result<TuneBody, String>,
}

/// Why a question is not asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{ASKS_MAX} questions were asked in the last {} min, which is the most; ask again in {left_s} s", LOOK_WITHIN_MS / 60_000)]
pub(crate) struct TooManyAsks {
    left_s: u64,
}

/// What is known of the tuning of hosts.
#[derive(Default)]
pub(crate) struct FleetTuning {
    bodies: BTreeMap<AnswerDigest, KnownBody>,
    len: usize,
    asks: Vec<OpenAsk>,
    /// Questions that were asked here, for their names.
    count: u64,
    /// Texts that the controller whose message is being answered has, and this one lacks.
    wanted: BTreeSet<AnswerDigest>,
    /// Texts that other controllers were asked for.
    awaited: BTreeSet<AnswerDigest>,
    swept: Option<Now>,
    /// What is made of the plans: changes of hosts that are on their way.
    pub(crate) changes: FleetChanges,
    /// What hosts are told of their standards.
    pub(crate) standards: StandardOrders,
}

impl OpenAsk {
    fn kept_ms(&self) -> u64 {
        match self.ask.what {
            TuneWhat::Check => LOOK_WITHIN_MS,
            TuneWhat::Plan(_) => PLAN_KEPT_MS,
        }
    }

    /// Time until it is over.
    pub(crate) fn left_ms(&self, now: Now) -> u64 {
        (self.begun.ms() + self.kept_ms()).saturating_sub(now.ms())
    }

    /// Time since it was asked.
    pub(crate) fn age_ms(&self, now: Now) -> u64 {
        now.ms().saturating_sub(self.begun.ms())
    }
}

impl FleetTuning {
    /// Takes the texts out of a turn.
    pub(crate) fn hear(&mut self, report: &mut TurnReport) {
        let Some(tune) = &mut report.tune else { return };
        let bodies = std::mem::take(&mut tune.bodies);
        let named: BTreeSet<&AnswerDigest> = tune.named().collect();
        for text in bodies {
            let digest = answer_digest(text.as_bytes());
            // Nobody would ask for another one.
            if named.contains(&digest) {
                self.keep(digest, text);
            }
        }
    }

    /// Keeps texts that another controller has sent, as far as it was asked for them.
    pub(crate) fn hear_bodies(&mut self, bodies: Vec<String>) {
        for text in bodies {
            let digest = answer_digest(text.as_bytes());
            if self.awaited.remove(&digest) {
                self.keep(digest, text);
            }
        }
    }

    fn keep(&mut self, digest: AnswerDigest, text: String) {
        let len = text.len();
        if self.bodies.contains_key(&digest) || self.len + len > BODIES_LEN_MAX {
            return;
        }
        let body = TuneBody::parse(&text);
        self.len += len;
        self.bodies.insert(digest, KnownBody { text: text.into(), body });
    }

    /// The text of a digest.
    pub(crate) fn text(&self, digest: &AnswerDigest) -> Option<&Arc<str>> {
        self.bodies.get(digest).map(|known| &known.text)
    }

    fn has_room(&self) -> bool {
        self.len + PLAN_LEN_MAX <= BODIES_LEN_MAX
    }

    /// What the agent of a host is asked; none if nothing.
    pub(crate) fn orders(&self, report: &TurnReport) -> Option<TuneOrders> {
        // An agent that says nothing of it does not know the question.
        let tune = report.tune.as_ref()?;
        let lacks: BTreeSet<&AnswerDigest> =
            tune.named().filter(|digest| self.has_room() && !self.bodies.contains_key(*digest)).collect();
        let asks =
            self.asks.iter().filter(|open| open.hosts.contains(&report.host)).map(|open| open.ask.clone());
        let orders = TuneOrders { lacks: lacks.into_iter().cloned().collect(), asks: asks.collect() };
        (orders != TuneOrders::default()).then_some(orders)
    }

    /// Notes the texts of a turn that another controller has passed on, as far as they are not here. What it does not send is wanted
    /// again with the next turn.
    pub(crate) fn want(&mut self, report: &TurnReport) {
        let named = report.tune.iter().flat_map(TuneReport::named);
        if self.has_room() && self.wanted.len() < BODIES_PER_MESSAGE {
            self.wanted.extend(named.filter(|digest| !self.bodies.contains_key(*digest)).cloned());
        }
    }

    /// The texts that the controller is asked for whose message is answered.
    pub(crate) fn take_wanted(&mut self) -> Vec<AnswerDigest> {
        let wanted: Vec<AnswerDigest> =
            std::mem::take(&mut self.wanted).into_iter().take(BODIES_PER_MESSAGE).collect();
        self.awaited.extend(wanted.iter().cloned());
        wanted
    }

    /// Asks hosts. One that is asked for the same already is not asked again: that question is returned.
    ///
    /// # Errors
    /// At [`ASKS_MAX`].
    pub(crate) fn ask(
        &mut self,
        what: TuneWhat,
        scope: String,
        hosts: BTreeSet<HostId>,
        (controller, unix_s, now): (&HostId, i64, Now),
    ) -> Result<FleetAsk, TooManyAsks> {
        self.end_old(now);
        if let Some(oldest) = self.oldest_of_too_many() {
            // Hosts may still be answering it.
            if let Some(left_ms) = LOOK_WITHIN_MS.checked_sub(self.asks[oldest].age_ms(now)) {
                return Err(TooManyAsks { left_s: left_ms / 1000 + 1 });
            }
            self.asks.remove(oldest);
        }
        self.count += 1;
        let seed =
            controller.as_str().bytes().fold(unix_s.cast_unsigned(), |sum, byte| mix(sum ^ u64::from(byte)));
        let id = format!("{:016x}", mix(seed ^ mix(self.count ^ now.us)));
        let ask = TuneAsk { id: id.parse().expect("digits and letters"), what };
        let open = OpenAsk { ask: ask.clone(), scope: scope.clone(), hosts: hosts.clone(), begun: now };
        self.asks.push(open);
        Ok(FleetAsk { ask, scope, hosts, age_ms: 0 })
    }

    /// Takes a question that was asked of another controller. Whether it is news.
    pub(crate) fn follow(&mut self, asked: FleetAsk, now: Now) -> bool {
        self.end_old(now);
        let is_known = self.asks.iter().any(|open| open.ask.id == asked.ask.id);
        let begun = Now::at_ms(now.ms().saturating_sub(asked.age_ms));
        let open = OpenAsk { ask: asked.ask, scope: asked.scope, hosts: asked.hosts, begun };
        let is_news = !is_known && open.left_ms(now) > 0;
        if is_news {
            // The other controller has had room for it: one that was started again does not know the older ones.
            self.oldest_of_too_many().map(|oldest| self.asks.remove(oldest));
            self.asks.push(open);
        }
        is_news
    }

    /// The place of the question that gives way to a new one, if there is no room.
    fn oldest_of_too_many(&self) -> Option<usize> {
        let full = Some(()).filter(|()| self.asks.len() >= ASKS_MAX);
        full.and_then(|()| (0..self.asks.len()).min_by_key(|place| self.asks[*place].begun))
    }

    /// An open question.
    pub(crate) fn get(&self, id: &TuneAskId) -> Option<&OpenAsk> {
        self.asks.iter().find(|open| open.ask.id == *id)
    }

    fn end_old(&mut self, now: Now) -> bool {
        let before = self.asks.len();
        self.asks.retain(|open| open.left_ms(now) > 0);
        self.asks.len() != before
    }

    /// Ends what is over, and forgets texts that no answer names. Whether agents get other orders.
    pub(crate) fn sweep(&mut self, agents: &Agents, now: Now) -> bool {
        if self.swept.is_some_and(|swept| swept.ms() + SWEEP_EVERY_MS > now.ms()) {
            return false;
        }
        self.swept = Some(now);
        self.awaited.clear();
        let named: BTreeSet<&AnswerDigest> = reports(agents).flat_map(TuneReport::named).collect();
        self.bodies.retain(|digest, _| named.contains(digest));
        self.len = self.bodies.values().map(|known| known.text.len()).sum();
        self.end_old(now)
    }

    /// What a host's last check has found.
    pub(crate) fn check_of<'a>(&'a self, record: Option<&'a AgentRecord>) -> HostAnswer<HeardAnswer<'a>> {
        let is_check = |body: &TuneBody| matches!(body, TuneBody::Check(_));
        self.answer_of(record, is_check, |tune| Some(&tune.check))
    }

    /// What a host has planned for a question.
    pub(crate) fn plan_of<'a>(
        &'a self,
        record: Option<&'a AgentRecord>,
        ask: &TuneAskId,
    ) -> HostAnswer<HeardAnswer<'a>> {
        let is_plan = |body: &TuneBody| matches!(body, TuneBody::Plan(_));
        self.answer_of(record, is_plan, |tune| {
            tune.plans.iter().find(|plan| plan.ask == *ask).map(|plan| &plan.answer)
        })
    }

    fn answer_of<'a>(
        &'a self,
        record: Option<&'a AgentRecord>,
        is_meant: impl Fn(&TuneBody) -> bool,
        answer: impl Fn(&'a TuneReport) -> Option<&'a TuneAnswer>,
    ) -> HostAnswer<HeardAnswer<'a>> {
        let missing = HostAnswer::Missing;
        let Some(record) = record else { return missing(NoAnswer::NoAgent) };
        if record.is_silent() {
            return missing(NoAnswer::Silent);
        }
        let Some(tune) = &record.report().tune else { return missing(NoAnswer::OlderAgent) };
        match answer(tune).unwrap_or(&TuneAnswer::Waiting) {
            TuneAnswer::Waiting => missing(NoAnswer::Waiting),
            TuneAnswer::NotAllowed => missing(NoAnswer::NotAllowed),
            TuneAnswer::NotRoot => missing(NoAnswer::NotRoot),
            TuneAnswer::Failed { why, .. } => missing(NoAnswer::Failed(why.clone())),
            TuneAnswer::Done { body, facts, own, age_s } => {
                let known = |digest: &AnswerDigest| match self.bodies.get(digest).map(|known| &known.body) {
                    None => Err(NoAnswer::OnItsWay),
                    Some(Err(error)) => Err(NoAnswer::Failed(format!(
                        "this controller does not understand its text: {error}"
                    ))),
                    Some(Ok(body)) => Ok(body),
                };
                let facts = match facts.as_ref().map(known).transpose() {
                    Ok(facts) => facts,
                    Err(why) => return missing(why),
                };
                match known(body) {
                    Ok(body) if !is_meant(body) => {
                        missing(NoAnswer::Failed("its text is about something else".to_owned()))
                    }
                    Ok(body) => {
                        let (own, uid) = (own.as_ref(), tune.uid);
                        HostAnswer::Given(HeardAnswer { body, facts, own, age_s: *age_s, uid })
                    }
                    Err(why) => missing(why),
                }
            }
        }
    }
}

/// An answer whose texts are here.
#[derive(Clone, Copy)]
pub(crate) struct HeardAnswer<'a> {
    pub(crate) body: &'a TuneBody,
    pub(crate) facts: Option<&'a TuneBody>,
    /// The digest of what it would do on this host.
    pub(crate) own: Option<&'a AnswerDigest>,
    /// How old it was when its agent took its last turn, in seconds.
    pub(crate) age_s: u64,
    /// The user that the agent runs as.
    pub(crate) uid: u32,
}

impl<'a> HeardAnswer<'a> {
    /// What the host is, if its tuner says it.
    pub(crate) fn host_facts(&self) -> Option<&'a HostFacts> {
        match self.facts {
            Some(TuneBody::Facts(facts)) => Some(facts),
            _ => None,
        }
    }

    /// The kind of the host, in words.
    pub(crate) fn kind(&self) -> String {
        match self.host_facts() {
            Some(facts) => facts.kind(),
            None => "unknown kind (its tuner is of an older version)".to_owned(),
        }
    }
}

fn reports(agents: &Agents) -> impl Iterator<Item = &TuneReport> {
    agents.iter().filter_map(|(_, record)| record.report().tune.as_ref())
}
