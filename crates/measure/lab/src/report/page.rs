//! HTML report of a run, one self-contained page: verdict and the table that decides, pictures, other tables, the
//! conditions of the run.

use super::facts::RunFacts;
use super::pictures::Picture;
use super::table::markup;
use super::verdict::sentences;
use super::{basis, remarks, tables};
use crate::analyze::comparison::Comparison;
use crate::run::results::Results;

/// The page.
pub fn page(results: &Results, comparison: &Comparison, pictures: &[Picture]) -> String {
    let question = markup(&comparison.question);
    let sentences: String = sentences(comparison)
        .iter()
        .map(|(mark, sentence)| format!("<p class=\"{}\">{}</p>\n", mark.class(), markup(sentence)))
        .collect();
    let tables = tables(comparison);
    let (deciding, others) = tables.split_first().expect("the metric that decides has a table");
    let others: String = others.iter().chain(&remarks(comparison)).map(super::ReportTable::html).collect();
    let figures = match pictures {
        [] => "<p class=\"basis\">No trial that counts has figures to draw.</p>\n".to_owned(),
        pictures => pictures.iter().map(figure).collect(),
    };
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\"><title>{question}</title>\n<style>{STYLE}</style></head>\n<body>\n\
         <h1>{question}</h1>\n<section class=\"verdict\">\n{sentences}</section>\n{}<p class=\"basis\">{}</p>\n\
         <h2>Pictures</h2>\n<div class=\"pictures\">\n{figures}</div>\n<h2>Other tables</h2>\n{others}\
         <h2>How it was run</h2>\n{}<pre>{}</pre>\n</body></html>\n",
        deciding.html(),
        markup(&basis(comparison)),
        conditions(results),
        markup(results.notation.trim()),
    )
}

fn figure(Picture { name, svg, .. }: &Picture) -> String {
    format!("<figure id=\"{name}\">{svg}</figure>\n")
}

/// The style of this page and of the trends page.
pub(super) const STYLE: &str = "\
 :root { color-scheme: light dark; --rule: #d8dbdf; --dim: #6b7280; --good: #007a5a; --bad: #b84700; --other: #005f99 }\
 @media (prefers-color-scheme: dark) { :root { --rule: #3a4047; --dim: #9aa1ab; --good: #3fc79a; --bad: #ff9a57;\
 --other: #6bb8f0 } }\
 body { font: 15px/1.5 system-ui, sans-serif; max-width: 88rem; margin: 2rem auto; padding: 0 1.5rem; overflow-wrap: anywhere }\
 h1 { font-size: 1.6rem } h2 { margin-top: 2.5rem } h3 { font-size: 1rem; margin-bottom: .4rem }\
 .verdict p { font-size: 1.1rem; border-left: 5px solid var(--dim); padding-left: .9rem; margin: .5rem 0 }\
 .verdict p.better { border-color: var(--good) } .verdict p.worse, .verdict p.warning { border-color: var(--bad) }\
 .verdict p.different { border-color: var(--other) } .verdict p.warning { color: var(--bad); font-weight: 600 }\
 .pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 34rem), 1fr)); gap: 1.2rem;\
 align-items: start } figure { margin: 0; overflow-x: auto } svg { width: 100%; min-width: 34rem; max-width: 52rem; height: auto }\
 .wide { overflow-x: auto }\
 table { border-collapse: collapse } th, td { text-align: left; padding: .2rem .7rem; border-bottom: 1px solid var(--rule);\
 white-space: nowrap } .sparks { font-size: .6rem } .long { white-space: normal; min-width: 24rem } .n { text-align: right; font-variant-numeric: tabular-nums }\
 tr[class] td:last-child { font-weight: 600 } tr.better td:last-child { color: var(--good) }\
 tr.worse td:last-child { color: var(--bad) } tr.different td:last-child { color: var(--other) }\
 tr.none td:last-child { color: var(--dim); font-weight: 400 } .basis { color: var(--dim) } pre { overflow-x: auto; border: 1px solid var(--rule); padding: 1rem }";

fn conditions(results: &Results) -> String {
    let row =
        |(name, value): (&str, String)| format!("<tr><th>{name}</th><td>{}</td></tr>\n", markup(&value));
    let rows: String = RunFacts::of(results).rows().into_iter().map(row).collect();
    format!("<table>\n{rows}</table>\n")
}
