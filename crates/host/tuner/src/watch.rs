//! Drift watch over the settings in force: detects drift, finds its cause, and repairs it if allowed.
//!
//! ```text
//! netlink, uevents ─► KernelEvent ──────────────────────────┐
//! journals ─► desired states ─► look(root) ─► WatchSnapshot ┴─► Watch ─► News { Because, Act } ─► [journal] ─► repair
//!                                                                 ▲                                             │
//!                                                                 └───────────────── repaired ◄─────────────────┘
//! ```
//!
//! [`Watch`] decides and does nothing: time, events and looks are its inputs, and so is every repair. Nothing is
//! undone when it ends, however it ends; a setting that another program keeps changing is left to that program.

mod cause;
mod desired_state;
mod event;
mod line;
mod look;
mod metrics;
mod repair;

use std::collections::{BTreeMap, VecDeque};

pub use cause::{Because, Cause, Sure};
pub use desired_state::{DesiredState, desired_states, persisting};
pub use event::KernelEvent;
pub use line::{NewsLine, watching};
pub use look::{Found, NicState, SettingReading, WatchSnapshot, look};
pub use metrics::prometheus;
pub use repair::repair;

use cause::{EVENT_LAG_MS, Held, because};
use look::is_affinity;

use crate::plan::change::Setting;
use os::CpuSet;

/// A setting is repaired this many times within [`REVERSIONS_MS`]; a program that changes it once more has a reason,
/// and two programs that alternate do more harm than either value.
pub const REVERSIONS_MAX: usize = 3;
/// Ten minutes: irqbalance, the most frequent one, acts every ten seconds.
pub const REVERSIONS_MS: u64 = 600_000;

/// A driver that resets a device sends a dozen events within milliseconds; a look waits until there was none for this
/// long…
const QUIET_MS: u64 = 300;
/// …but not longer than this after the first of them…
const QUIET_WAIT_MAX_MS: u64 = 2_000;
/// …and after the last look: however many events come, there is no more than one round of repairs a second.
const ROUND_PAUSE_MS: u64 = 1_000;

/// Events that are remembered. A host with hundreds of queues that are all made anew sends about as many.
const EVENTS_MAX: usize = 1024;

/// Allowed actions.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// Whether to repair drift.
    pub repair: bool,
    /// Longest time between two looks.
    pub every_ms: u64,
}

/// News about one setting, and the action on it.
#[derive(Clone, Debug, PartialEq)]
pub struct News {
    /// The desired value.
    pub desired: DesiredState,
    /// The present value.
    pub found: Found,
    /// The cause, if there is drift.
    pub because: Option<Because>,
    /// The action.
    pub act: Act,
}

/// An action on a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Only report it.
    Report,
    /// Set it again, and report the result here.
    Repair,
    /// None yet: it could not be set now, for this reason.
    Wait(String),
    /// None: the setting does not exist.
    Gone,
    /// None any more: it was changed too often.
    BackOff,
    /// None any more: the value was chosen by another program or a user.
    StepAside,
    /// None: another program has repaired it.
    HoldsAgain,
}

/// Watch over settings.
#[derive(Debug)]
pub struct Watch {
    policy: Policy,
    kept: BTreeMap<Setting, Kept>,
    /// With their times, the oldest first.
    events: VecDeque<(u64, KernelEvent)>,
    looked_ms: Option<u64>,
    /// Of the first event since the last look.
    told_ms: Option<u64>,
    due_ms: u64,
    counts: Counts,
}

/// Counts by kind.
#[derive(Clone, Debug, Default)]
struct Counts {
    drifts: BTreeMap<(Setting, Cause), u64>,
    repairs: BTreeMap<Setting, u64>,
    failures: BTreeMap<Setting, u64>,
}

/// One setting that is watched.
#[derive(Debug)]
struct Kept {
    desired: DesiredState,
    stance: Stance,
    held: Option<Held>,
    /// The state after the pending repair, if that works.
    repairing: Option<Held>,
    /// The time when the repair was decided.
    repairs_ms: VecDeque<u64>,
    /// The latest report, while it does not hold.
    said: Option<(Act, Found)>,
}

/// The treatment of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stance {
    /// As the policy says.
    Kept,
    /// Left to the program that keeps changing it, until it has held for [`REVERSIONS_MS`].
    BackedOff { held_since_ms: Option<u64> },
    /// Left to the author of its value, until it holds again.
    SteppedAside,
}

impl Watch {
    /// Begins; the first look is due at once.
    pub fn new(policy: Policy) -> Watch {
        Watch {
            policy,
            kept: BTreeMap::new(),
            events: VecDeque::new(),
            looked_ms: None,
            told_ms: None,
            due_ms: 0,
            counts: Counts::default(),
        }
    }

    /// The time of the next look.
    pub fn next_look_ms(&self) -> u64 {
        self.due_ms
    }

    /// Takes an event.
    pub fn event(&mut self, at_ms: u64, event: KernelEvent) {
        if event == KernelEvent::Asked {
            self.due_ms = at_ms;
            return;
        }
        self.events.push_back((at_ms, event));
        if self.events.len() > EVENTS_MAX {
            self.events.pop_front();
        }
        let first_ms = *self.told_ms.get_or_insert(at_ms);
        let quiet_ms = (at_ms + QUIET_MS).min(first_ms + QUIET_WAIT_MAX_MS);
        let earliest_ms = self.looked_ms.map_or(0, |looked_ms| looked_ms + ROUND_PAUSE_MS);
        self.due_ms = quiet_ms.max(earliest_ms).min(self.latest_ms(at_ms));
    }

    /// Another process is changing settings by a plan at the moment: look a little later.
    pub fn postpone(&mut self, at_ms: u64) {
        self.due_ms = at_ms + ROUND_PAUSE_MS;
    }

    /// Judges a look. Every [`Act::Repair`] is followed by [`Watch::repaired`].
    pub fn look(&mut self, at_ms: u64, look: &WatchSnapshot) -> Vec<News> {
        self.kept.retain(|setting, kept| {
            look.seen.iter().any(|seen| seen.desired.setting == *setting && seen.desired == kept.desired)
        });
        let events: Vec<(u64, KernelEvent)> = self.events.iter().cloned().collect();
        let news: Vec<News> =
            look.seen.iter().filter_map(|seen| self.judge(at_ms, seen, &events, look)).collect();
        self.events.retain(|(told_ms, _)| told_ms + REVERSIONS_MS > at_ms);
        self.looked_ms = Some(at_ms);
        // The consequences of a driver's event are visible soon, and need not wait for the next regular look.
        let told = self.told_ms.take().is_some();
        self.due_ms =
            at_ms + if told { self.policy.every_ms.min(EVENT_LAG_MS) } else { self.policy.every_ms };
        news
    }

    /// Takes the result of a repair.
    pub fn repaired(&mut self, at_ms: u64, setting: &Setting, worked: bool) {
        let count = if worked { &mut self.counts.repairs } else { &mut self.counts.failures };
        *count.entry(setting.clone()).or_default() += 1;
        let Some(kept) = self.kept.get_mut(setting) else { return };
        let repairing = kept.repairing.take();
        kept.said = None;
        if worked {
            kept.held = repairing.map(|held| Held { at_ms, ..held });
        }
    }

    fn latest_ms(&self, at_ms: u64) -> u64 {
        self.looked_ms.map_or(at_ms, |looked_ms| looked_ms + self.policy.every_ms)
    }

    fn judge(
        &mut self,
        at_ms: u64,
        seen: &SettingReading,
        events: &[(u64, KernelEvent)],
        look: &WatchSnapshot,
    ) -> Option<News> {
        let (policy, desired) = (self.policy, &seen.desired);
        let kept = self.kept.entry(desired.setting.clone()).or_insert_with(|| Kept::new(desired));
        let news = |because, act| News { desired: desired.clone(), found: seen.found.clone(), because, act };
        if seen.holds() {
            let had_drifted = kept.said.take().is_some();
            kept.holds(at_ms, Held::now(at_ms, seen, look));
            return had_drifted.then(|| news(None, Act::HoldsAgain));
        }
        let because = because(seen, kept.held.as_ref(), events, at_ms, look);
        let act = kept.decide(at_ms, policy, seen, because.cause, look.online.as_ref());
        let is_new = kept.said.is_none();
        if is_new {
            *self.counts.drifts.entry((desired.setting.clone(), because.cause)).or_default() += 1;
        }
        if act == Act::Repair {
            kept.repairing = Some(Held::now(at_ms, seen, look));
        }
        let saying = (act.clone(), seen.found.clone());
        // Further changes by a program to which a setting was left are not worth a line each time.
        let left = matches!(act, Act::BackOff | Act::StepAside);
        let said = match &kept.said {
            Some((said, _)) if left => *said == act,
            said => act != Act::Repair && said.as_ref() == Some(&saying),
        };
        kept.said = Some(saying);
        (!said).then(|| news(Some(because), act))
    }
}

impl Kept {
    fn new(desired: &DesiredState) -> Kept {
        Kept {
            desired: desired.clone(),
            stance: Stance::Kept,
            held: None,
            repairing: None,
            repairs_ms: VecDeque::new(),
            said: None,
        }
    }

    /// It has the desired value.
    fn holds(&mut self, at_ms: u64, held: Held) {
        self.held = Some(held);
        self.stance = match self.stance {
            Stance::Kept | Stance::SteppedAside => Stance::Kept,
            Stance::BackedOff { held_since_ms } => {
                let since_ms = held_since_ms.unwrap_or(at_ms);
                let long = at_ms - since_ms >= REVERSIONS_MS;
                if long { Stance::Kept } else { Stance::BackedOff { held_since_ms: Some(since_ms) } }
            }
        };
    }

    /// It does not have the desired value: choose the action.
    fn decide(
        &mut self,
        at_ms: u64,
        policy: Policy,
        seen: &SettingReading,
        cause: Cause,
        online: Option<&CpuSet>,
    ) -> Act {
        if matches!(cause, Cause::Gone | Cause::Renumbered) || seen.found == Found::Gone {
            return Act::Gone;
        }
        // A value that only persists has no earlier value to which a repair could be undone.
        if !policy.repair || seen.desired.journal.is_none() || matches!(seen.found, Found::Unreadable(_)) {
            return Act::Report;
        }
        while self.repairs_ms.front().is_some_and(|first_ms| first_ms + REVERSIONS_MS <= at_ms) {
            self.repairs_ms.pop_front();
        }
        if self.stance == Stance::Kept && cause == Cause::Somebody {
            self.stance = Stance::SteppedAside;
        }
        match self.stance {
            Stance::SteppedAside => return Act::StepAside,
            Stance::Kept if self.repairs_ms.len() < REVERSIONS_MAX => {}
            Stance::Kept | Stance::BackedOff { .. } => {
                self.stance = Stance::BackedOff { held_since_ms: None };
                return Act::BackOff;
            }
        }
        if let Some(missing) = online.and_then(|online| offline(&self.desired, online)) {
            return Act::Wait(format!("it takes CPU {missing}, which is not in use"));
        }
        self.repairs_ms.push_back(at_ms);
        Act::Repair
    }
}

/// CPUs that an interrupt should go to, if none of them is in use: the kernel would refuse.
fn offline(desired: &DesiredState, online: &CpuSet) -> Option<CpuSet> {
    let wanted = CpuSet::parse_mask(&desired.wanted).ok().filter(|_| is_affinity(&desired.setting))?;
    wanted.and(online).is_empty().then_some(wanted)
}

#[cfg(test)]
mod tests;
