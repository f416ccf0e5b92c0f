//! Numbers as printf writes them with `%g`: six digits, no zeros at the end.

use std::fmt;

/// A number to be written so.
pub(crate) struct PercentG(pub(crate) f64);

impl fmt::Display for PercentG {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0.0 || !self.0.is_finite() {
            return write!(f, "{}", if self.0 == 0.0 { 0.0 } else { self.0 });
        }
        let scientific = format!("{:.5e}", self.0);
        let (digits, exponent) = scientific.split_once('e').expect("an exponent");
        let exponent: i32 = exponent.parse().expect("a number");
        if (-4..6).contains(&exponent) {
            let places = (5 - exponent) as usize;
            return f.write_str(trimmed(&format!("{:.places$}", self.0)));
        }
        let sign = if exponent < 0 { '-' } else { '+' };
        write!(f, "{}e{sign}{:02}", trimmed(digits), exponent.abs())
    }
}

fn trimmed(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_printf_does() {
        // From printf(1) of GNU coreutils.
        for (number, expected) in [
            (0.0, "0"),
            (1.0, "1"),
            (100.0, "100"),
            (0.004_166_666, "0.00416667"),
            (302.991_4, "302.991"),
            (123_456.7, "123457"),
            (999_999.6, "1e+06"),
            (1_234_567.0, "1.23457e+06"),
            (0.000_012_3, "1.23e-05"),
            (1e20, "1e+20"),
        ] {
            assert_eq!(PercentG(number).to_string(), expected, "{number}");
        }
    }
}
