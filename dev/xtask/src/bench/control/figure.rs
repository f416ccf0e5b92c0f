//! Figures of the control plane's benchmark, and the fleet that they are about.

use serde_json::{Value, json};

/// A figure with its unit, and what it must be at most.
pub(super) struct ControlFigure {
    pub(super) row: &'static str,
    pub(super) name: String,
    pub(super) value: f64,
    pub(super) unit: &'static str,
    pub(super) most: Option<f64>,
}

pub(super) const SERVERS: usize = 9;
pub(super) const ROUTERS: usize = 6;
/// Two servers are spares: where a slot change fails, the second one takes the slot.
pub(super) const SLOTS: usize = 7;

/// The guard must not hold what is lost on purpose: losses are counted together for 20 s, and not for a minute and an hour.
pub(super) const HEALTH: &str =
    "observation_window_ms = 30000\n[guard]\nwindow_ms = 20000\nreplaced_window_ms = 20000\n";

impl ControlFigure {
    pub(super) fn new(
        row: &'static str,
        name: impl Into<String>,
        value: f64,
        unit: &'static str,
    ) -> ControlFigure {
        ControlFigure { row, name: name.into(), value, unit, most: None }
    }

    pub(super) fn at_most(self, most: f64) -> ControlFigure {
        ControlFigure { most: Some(most), ..self }
    }

    pub(super) fn json(&self) -> Value {
        json!({"row": self.row, "name": self.name, "value": self.value, "unit": self.unit, "most": self.most})
    }
}

/// The value of which this part of all is not above.
pub(super) fn quantile(values: &mut [f64], part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = ((values.len() as f64 * part).ceil() as usize).clamp(1, values.len().max(1)) - 1;
    values.get(at).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_a_value_that_was_measured() {
        let mut values = [3.0, 1.0, 2.0, 4.0];
        assert_eq!(
            [0.0, 0.5, 0.75, 0.99, 1.0].map(|part| quantile(&mut values, part)),
            [1.0, 2.0, 3.0, 4.0, 4.0]
        );
        assert!(quantile(&mut [], 0.5).is_nan());
    }
}
