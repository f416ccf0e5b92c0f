//! Probes: the last outcomes per member and prober, and the vote of all zones.
//!
//! A prober whose own success fell is more likely cut off than right (Lifeguard): it takes itself out of the vote.

use std::collections::VecDeque;

use stdx::clock::Now;

use super::settings::HealthThresholds;
use crate::{HostId, ZoneName};

/// Most controllers that probe: three are usual, five are for five zones. Each costs 24 bytes a member.
pub const PROBERS_MAX: usize = 8;

/// Success is compared with that of a minute ago.
const BASELINE_AGE_MS: u64 = 60_000;
/// Figures kept per prober: one each 10 s, for more than a minute.
const SAMPLES_MAX: usize = 8;
const SAMPLE_EVERY_MS: u64 = 10_000;

/// The outcome of one probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeOutcome {
    /// Answered in time.
    Answered,
    /// Answered, but later than the members of a cluster usually do.
    Late,
    /// Refused, reset or not answered.
    Failed,
}

#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    at: Now,
    failing_since: Now,
    failures: u8,
    last: Option<ProbeOutcome>,
}

#[derive(Debug)]
struct Prober {
    host: HostId,
    zone: ZoneName,
    at: Now,
    percent: u64,
    /// The last success with which it had a vote, or nothing to compare with yet.
    samples: VecDeque<(Now, u64)>,
}

/// What the zones say about one member: bits of probers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ProbeView {
    pub(super) answered: u8,
    pub(super) late: u8,
    pub(super) failed: u8,
    /// Their last probe has failed, and perhaps it is the first one of several.
    pub(super) failing: u8,
    pub(super) failing_since: Option<Now>,
}

/// All probers, and their marks of all members.
#[derive(Debug, Default)]
pub(super) struct Probers {
    probers: Vec<Prober>,
    marks: Vec<[Mark; PROBERS_MAX]>,
}

impl Probers {
    /// Takes what a prober says about itself. None if there are too many.
    pub(super) fn round(
        &mut self,
        now: Now,
        host: &HostId,
        zone: &ZoneName,
        percent: u64,
        settings: &HealthThresholds,
    ) -> Option<usize> {
        let stale =
            |prober: &Prober| now.ms().saturating_sub(prober.at.ms()) > settings.observation_window_ms;
        let known = self.probers.iter().position(|prober| prober.host == *host);
        let moved = known.filter(|at| self.probers[*at].zone != *zone);
        let at = known.filter(|_| moved.is_none()).or_else(|| {
            let new = || Prober {
                host: host.clone(),
                zone: zone.clone(),
                at: now,
                percent,
                samples: VecDeque::new(),
            };
            if moved.is_none() && self.probers.len() < PROBERS_MAX {
                self.probers.push(new());
                return Some(self.probers.len() - 1);
            }
            let at = moved.or_else(|| self.probers.iter().position(stale))?;
            self.probers[at] = new();
            self.marks.iter_mut().for_each(|marks| marks[at] = Mark::default());
            Some(at)
        })?;
        let prober = &mut self.probers[at];
        (prober.at, prober.percent) = (now, percent);
        let is_due = prober.samples.back().is_none_or(|(at, _)| now.ms() >= at.ms() + SAMPLE_EVERY_MS);
        // One that lost its vote keeps what it had before, so that it does not come to trust itself by waiting.
        if is_due && (prober.baseline(now).is_none() || prober.votes(now, settings)) {
            if prober.samples.len() == SAMPLES_MAX {
                prober.samples.pop_front();
            }
            prober.samples.push_back((now, percent));
        }
        Some(at)
    }

    /// Takes one outcome.
    pub(super) fn probed(&mut self, prober: usize, member: usize, outcome: ProbeOutcome, now: Now) {
        let mark = &mut self.marks[member][prober];
        if outcome != ProbeOutcome::Failed {
            mark.failures = 0;
        } else if mark.failures == 0 {
            (mark.failures, mark.failing_since) = (1, now);
        } else {
            mark.failures = mark.failures.saturating_add(1);
        }
        (mark.at, mark.last) = (now, Some(outcome));
    }

    /// The probers that vote now, as bits.
    pub(super) fn voters(&self, now: Now, settings: &HealthThresholds) -> u8 {
        bits(self.probers.iter().map(|prober| prober.votes(now, settings)))
    }

    /// A person has looked: what probers see now is normal.
    pub(super) fn accept_present(&mut self, now: Now) {
        for prober in &mut self.probers {
            let then = Now { us: now.us.saturating_sub(BASELINE_AGE_MS * 1000) };
            prober.samples = VecDeque::from([(then, prober.percent)]);
        }
    }

    /// What they say about a member.
    pub(super) fn view(&self, member: usize, voters: u8, now: Now, settings: &HealthThresholds) -> ProbeView {
        let mut view = ProbeView::default();
        for (at, mark) in self.marks[member].iter().enumerate().filter(|(at, _)| voters & (1 << at) != 0) {
            if now.ms().saturating_sub(mark.at.ms()) > settings.probe_fresh_ms {
                continue;
            }
            view.failing |= u8::from(mark.last == Some(ProbeOutcome::Failed)) << at;
            match mark.last {
                Some(ProbeOutcome::Answered) => view.answered |= 1 << at,
                Some(ProbeOutcome::Late) => view.late |= 1 << at,
                Some(ProbeOutcome::Failed) if mark.failures >= settings.probe_failures => {
                    view.failed |= 1 << at;
                    let since =
                        view.failing_since.map_or(mark.failing_since, |since| since.min(mark.failing_since));
                    view.failing_since = Some(since);
                }
                _ => {}
            }
        }
        view
    }

    /// The zones of the probers in `bits`, each once, in order.
    pub(super) fn zones(&self, bits: u8) -> Vec<&ZoneName> {
        let chosen = self.probers.iter().enumerate().filter(|(at, _)| bits & (1 << at) != 0);
        let mut zones: Vec<_> = chosen.map(|(_, prober)| &prober.zone).collect();
        zones.sort();
        zones.dedup();
        zones
    }

    /// Zones whose word is needed, and probers that were never heard although there are that many. As long as one was not,
    /// there may be another zone.
    pub(super) fn zones_needed(&self, expected: usize, zones_min: u8) -> (u8, usize) {
        let unheard = expected.saturating_sub(self.probers.len());
        let zones = self.zone_masks().len() as u8;
        (if unheard > 0 { zones_min } else { zones_min.min(zones.max(1)) }, unheard)
    }

    /// All of them, as bits.
    pub(super) fn all(&self) -> u8 {
        bits(self.probers.iter().map(|_| true))
    }

    /// For each prober the bits of all probers in its zone.
    pub(super) fn zone_masks(&self) -> Vec<u8> {
        let mask = |prober: &Prober| bits(self.probers.iter().map(|other| other.zone == prober.zone));
        let mut masks: Vec<u8> = self.probers.iter().map(mask).collect();
        masks.sort_unstable();
        masks.dedup();
        masks
    }

    /// Puts the marks into the order of a new roster: for each member its place in the old one.
    pub(super) fn reorder(&mut self, from: &[Option<usize>]) {
        self.marks = from.iter().map(|at| at.map_or_else(Default::default, |at| self.marks[at])).collect();
    }

    /// Forgets all, as after a start.
    pub(super) fn forget(&mut self) {
        self.probers.clear();
        self.marks.iter_mut().for_each(|marks| *marks = Default::default());
    }
}

impl Prober {
    /// The newest success that is a minute old.
    fn baseline(&self, now: Now) -> Option<u64> {
        let is_old = |(at, _): &&(Now, u64)| now.ms() >= at.ms() + BASELINE_AGE_MS;
        self.samples.iter().rev().find(is_old).map(|(_, percent)| *percent)
    }

    fn votes(&self, now: Now, settings: &HealthThresholds) -> bool {
        let is_fresh = now.ms().saturating_sub(self.at.ms()) <= settings.probe_fresh_ms;
        let kept = |before: u64| self.percent * 100 >= before * u64::from(settings.prober_success_percent);
        is_fresh
            && self.percent >= u64::from(settings.prober_success_min_percent)
            && self.baseline(now).is_some_and(kept)
    }
}

fn bits(flags: impl Iterator<Item = bool>) -> u8 {
    flags.enumerate().fold(0, |bits, (at, flag)| bits | (u8::from(flag) << at))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A prober that reports one percentage a second for the given seconds each; its votes at the ends.
    #[track_caller]
    fn check(phases: &[(u64, u64)], expected: &[bool]) {
        let settings = HealthThresholds::default();
        let mut probers = Probers::default();
        let (host, zone) = ("k1".parse().expect("a name"), "z1".parse().expect("a name"));
        let mut now = Now::at_ms(0);
        let mut votes = Vec::new();
        for (percent, seconds) in phases {
            for _ in 0..*seconds {
                now = Now::at_ms(now.ms() + 1000);
                probers.round(now, &host, &zone, *percent, &settings);
            }
            votes.push(probers.voters(now, &settings) == 1);
        }
        assert_eq!(votes, expected, "{phases:?}");
        assert!(probers.probers[0].samples.len() <= SAMPLES_MAX);
    }

    #[test]
    fn a_prober_votes_once_it_has_a_minute_to_compare_with() {
        check(&[(100, 59), (100, 10)], &[false, true]);
    }

    #[test]
    fn a_prober_that_lost_success_does_not_vote_until_it_returns() {
        check(&[(100, 100), (79, 1), (79, 3600), (80, 1)], &[true, false, false, true]);
        check(&[(90, 100), (72, 5), (71, 5)], &[true, true, false]);
    }

    #[test]
    fn a_prober_that_was_cut_off_from_the_start_never_votes() {
        check(&[(0, 600), (49, 600), (100, 5)], &[false, false, true]);
    }

    #[test]
    fn probers_beyond_the_limit_are_refused_until_one_is_silent() {
        let settings = HealthThresholds::default();
        let mut probers = Probers::default();
        let zone = "z1".parse().expect("a name");
        let mut round = |name: &str, second: u64| {
            probers.round(Now::at_ms(second * 1000), &name.parse().expect("a name"), &zone, 100, &settings)
        };
        for at in 0..PROBERS_MAX {
            assert_eq!(round(&format!("k{at}"), 1), Some(at));
        }
        assert_eq!(round("k8", 2), None);
        assert_eq!(round("k8", 62), Some(0));
    }

    /// Probers by their zones, of so many: the zones whose word is needed of two.
    #[track_caller]
    fn check_needed(zones: &[&str], expected: usize, needed: u8) {
        let settings = HealthThresholds::default();
        let mut probers = Probers::default();
        for (at, zone) in zones.iter().enumerate() {
            let (host, zone) = (format!("k{at}").parse().expect("a name"), zone.parse().expect("a name"));
            probers.round(Now::at_ms(0), &host, &zone, 100, &settings);
        }
        assert_eq!(probers.zones_needed(expected, settings.probe_zones_min).0, needed, "{zones:?}");
    }

    #[test]
    fn no_more_zones_are_needed_than_there_are_once_all_probers_are_known() {
        check_needed(&["a", "a", "a"], 3, 1);
        check_needed(&["a"], 1, 1);
        check_needed(&["a", "b", "c"], 3, 2);
        check_needed(&["a", "a", "b"], 3, 2);
        check_needed(&["a", "a"], 3, 2);
        check_needed(&[], 1, 2);
    }

    #[test]
    fn a_prober_that_moves_to_another_zone_is_no_second_one() {
        let settings = HealthThresholds::default();
        let mut probers = Probers::default();
        for zone in ["a", "b"] {
            let (host, zone) = ("k1".parse().expect("a name"), zone.parse().expect("a name"));
            assert_eq!(probers.round(Now::at_ms(0), &host, &zone, 100, &settings), Some(0));
        }
        assert_eq!(probers.zones_needed(1, settings.probe_zones_min), (1, 0));
    }

    #[test]
    fn a_person_makes_the_present_success_the_normal_one() {
        let settings = HealthThresholds::default();
        let mut probers = Probers::default();
        let (host, zone) = ("k1".parse().expect("a name"), "z1".parse().expect("a name"));
        let mut now = Now::at_ms(0);
        for second in 1..200 {
            now = Now::at_ms(second * 1000);
            probers.round(now, &host, &zone, if second < 100 { 100 } else { 70 }, &settings);
        }
        assert_eq!(probers.voters(now, &settings), 0);
        probers.accept_present(now);
        assert_eq!(probers.voters(now, &settings), 1);
    }
}
