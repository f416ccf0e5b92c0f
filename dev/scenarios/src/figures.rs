//! Figures of a scenario, as `evenkeel lab` reads them.

/// Figures in the order in which they are printed: a name with its unit, and the value.
pub(crate) type ScenarioFigures = Vec<(&'static str, f64)>;

/// Prints a line for each.
pub(crate) fn print(figures: &ScenarioFigures) {
    for (name, value) in figures {
        println!("{name} {value}");
    }
}

/// The largest of these; not a number if there are none.
pub(crate) fn worst(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NAN, f64::max)
}

/// The value of which this part of all is not above.
pub(crate) fn quantile(values: &mut [f64], part: f64) -> f64 {
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

    #[test]
    fn nothing_has_no_worst() {
        assert_eq!(worst(&[1.0, 3.0, 2.0]), 3.0);
        assert!(worst(&[]).is_nan());
    }
}
