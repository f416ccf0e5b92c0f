//! Heat maps of a trial's CPUs over time: a panel for all CPU time, one each for programs, kernel and soft interrupts,
//! and one each for what is distributed among the CPUs: the interrupts of network cards and the soft interrupts NET_RX.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::{Area, IN_MEMORY, INK, TEXT, color, svg, write};
use crate::record::{CpuShares, Sample};

/// A panel of a picture.
struct Panel {
    name: &'static str,
    /// Its colour.
    series: usize,
    of: Of,
}

/// What the shades of a panel are shares of.
#[derive(Clone, Copy)]
enum Of {
    /// Of each CPU's time.
    Time(fn(&CpuShares) -> f64),
    /// Of all CPUs' counts: of 32 that have the same, each has 3 %, which should be seen, too.
    Counts(fn(&Sample) -> &[u64]),
}

const PANELS: [Panel; 6] = [
    Panel {
        name: "busy in all, share of each CPU",
        series: 7,
        of: Of::Time(|cpu| cpu.user + cpu.system + cpu.softirq + cpu.irq),
    },
    Panel { name: "user, share of each CPU", series: 0, of: Of::Time(|cpu| cpu.user) },
    Panel { name: "system, share of each CPU", series: 2, of: Of::Time(|cpu| cpu.system) },
    Panel { name: "softirq, share of each CPU", series: 5, of: Of::Time(|cpu| cpu.softirq + cpu.irq) },
    Panel {
        name: "interrupts of network cards, each CPU's share of all",
        series: 3,
        of: Of::Counts(|sample| &sample.interrupts),
    },
    Panel { name: "NET_RX, each CPU's share of all", series: 0, of: Of::Counts(|sample| &sample.net_rx) },
];

impl Panel {
    /// Whether there is anything to show.
    fn has_some(&self, samples: &[Sample]) -> bool {
        match self.of {
            Of::Time(_) => true,
            Of::Counts(counts) => samples.iter().flat_map(counts).any(|count| *count > 0),
        }
    }
}

impl Of {
    /// The share that a CPU has in some samples.
    fn share(self, samples: &[Sample], cpu: usize) -> f64 {
        match self {
            Of::Time(share) => {
                let shares: Vec<f64> =
                    samples.iter().filter_map(|sample| sample.cpus.get(cpu)).map(share).collect();
                shares.iter().sum::<f64>() / shares.len().max(1) as f64
            }
            Of::Counts(counts) => {
                let own: u64 = samples.iter().filter_map(|sample| counts(sample).get(cpu)).sum();
                own as f64 / samples.iter().flat_map(counts).sum::<u64>().max(1) as f64
            }
        }
    }

    /// The depth of the shade of a share.
    fn shade(self, share: f64) -> f64 {
        match self {
            Of::Time(_) => share,
            Of::Counts(_) => share.sqrt(),
        }
    }

    /// The share that has this shade.
    fn shown(self, shade: f64) -> f64 {
        match self {
            Of::Time(_) => shade,
            Of::Counts(_) => shade * shade,
        }
    }
}

/// More marks than this make a page slow: many CPUs have fewer columns, each the mean of some seconds.
const MARKS_MAX: usize = 12_000;
const COLUMNS: std::ops::RangeInclusive<usize> = 30..=120;

/// Shares are drawn in this many steps.
const STEPS: f64 = 20.0;

const LEFT: i32 = 52;
const PLOT_WIDTH: i32 = 600;
const WIDTH: u32 = 740;

/// Draws it; nothing if there are no CPUs in the samples.
pub fn heat(title: &str, samples: &[Sample]) -> Option<String> {
    let cpus = samples.iter().map(|sample| sample.cpus.len()).max().filter(|cpus| *cpus > 0)?;
    let panels: Vec<&Panel> = PANELS.iter().filter(|panel| panel.has_some(samples)).collect();
    let columns_max = (MARKS_MAX / panels.len() / cpus).clamp(*COLUMNS.start(), *COLUMNS.end());
    let columns: Vec<&[Sample]> = samples.chunks(samples.len().div_ceil(columns_max)).collect();
    let row_height = (160 / cpus as i32).clamp(2, 22);
    let panel_height = row_height * cpus as i32;
    let height = 34 + (panel_height + 30) * panels.len() as i32 + 34;
    let picture = svg(WIDTH, height as u32, title, |root| {
        for (index, panel) in panels.iter().enumerate() {
            let top = 54 + (panel_height + 30) * index as i32;
            draw(root, panel, &columns, (cpus, row_height, top));
            names(root, &samples[0].cpu_ids, (cpus, row_height, top));
        }
        let seconds = samples.last().map_or(0.0, |sample| sample.at_s);
        let bottom = 54 + (panel_height + 30) * panels.len() as i32 - 30;
        axis(root, seconds, bottom);
    });
    Some(picture)
}

fn draw(root: &Area, panel: &Panel, columns: &[&[Sample]], place: (usize, i32, i32)) {
    let Panel { name, series, of } = panel;
    let (cpus, row_height, top) = place;
    let x = |column: usize| LEFT + (PLOT_WIDTH as usize * column / columns.len()) as i32;
    let bottom = top + row_height * cpus as i32;
    write(root, name, (LEFT, top - 11), HPos::Left, TEXT);
    for cpu in 0..cpus {
        let step =
            |column: &&[Sample]| (of.shade(of.share(column, cpu)).clamp(0.0, 1.0) * STEPS).round() as u32;
        let steps: Vec<u32> = columns.iter().map(step).collect();
        let y = top + row_height * cpu as i32;
        let mut from = 0;
        for run in steps.chunk_by(|a, b| a == b) {
            let shade = color(*series).mix(f64::from(run[0]) / STEPS).filled();
            let mark = Rectangle::new([(x(from), y), (x(from + run.len()), y + row_height)], shade);
            root.draw(&mark).expect(IN_MEMORY);
            from += run.len();
        }
    }
    let frame = Rectangle::new([(LEFT, top), (LEFT + PLOT_WIDTH, bottom)], INK.mix(0.5));
    root.draw(&frame).expect(IN_MEMORY);
    scale(root, panel, top);
}

/// Not more than there is room for.
fn names(root: &Area, ids: &[u32], (cpus, row_height, top): (usize, i32, i32)) {
    let every = (14 / row_height).max(1) as usize;
    let every = [1, 2, 4, 8, 16, 32].into_iter().find(|step| *step >= every).unwrap_or(32);
    for cpu in (0..cpus).step_by(every) {
        let y = top + row_height * cpu as i32 + row_height / 2;
        let id = ids.get(cpu).copied().unwrap_or(cpu as u32);
        write(root, &format!("CPU {id}"), (LEFT - 5, y), HPos::Right, 11);
    }
}

/// The scale of the shades.
fn scale(root: &Area, Panel { series, of, .. }: &Panel, top: i32) {
    let left = LEFT + PLOT_WIDTH + 14;
    for (row, shade) in [1.0, 0.75, 0.5, 0.25, 0.0].into_iter().enumerate() {
        let y = top + row as i32 * 15;
        let at = [(left, y), (left + 14, y + 14)];
        root.draw(&Rectangle::new(at, color(*series).mix(shade).filled())).expect(IN_MEMORY);
        root.draw(&Rectangle::new(at, INK.mix(0.3))).expect(IN_MEMORY);
        write(root, &format!("{:.0} %", of.shown(shade) * 100.0), (left + 20, y + 7), HPos::Left, 11);
    }
}

/// The axis has this many marks, and one at zero.
const AXIS_MARKS_MAX: f64 = 10.0;

fn axis(root: &Area, seconds: f64, bottom: i32) {
    let step = [1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 3600.0];
    let step =
        step.into_iter().find(|step| seconds / step <= AXIS_MARKS_MAX).unwrap_or(seconds / AXIS_MARKS_MAX);
    for at in (0..=AXIS_MARKS_MAX as u32).map(|mark| f64::from(mark) * step).take_while(|at| *at <= seconds) {
        let x = LEFT + (f64::from(PLOT_WIDTH) * at / seconds.max(1.0)) as i32;
        root.draw(&PathElement::new(vec![(x, bottom), (x, bottom + 4)], INK)).expect(IN_MEMORY);
        write(root, &format!("{at}"), (x, bottom + 12), HPos::Center, 11);
    }
    write(root, "seconds of load", (LEFT + PLOT_WIDTH / 2, bottom + 27), HPos::Center, TEXT);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_the_numbers_of_their_cpus() {
        let named = |cpu_ids: Vec<u32>| {
            let sample =
                Sample { at_s: 1.0, cpus: vec![CpuShares::default(); 2], cpu_ids, ..Sample::default() };
            let picture = heat("CPUs", &[sample]).expect("a picture");
            ["CPU 0", "CPU 1", "CPU 2"].map(|name| picture.contains(name))
        };
        assert_eq!((named(vec![]), named(vec![0, 2])), ([true, true, false], [true, false, true]));
    }

    #[test]
    fn counts_are_shares_of_all_cpus_and_have_a_panel_only_where_there_are_some() {
        let sample = |interrupts: Vec<u64>, net_rx: Vec<u64>| {
            let cpus = vec![CpuShares { user: 0.5, ..CpuShares::default() }; 2];
            Sample { at_s: 1.0, cpus, interrupts, net_rx, ..Sample::default() }
        };
        let samples = [sample(vec![0, 0], vec![90, 10]), sample(vec![0, 0], vec![60, 40])];
        let [.., net_rx] = PANELS;
        assert_eq!((net_rx.of.share(&samples, 0), net_rx.of.share(&samples, 1)), (0.75, 0.25));
        assert_eq!((net_rx.of.shade(0.25), net_rx.of.shown(0.5)), (0.5, 0.25));
        let picture = heat("CPUs", &samples).expect("a picture");
        assert!(
            picture.contains("NET_RX, each") && !picture.contains("interrupts of network cards"),
            "{picture}"
        );
        let picture = heat("CPUs", &[sample(vec![7, 0], vec![1, 1])]).expect("a picture");
        assert!(picture.contains("interrupts of network cards"), "{picture}");
    }
}
