//! Numbers formatted for people: `87 %`, `1,204 /s`, `4 GiB`.

use crate::observe::reading::Rate;

/// `1,204`
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `87 %`; below ten with a decimal.
pub fn percent(percent: f64) -> String {
    match percent {
        _ if percent < 9.95 => format!("{percent:.1} %"),
        _ => format!("{percent:.0} %"),
    }
}

/// `87 %`, or `unknown`.
pub(crate) fn percent_if_known(share: Option<f64>) -> String {
    share.map_or_else(|| "unknown".to_owned(), percent)
}

/// `1,204 /s`; below ten with a decimal.
pub fn per_second(rate: f64) -> String {
    match rate {
        _ if rate < 9.95 => format!("{rate:.1} /s"),
        _ => format!("{} /s", count(rate.round() as u64)),
    }
}

/// A count and its rate: `21 (0.7 /s)`.
pub(crate) fn happened(rate: Rate) -> String {
    format!("{} ({})", count(rate.count), per_second(rate.per_s()))
}

/// Three digits or more, as many as are significant: `1,204`, `93.4`, `7.25`, `0.031`.
pub fn number(number: f64) -> String {
    match number.abs() {
        size if size >= 100.0 => {
            let sign = if number < 0.0 { "-" } else { "" };
            format!("{sign}{}", count(size.round() as u64))
        }
        size if size >= 10.0 => format!("{number:.1}"),
        size if size >= 1.0 => format!("{number:.2}"),
        _ => format!("{number:.3}"),
    }
}

/// `4 GiB`, `512 KiB`
pub fn bytes(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let unit = units.iter().find(|(shift, _)| bytes >> shift > 0);
    let Some((shift, name)) = unit else { return format!("{bytes} B") };
    let value = bytes as f64 / (1u64 << shift) as f64;
    if value < 9.95 && value.fract() > 0.05 {
        format!("{value:.1} {name}")
    } else {
        format!("{value:.0} {name}")
    }
}

/// `CPU 0`, `CPUs 1-3`
pub(crate) fn cpus(set: &os::CpuSet) -> String {
    let word = if set.len() == 1 { "CPU" } else { "CPUs" };
    format!("{word} {set}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_have_units() {
        let shown = [count(7), count(1204), count(12_345_678), percent(0.0), percent(9.96), percent(86.6)];
        assert_eq!(shown, ["7", "1,204", "12,345,678", "0.0 %", "10 %", "87 %"]);
        let shown = [per_second(0.7), per_second(50_000.4), bytes(512 << 10), bytes(3 << 29), bytes(12)];
        let numbers = [number(1203.6), number(-93.44), number(7.25), number(0.0314), number(0.0)];
        assert_eq!(numbers, ["1,204", "-93.4", "7.25", "0.031", "0.000"]);
        assert_eq!(shown, ["0.7 /s", "50,000 /s", "512 KiB", "1.5 GiB", "12 B"]);
    }
}
