//! Settings of a fleet-wide change: margins, sizes of waves, times.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::figures::FigureKind;

/// The sizes of a trial in pairs: the first, one between, the last.
pub(super) const RUNGS: usize = 3;
/// Beyond 200 pairs the chances of signed ranks are drawn and not counted.
const PAIRS_MAX: usize = 200;
/// With six looks, seven pairs can show nothing, however large the difference is.
const PAIRS_MIN: usize = 8;
/// Shares between canaries and the rest: each is one look more, and of more than these eight pairs can show nothing.
const SHARES_MAX: usize = 3;
/// No wave lasts longer than a week.
const TIME_MS_MAX: u64 = 7 * 86_400_000;

/// A setting outside its bounds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("use {name} = {found}: {accepted}")]
pub struct WaveSettingsError {
    name: &'static str,
    found: String,
    accepted: String,
}

/// What happens after a halt by a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnHalt {
    /// All hosts go back, those that were changed last first.
    Undo,
    /// All stays as it is until a person decides.
    Keep,
}

/// How large waves are, how long they last, and what they must not lose.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WaveSettings {
    /// By how many percent each figure may become worse. A figure that is not in it is not judged.
    pub margins: BTreeMap<FigureKind, f64>,
    /// Pairs of each kind of hosts at the first look.
    pub pairs: usize,
    /// Pairs of each kind of hosts when looks with fewer could not tell.
    pub pairs_max: usize,
    /// The growing shares between canaries and the rest, percent of each zone.
    pub shares: Vec<u8>,
    /// How long figures are taken before the change.
    pub baseline_ms: u64,
    /// How long figures are taken for a look.
    pub look_ms: u64,
    /// How long each part of a turn lasts, for kinds with too few pairs.
    pub turn_ms: u64,
    /// How long a zone runs before the next one has its turn.
    pub zone_ms: u64,
    /// A look without figures halts after this time.
    pub figures_ms: u64,
    /// A host goes back by itself if it has not heard its controller for so long after the change.
    pub confirm_ms: u64,
    /// After this time without a word a host is left out.
    pub silence_ms: u64,
    /// More hosts than this that cannot apply the change or step aside halt it.
    pub troubled_max: usize,
    /// What happens after a halt.
    pub on_halt: OnHalt,
}

impl Default for WaveSettings {
    fn default() -> WaveSettings {
        WaveSettings {
            margins: FigureKind::ALL.into_iter().map(|figure| (figure, 2.0)).collect(),
            pairs: PAIRS_MIN,
            // With 2 % between hosts, 96 pairs show that nothing is worse than -2 % in nearly all cases.
            pairs_max: 96,
            shares: vec![1, 5, 25],
            baseline_ms: 600_000,
            look_ms: 600_000,
            turn_ms: 300_000,
            zone_ms: 60_000,
            figures_ms: 1_800_000,
            confirm_ms: 600_000,
            // A turn lasts at most 20 s, and 5 s more make silence.
            silence_ms: 25_000,
            troubled_max: 2,
            on_halt: OnHalt::Undo,
        }
    }
}

impl WaveSettings {
    /// Refuses figures with which a change cannot be judged, or never ends.
    ///
    /// # Errors
    /// Names the first that is outside its bounds.
    pub fn check(&self) -> Result<(), WaveSettingsError> {
        let rows = [
            ("pairs", self.pairs as u64, PAIRS_MIN as u64, PAIRS_MAX as u64),
            ("pairs_max", self.pairs_max as u64, self.pairs as u64, PAIRS_MAX as u64),
            ("baseline_ms", self.baseline_ms, 1_000, TIME_MS_MAX),
            ("look_ms", self.look_ms, 1_000, TIME_MS_MAX),
            ("turn_ms", self.turn_ms, 1_000, TIME_MS_MAX),
            ("zone_ms", self.zone_ms, 1_000, TIME_MS_MAX),
            ("figures_ms", self.figures_ms, 1_000, TIME_MS_MAX),
            ("confirm_ms", self.confirm_ms, 30_000, TIME_MS_MAX),
            ("silence_ms", self.silence_ms, 5_000, 300_000),
            ("troubled_max", self.troubled_max as u64, 0, 1_000),
        ];
        let outside = rows.into_iter().find(|(_, found, least, most)| !(least..=most).contains(&found));
        if let Some((name, found, least, most)) = outside {
            return refused(name, found.to_string(), format!("accepted are {least} to {most}"));
        }
        if self.margins.is_empty() {
            return refused("margins", "{}".to_owned(), "expected at least one figure".to_owned());
        }
        if let Some((figure, margin)) = self.margins.iter().find(|(_, it)| !(0.1..=50.0).contains(*it)) {
            let accepted = format!("accepted are 0.1 to 50 percent for {}", figure.word());
            return refused("margins", margin.to_string(), accepted);
        }
        let is_growing = self.shares.is_sorted_by(|one, next| one < next);
        let is_share = self.shares.iter().all(|share| (1..100).contains(share));
        if self.shares.len() > SHARES_MAX || !is_growing || !is_share {
            let found = self.shares.iter().map(u8::to_string).collect::<Vec<_>>().join(", ");
            let accepted = format!(
                "accepted are at most {SHARES_MAX} shares from 1 to 99, each larger than the one before"
            );
            return refused("shares", format!("[{found}]"), accepted);
        }
        Ok(())
    }

    /// Units of a look, from the smallest trial to the largest: each is larger than the one before by the same factor.
    pub(super) fn units(&self, rung: usize) -> usize {
        let (first, last) = (self.pairs as f64, self.pairs_max as f64);
        let exponent = rung.min(RUNGS - 1) as f64 / (RUNGS - 1) as f64;
        (first * (last / first).powf(exponent)).round() as usize
    }

    /// Looks at a kind of hosts that there can be: one for each wave that is judged, and one for each growth of the trial.
    pub fn looks(&self) -> usize {
        1 + self.shares.len() + RUNGS - 1
    }
}

fn refused(name: &'static str, found: String, accepted: String) -> Result<(), WaveSettingsError> {
    Err(WaveSettingsError { name, found, accepted })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(change: impl FnOnce(&mut WaveSettings), expected: &str) {
        let mut settings = WaveSettings::default();
        change(&mut settings);
        let found = settings.check().err().map(|error| error.to_string()).unwrap_or_default();
        assert!(if expected.is_empty() { found.is_empty() } else { found.contains(expected) }, "{found:?}");
    }

    #[test]
    fn figures_with_which_nothing_is_judged_are_refused() {
        check(|_| (), "");
        check(|settings| settings.shares.clear(), "");
        check(|settings| settings.pairs = 7, "use pairs = 7: accepted are 8 to 200");
        check(|settings| settings.pairs_max = 7, "use pairs_max = 7: accepted are 8 to");
        check(|settings| settings.margins.clear(), "use margins = {}: expected at least one figure");
        check(|settings| settings.shares = vec![25, 5], "use shares = [25, 5]: accepted are at most 3");
        check(|settings| settings.shares = vec![1, 2, 3, 4], "at most 3 shares");
        check(
            |settings| _ = settings.margins.insert(FigureKind::P99, f64::NAN),
            "use margins = NaN: accepted are 0.1 to 50 percent for p99",
        );
    }

    #[test]
    fn eight_pairs_can_show_something_in_all_looks_together() {
        let settings = WaveSettings::default();
        assert_eq!(settings.looks(), 6);
        assert_eq!([0, 1, 2].map(|rung| settings.units(rung)), [8, 28, 96]);
        assert!(stdx::statistics::rounds_min(settings.looks()) as usize <= settings.pairs);
    }
}
