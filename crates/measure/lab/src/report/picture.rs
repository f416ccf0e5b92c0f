//! Pictures, each a pure function from figures to the text of an SVG.
//!
//! Colours can be distinguished by colour-blind people too (Okabe and Ito). A picture is drawn for a light page; a
//! style sheet inside of it exchanges ink and paper where the reader prefers a dark one.

pub mod bars;
pub mod curves;
pub mod heat;
pub mod percentiles;
pub mod seconds;
pub mod trend;

use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::record::quantity::number;

const PAPER: RGBColor = RGBColor(0xfd, 0xfd, 0xfc);
const INK: RGBColor = RGBColor(0x24, 0x29, 0x2e);
const RULE: RGBColor = RGBColor(0xd8, 0xdb, 0xdf);

/// The colours on a dark page, also for the two darkest colours. The attributes are how the backend writes the
/// colours above.
const STYLE: &str = "<style>@media (prefers-color-scheme: dark) {\
 svg rect[fill=\"#FDFDFC\"] { fill: #16191d } svg [fill=\"#24292E\"] { fill: #d6dade }\
 svg [stroke=\"#24292E\"] { stroke: #d6dade } svg [stroke=\"#D8DBDF\"] { stroke: #3a4047 }\
 svg [fill=\"#0072B2\"] { fill: #1a80d0 } svg [stroke=\"#0072B2\"] { stroke: #1a80d0 }\
 svg [fill=\"#7A5CD6\"] { fill: #9a84ee } svg [stroke=\"#7A5CD6\"] { stroke: #9a84ee } }</style>";

/// One colour for each series; after the last they begin anew, and the legend still distinguishes them.
const SERIES: [RGBColor; 8] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x8c, 0x8c, 0x8c),
    RGBColor(0x7a, 0x5c, 0xd6),
];

/// Pixels of ordinary text, and the width of a letter, generously.
const TEXT: i32 = 12;
const LETTER: f64 = 6.6;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a> = ChartContext<'a, SVGBackend<'a>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// Letters of a name in a legend, or below a plot; the tables have all of them.
const NAME_MAX: usize = 36;

/// Drawing into memory does not fail.
const IN_MEMORY: &str = "a picture in memory takes everything";

fn color(series: usize) -> RGBColor {
    SERIES[series % SERIES.len()]
}

/// A picture whose plot is so wide, with a legend of these names beside it.
fn plot(width: usize, height: u32, title: &str, names: &[&str], draw: impl FnOnce(&Area)) -> String {
    let width = width as u32 + legend_width(names) as u32;
    let height = height.max(names.len() as u32 * LEGEND_LINE as u32 + 40);
    svg(width, height, title, |root| draw(&with_legend(root, names)))
}

/// The size of the plot in an ordinary picture.
const PLOT_WIDTH: usize = 580;

/// A picture of that size.
fn svg(width: u32, height: u32, title: &str, draw: impl FnOnce(&Area)) -> String {
    let mut text = String::new();
    let title = &*short(title, TITLE_MAX);
    // A letter of the title takes more than one of the rest.
    let width = width.max((title.chars().count() as f64 * LETTER * 1.2) as u32 + 20);
    {
        let root = SVGBackend::with_string(&mut text, (width, height)).into_drawing_area();
        root.fill(&PAPER).expect(IN_MEMORY);
        write(&root, title, (10, 18), HPos::Left, 14);
        draw(&root);
        root.present().expect(IN_MEMORY);
    }
    let first = text.find('>').expect("a picture begins with its tag") + 1;
    text.insert_str(first, STYLE);
    text
}

/// Letters of a title: the width of an ordinary picture, and half as much again.
const TITLE_MAX: usize = 110;

/// A text cut to this many letters: of a longer one the beginning and the end, one of which mostly distinguishes it
/// from others.
fn short(text: &str, letters: usize) -> String {
    let count = text.chars().count();
    if count <= letters {
        return text.to_owned();
    }
    let (begin, end) = (letters / 2, (letters - 1) / 2);
    text.chars().take(begin).chain(['…']).chain(text.chars().skip(count - end)).collect()
}

/// Text whose middle line lies at that height.
fn write(area: &Area, text: &str, place: (i32, i32), side: HPos, size: i32) {
    let style = ("sans-serif", size).into_font().color(&INK).pos(Pos::new(side, VPos::Center));
    area.draw(&Text::new(text.to_owned(), place, style)).expect(IN_MEMORY);
}

/// The labels of a chart's axes.
struct Axes<'t> {
    x: &'t str,
    y: &'t str,
    x_range: Range<f64>,
    y_range: Range<f64>,
    figures: Figures,
}

/// Axes that have figures; the caller labels the others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Figures {
    Both,
    OnlyY,
    None,
}

fn chart<'a>(area: &Area<'a>, axes: &Axes) -> Chart<'a> {
    let mut builder = ChartBuilder::on(area);
    builder.margin_top(8).margin_right(12).margin_bottom(6).margin_left(4);
    builder
        .set_label_area_size(LabelAreaPosition::Left, 74)
        .set_label_area_size(LabelAreaPosition::Bottom, 42);
    let mut chart =
        builder.build_cartesian_2d(divisible(&axes.x_range), divisible(&axes.y_range)).expect(IN_MEMORY);
    let label = ("sans-serif", TEXT).into_font().color(&INK);
    let figure = |value: &f64| number(*value);
    let mut mesh = chart.configure_mesh();
    mesh.x_desc(axes.x).y_desc(axes.y).axis_desc_style(label.clone()).label_style(label);
    mesh.axis_style(INK).bold_line_style(RULE).light_line_style(TRANSPARENT);
    mesh.x_label_formatter(&figure).y_label_formatter(&figure).x_labels(8).y_labels(6);
    if axes.figures != Figures::Both {
        mesh.disable_x_mesh().x_labels(0);
    }
    if axes.figures == Figures::None {
        mesh.disable_y_mesh().y_labels(0);
    }
    mesh.draw().expect(IN_MEMORY);
    drop(mesh);
    chart
}

/// No axis is longer: the length of one from below zero to above must be finite, too.
const AXIS_MAX: f64 = f64::MAX / 4.0;

/// A range whose steps can be counted: from number to number, and not so short that a step of it changes nothing.
fn divisible(range: &Range<f64>) -> Range<f64> {
    let end = |end: f64| if end.is_nan() { 0.0 } else { end.clamp(-AXIS_MAX, AXIS_MAX) };
    let (start, end) = (end(range.start), end(range.end));
    let least = (start.abs().max(end.abs()) * 1e-9).max(1e-100);
    start..end.max(start + least)
}

/// Room at the right for a legend of these names.
fn legend_width(names: &[&str]) -> i32 {
    let number = if are_numbered(names.len()) { "10: ".len() } else { 0 };
    let longest = names.iter().map(|name| name.chars().count() + number).max().unwrap_or(0).min(NAME_MAX);
    (longest as f64 * LETTER) as i32 + 34
}

/// Pixels from name to name in a legend.
const LEGEND_LINE: i32 = 19;

/// Whether there are more series than colours distinguish: then they have numbers, too.
fn are_numbered(series: usize) -> bool {
    series > SERIES.len()
}

/// Name and colour of each series, from the top.
fn legend(area: &Area, names: &[&str]) {
    for (index, name) in names.iter().enumerate() {
        let name = match are_numbered(names.len()) {
            true => format!("{}: {name}", index + 1),
            false => (*name).to_owned(),
        };
        let y = 18 + index as i32 * LEGEND_LINE;
        let mark = Rectangle::new([(8, y - 6), (20, y + 6)], color(index).filled());
        area.draw(&mark).expect(IN_MEMORY);
        write(area, &short(&name, NAME_MAX), (27, y), HPos::Left, TEXT);
    }
}

/// The area below the title, without the room for the legend at its right.
fn with_legend<'a>(root: &Area<'a>, names: &[&str]) -> Area<'a> {
    let (width, height) = root.dim_in_pixel();
    let below = root.clone().shrink((0, 30), (width, height - 30));
    let (left, right) = below.split_horizontally(width as i32 - legend_width(names));
    legend(&right, names);
    left
}

/// A range that begins at zero, or below if a value is, and has some air above.
fn from_zero(values: impl Iterator<Item = f64>) -> Range<f64> {
    let (least, most) =
        values.fold((0.0, 0.0), |(least, most): (f64, f64), value| (least.min(value), most.max(value)));
    let high = if most > 0.0 || least < 0.0 { most * 1.06 } else { 1.0 };
    least * 1.06..high
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_keeps_its_beginning_and_its_end() {
        assert_eq!(short("epoll", 5), "epoll");
        assert_eq!(short("größer als groß", 7), "grö…roß");
        let name = format!("server {} 8", "x".repeat(300));
        let drawn = plot(PLOT_WIDTH, 200, &name, &[&name, &name.replace('8', "16")], |_| {});
        let wide = drawn.split("width=\"").nth(1).and_then(|rest| rest.split('"').next()?.parse().ok());
        assert!(wide.is_some_and(|wide: usize| wide < 950), "{wide:?}");
        assert!(drawn.contains("x 8\n") && drawn.contains("x 16\n"), "{drawn}");
    }

    #[test]
    fn an_axis_ends_whatever_it_is_given() {
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        let ends = [0.0, -1.0, 1e-320, 1e15, 1e15 + 0.125, 1e308, f64::MAX, f64::MIN, inf, -inf, nan];
        for (start, end) in ends.iter().flat_map(|start| ends.map(|end| (*start, end))) {
            let axes =
                Axes { x: "", y: "", x_range: start..end, y_range: start..end, figures: Figures::Both };
            let drawn = svg(300, 200, "", |root| drop(chart(root, &axes)));
            assert!(drawn.ends_with("</svg>\n"), "{start} {end}: {drawn}");
        }
    }
}
