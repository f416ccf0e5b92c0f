//! Replacements of the last hour that other controllers have made, or this one before it was started again: they count for
//! the guard's limits, and a member that was lost then and is lost once more is in quarantine.
//!
//! A record has the time of its writer's wall clock. Its age here is the difference to this host's wall clock, less the five
//! minutes by which the two may differ, and never less than nothing: so what is remembered lasts an hour, and at most ten
//! minutes more. Along the generations ages only fall, and a record that came while this controller ran is no older than the
//! register's last answer without it. A record from the future counts as made now, and goes after an hour like any other.

use fleet::GenerationNumber;
use fleet::health::{Roster, SlotReplacement};
use stdx::clock::Now;

use super::Controller;
use crate::decisions::{
    REPLACED_GONE_MAX, REPLACED_KEPT, REPLACED_SLOTS_MAX, ReplacedChange, ReplacedRecord,
};

/// By how much the wall clocks of two controllers may differ.
const CLOCKS_DIFFER_S: i64 = 300;

impl Controller {
    /// Gives the watch the roster of a generation, with the replacements up to it that it does not know yet.
    pub(super) fn take_roster(&mut self, number: GenerationNumber, roster: Roster) {
        let written = self.new_replaced(number);
        self.watch.set_roster_after(self.now, roster, &written);
    }

    fn new_replaced(&mut self, until: GenerationNumber) -> Vec<(SlotReplacement, u64)> {
        let (now, window_ms) = (self.now, self.settings.health.guard.replaced_window_ms);
        self.known_replaced.retain(|number, _| self.view.replaced.contains_key(number));
        let mut age_ms = self.register_read_at.map_or(u64::MAX, |read_at| now.ms() - read_at.ms());
        let mut new = Vec::new();
        for (number, record) in self.view.replaced.range(..=until) {
            if self.known_replaced.contains_key(number) {
                continue;
            }
            self.known_replaced.insert(*number, now);
            age_ms = age_ms.min(least_age_ms(record.unix_s, self.unix_s));
            if age_ms <= window_ms {
                new.extend(record.slots.iter().map(|slot| (slot.clone(), age_ms)));
            }
        }
        new
    }

    /// What a publication of these slots changes about the records.
    pub(super) fn replaced_change(&self, roster: Option<&Roster>) -> ReplacedChange {
        let mut slots = roster.map_or(Vec::new(), |roster| self.watch.replaced_by(roster));
        slots.truncate(REPLACED_SLOTS_MAX);
        let record = (!slots.is_empty()).then_some(ReplacedRecord { unix_s: self.unix_s, slots });
        let window_ms = self.settings.health.guard.replaced_window_ms;
        let too_many = (self.view.replaced.len() + 1).saturating_sub(REPLACED_KEPT);
        let is_over = |known: Option<&Now>| known.is_some_and(|known| known.ms() + window_ms < self.now.ms());
        let numbers = self.view.replaced.keys().enumerate();
        let gone = numbers.filter(|(at, number)| *at < too_many || is_over(self.known_replaced.get(number)));
        let gone = gone.map(|(_, number)| *number).take(REPLACED_GONE_MAX).collect();
        ReplacedChange { record, gone }
    }

    /// Notes that the register has these changes.
    pub(super) fn note_replaced_change(&mut self, number: GenerationNumber, change: ReplacedChange) {
        for gone in &change.gone {
            self.view.replaced.remove(gone);
            self.known_replaced.remove(gone);
        }
        if let Some(record) = change.record {
            self.view.replaced.insert(number, record);
            self.known_replaced.insert(number, self.now);
        }
    }
}

/// The least age of a record by this time on wall clocks.
fn least_age_ms(written_s: i64, now_s: i64) -> u64 {
    let age_s = now_s.saturating_sub(written_s).saturating_sub(CLOCKS_DIFFER_S);
    u64::try_from(age_s).unwrap_or(0).saturating_mul(1000)
}
