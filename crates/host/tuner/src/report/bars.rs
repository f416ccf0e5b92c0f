//! CPU bars: each CPU's time in the window by kind.

use std::collections::BTreeMap;

use super::paint::{TextStyle, Tint};
use crate::observe::cpu_load::Load;

/// A kind of time.
struct Part {
    letter: char,
    name: &'static str,
    tint: Tint,
    of: fn(Load) -> f64,
}

const PARTS: [Part; 5] = [
    Part { letter: 'u', name: "user", tint: Tint::Green, of: |load| load.user },
    Part { letter: 's', name: "system", tint: Tint::Blue, of: |load| load.system },
    Part { letter: 'i', name: "irq", tint: Tint::Yellow, of: |load| load.irq },
    Part { letter: '#', name: "softirq", tint: Tint::Red, of: |load| load.softirq },
    Part { letter: 't', name: "steal", tint: Tint::Magenta, of: |load| load.steal },
];

/// The bar, at most.
const BAR_MAX: usize = 50;
/// The text beside a bar: `CPU 127 [` and `] softirq  80 %  idle  10 %`.
const BESIDE: usize = 38;
/// More CPUs than this are too many to compare; those with the least load are left out.
const CPUS_MAX: usize = 32;

/// A line for each CPU, and a legend.
pub fn bars(loads: &BTreeMap<u32, Load>, look: TextStyle) -> String {
    let width = look.columns.saturating_sub(BESIDE).clamp(10, BAR_MAX);
    let mut shown: Vec<u32> = loads.keys().copied().collect();
    shown.sort_by(|a, b| loads[a].idle.total_cmp(&loads[b].idle));
    shown.truncate(CPUS_MAX);
    shown.sort_unstable();
    let digits = shown.last().map_or(1, |last| last.to_string().len());
    let mut text = String::new();
    for cpu in &shown {
        let load = loads[cpu];
        text += &format!(
            "CPU {cpu:>digits$} [{}] softirq {:>3.0} %  idle {:>3.0} %\n",
            bar(load, width, look),
            load.softirq,
            load.idle
        );
    }
    if loads.len() > shown.len() {
        text += &format!("and {} CPUs with less to do\n", loads.len() - shown.len());
    }
    let legend: Vec<String> = PARTS
        .iter()
        .map(|part| look.paint.tinted(part.tint, &format!("{} {}", part.letter, part.name)))
        .collect();
    text + &format!("{}\n", legend.join("  "))
}

/// A letter for each share of the width, rounded so that the whole is not longer than the bar.
fn bar(load: Load, width: usize, look: TextStyle) -> String {
    let mut text = String::new();
    let (mut sum, mut drawn) = (0.0, 0);
    for part in &PARTS {
        sum += (part.of)(load);
        let end = ((sum / 100.0 * width as f64).round() as usize).min(width);
        let letters = part.letter.to_string().repeat(end - drawn);
        if !letters.is_empty() {
            text += &look.paint.tinted(part.tint, &letters);
        }
        drawn = end;
    }
    text + &" ".repeat(width - drawn)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::paint::Paint;

    #[test]
    fn a_bar_has_a_letter_for_each_share() {
        let load = Load { user: 20.0, system: 10.0, softirq: 50.0, idle: 20.0, ..Load::default() };
        let look = TextStyle { columns: 48, paint: Paint::Plain };
        let text = bars(&BTreeMap::from([(0, load), (10, Load { idle: 100.0, ..Load::default() })]), look);
        assert_eq!(
            text,
            "CPU  0 [uus#####  ] softirq  50 %  idle  20 %\n\
             CPU 10 [          ] softirq   0 %  idle 100 %\n\
             u user  s system  i irq  # softirq  t steal\n"
        );
    }

    #[test]
    fn of_many_cpus_the_busiest_are_shown() {
        let load = |cpu: u32| (cpu, Load { idle: if cpu == 99 { 0.0 } else { 100.0 }, ..Load::default() });
        let text = bars(&(0..100).map(load).collect(), TextStyle { columns: 80, paint: Paint::Plain });
        assert!(text.contains("CPU 99 ["), "{text}");
        assert!(text.contains("and 68 CPUs with less to do"), "{text}");
    }
}
