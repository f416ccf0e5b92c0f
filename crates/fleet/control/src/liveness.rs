//! Messages between controllers: the turns and probes that each of them has heard, and the agents that it has recalled.
//!
//! An agent keeps to one controller, and each controller decides from what all agents say. So a controller passes on every
//! turn that it takes itself. Nobody waits for it: for a controller that does not answer, the last turn of each host waits.

pub(crate) mod relay;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use fleet::tuning::AnswerDigest;
use fleet::{HostId, MemberId, ZoneName};
use serde::{Deserialize, Serialize};

use crate::controller::{BODIES_PER_MESSAGE, FleetAsk};
use crate::service::seats::SEATS_MAX;
use crate::service::turn::{ASKS_MAX, TurnFault, TurnReport, understood};

/// Turns of one message.
pub(crate) const TURNS_PER_MESSAGE: usize = 2000;
/// Bytes of the turns of one message, but for a single one that is longer: with probes and texts, a message is shorter than the longest
/// body that is taken, 8 MiB.
const TURNS_LEN_MAX: usize = 3 * 1024 * 1024;
/// Bytes of the texts of one message. As JSON within JSON they are longer by a quarter.
const BODIES_LEN_MAX: usize = 1024 * 1024;
/// Probes of one message: all members of the largest fleet.
const PROBES_MAX: usize = SEATS_MAX;

/// What a controller has heard since its last message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LivenessReport {
    /// The controller, and where it is.
    pub controller: HostId,
    /// Its zone.
    pub zone: ZoneName,
    /// Turns that agents have taken with it.
    #[serde(default)]
    pub turns: Vec<TurnReport>,
    /// Hosts whose agents it has recalled, and that have not come again: their turns are over, whatever they had promised.
    #[serde(default)]
    pub recalled: Vec<HostId>,
    /// Its last round of probes, if there was one.
    #[serde(default)]
    pub probes: Option<ProbeDigest>,
    /// Questions about the tuning of hosts that people have asked it.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "understood")]
    pub asks: Vec<FleetAsk>,
    /// Texts about the tuning of hosts that the other controller lacks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bodies: Vec<String>,
}

/// A round of probes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProbeDigest {
    /// Members that were asked lately.
    pub asked: u32,
    /// Those of them that have answered.
    pub answered: u32,
    /// What each probe of the round has found: whether the member has answered.
    pub outcomes: Vec<(MemberId, bool)>,
    /// Those that have answered late.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub late: Vec<MemberId>,
}

impl LivenessReport {
    /// Whether it says nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.turns.is_empty()
            && self.recalled.is_empty()
            && self.probes.is_none()
            && self.asks.is_empty()
            && self.bodies.is_empty()
    }

    /// Refuses what no honest controller sends.
    ///
    /// # Errors
    /// Names the limit.
    pub fn checked(mut self) -> Result<LivenessReport, TurnFault> {
        let found = self.turns.len();
        if found > TURNS_PER_MESSAGE {
            return Err(TurnFault::TooMany { what: "turns", found, most: TURNS_PER_MESSAGE });
        }
        let found = self.recalled.len();
        if found > TURNS_PER_MESSAGE {
            return Err(TurnFault::TooMany { what: "recalled hosts", found, most: TURNS_PER_MESSAGE });
        }
        let found = self.probes.as_ref().map_or(0, |probes| probes.outcomes.len().max(probes.late.len()));
        if found > PROBES_MAX {
            return Err(TurnFault::TooMany { what: "probes", found, most: PROBES_MAX });
        }
        let found = self.bodies.len();
        if found > BODIES_PER_MESSAGE {
            return Err(TurnFault::TooMany { what: "texts about tuning", found, most: BODIES_PER_MESSAGE });
        }
        let found = self.asks.len();
        if found > ASKS_MAX {
            return Err(TurnFault::TooMany { what: "questions about tuning", found, most: ASKS_MAX });
        }
        self.turns = self.turns.into_iter().map(TurnReport::checked).collect::<Result<_, _>>()?;
        Ok(self)
    }
}

/// What another controller has not been told yet.
#[derive(Default)]
pub struct LivenessOutbox(Mutex<Unsent>);

#[derive(Default)]
struct Unsent {
    /// Nobody takes messages out any more.
    is_closed: bool,
    turns: BTreeMap<HostId, TurnReport>,
    recalled: BTreeSet<HostId>,
    probes: Option<ProbeDigest>,
    asks: Vec<FleetAsk>,
    bodies: Vec<String>,
    /// Texts about tuning that the other controller lacks, by its last answers.
    lacked: BTreeSet<AnswerDigest>,
}

impl LivenessOutbox {
    /// A question about the tuning of hosts.
    pub fn put_ask(&self, asked: &FleetAsk) {
        let mut unsent = self.lock();
        if unsent.asks.len() < ASKS_MAX && !unsent.is_closed {
            unsent.asks.push(asked.clone());
        }
    }

    /// Notes which texts the other controller lacks.
    pub(crate) fn note_lacked(&self, lacked: impl IntoIterator<Item = AnswerDigest>) {
        self.lock().lacked.extend(lacked.into_iter().take(BODIES_PER_MESSAGE));
    }

    /// Puts the texts in that the other controller lacks, as far as they are known here. It asks again for what it still lacks.
    pub(crate) fn put_lacked(&self, text_of: impl Fn(&AnswerDigest) -> Option<String>) {
        let mut unsent = self.lock();
        if unsent.is_closed || !unsent.bodies.is_empty() {
            return;
        }
        let (lacked, mut len) = (std::mem::take(&mut unsent.lacked), 0);
        let texts = lacked.iter().filter_map(text_of).take(BODIES_PER_MESSAGE);
        unsent.bodies = texts
            .take_while(|text| {
                len += text.len();
                len <= BODIES_LEN_MAX
            })
            .collect();
    }

    /// A turn; a later one of the same host takes the place of an earlier one.
    pub fn put_turn(&self, report: TurnReport) {
        let mut unsent = self.lock();
        let has_room = unsent.turns.len() < SEATS_MAX || unsent.turns.contains_key(&report.host);
        if has_room && !unsent.is_closed {
            unsent.recalled.remove(&report.host);
            unsent.turns.insert(report.host.clone(), report);
        }
    }

    /// An agent was recalled.
    pub fn put_recalled(&self, host: &HostId) {
        let mut unsent = self.lock();
        if unsent.recalled.len() < SEATS_MAX && !unsent.is_closed {
            unsent.recalled.insert(host.clone());
        }
    }

    /// A round of probes; an older one that was not sent is old news.
    pub fn put_probes(&self, probes: ProbeDigest) {
        let mut unsent = self.lock();
        unsent.probes = Some(probes).filter(|_| !unsent.is_closed);
    }

    /// Keeps nothing from now on: the other controller is this one itself.
    pub fn close(&self) {
        *self.lock() = Unsent { is_closed: true, ..Unsent::default() };
    }

    /// The other controller is not this one, as far as is known.
    pub(crate) fn is_open(&self) -> bool {
        !self.lock().is_closed
    }

    /// Takes one message out, from this controller in this zone.
    pub fn take(&self, controller: &HostId, zone: &ZoneName) -> LivenessReport {
        let mut unsent = self.lock();
        let mut len = 0;
        let is_beyond = |(at, (_, turn)): &(usize, (&HostId, &TurnReport))| {
            len += turn.json_len();
            *at > 0 && (*at >= TURNS_PER_MESSAGE || len > TURNS_LEN_MAX)
        };
        let beyond = unsent.turns.iter().enumerate().find(is_beyond).map(|(_, (host, _))| host.clone());
        let rest = match beyond {
            Some(first) => unsent.turns.split_off(&first),
            None => BTreeMap::new(),
        };
        let turns = std::mem::replace(&mut unsent.turns, rest);
        let rest = match unsent.recalled.iter().nth(TURNS_PER_MESSAGE).cloned() {
            Some(first) => unsent.recalled.split_off(&first),
            None => BTreeSet::new(),
        };
        let recalled = std::mem::replace(&mut unsent.recalled, rest);
        LivenessReport {
            controller: controller.clone(),
            zone: zone.clone(),
            turns: turns.into_values().collect(),
            recalled: recalled.into_iter().collect(),
            probes: unsent.probes.take(),
            asks: std::mem::take(&mut unsent.asks),
            bodies: std::mem::take(&mut unsent.bodies),
        }
    }

    /// Puts a message back that was not delivered; what has come meanwhile is newer.
    pub fn put_back(&self, message: LivenessReport) {
        let mut unsent = self.lock();
        unsent.asks.splice(0..0, message.asks);
        unsent.asks.truncate(ASKS_MAX);
        for host in message.recalled {
            if unsent.recalled.len() < SEATS_MAX && !unsent.turns.contains_key(&host) {
                unsent.recalled.insert(host);
            }
        }
        for turn in message.turns {
            if unsent.turns.len() < SEATS_MAX {
                unsent.turns.entry(turn.host.clone()).or_insert(turn);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Unsent> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(host: &str, number: u64) -> TurnReport {
        let json = serde_json::json!({"host": host, "zone": "a", "boot": 1, "turn": number});
        serde_json::from_value(json).expect("a report")
    }

    fn numbers(turns: &[TurnReport]) -> Vec<(String, u64)> {
        turns.iter().map(|turn| (turn.host.to_string(), turn.turn)).collect()
    }

    fn take(outbox: &LivenessOutbox) -> LivenessReport {
        outbox.take(&"c1".parse().expect("a name"), &"a".parse().expect("a name"))
    }

    #[test]
    fn of_each_host_the_last_turn_waits() {
        let outbox = LivenessOutbox::default();
        for (host, number) in [("h1", 1), ("h2", 1), ("h1", 2)] {
            outbox.put_turn(turn(host, number));
        }
        let message = take(&outbox);
        assert_eq!(numbers(&message.turns), [("h1".into(), 2), ("h2".into(), 1)]);
        // It was not delivered, and h2 has spoken meanwhile.
        outbox.put_turn(turn("h2", 2));
        outbox.put_back(message);
        assert_eq!(numbers(&take(&outbox).turns), [("h1".into(), 2), ("h2".into(), 2)]);
        assert!(take(&outbox).is_empty());
    }

    #[test]
    fn a_recall_is_passed_on_until_the_agent_has_come() {
        let outbox = LivenessOutbox::default();
        let [h1, h2] = ["h1", "h2"].map(|name| name.parse::<HostId>().expect("a name"));
        outbox.put_recalled(&h1);
        outbox.put_recalled(&h2);
        outbox.put_turn(turn("h1", 1));
        let message = take(&outbox);
        assert_eq!((&*message.recalled, message.turns.len()), (std::slice::from_ref(&h2), 1));
        // It was not delivered, and h2 has come meanwhile.
        outbox.put_turn(turn("h2", 1));
        outbox.put_back(message);
        assert_eq!(take(&outbox).recalled, []);
    }

    #[test]
    fn a_controller_that_is_away_costs_one_turn_of_each_host() {
        let outbox = LivenessOutbox::default();
        for number in 0..SEATS_MAX + 10 {
            outbox.put_turn(turn(&format!("h{number}"), 1));
        }
        let mut messages = Vec::new();
        loop {
            let message = take(&outbox);
            if message.is_empty() {
                break;
            }
            messages.push(message.turns.len());
        }
        assert_eq!(messages.iter().sum::<usize>(), SEATS_MAX);
        assert!(messages.iter().all(|count| *count <= TURNS_PER_MESSAGE));
    }

    #[test]
    fn a_message_beyond_the_limit_is_refused() {
        let report = |count: usize| LivenessReport {
            controller: "c1".parse().expect("a name"),
            zone: "a".parse().expect("a name"),
            turns: (0..count).map(|number| turn(&format!("h{number}"), 1)).collect(),
            recalled: Vec::new(),
            probes: None,
            asks: Vec::new(),
            bodies: Vec::new(),
        };
        assert!(report(TURNS_PER_MESSAGE).checked().is_ok());
        assert!(report(TURNS_PER_MESSAGE + 1).checked().is_err());
    }
}
