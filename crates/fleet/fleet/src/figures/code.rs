//! Codes of figures: a number in two bytes, on a logarithmic scale.

/// Steps of each doubling: neighbours differ by 0.068 %, so a number comes back within 0.034 %.
const STEPS: f64 = 1024.0;
/// The logarithm of the smallest number that is not zero, to base 2: 1/1024. A smaller one counts as this.
const LOG_MIN: f64 = -10.0;
/// That of the largest: 2^50, a petabyte. What is larger is unknown.
const LOG_MAX: f64 = 50.0;
/// Most digits that a number needs to have this code.
const DIGITS_MAX: i32 = 5;

/// A number from 1/1024 to 2^50, zero, or nothing known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FigureCode(u16);

impl FigureCode {
    /// Nothing is known: the largest code. A negative number, and one that is too large, are nothing that was measured.
    pub const UNKNOWN: FigureCode = FigureCode(u16::MAX);
    const ZERO: FigureCode = FigureCode(0);

    /// The code of a number.
    pub fn of(number: Option<f64>) -> FigureCode {
        match number {
            Some(0.0) => FigureCode::ZERO,
            Some(number) if number > 0.0 && number.log2() <= LOG_MAX => {
                let steps = ((number.log2() - LOG_MIN) * STEPS).round().max(0.0);
                // 61,440 steps at most.
                FigureCode(steps as u16 + 1)
            }
            _ => FigureCode::UNKNOWN,
        }
    }

    /// The number with the fewest digits that has this code: of whole numbers below 1,000, the number itself.
    pub fn number(self) -> Option<f64> {
        match self {
            FigureCode::UNKNOWN => None,
            FigureCode::ZERO => Some(0.0),
            FigureCode(code) => {
                let exact = (f64::from(code - 1) / STEPS + LOG_MIN).exp2();
                let short = |digits: i32| {
                    let place = digits - 1 - exact.log10().floor() as i32;
                    // Dividing by a power of ten gives the nearest number to a decimal one; multiplying by its reciprocal does not.
                    let number = match place {
                        0.. => (exact * 10_f64.powi(place)).round() / 10_f64.powi(place),
                        _ => (exact / 10_f64.powi(-place)).round() * 10_f64.powi(-place),
                    };
                    (FigureCode::of(Some(number)) == self).then_some(number)
                };
                Some((1..=DIGITS_MAX).find_map(short).unwrap_or(exact))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::prng::Prng;

    #[track_caller]
    fn check(number: f64, expected: Option<f64>) {
        assert_eq!(FigureCode::of(Some(number)).number(), expected, "{number}");
    }

    #[test]
    fn numbers_come_back_within_a_third_of_a_thousandth() {
        let mut prng = Prng::new(1);
        for _ in 0..200_000 {
            let number = (prng.unit() * 59.99 - 9.99).exp2();
            let code = FigureCode::of(Some(number));
            let back = code.number().expect("it is known");
            assert!((back / number - 1.0).abs() < 0.000_68, "{number} {back}");
            assert_eq!(FigureCode::of(Some(back)), code, "a number that came back has the same code");
        }
    }

    #[test]
    fn every_code_is_that_of_its_number() {
        for code in 0..=u16::MAX {
            let number = FigureCode(code).number();
            match number {
                Some(number) if number.log2() > LOG_MAX => {}
                number => assert_eq!(FigureCode::of(number), FigureCode(code), "{number:?}"),
            }
        }
    }

    #[test]
    fn small_whole_numbers_come_back_as_they_were() {
        (0..1000).for_each(|number| check(f64::from(number), Some(f64::from(number))));
        check(0.25, Some(0.25));
        check(36_000.0, Some(36_000.0));
    }

    #[test]
    fn what_nothing_has_is_unknown_and_what_is_small_is_not_zero() {
        for wrong in [-1.0, -0.001, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e16, f64::MAX] {
            check(wrong, None);
        }
        assert_eq!(FigureCode::of(None), FigureCode::UNKNOWN);
        check(-0.0, Some(0.0));
        assert!(FigureCode::of(Some(1e-12)).number().expect("it is known") > 0.0);
        check(50_f64.exp2(), Some(50_f64.exp2()));
    }
}
