//! The backend's headroom: how many more misses voluntary changes may cause.
//!
//! Replacing what is dead adds no miss, so the guard limits that. A change that nobody needs today must fit in here.

/// A hit ratio that nobody measured is taken as this high: the higher, the more a cold slot costs.
const UNKNOWN_HIT_RATIO: f64 = 0.99;
/// At a hit ratio of 1 a cold slot costs infinitely much; no measurement tells more than this apart from it.
const HIT_RATIO_MAX: f64 = 0.9999;

/// A number from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct UnitShare(f64);

impl UnitShare {
    /// None for what is not from 0 to 1.
    pub fn new(value: f64) -> Option<UnitShare> {
        (0.0..=1.0).contains(&value).then_some(UnitShare(value))
    }

    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }
}

/// Slots that are, or would be, colder than their peers.
#[derive(Clone, Copy, Debug)]
pub struct ColdSlots {
    /// Their share of the backend's keys.
    pub share: UnitShare,
    /// How much of their content they have; unknown counts as none.
    pub warmth: Option<UnitShare>,
    /// Hit ratio of their cluster when it is warm; unknown counts as 0.99.
    pub hit_ratio: Option<UnitShare>,
}

impl ColdSlots {
    /// The additional misses, as a part of those that the backend has anyway.
    fn load(&self) -> f64 {
        let h = self.hit_ratio.map_or(UNKNOWN_HIT_RATIO, UnitShare::get).min(HIT_RATIO_MAX);
        self.share.get() * (1.0 - self.warmth.map_or(0.0, UnitShare::get)) * h / (1.0 - h)
    }
}

/// A voluntary change that the backend could not take.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error(
    "fit the change into the backend's headroom: with it, the backend gets {:.2} times its misses, and at most {:.2} times is \
     accepted; wait until other slots are warm, warm the new member first, or raise backend_headroom",
    1.0 + load,
    1.0 + headroom
)]
pub struct HeadroomError {
    load: f64,
    headroom: f64,
}

/// Checks one more voluntary change beside slots that are cold already. Returns the misses' multiplier with it.
pub fn check_headroom(cold: &[ColdSlots], change: &ColdSlots, headroom: f64) -> Result<f64, HeadroomError> {
    let load = cold.iter().map(ColdSlots::load).sum::<f64>() + change.load();
    // A headroom that is not a number accepts nothing.
    if load <= headroom { Ok(1.0 + load) } else { Err(HeadroomError { load, headroom }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(k: f64, warmth: Option<f64>, hit_ratio: Option<f64>) -> ColdSlots {
        let unit = |value: f64| UnitShare::new(value).expect("a share");
        ColdSlots { share: unit(k / 71.0), warmth: warmth.map(unit), hit_ratio: hit_ratio.map(unit) }
    }

    #[track_caller]
    fn check(hit_ratio: f64, k: f64, multiplier: f64) {
        let found = check_headroom(&[], &slots(k, Some(0.0), Some(hit_ratio)), f64::INFINITY).expect("fits");
        assert!((found / multiplier - 1.0).abs() < 0.02, "h {hit_ratio}, k {k}: {found}, not {multiplier}");
    }

    #[test]
    fn misses_multiply_as_computed_for_71_slots() {
        for (hit_ratio, multipliers) in
            [(0.90, [1.13, 1.25, 1.51, 3.3]), (0.95, [1.27, 1.54, 2.07, 5.8]), (0.99, [2.4, 3.8, 6.6, 26.0])]
        {
            for (k, multiplier) in [1.0, 2.0, 4.0, 18.0].into_iter().zip(multipliers) {
                check(hit_ratio, k, multiplier);
            }
        }
    }

    /// Whether a change fits a headroom of 0.5 beside what is cold.
    #[track_caller]
    fn check_fits(cold: &[ColdSlots], change: ColdSlots, fits: bool) {
        let found = check_headroom(cold, &change, 0.5);
        assert_eq!(found.is_ok(), fits, "{found:?}");
    }

    #[test]
    fn a_cluster_with_a_high_hit_ratio_is_changed_warm_only() {
        check_fits(&[], slots(1.0, Some(0.0), Some(0.90)), true);
        check_fits(&[], slots(1.0, Some(0.0), Some(0.99)), false);
        check_fits(&[], slots(1.0, Some(0.7), Some(0.99)), true);
        check_fits(&[], slots(1.0, Some(1.0), Some(1.0)), true);
        check_fits(&[], slots(1.0, Some(0.99), Some(1.0)), false);
    }

    #[test]
    fn what_is_cold_already_counts() {
        let cold = slots(2.0, Some(0.5), Some(0.95));
        check_fits(&[cold], slots(0.5, Some(0.0), Some(0.95)), true);
        check_fits(&[cold], slots(1.0, Some(0.0), Some(0.95)), false);
    }

    #[test]
    fn unknown_figures_are_taken_as_the_worst_usual_ones() {
        check_fits(&[], slots(1.0, None, Some(0.95)), true);
        check_fits(&[], slots(1.0, Some(0.0), None), false);
        check_fits(&[slots(1.0, None, None)], slots(0.0, None, None), false);
        assert!(check_headroom(&[], &slots(0.0, None, None), f64::NAN).is_err());
        for value in [f64::NAN, -0.1, 1.1, f64::INFINITY] {
            assert_eq!(UnitShare::new(value), None);
        }
    }
}
