//! Heat maps of a trial's CPUs, second by second: all CPU time, that of programs, kernel and soft interrupts, and which CPUs
//! take the interrupts of network interfaces and handle received packets. Bars beside them are means.

use super::axis::AxisScale;
use super::canvas::{Anchor, Canvas, Lettering, WIDTH};
use super::{INK, color};
use crate::record::Sample;

/// A panel: its name, its colour, and its value of a CPU in a second.
type Panel = (&'static str, usize, fn(&Sample, usize) -> Option<f64>);

/// From this panel on, the shares of all CPUs are 1 together: of many CPUs, each has little.
const PARTS_FROM: usize = 4;

const PANELS: [Panel; 6] = [
    ("busy in all", 7, |it, cpu| it.cpus.get(cpu).map(|cpu| cpu.user + cpu.system + cpu.softirq + cpu.irq)),
    ("user", 0, |it, cpu| it.cpus.get(cpu).map(|cpu| cpu.user)),
    ("system", 2, |it, cpu| it.cpus.get(cpu).map(|cpu| cpu.system)),
    ("softirq", 5, |it, cpu| it.cpus.get(cpu).map(|cpu| cpu.softirq + cpu.irq)),
    ("interrupts by CPU", 1, |it, cpu| part(&it.interrupts, cpu)),
    ("NET_RX by CPU", 3, |it, cpu| part(&it.net_rx, cpu)),
];

/// More marks than this make a page slow: many CPUs have fewer columns, each the mean of some seconds.
const MARKS_MAX: usize = 12_000;
const COLUMNS: std::ops::RangeInclusive<usize> = 30..=115;

/// Shares are drawn in this many steps.
const STEPS: f64 = 20.0;

/// From the left of a panel: the names of its CPUs, the map, the bars of means and their figures.
const MAP_LEFT: f64 = 56.0;
const MAP_WIDTH: f64 = 230.0;
const BARS_LEFT: f64 = MAP_LEFT + MAP_WIDTH + 6.0;
const BARS_WIDTH: f64 = 34.0;

/// Pixels of a row at least and at most, of all rows together, and of a name.
const ROW: (f64, f64) = (3.0, 22.0);
const ROWS_HEIGHT: f64 = 192.0;
const NAME_HEIGHT: f64 = 13.0;

/// The share of a CPU in what all have counted; `None` where nothing was.
fn part(counts: &[u64], cpu: usize) -> Option<f64> {
    let all: u64 = counts.iter().sum();
    (all > 0).then(|| counts.get(cpu).map(|count| *count as f64 / all as f64)).flatten()
}

/// Draws it; nothing if there are no CPUs in the samples.
pub fn heat(title: &str, remark: &str, samples: &[Sample]) -> Option<String> {
    let cpus = samples.iter().map(|sample| sample.cpus.len()).max().filter(|cpus| *cpus > 0)?;
    let is_known =
        |(_, _, value): &&Panel| samples.iter().any(|it| (0..cpus).any(|cpu| value(it, cpu).is_some()));
    let panels: Vec<&Panel> = PANELS.iter().filter(is_known).collect();
    let columns_max = (MARKS_MAX / panels.len() / cpus).clamp(*COLUMNS.start(), *COLUMNS.end());
    let map = HeatMap {
        samples,
        columns: samples.chunks(samples.len().div_ceil(columns_max)).collect(),
        cpus,
        row: (ROWS_HEIGHT / cpus as f64).clamp(ROW.0, ROW.1),
    };
    let mut canvas = Canvas::new(title, remark);
    scale(&mut canvas);
    for pair in panels.chunks(2) {
        let top = canvas.bottom + 18.0;
        for (place, panel) in pair.iter().enumerate() {
            map.draw(&mut canvas, panel, (WIDTH / 2.0 * place as f64, top));
        }
        canvas.bottom = top + map.row * cpus as f64 + 24.0;
    }
    canvas.text((WIDTH / 2.0, canvas.bottom + 4.0), "seconds of load", Lettering::SMALL.at(Anchor::Middle));
    canvas.bottom += 10.0;
    Some(canvas.finish())
}

/// Samples of a trial, in as many columns as there is room for.
struct HeatMap<'s> {
    samples: &'s [Sample],
    columns: Vec<&'s [Sample]>,
    cpus: usize,
    row: f64,
}

impl HeatMap<'_> {
    fn draw(&self, canvas: &mut Canvas, panel: &Panel, (left, top): (f64, f64)) {
        let (name, series, value) = panel;
        let (map, color, height) = (left + MAP_LEFT, color(*series), self.row * self.cpus as f64);
        let x = |column: usize| map + MAP_WIDTH * column as f64 / self.columns.len() as f64;
        let darkest = self.darkest(panel);
        let of = if darkest < 1.0 {
            format!("{name} (darkest: {:.0} %)", darkest * 100.0)
        } else {
            (*name).to_owned()
        };
        canvas.text((map, top - 10.0), &of, Lettering::PLAIN);
        for cpu in 0..self.cpus {
            let y = top + self.row * cpu as f64;
            let share = |column: &&[Sample]| step(mean(column, cpu, *value).map(|share| share / darkest));
            let steps: Vec<u32> = self.columns.iter().map(share).collect();
            let mut from = 0;
            for run in steps.chunk_by(|a, b| a == b) {
                if run[0] > 0 {
                    let size = (x(from + run.len()) - x(from), self.row);
                    canvas.rect((x(from), y), size, color, f64::from(run[0]) / STEPS);
                }
                from += run.len();
            }
            if let Some(mean) = mean(self.samples, cpu, *value) {
                let thick = if self.row > 4.0 { self.row - 2.0 } else { self.row };
                let long = BARS_WIDTH * (mean / darkest).clamp(0.0, 1.0);
                canvas.rect((left + BARS_LEFT, y), (long, thick), color, 0.8);
                if self.has_name(cpu) {
                    let at = (left + BARS_LEFT + BARS_WIDTH + 42.0, y + self.row / 2.0);
                    canvas.text(at, &format!("{:.0} %", mean * 100.0), Lettering::SMALL.at(Anchor::End));
                }
            }
            if self.has_name(cpu) {
                let id = self.samples[0].cpu_ids.get(cpu).copied().unwrap_or(cpu as u32);
                let at = (map - 5.0, y + self.row / 2.0);
                canvas.text(at, &format!("CPU {id}"), Lettering::SMALL.at(Anchor::End));
            }
        }
        canvas.frame((map, top), (MAP_WIDTH, height), INK);
        let last = self.samples.last().map_or(0.0, |sample| sample.at_s);
        for (x, text) in AxisScale::between(0.0, last, (map, map + MAP_WIDTH)).marks(true) {
            canvas.line(&[(x, top + height), (x, top + height + 4.0)], INK, 1.0, 1.0);
            canvas.text((x, top + height + 12.0), &text, Lettering::SMALL.at(Anchor::Middle));
        }
    }

    /// The share that is drawn in full colour: 1, or of parts the largest, in whole per cent.
    fn darkest(&self, panel: &Panel) -> f64 {
        if PANELS[..PARTS_FROM].iter().any(|(name, ..)| *name == panel.0) {
            return 1.0;
        }
        let shares = self
            .columns
            .iter()
            .flat_map(|column| (0..self.cpus).filter_map(|cpu| mean(column, cpu, panel.2)));
        (shares.fold(0.0, f64::max) * 100.0).ceil().clamp(1.0, 100.0) / 100.0
    }

    /// Not more than there is room for.
    fn has_name(&self, cpu: usize) -> bool {
        let every = (NAME_HEIGHT / self.row).ceil() as usize;
        cpu.is_multiple_of(every.next_power_of_two())
    }
}

/// The mean of the seconds in which it is known.
fn mean(samples: &[Sample], cpu: usize, value: fn(&Sample, usize) -> Option<f64>) -> Option<f64> {
    let known: Vec<f64> = samples.iter().filter_map(|sample| value(sample, cpu)).collect();
    (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
}

fn step(share: Option<f64>) -> u32 {
    (share.unwrap_or(0.0).clamp(0.0, 1.0) * STEPS).round() as u32
}

/// The meaning of the shades, of which each map has its own colour.
fn scale(canvas: &mut Canvas) {
    let y = canvas.bottom + 6.0;
    for (index, share) in [0.0, 0.25, 0.5, 0.75, 1.0].into_iter().enumerate() {
        let x = 10.0 + 66.0 * index as f64;
        canvas.rect((x, y - 7.0), (14.0, 14.0), INK, share);
        canvas.frame((x, y - 7.0), (14.0, 14.0), INK);
        canvas.text((x + 20.0, y), &format!("{:.0} %", share * 100.0), Lettering::SMALL);
    }
    canvas.bottom += 18.0;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::CpuShares;

    #[test]
    fn rows_have_the_numbers_of_their_cpus() {
        let named = |cpu_ids: Vec<u32>| {
            let sample =
                Sample { at_s: 1.0, cpus: vec![CpuShares::default(); 2], cpu_ids, ..Sample::default() };
            let picture = heat("CPUs", "", &[sample]).expect("a picture");
            ["CPU 0", "CPU 1", "CPU 2"].map(|name| picture.contains(name))
        };
        assert_eq!((named(vec![]), named(vec![0, 2])), ([true, true, false], [true, false, true]));
    }

    #[test]
    fn a_part_is_of_what_all_cpus_have_counted() {
        assert_eq!((part(&[3, 1], 0), part(&[3, 1], 1)), (Some(0.75), Some(0.25)));
        assert_eq!((part(&[0, 0], 0), part(&[], 0), part(&[1], 1)), (None, None, None));
    }
}
