//! A figure of a service: this week over the week before around a roll-out, and all days.

use stdx::calendar::{DAY_S, day};
use stdx::statistics::median;

use super::axis::AxisScale;
use super::canvas::{Anchor, Canvas, Lettering, SMALL, WIDTH, letters_in, width_of};
use super::{DIM, INK, RULE, SERIES, color_of, short};
use crate::analyze::verdict::Verdict;
use crate::record::quantity::{Better, Unit, better};
use crate::weeks::{Annotation, ServiceChange, ServiceSeries, WeeksReport, whole_days};

const WEEK_S: u64 = 7 * DAY_S;

/// Columns of a week; each is the median of its points.
const COLUMNS: u64 = 336;

const LEFT: f64 = 74.0;
const RIGHT: f64 = WIDTH - 20.0;
const HEIGHT: f64 = 240.0;

/// Colours of this week, the week before, and a name's letters at most.
const NOW: &str = SERIES[0];
const BEFORE: &str = SERIES[6];
const TEXT_MAX: usize = 40;

/// The week around an annotation over the week before it, at the same time of the same weekday; what lies between is
/// shaded as better or worse. `None` without points of both.
pub fn week_over_week(series: &ServiceSeries, annotations: &[Annotation], place: usize) -> Option<String> {
    let own = &annotations[place];
    let last = series.points.last()?.0;
    let end = (own.from_unix_s + WEEK_S / 2).min(last.max(own.to_unix_s));
    let from = end.saturating_sub(WEEK_S);
    let now = columns(&series.points, from);
    let before = columns(&series.points, from.checked_sub(WEEK_S)?);
    let values = || now.iter().chain(&before).flatten().copied();
    if now.iter().flatten().count() == 0 || before.iter().flatten().count() == 0 {
        return None;
    }
    let unit = Unit::of(&series.name, values().fold(0.0, f64::max));
    let note = AxisScale::of(values(), (0.0, 1.0)).note();
    let remark = format!("At the same time of the same weekday, in UTC; medians of half hours{note}.");
    let mut canvas = Canvas::new(&format!("{}, week over week", unit.title), &remark);
    let mut legend = vec![("this week".to_owned(), NOW), ("the week before".to_owned(), BEFORE)];
    if better(&series.name).is_some() {
        legend.extend([
            ("better".to_owned(), color_of(Verdict::Better)),
            ("worse".to_owned(), color_of(Verdict::Worse)),
        ]);
    }
    canvas.legend_of(&legend);
    let x_scale = AxisScale::between(from as f64, (from + WEEK_S) as f64, (LEFT, RIGHT));
    let shown: Vec<&Annotation> =
        annotations.iter().filter(|it| it.to_unix_s >= from && it.from_unix_s <= from + WEEK_S).collect();
    let (top, bottom) = plot(&mut canvas, &x_scale, &shown);
    let y_scale = AxisScale::of(values().map(|value| value * unit.factor), (bottom, top));
    days(&mut canvas, &x_scale, (from, from + WEEK_S), (top, bottom));
    y_scale.draw_beside(&mut canvas, LEFT, RIGHT);
    let width = (RIGHT - LEFT) / COLUMNS as f64;
    let at =
        |column: usize, value: f64| (LEFT + (column as f64 + 0.5) * width, y_scale.at(value * unit.factor));
    shade(&mut canvas, (&now, &before), better(&series.name), at);
    for (line, color) in [(&before, BEFORE), (&now, NOW)] {
        for run in runs(line) {
            let path: Vec<(f64, f64)> = run.iter().map(|(column, value)| at(*column, *value)).collect();
            canvas.line(&path, color, 1.8, 1.0);
        }
    }
    canvas.bottom = bottom + 22.0;
    Some(canvas.finish())
}

/// All days with their medians, and the medians before and after each annotation. `None` without a whole day.
pub fn timeline(series: &ServiceSeries, report: &WeeksReport) -> Option<String> {
    let points: Vec<(u64, f64)> = whole_days(&series.points);
    let (first, last) = (points.first()?.0 * DAY_S, (points.last()?.0 + 1) * DAY_S);
    let changes: Vec<&ServiceChange> =
        report.changes.iter().filter(|change| change.name == series.name).collect();
    let unit = Unit::of(&series.name, points.iter().map(|point| point.1).fold(0.0, f64::max));
    let values = || points.iter().map(|point| point.1 * unit.factor);
    let note = AxisScale::of(values(), (0.0, 1.0)).note();
    let remark = format!("The median of each whole day, in UTC, and of the days before and after{note}.");
    let mut canvas = Canvas::new(&format!("{}, day by day", unit.title), &remark);
    let x_scale = AxisScale::between(first as f64, last as f64, (LEFT, RIGHT));
    let shown: Vec<&Annotation> =
        report.annotations.iter().filter(|it| it.to_unix_s >= first && it.from_unix_s <= last).collect();
    let (top, bottom) = plot(&mut canvas, &x_scale, &shown);
    let y_scale = AxisScale::of(values(), (bottom, top));
    days(&mut canvas, &x_scale, (first, last), (top, bottom));
    y_scale.draw_beside(&mut canvas, LEFT, RIGHT);
    let edge = |place: Option<usize>, end: fn(&Annotation) -> u64, without: u64| {
        place.and_then(|place| report.annotations.get(place)).map_or(without, end).clamp(first, last) as f64
    };
    for change in changes {
        let place = change.annotation;
        let sides = [
            (
                change.before,
                edge(place.checked_sub(1), |it| it.to_unix_s, first),
                edge(Some(place), |it| it.from_unix_s, last),
            ),
            (
                change.after,
                edge(Some(place), |it| it.to_unix_s, first),
                edge(Some(place + 1), |it| it.from_unix_s, last),
            ),
        ];
        for (level, from, to) in sides {
            if let Some(level) = level {
                let y = y_scale.at(level * unit.factor);
                canvas.line(&[(x_scale.at(from), y), (x_scale.at(to), y)], SERIES[1], 2.0, 1.0);
            }
        }
    }
    for (day, value) in &points {
        let noon = (day * DAY_S + DAY_S / 2) as f64;
        canvas.dot((x_scale.at(noon), y_scale.at(value * unit.factor)), 3.5, NOW, 1.0);
    }
    canvas.bottom = bottom + 22.0;
    Some(canvas.finish())
}

/// The annotations with their texts in as many lines as they take, and below them room for a plot: its top and bottom.
fn plot(canvas: &mut Canvas, x_scale: &AxisScale, annotations: &[&Annotation]) -> (f64, f64) {
    let mut lines: Vec<f64> = Vec::new();
    let mut texts: Vec<(f64, usize, String)> = Vec::new();
    for annotation in annotations {
        let text = short(&annotation.text, TEXT_MAX.min(letters_in(RIGHT - LEFT, SMALL)));
        let half = width_of(&text, SMALL) / 2.0;
        let x = x_scale.at(annotation.from_unix_s as f64).clamp(10.0 + half, WIDTH - 10.0 - half);
        let line = lines.iter().position(|end| x - half > end + 8.0).unwrap_or(lines.len());
        lines.resize(lines.len().max(line + 1), 0.0);
        lines[line] = x + half;
        texts.push((x, line, text));
    }
    let first = canvas.bottom;
    let top = first + 14.0 * lines.len() as f64 + 6.0;
    let bottom = top + HEIGHT;
    for (annotation, (x, line, text)) in annotations.iter().zip(texts) {
        let y = first + 14.0 * line as f64 + 7.0;
        canvas.text((x, y), &text, Lettering::SMALL.colored(INK).bold().at(Anchor::Middle));
        let (from, to) = (x_scale.at(annotation.from_unix_s as f64), x_scale.at(annotation.to_unix_s as f64));
        canvas.rect((from, top), (to - from, HEIGHT), INK, 0.1);
        // Not through the texts of the lines below.
        canvas.line(&[(from, top - 4.0), (from, bottom)], INK, 1.5, 1.0);
    }
    (top, bottom)
}

/// Rules at midnight, and the names of as many days as there is room for.
fn days(canvas: &mut Canvas, x_scale: &AxisScale, (from, to): (u64, u64), (top, bottom): (f64, f64)) {
    let first = from.div_ceil(DAY_S);
    let midnights = first..=to / DAY_S;
    let room = (RIGHT - LEFT) / ((to - from) as f64 / DAY_S as f64);
    let every = (width_of("Wed 30 Sep  ", SMALL) / room).ceil().max(1.0) as u64;
    for midnight in midnights {
        let x = x_scale.at((midnight * DAY_S) as f64);
        if (midnight - first).is_multiple_of(every) {
            canvas.line(&[(x, top), (x, bottom)], RULE, 1.0, 1.0);
            let noon = x + room / 2.0;
            if midnight * DAY_S + DAY_S <= to {
                canvas.text(
                    (noon, bottom + 12.0),
                    &day(midnight * DAY_S),
                    Lettering::SMALL.at(Anchor::Middle),
                );
            }
        }
    }
    canvas.line(&[(LEFT, bottom), (RIGHT, bottom)], DIM, 1.0, 1.0);
}

/// The week that begins there in columns; one without a point is not known.
fn columns(points: &[(u64, f64)], from: u64) -> Vec<Option<f64>> {
    let begins = points.partition_point(|point| point.0 < from);
    let own = &points[begins..points.partition_point(|point| point.0 < from + WEEK_S)];
    let mut columns = vec![None; COLUMNS as usize];
    let column = |unix_s: u64| ((unix_s - from) * COLUMNS / WEEK_S) as usize;
    for part in own.chunk_by(|a, b| column(a.0) == column(b.0)) {
        let values: Vec<f64> = part.iter().map(|point| point.1).collect();
        columns[column(part[0].0)] = Some(median(&values));
    }
    columns
}

/// Columns without a gap between them.
fn runs(columns: &[Option<f64>]) -> Vec<Vec<(usize, f64)>> {
    let known = columns.iter().enumerate().map(|(column, value)| value.map(|value| (column, value)));
    let all: Vec<Option<(usize, f64)>> = known.collect();
    all.split(Option::is_none)
        .filter(|run| !run.is_empty())
        .map(|run| run.iter().flatten().copied().collect())
        .collect()
}

/// What lies between the two weeks, in the colour of what it means.
fn shade(
    canvas: &mut Canvas,
    (now, before): (&[Option<f64>], &[Option<f64>]),
    better: Option<Better>,
    at: impl Fn(usize, f64) -> (f64, f64),
) {
    let pair = |column: usize| now[column].zip(before[column]);
    let verdict = |now: f64, before: f64| match better {
        None => Verdict::Different,
        Some(better) if (now < before) == (better == Better::Lower) => Verdict::Better,
        Some(_) => Verdict::Worse,
    };
    let columns: Vec<usize> = (0..now.len()).filter(|column| pair(*column).is_some()).collect();
    let alike = |a: &usize, b: &usize| {
        let of = |column: usize| pair(column).map(|(now, before)| verdict(now, before));
        b - a == 1 && of(*a) == of(*b)
    };
    for run in columns.chunk_by(alike) {
        let sides =
            |side: fn((f64, f64)) -> f64| run.iter().filter_map(move |it| Some((*it, side(pair(*it)?))));
        let there = sides(|(now, _)| now).map(|(column, value)| at(column, value));
        let mut back: Vec<(f64, f64)> =
            sides(|(_, before)| before).map(|(column, value)| at(column, value)).collect();
        back.reverse();
        let (now, before) = pair(run[0]).expect("it was filtered");
        canvas.area(&there.chain(back).collect::<Vec<_>>(), color_of(verdict(now, before)), 0.25);
    }
}
