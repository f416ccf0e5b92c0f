//! Folded lines: those that differ in numbers alone, as one.

use std::collections::BTreeMap;

/// This many lines are still readable one by one.
const ALIKE_MAX: usize = 3;

/// Lines in their order; where more than a few differ in numbers alone, the first stands for all, with their number.
pub fn folded(lines: &[String]) -> Vec<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for line in lines {
        *counts.entry(without_numbers(line)).or_default() += 1;
    }
    let mut shown = Vec::new();
    for line in lines {
        let Some(count) = counts.get_mut(&without_numbers(line)) else { continue };
        match *count {
            0 => {}
            1..=ALIKE_MAX => shown.push(line.clone()),
            many => {
                shown.push(format!("{line} (and {} more like it)", many - 1));
                *count = 0;
            }
        }
    }
    shown
}

/// A text with `#` for each number, mask or list of CPUs: `/proc/irq/38/smp_affinity = 00000001,0000ff00` is
/// `/proc/irq/#/smp_affinity = #`.
pub(crate) fn without_numbers(text: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_,.-".contains(c);
    let mut out = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c: char| is_part(c) != is_part(first)).unwrap_or(rest.len());
        let (piece, after) = rest.split_at(end);
        out += &if is_part(first) { word_without_numbers(piece) } else { piece.to_owned() };
        rest = after;
    }
    out
}

fn word_without_numbers(word: &str) -> String {
    let is_mask = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c) || ",.-".contains(c);
    // `f` and `ff,ffffffff` are masks; `a` and `be` are words, and treating them as masks does no harm.
    if word.chars().all(is_mask) && word.chars().any(|c| c.is_ascii_alphanumeric()) {
        let end = word.trim_end_matches([',', '.', '-']).len();
        return format!("#{}", &word[end..]);
    }
    let mut out = String::new();
    for c in word.chars() {
        match c {
            _ if !c.is_ascii_digit() => out.push(c),
            _ if !out.ends_with('#') => out.push('#'),
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_lines_that_differ_in_numbers_are_one() {
        let irq = |irq: u32, mask: &str| format!("/proc/irq/{irq}/smp_affinity = {mask}: holds");
        let lines: Vec<String> =
            (0..64).map(|i| irq(38 + i, if i % 2 == 0 { "ff" } else { "00000001,00000000" })).collect();
        assert_eq!(folded(&lines), ["/proc/irq/38/smp_affinity = ff: holds (and 63 more like it)"]);
        let mut mixed = lines.clone();
        mixed.insert(7, "net.core.somaxconn = 4096: DRIFTED".to_owned());
        mixed[20] = mixed[20].replace("holds", "DRIFTED");
        let shown = folded(&mixed);
        assert_eq!(shown.len(), 3, "{shown:?}");
        assert!(
            shown[0].ends_with("(and 62 more like it)")
                && shown[2].ends_with("= #: DRIFTED".trim_start_matches("= #"))
        );
        assert_eq!(folded(&lines[..3]), lines[..3], "a few are read one by one");
    }

    #[test]
    fn numbers_are_not_words() {
        for (text, expected) in [
            ("thread mc-worker (812) waits 12.5 %, 3.0 µs", "thread mc-worker (#) waits # %, # µs"),
            (
                "/sys/class/net/eth0/queues/rx-12/rps_cpus = 0,2-5",
                "/sys/class/net/eth#/queues/rx-#/rps_cpus = #",
            ),
            ("it reads \"f0\": DRIFTED", "it reads \"#\": DRIFTED"),
        ] {
            assert_eq!(without_numbers(text), expected);
        }
    }
}
