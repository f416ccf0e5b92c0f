//! Numbers for people: three digits, and a letter for thousands, millions and so on.

/// `2.57 M`.
pub(crate) fn short(value: f64) -> String {
    const LETTERS: [(f64, &str); 4] = [(1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")];
    // What would be shown as 1,000 of one letter is 1 of the next.
    let found = LETTERS.iter().find(|(size, _)| value.abs() >= size * 0.9995);
    let (size, letter) = found.copied().unwrap_or((1.0, ""));
    format!("{}{letter}", digits(value / size))
}

/// `822 GB`, `540 B`.
pub(crate) fn bytes(value: f64) -> String {
    match short(value) {
        text if text.contains(' ') => text + "B",
        text => text + " B",
    }
}

/// Three digits, without zeros behind the point.
fn digits(value: f64) -> String {
    let places = match value.abs() {
        above if above >= 99.95 => 0,
        above if above >= 9.995 => 1,
        _ => 2,
    };
    let text = format!("{value:.places$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// `61 %`; of what is less than that, one digit more.
pub(crate) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent.abs() < 9.95 && percent != 0.0 {
        true => format!("{percent:.1} %"),
        false => format!("{percent:.0} %"),
    }
}

/// `1,234.50` with the cents; from 1,000 on without.
pub(crate) fn usd(value: f64) -> String {
    if value < 1_000.0 {
        return format!("{value:.2}");
    }
    let digits = format!("{value:.0}");
    let first = digits.len() % 3;
    let mut parts: Vec<&str> = Vec::new();
    if first > 0 {
        parts.push(&digits[..first]);
    }
    parts.extend((first..digits.len()).step_by(3).map(|at| &digits[at..at + 3]));
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_a_letter() {
        let check = |value, expected: &str| assert_eq!(short(value), expected);
        check(0.0, "0");
        check(12.0, "12");
        check(999.6, "1 k");
        check(2_570_000.0, "2.57 M");
        check(40_000.0, "40 k");
        check(2.1e12, "2.1 T");
        assert_eq!((bytes(822e9), bytes(540.0)), ("822 GB".into(), "540 B".into()));
        assert_eq!(
            (usd(999.5), usd(1_234.5), usd(1_234_567.0)),
            ("999.50".into(), "1,234".into(), "1,234,567".into())
        );
        assert_eq!(
            (percent(0.612), percent(0.012), percent(0.0)),
            ("61 %".into(), "1.2 %".into(), "0 %".into())
        );
    }
}
