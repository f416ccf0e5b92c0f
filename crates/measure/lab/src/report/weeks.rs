//! Reports of a service week over week: a table for a terminal, a page with pictures, JSON.

use serde::Serialize;
use stdx::calendar::{DAY_S, utc};

use super::page::STYLE;
use super::picture::weeks::{timeline, week_over_week};
use super::pictures::{Picture, plain};
use super::table::markup;
use super::verdict::class;
use super::{ReportTable, span};
use crate::record::quantity::{Unit, chance, change, number};
use crate::weeks::{DAYS_MIN, ServiceChange, ServiceSeries, WeeksReport, whole_days};

/// The report for a terminal.
pub fn text(report: &WeeksReport) -> String {
    let sentences: String =
        sentences(report).into_iter().map(|(_, sentence)| format!("  {sentence}\n")).collect();
    format!("Before and after\n{sentences}\n{}\n{BASIS}\n", table(report))
}

/// How it is judged.
const BASIS: &str = "The unit is the whole day, in UTC, less those on which something was rolled out. The ratio is without what days of \
                     the week differ by; interval and p allow for days that resemble their neighbours; all intervals hold together \
                     with 95 %. Nothing here knows what else has changed at the same time.";

/// A sentence for each figure and annotation, with the class of its verdict.
fn sentences(report: &WeeksReport) -> Vec<(&'static str, String)> {
    let sentence = |it: &ServiceChange| {
        let annotation = &report.annotations[it.annotation].text;
        let unit = unit(it);
        let (before, after) = (
            it.before.map(|value| number(value * unit.factor)),
            it.after.map(|value| number(value * unit.factor)),
        );
        let [days_before, days_after] = it.days;
        let sentence = match (it.ratio, before.zip(after)) {
            (Some(ratio), Some((before, after))) => format!(
                "{}: {before} before “{annotation}” and {after} after it, {} ({}), p {}: {}.",
                unit.title,
                change(ratio.middle),
                span(ratio, change),
                chance(it.p),
                it.verdict.words()
            ),
            _ if days_before.min(days_after) < DAYS_MIN => format!(
                "{}: too few days to tell what “{annotation}” has changed: {days_before} whole days before and {days_after} \
                 after, where {DAYS_MIN} of each are needed.",
                unit.title
            ),
            _ => {
                format!("{}: not compared around “{annotation}”: a ratio needs days above zero.", unit.title)
            }
        };
        (class(it.verdict), sentence)
    };
    if report.changes.is_empty() {
        return vec![("none", "Nothing is compared: `--annotate TIME=TEXT` tells what happened.".to_owned())];
    }
    report.changes.iter().map(sentence).collect()
}

fn unit(it: &ServiceChange) -> Unit {
    Unit::of(&it.name, it.before.unwrap_or(0.0).max(it.after.unwrap_or(0.0)))
}

fn table(report: &WeeksReport) -> ReportTable {
    let row = |it: &ServiceChange| {
        let unit = unit(it);
        let value =
            |value: Option<f64>| value.map_or("unknown".to_owned(), |value| number(value * unit.factor));
        let annotation = &report.annotations[it.annotation];
        vec![
            unit.title.clone(),
            annotation.text.clone(),
            utc(annotation.from_unix_s),
            format!("{}, {}", it.days[0], it.days[1]),
            value(it.before),
            value(it.after),
            it.ratio.map_or(String::new(), |ratio| change(ratio.middle)),
            it.ratio.map_or(String::new(), |ratio| span(ratio, change)),
            it.ratio.map_or(String::new(), |_| chance(it.p)),
            it.verdict.words().to_owned(),
        ]
    };
    ReportTable {
        title: format!("Medians of whole days; below {} % does not matter", number(report.band * 100.0)),
        header: vec!["figure", "what", "from", "days", "before", "after", "change", "(95 %)", "p", "verdict"],
        rows: report.changes.iter().map(row).collect(),
    }
}

/// All pictures: each figure around each annotation, and day by day.
pub fn pictures(series: &[ServiceSeries], report: &WeeksReport) -> Vec<Picture> {
    let of_series = |series: &ServiceSeries| {
        let around = |place: usize| {
            let annotation = &report.annotations[place];
            Some(Picture {
                name: format!("week-{}-{}", series.name, place + 1),
                caption: format!("{} week over week around {}", plain(&series.name), annotation.text),
                svg: week_over_week(series, &report.annotations, place)?,
            })
        };
        let all = timeline(series, report).map(|svg| Picture {
            name: format!("days-{}", series.name),
            caption: format!("{} day by day", plain(&series.name)),
            svg,
        });
        (0..report.annotations.len()).filter_map(around).chain(all).collect::<Vec<_>>()
    };
    series.iter().flat_map(of_series).collect()
}

/// The page, which needs nothing else.
pub fn page(report: &WeeksReport, pictures: &[Picture]) -> String {
    let sentence =
        |(class, sentence): (&str, String)| format!("<p class=\"{class}\">{}</p>\n", markup(&sentence));
    let sentences: String = sentences(report).into_iter().map(sentence).collect();
    let figures: String = pictures
        .iter()
        .map(|it| {
            format!("<figure id=\"{}\" aria-label=\"{}\">{}</figure>\n", it.name, markup(&it.caption), it.svg)
        })
        .collect();
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\"><title>A service week over week</title>\n<style>{STYLE}</style></head>\n\
         <body>\n<h1>A service week over week</h1>\n<section class=\"verdict\">\n{sentences}</section>\n{}\
         <p class=\"basis\">{BASIS}</p>\n<div class=\"pictures\">\n{figures}</div>\n</body></html>\n",
        table(report).html()
    )
}

/// The report as JSON, with the median of each whole day.
pub fn json(series: &[ServiceSeries], report: &WeeksReport) -> String {
    #[derive(Serialize)]
    struct Weeks<'r> {
        format: u32,
        figures: Vec<DailyFigure<'r>>,
        #[serde(flatten)]
        report: &'r WeeksReport,
    }
    #[derive(Serialize)]
    struct DailyFigure<'r> {
        name: &'r str,
        days: Vec<(u64, f64)>,
    }
    let days = |it: &ServiceSeries| {
        whole_days(&it.points).into_iter().map(|(day, value)| (day * DAY_S, value)).collect()
    };
    let figures = series.iter().map(|it| DailyFigure { name: &it.name, days: days(it) }).collect();
    format!("{:#}\n", serde_json::json!(Weeks { format: 1, figures, report }))
}
