//! The answer as a picture: for each of the best shapes, how much of its hosts each resource asks for.

use std::fmt::Write;

use fleet::advise::{Advice, ResourceUse, ShapeAdvice};

use super::AdviceQuestion;
use super::amount::{percent, usd};

const WIDTH: u32 = 760;
const LEFT: u32 = 210;
/// Pixels of a bar that asks for all hosts.
const BAR: f64 = 440.0;
const ROW: u32 = 20;
const TITLE: u32 = 30;

const STYLE: &str = "<style>text { font: 12px sans-serif; fill: #24292e } .title { font-weight: bold } .dim { fill: #6b7280 }\
 .paper { fill: #fdfdfc } .binds { fill: #b23a00 } .bar { fill: #0072b2 } .open { fill: none; stroke: #6b7280; stroke-dasharray: 3 }\
 @media (prefers-color-scheme: dark) { text { fill: #d6dade } .dim { fill: #9aa1ab } .paper { fill: #16191d }\
 .binds { fill: #e0652a } .bar { fill: #1a80d0 } }</style>";

/// SVG.
pub fn picture(advice: &Advice, asked: &AdviceQuestion<'_>) -> String {
    let mut body = String::new();
    let mut y = 24;
    line(&mut body, (10, y), "title", &asked.inputs.workload.name);
    y += 18;
    let remark = match advice.best.is_empty() {
        true => "No shape of the catalogue carries this workload.",
        false => {
            "Hosts that each resource asks for, of those that the binding one asks for; dashed: not known"
        }
    };
    line(&mut body, (10, y), "dim", remark);
    for shape in &advice.best {
        y += TITLE;
        of_shape(&mut body, shape, &mut y);
    }
    let height = y + ROW;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\">\
         {STYLE}<rect class=\"paper\" width=\"{WIDTH}\" height=\"{height}\"/>{body}</svg>\n"
    )
}

fn of_shape(body: &mut String, advice: &ShapeAdvice, y: &mut u32) {
    let (low, high) = advice.hosts_range;
    let head = format!(
        "{} {}: {} USD/h (within the ranges of all figures {low} to {high} hosts)",
        advice.fit.hosts,
        advice.shape.name,
        usd(advice.usd_per_hour)
    );
    line(body, (10, *y), "title", &head);
    for (index, used) in advice.fit.uses.iter().enumerate() {
        *y += ROW;
        bar(body, used, *y, advice.fit.hosts_exact, index == 0);
    }
}

fn bar(body: &mut String, used: &ResourceUse, y: u32, most: f64, binds: bool) {
    line(body, (20, y), "", used.resource.as_str());
    let top = y - 11;
    let Some(hosts) = used.hosts else {
        let _ = write!(body, "<rect class=\"open\" x=\"{LEFT}\" y=\"{top}\" width=\"{BAR}\" height=\"12\"/>");
        return;
    };
    let share = if most > 0.0 { hosts / most } else { 0.0 };
    let (class, width) = (if binds { "binds" } else { "bar" }, share * BAR);
    let _ =
        write!(body, "<rect class=\"{class}\" x=\"{LEFT}\" y=\"{top}\" width=\"{width:.1}\" height=\"12\"/>");
    line(body, (LEFT + width as u32 + 6, y), "dim", &percent(share));
}

fn line(body: &mut String, (x, y): (u32, u32), class: &str, text: &str) {
    let _ = write!(body, "<text x=\"{x}\" y=\"{y}\" class=\"{class}\">{}</text>", escaped(text));
}

/// Names are people's own; what XML cannot have is left out.
fn escaped(text: &str) -> String {
    let allowed = text.chars().filter(|letter| !letter.is_control());
    allowed.fold(String::new(), |mut out, letter| {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            other => out.push(other),
        }
        out
    })
}
