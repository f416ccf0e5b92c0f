//! A canvas: shapes and texts in pixels, written as SVG.
//!
//! It is drawn for a light page; a style sheet inside of it exchanges ink and paper where the reader prefers a dark one.

use std::fmt::Write;

use super::{DIM, INK, NAME_MAX, PAPER, are_numbered, color, short};
use crate::report::table::markup;

/// Pixels of every picture from side to side: as wide as a page of text, so that its letters have the size of the text.
pub(in crate::report) const WIDTH: f64 = 760.0;

/// The sizes of ordinary text and of figures at axes.
pub(super) const TEXT: f64 = 12.0;
pub(super) const SMALL: f64 = 11.0;
const TITLE: f64 = 14.0;

/// The width of a letter as a share of its size, of the widest of the usual fonts (DejaVu Sans).
const LETTER: f64 = 0.62;

/// The colours on a dark page.
const STYLE: &str = "<style>@media (prefers-color-scheme: dark) {\
 svg [fill=\"#fdfdfc\"] { fill: #16191d } svg [fill=\"#24292e\"] { fill: #d6dade }\
 svg [stroke=\"#24292e\"] { stroke: #d6dade } svg [stroke=\"#d8dbdf\"] { stroke: #3a4047 }\
 svg [fill=\"#6b7280\"] { fill: #9aa1ab } svg [stroke=\"#6b7280\"] { stroke: #9aa1ab }\
 svg [fill=\"#0072b2\"] { fill: #1a80d0 } svg [stroke=\"#0072b2\"] { stroke: #1a80d0 }\
 svg [fill=\"#7a5cd6\"] { fill: #9a84ee } svg [stroke=\"#7a5cd6\"] { stroke: #9a84ee } }</style>";

/// The pixels that a text takes at most.
pub(super) fn width_of(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * LETTER
}

/// The letters that a room takes at least.
pub(super) fn letters_in(width: f64, size: f64) -> usize {
    (width / (size * LETTER)).max(1.0) as usize
}

/// The part of a text that is at the given place.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// Size, colour and place of a text.
#[derive(Clone, Copy)]
pub(super) struct Lettering {
    size: f64,
    color: &'static str,
    anchor: Anchor,
    is_bold: bool,
}

impl Lettering {
    /// Ordinary text.
    pub(super) const PLAIN: Lettering =
        Lettering { size: TEXT, color: INK, anchor: Anchor::Start, is_bold: false };
    /// Figures at axes, remarks.
    pub(super) const SMALL: Lettering = Lettering { size: SMALL, color: DIM, ..Lettering::PLAIN };

    pub(super) fn at(self, anchor: Anchor) -> Lettering {
        Lettering { anchor, ..self }
    }

    pub(super) fn colored(self, color: &'static str) -> Lettering {
        Lettering { color, ..self }
    }

    pub(super) fn bold(self) -> Lettering {
        Lettering { is_bold: true, ..self }
    }
}

/// A picture that is being drawn from the top.
pub(super) struct Canvas {
    body: String,
    /// The first pixel below what has been written.
    pub(super) bottom: f64,
}

impl Canvas {
    /// With a title and a remark below it.
    pub(super) fn new(title: &str, remark: &str) -> Canvas {
        let mut canvas = Canvas { body: String::new(), bottom: 28.0 };
        let room = WIDTH - 20.0;
        let heading = Lettering { size: TITLE, ..Lettering::PLAIN.bold() };
        // Bold letters are wider.
        canvas.text((10.0, 18.0), &short(title, letters_in(room, TITLE * 1.1)), heading);
        for line in lines(remark, letters_in(room, SMALL)) {
            canvas.text((10.0, canvas.bottom + 8.0), &line, Lettering::SMALL);
            canvas.bottom += 15.0;
        }
        canvas.bottom += 8.0;
        canvas
    }

    /// Name and colour of each series, in as many lines as they take.
    pub(super) fn legend(&mut self, names: &[&str]) {
        let entry = |(index, name): (usize, &&str)| match are_numbered(names.len()) {
            true => (format!("{}: {}", index + 1, short(name, NAME_MAX)), color(index)),
            false => (short(name, NAME_MAX), color(index)),
        };
        let entries: Vec<(String, &'static str)> = names.iter().enumerate().map(entry).collect();
        self.legend_of(&entries);
    }

    /// The same with these colours.
    pub(super) fn legend_of(&mut self, entries: &[(String, &'static str)]) {
        let mut x = 10.0;
        for (name, color) in entries {
            let width = 18.0 + width_of(name, TEXT) + 16.0;
            if x > 10.0 && x + width > WIDTH {
                (x, self.bottom) = (10.0, self.bottom + 18.0);
            }
            self.rect((x, self.bottom), (12.0, 12.0), color, 1.0);
            self.text((x + 18.0, self.bottom + 6.0), name, Lettering::PLAIN);
            x += width;
        }
        self.bottom += if entries.is_empty() { 0.0 } else { 22.0 };
    }

    /// Text whose middle line lies at that height.
    pub(super) fn text(&mut self, at: (f64, f64), text: &str, lettering: Lettering) {
        if text.is_empty() {
            return;
        }
        let Lettering { size, color, anchor, is_bold } = lettering;
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let weight = if is_bold { " font-weight=\"600\"" } else { "" };
        // Capitals and figures reach from the line up by 0.7 of the size.
        let (x, y) = (pixel(at.0), pixel(at.1 + 0.35 * size));
        let text = markup(&stdx::escape::line(text));
        self.put(format_args!(
            "<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\"{anchor}{weight} fill=\"{color}\">{text}</text>"
        ));
    }

    pub(super) fn rect(
        &mut self,
        (x, y): (f64, f64),
        (width, height): (f64, f64),
        color: &str,
        opacity: f64,
    ) {
        let (x, y, width, height) = (pixel(x), pixel(y), pixel(width), pixel(height));
        let opacity = attribute("fill-opacity", opacity);
        self.put(format_args!(
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{color}\"{opacity}/>"
        ));
    }

    pub(super) fn frame(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), color: &str) {
        let (x, y, width, height) = (pixel(x), pixel(y), pixel(width), pixel(height));
        self.put(format_args!(
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"none\" stroke=\"{color}\"/>"
        ));
    }

    pub(super) fn dot(&mut self, (x, y): (f64, f64), radius: f64, color: &str, opacity: f64) {
        let (x, y, opacity) = (pixel(x), pixel(y), attribute("fill-opacity", opacity));
        self.put(format_args!("<circle cx=\"{x}\" cy=\"{y}\" r=\"{radius}\" fill=\"{color}\"{opacity}/>"));
    }

    pub(super) fn line(&mut self, points: &[(f64, f64)], color: &str, width: f64, opacity: f64) {
        let (points, opacity) = (path(points), attribute("stroke-opacity", opacity));
        self.put(format_args!(
            "<polyline points=\"{points}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"{width}\"{opacity}/>"
        ));
    }

    pub(super) fn area(&mut self, points: &[(f64, f64)], color: &str, opacity: f64) {
        let (points, opacity) = (path(points), attribute("fill-opacity", opacity));
        self.put(format_args!("<polygon points=\"{points}\" fill=\"{color}\"{opacity}/>"));
    }

    /// The picture, which ends a little below what has been written.
    pub(super) fn finish(self) -> String {
        let height = pixel(self.bottom + 8.0);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
             viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\">{STYLE}\n\
             <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"{PAPER}\"/>\n{}</svg>\n",
            self.body
        )
    }

    fn put(&mut self, element: std::fmt::Arguments) {
        writeln!(self.body, "{element}").expect("a text takes everything");
    }
}

/// A tenth of a pixel cannot be seen.
fn pixel(value: f64) -> f64 {
    // Never -0.
    (value * 10.0).round() / 10.0 + 0.0
}

fn path(points: &[(f64, f64)]) -> String {
    points.iter().map(|(x, y)| format!("{},{}", pixel(*x), pixel(*y))).collect::<Vec<_>>().join(" ")
}

fn attribute(name: &str, opacity: f64) -> String {
    if opacity >= 1.0 { String::new() } else { format!(" {name}=\"{}\"", (opacity * 100.0).round() / 100.0) }
}

/// A text in lines of at most so many letters, broken at spaces.
fn lines(text: &str, letters: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= letters => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(short(word, letters)),
        }
    }
    lines
}
