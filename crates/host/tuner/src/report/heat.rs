//! Heat map of packets and interrupts: a line for each CPU, hot ones in red.

use std::collections::BTreeMap;

use super::paint::{TextStyle, Tint};
use crate::diagnose::rules;
use crate::observe::cpu_load::{self, Load};
use crate::{Facts, Series};

/// One CPU's work in a window.
struct Row {
    cpu: u32,
    load: Load,
    net_rx_per_s: f64,
    interrupts_per_s: f64,
}

/// The shares of a CPU from which a row is warm or hot: those of `softirq-one-core` and `rps-missing`.
const WARM_PERCENT: f64 = 30.0;
const HOT_PERCENT: f64 = 60.0;
/// The text beside the three bars.
const BESIDE: usize = 57;
const BAR_MAX: usize = 30;

/// At most `rows_max` rows: if there are more CPUs, those with most in soft interrupts.
pub fn heat(facts: &Facts, series: &Series, look: TextStyle, rows_max: usize) -> String {
    let all = rows(facts, series);
    let total = all.len();
    let mut shown = all;
    shown.sort_by(|a, b| b.load.softirq.total_cmp(&a.load.softirq).then(a.cpu.cmp(&b.cpu)));
    shown.truncate(rows_max);
    shown.sort_by_key(|row| row.cpu);
    let most = |of: fn(&Row) -> f64| shown.iter().map(of).fold(1.0, f64::max);
    let (net_rx_most, interrupts_most) = (most(|row| row.net_rx_per_s), most(|row| row.interrupts_per_s));
    let width = (look.columns.saturating_sub(BESIDE) / 3).clamp(3, BAR_MAX);
    let heading = format!(
        "{:<8}{:<rest$}{:<rest2$}{}",
        "",
        "softirq",
        "NET_RX",
        "interrupts",
        rest = width + 10,
        rest2 = width + 18
    );
    let mut text = format!("{}\n", look.paint.tinted(Tint::Bold, heading.trim_end()));
    for row in &shown {
        let tint = match row.load.interrupts() {
            hot if hot >= HOT_PERCENT => Tint::Red,
            warm if warm >= WARM_PERCENT => Tint::Yellow,
            _ => Tint::Green,
        };
        let bar = |share: f64| {
            let drawn = ((share * width as f64).round() as usize).min(width);
            format!("{}{}", look.paint.tinted(tint, &"#".repeat(drawn)), " ".repeat(width - drawn))
        };
        text += &format!(
            "CPU {:>3} {} {:>5}   {} {:>12}     {} {:>12}\n",
            row.cpu,
            bar(row.load.softirq / 100.0),
            rules::percent(row.load.softirq),
            bar(row.net_rx_per_s / net_rx_most),
            rules::per_second(row.net_rx_per_s),
            bar(row.interrupts_per_s / interrupts_most),
            rules::per_second(row.interrupts_per_s),
        );
    }
    if total > shown.len() {
        text += &format!("and {} CPUs with less in soft interrupts\n", total - shown.len());
    }
    text
}

fn rows(facts: &Facts, series: &Series) -> Vec<Row> {
    let window_s = series.window_s();
    let net_rx = cpu_load::softirqs(series, "NET_RX");
    let mut interrupts: BTreeMap<u32, u64> = BTreeMap::new();
    for interrupt in &facts.interrupts {
        for (cpu, count) in cpu_load::arrivals(series, interrupt.irq) {
            *interrupts.entry(cpu).or_default() += count;
        }
    }
    let per_s = |counts: &BTreeMap<u32, u64>, cpu: u32| *counts.get(&cpu).unwrap_or(&0) as f64 / window_s;
    let row = |(cpu, load): (u32, Load)| Row {
        cpu,
        load,
        net_rx_per_s: per_s(&net_rx, cpu),
        interrupts_per_s: per_s(&interrupts, cpu),
    };
    cpu_load::loads(series).into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::reading::{CpuTimes, Reading};
    use crate::report::paint::Paint;

    fn reading(at_ms: u64, softirq: u64, net_rx: u64) -> Reading {
        let times = |softirq, idle| CpuTimes { softirq, idle, ..CpuTimes::default() };
        let total = at_ms / 10;
        Reading {
            at_ms,
            cpus: BTreeMap::from([(0, times(softirq, total - softirq)), (1, times(0, total))]),
            softirqs: BTreeMap::from([("NET_RX".to_owned(), BTreeMap::from([(0, net_rx), (1, net_rx / 2)]))]),
            ..Reading::default()
        }
    }

    #[test]
    fn the_busiest_cpu_has_the_longest_bars() {
        let series = Series::new(vec![reading(0, 0, 0), reading(1000, 80, 5000)]).unwrap();
        let look = TextStyle { columns: 72, paint: Paint::Plain };
        assert_eq!(
            heat(&Facts::default(), &series, look, 10),
            "        softirq        NET_RX                 interrupts
CPU   0 ####   80 %   #####     5,000 /s                 0.0 /s
CPU   1       0.0 %   ###       2,500 /s                 0.0 /s
"
        );
        assert!(
            heat(&Facts::default(), &series, look, 1).ends_with("and 1 CPUs with less in soft interrupts\n")
        );
    }
}
