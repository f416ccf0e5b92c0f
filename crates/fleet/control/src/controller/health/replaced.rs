//! Replacements of the last hour that other controllers have made, or this one before it was started again: they count for
//! the guard's limits, and a member that was lost then and is lost once more is in quarantine.
//!
//! A record has the time of its writer's wall clock. Its age here is the difference to this host's wall clock, less the five
//! minutes by which the two may differ, and never less than nothing: so what is remembered lasts an hour, and at most ten
//! minutes more. Along the generations ages only fall, and a record that came while this controller ran is no older than the
//! register's last answer without it. A record from the future counts as made now, and goes after an hour like any other.

use std::collections::BTreeMap;

use fleet::GenerationNumber;
use fleet::health::SlotReplacement;
use stdx::clock::Now;

use crate::decisions::{
    REPLACED_GONE_MAX, REPLACED_KEPT, REPLACED_SLOTS_MAX, ReplacedChange, ReplacedRecord,
};

/// By how much the wall clocks of two controllers may differ.
const CLOCKS_DIFFER_S: i64 = 300;

/// Records of the register, by their generations.
type Records = BTreeMap<GenerationNumber, ReplacedRecord>;

/// The replacements that count here.
pub(super) struct KnownReplacements {
    /// Their generations, and since when they count here.
    known: BTreeMap<GenerationNumber, Now>,
    /// For how long they count.
    window_ms: u64,
}

impl KnownReplacements {
    /// None yet. They will count for so long.
    pub(super) fn new(window_ms: u64) -> KnownReplacements {
        KnownReplacements { known: BTreeMap::new(), window_ms }
    }

    /// The replacements up to a generation that do not count here yet, and their ages. The register has answered last without
    /// them at `answered_at`.
    pub(super) fn take_new(
        &mut self,
        records: &Records,
        until: GenerationNumber,
        answered_at: Option<Now>,
        (now, unix_s): (Now, i64),
    ) -> Vec<(SlotReplacement, u64)> {
        self.known.retain(|number, _| records.contains_key(number));
        let mut age_ms = answered_at.map_or(u64::MAX, |answered_at| now.ms() - answered_at.ms());
        let mut new = Vec::new();
        for (number, record) in records.range(..=until) {
            if self.known.contains_key(number) {
                continue;
            }
            self.known.insert(*number, now);
            age_ms = age_ms.min(least_age_ms(record.unix_s, unix_s));
            if age_ms <= self.window_ms {
                new.extend(record.slots.iter().map(|slot| (slot.clone(), age_ms)));
            }
        }
        new
    }

    /// What a publication of these replacements changes about the records.
    pub(super) fn change(
        &self,
        records: &Records,
        mut slots: Vec<SlotReplacement>,
        (now, unix_s): (Now, i64),
    ) -> ReplacedChange {
        slots.truncate(REPLACED_SLOTS_MAX);
        let record = (!slots.is_empty()).then_some(ReplacedRecord { unix_s, slots });
        let too_many = (records.len() + 1).saturating_sub(REPLACED_KEPT);
        let is_over = |known: Option<&Now>| known.is_some_and(|known| known.ms() + self.window_ms < now.ms());
        let numbers = records.keys().enumerate();
        let gone = numbers.filter(|(at, number)| *at < too_many || is_over(self.known.get(number)));
        let gone = gone.map(|(_, number)| *number).take(REPLACED_GONE_MAX).collect();
        ReplacedChange { record, gone }
    }

    /// Notes that the register has these changes, with this generation.
    pub(super) fn note_change(&mut self, number: GenerationNumber, change: &ReplacedChange, now: Now) {
        for gone in &change.gone {
            self.known.remove(gone);
        }
        if change.record.is_some() {
            self.known.insert(number, now);
        }
    }
}

/// The least age of a record by this time on wall clocks.
fn least_age_ms(written_s: i64, now_s: i64) -> u64 {
    let age_s = now_s.saturating_sub(written_s).saturating_sub(CLOCKS_DIFFER_S);
    u64::try_from(age_s).unwrap_or(0).saturating_mul(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    use fleet::health::{HealthThresholds, HealthWatch, Roster, SlotMember};

    const WINDOW_MS: u64 = 3_600_000;
    const BEGIN_MS: u64 = 86_400_000;
    const UNIX_S: i64 = 1_800_000_000;

    /// When a controller begins, by its clock and by the wall clock.
    fn begin() -> (Now, i64) {
        (Now::at_ms(BEGIN_MS), UNIX_S)
    }

    fn place(number: u64, at: usize) -> SlotMember {
        SlotMember {
            cluster: "web".parse().expect("a name"),
            slot: format!("s{at}").parse().expect("a name"),
            member: format!("m{number}-{at}").parse().expect("a name"),
            host: format!("h{at}").parse().expect("a name"),
            zone: "a".parse().expect("a name"),
        }
    }

    /// The roster of a generation in which all slots have members of their own.
    fn roster(number: u64) -> Roster {
        Roster::new(GenerationNumber(number), (0..=REPLACED_SLOTS_MAX).map(|at| place(number, at)).collect())
            .expect("a roster")
    }

    fn slot() -> SlotReplacement {
        SlotReplacement::new(place(1, 0), false)
    }

    /// Records of the generations from 1 on.
    fn records(count: usize) -> Records {
        let record =
            |number| (GenerationNumber(number as u64), ReplacedRecord { unix_s: 0, slots: Vec::new() });
        (1..=count).map(record).collect()
    }

    #[test]
    fn a_record_has_no_more_slots_than_the_largest_fleet_may_replace() {
        let watch = HealthWatch::new(begin().0, HealthThresholds::default(), roster(1)).expect("thresholds");
        let known = KnownReplacements::new(WINDOW_MS);
        let change = |number| known.change(&records(0), watch.replaced_by(&roster(number)), begin());
        let record = change(2).record.expect("a record");
        assert_eq!(record.slots.len(), REPLACED_SLOTS_MAX);
        assert_eq!(change(1).record, None);
    }

    #[test]
    fn the_oldest_records_go_when_there_are_too_many() {
        let known = KnownReplacements::new(WINDOW_MS);
        let gone = |count: usize| known.change(&records(count), Vec::new(), begin()).gone;
        assert_eq!(gone(REPLACED_KEPT - 1), []);
        assert_eq!(gone(REPLACED_KEPT), [GenerationNumber(1)]);
        assert_eq!(gone(2 * REPLACED_KEPT).len(), REPLACED_GONE_MAX);
    }

    #[test]
    fn a_record_counts_once_and_is_no_older_than_the_last_answer_without_it() {
        let record = ReplacedRecord { unix_s: UNIX_S - 1000, slots: vec![slot()] };
        let records: Records = [(GenerationNumber(4), record)].into();
        let take = |known: &mut KnownReplacements, until, answered_at| {
            known.take_new(&records, GenerationNumber(until), answered_at, begin())
        };
        let mut known = KnownReplacements::new(WINDOW_MS);
        assert_eq!(take(&mut known, 4, Some(Now::at_ms(BEGIN_MS - 7))), [(slot(), 7)]);
        assert_eq!(take(&mut known, 4, None), [], "once");
        let mut known = KnownReplacements::new(WINDOW_MS);
        assert_eq!(take(&mut known, 3, None), [], "it is of a later generation");
        let age_ms = (1000 - 300) * 1000;
        assert_eq!(
            take(&mut known, 4, None),
            [(slot(), age_ms)],
            "wall clocks differ by five minutes at most"
        );
    }
}
