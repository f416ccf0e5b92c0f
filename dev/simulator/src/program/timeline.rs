//! The timeline of a simulated fleet, as SVG: one plot below the other over the same minutes.
//!
//! Colours are those of the lab's pictures (Okabe and Ito), which colour-blind people can distinguish.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use simulator::world::WorldSample;

const PAPER: RGBColor = RGBColor(0xfd, 0xfd, 0xfc);
const INK: RGBColor = RGBColor(0x24, 0x29, 0x2e);
const RULE: RGBColor = RGBColor(0xd8, 0xdb, 0xdf);
const BLUE: RGBColor = RGBColor(0x00, 0x72, 0xb2);
const ORANGE: RGBColor = RGBColor(0xe6, 0x9f, 0x00);
/// Dark pages exchange ink and paper, as the lab's pictures do.
const STYLE: &str = "<style>@media (prefers-color-scheme: dark) {\
 svg rect[fill=\"#FDFDFC\"] { fill: #16191d } svg [fill=\"#24292E\"] { fill: #d6dade }\
 svg [stroke=\"#24292E\"] { stroke: #d6dade } svg [stroke=\"#D8DBDF\"] { stroke: #3a4047 }\
 svg [fill=\"#0072B2\"] { fill: #1a80d0 } svg [stroke=\"#0072B2\"] { stroke: #1a80d0 } }</style>";

const WIDTH: u32 = 860;
const PLOT_HEIGHT: u32 = 150;
const TITLE_HEIGHT: u32 = 34;
/// Drawing into memory does not fail.
const IN_MEMORY: &str = "a picture in memory takes everything";

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Figure = fn(&WorldSample) -> f64;

struct Row {
    label: &'static str,
    lines: &'static [(&'static str, RGBColor, Figure)],
    /// The range that is shown at least.
    least: (f64, f64),
}

const ROWS: [Row; 4] = [
    Row {
        label: "database load, ×",
        lines: &[
            ("worst cluster", ORANGE, |sample| sample.worst_database),
            ("all databases", BLUE, |sample| sample.database),
        ],
        least: (0.0, 2.0),
    },
    Row {
        label: "hit ratio",
        lines: &[("all requests", BLUE, |sample| sample.hit_ratio)],
        least: (0.95, 1.0),
    },
    Row {
        label: "members",
        lines: &[
            ("suspect", ORANGE, |sample| sample.suspects as f64),
            ("replaced so far", BLUE, |sample| sample.replacements as f64),
        ],
        least: (0.0, 4.0),
    },
    Row {
        label: "frozen scopes",
        lines: &[("frozen", BLUE, |sample| sample.frozen as f64)],
        least: (0.0, 4.0),
    },
];

/// Draws it.
pub(super) fn draw(title: &str, samples: &[WorldSample]) -> String {
    let mut text = String::new();
    {
        let size = (WIDTH, TITLE_HEIGHT + PLOT_HEIGHT * ROWS.len() as u32 + 20);
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        root.fill(&PAPER).expect(IN_MEMORY);
        let (head, rest) = root.split_vertically(TITLE_HEIGHT);
        write(&head, title, (12, 20), 13);
        for (at, row) in ROWS.iter().enumerate() {
            let is_last = at + 1 == ROWS.len();
            let top = at as u32 * PLOT_HEIGHT;
            let height = PLOT_HEIGHT + if is_last { 20 } else { 0 };
            plot(&rest.clone().shrink((0, top), (WIDTH, height)), row, samples, is_last);
        }
        root.present().expect(IN_MEMORY);
    }
    let first = text.find('>').expect("a picture begins with its tag") + 1;
    text.insert_str(first, STYLE);
    text
}

fn plot(area: &Area, row: &Row, samples: &[WorldSample], is_last: bool) {
    let values = || row.lines.iter().flat_map(|(_, _, figure)| samples.iter().map(figure));
    let low = values().fold(row.least.0, f64::min);
    let high = values().fold(row.least.1, f64::max);
    let minutes = samples.last().map_or(1.0, |sample| sample.at_s / 60.0);
    let (plot, legend) = area.split_horizontally(WIDTH - 150);
    let mut builder = ChartBuilder::on(&plot);
    builder.margin_top(8).margin_right(12).margin_left(8).set_label_area_size(LabelAreaPosition::Left, 74);
    builder.set_label_area_size(LabelAreaPosition::Bottom, if is_last { 38 } else { 18 });
    let headroom = if row.least.1 == 1.0 { 0.0 } else { (high - low) * 0.05 };
    let mut chart = builder.build_cartesian_2d(0.0..minutes, low..high + headroom).expect(IN_MEMORY);
    let label = ("sans-serif", 12).into_font().color(&INK);
    let mut mesh = chart.configure_mesh();
    mesh.y_desc(row.label).axis_desc_style(label.clone()).label_style(label);
    mesh.axis_style(INK).bold_line_style(RULE).light_line_style(TRANSPARENT).x_labels(10).y_labels(4);
    mesh.x_label_formatter(&|value| format!("{value:.0}"));
    let decimals = if high - low < 1.0 { 2 } else { usize::from(high - low < 4.0) };
    let figure = move |value: &f64| format!("{value:.decimals$}");
    mesh.y_label_formatter(&figure);
    if is_last {
        mesh.x_desc("minutes");
    }
    mesh.draw().expect(IN_MEMORY);
    drop(mesh);
    // The last line is drawn over the others, so it is the thinner one where they agree.
    for (at, (name, color, figure)) in row.lines.iter().enumerate() {
        let path: Vec<(f64, f64)> =
            samples.iter().map(|sample| (sample.at_s / 60.0, figure(sample))).collect();
        chart
            .draw_series([PathElement::new(
                path,
                color.stroke_width(if at == 0 && row.lines.len() > 1 { 4 } else { 2 }),
            )])
            .expect(IN_MEMORY);
        let y = 20 + at as i32 * 19;
        legend.draw(&Rectangle::new([(8, y - 6), (20, y + 6)], color.filled())).expect(IN_MEMORY);
        write(&legend, name, (27, y), 12);
    }
}

fn write(area: &Area, text: &str, place: (i32, i32), size: i32) {
    let style = ("sans-serif", size).into_font().color(&INK).pos(Pos::new(HPos::Left, VPos::Center));
    area.draw(&Text::new(text.to_owned(), place, style)).expect(IN_MEMORY);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeline_has_each_row_even_without_samples() {
        for samples in [vec![], vec![WorldSample { at_s: 600.0, ..WorldSample::default() }]] {
            let picture = draw("a scenario", &samples);
            for row in &ROWS {
                assert!(picture.contains(row.label), "{}", row.label);
            }
        }
    }
}
