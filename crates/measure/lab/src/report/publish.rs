//! Published results: a page in Markdown for each experiment, with its pictures, and an index of all. Every figure in them
//! is of the run; what is said about it is the comment at the beginning of the experiment's file.

use std::fmt::Write;

use stdx::calendar::utc;

use super::facts::RunFacts;
use super::pictures::{Picture, cpus_caption};
use super::table::words;
use super::verdict::verdict;
use super::{ReportTable, basis, left_out, remarks, tables};
use crate::analyze::comparison::Comparison;
use crate::experiment::Experiment;
use crate::experiment::design::Design;
use crate::experiment::difference::between;
use crate::run::results::Results;

/// Pictures of CPUs on a page, at most: those of the last condition, which mostly is the heaviest load.
const CPU_PICTURES_MAX: usize = 4;

/// The lines of an index between which the command keeps its table.
pub const INDEX_BEGINS: &str = "<!-- experiments: written by `evenkeel lab report --publish` -->";
/// See [`INDEX_BEGINS`].
pub const INDEX_ENDS: &str = "<!-- end of experiments -->";

/// A result on its way to readers.
pub struct PublishedPage<'r> {
    /// The experiment's name, which its files have.
    pub name: &'r str,
    /// The path of its file, as readers type it.
    pub file: &'r str,
    /// The text of that file, which begins with what the experiment is about.
    pub notation: &'r str,
    /// The experiment in that file.
    pub experiment: &'r Experiment,
    /// What was run.
    pub results: &'r Results,
    /// What that shows.
    pub comparison: &'r Comparison,
}

impl PublishedPage<'_> {
    /// The page, and those of all pictures that are on it.
    pub fn page<'p>(&self, pictures: &'p [Picture]) -> (String, Vec<&'p Picture>) {
        let PublishedPage { name, file, notation, experiment, results, comparison } = self;
        let chosen = chosen(pictures, &results.experiment);
        let mut page = format!(
            "# {name}: {}\n\n<!-- Written by `evenkeel lab report RUN --publish`. What is not a figure comes from the comment at the \
             beginning of {file}. -->\n\n{}\n## The answer\n\n",
            words(&comparison.question),
            introduction(notation),
        );
        for sentence in verdict(comparison) {
            let _ = writeln!(page, "* {}", words(&sentence));
        }
        for Picture { name: picture, caption, .. } in &chosen {
            let _ = writeln!(page, "\n![{caption}]({name}/{picture}.svg)");
        }
        page += "\n## Figures\n";
        let is_noted = |table: &ReportTable| left_out(comparison).as_ref() == Some(table);
        for table in tables(comparison).iter().filter(|table| !is_noted(table)) {
            page += &section(table);
        }
        let _ = write!(
            page,
            "\n{}\n\n## How it was run\n\n```\nevenkeel lab run {file}\n```\n\n",
            words(&basis(comparison))
        );
        let differences = between(experiment, &results.experiment);
        if !differences.is_empty() {
            let _ = writeln!(
                page,
                "It was carried out with differences from that file: {}.\n",
                words(&differences.join("; "))
            );
        }
        let rows = RunFacts::of(results).rows();
        let rows = rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
        page +=
            &ReportTable { title: String::new(), header: vec!["condition", "of this run"], rows }.markdown();
        page.extend(left_out(comparison).iter().chain(&remarks(comparison)).map(section));
        let _ = writeln!(page, "\nThe value of every trial is in [report.json]({name}/report.json).");
        (page, chosen)
    }

    /// The index with this experiment's row; `None` if it has no place for one.
    pub fn index(&self, index: &str) -> Option<String> {
        let (before, rest) = index.split_once(INDEX_BEGINS)?;
        let (table, after) = rest.split_once(INDEX_ENDS)?;
        let link = format!("[{name}]({name}.md)", name = self.name);
        let facts = RunFacts::of(self.results);
        let date: String = utc(facts.began_unix_s).chars().take_while(|c| *c != 'T').collect();
        let answer = verdict(self.comparison).into_iter().next().unwrap_or_default();
        let row = [
            link.clone(),
            words(&self.comparison.question),
            words(&answer),
            format!("{date}, {} trials", facts.trials),
        ];
        let others =
            table.lines().filter(|line| line.starts_with("| [") && !line.starts_with(&format!("| {link} |")));
        let mut rows: Vec<String> = others.map(str::to_owned).collect();
        rows.push(format!("| {} |", row.join(" | ")));
        rows.sort();
        let head = "| experiment | question | the first sentence of its answer | of |\n|---|---|---|---|";
        Some(format!("{before}{INDEX_BEGINS}\n\n{head}\n{}\n\n{INDEX_ENDS}{after}", rows.join("\n")))
    }
}

/// An index without a row.
pub fn empty_index() -> String {
    format!("# Experiments and their results\n\n{INDEX_BEGINS}\n{INDEX_ENDS}\n")
}

/// Pictures for readers who have not run it: of CPUs a few, and seconds only for whoever looks for a fault.
fn chosen<'p>(pictures: &'p [Picture], experiment: &Experiment) -> Vec<&'p Picture> {
    let design = Design::of(experiment);
    let last = design.condition_names().pop().unwrap_or_default();
    let cpus =
        design.cells.iter().filter(|cell| cell.condition == last).take(CPU_PICTURES_MAX).map(cpus_caption);
    let cpus: Vec<String> = cpus.collect();
    let is_chosen = |it: &&Picture| match it.name.split('-').next() {
        Some("cpus") => cpus.contains(&it.caption),
        kind => kind != Some("seconds"),
    };
    pictures.iter().filter(is_chosen).collect()
}

/// The comment at the beginning of an experiment's file, which is Markdown.
fn introduction(notation: &str) -> String {
    let lines = notation.lines().map_while(|line| line.strip_prefix('#'));
    let lines = lines.map(|line| line.strip_prefix(' ').unwrap_or(line).trim_end());
    lines.map(|line| format!("{line}\n")).collect()
}

fn section(table: &ReportTable) -> String {
    format!("\n### {}\n\n{}", words(&table.title), table.markdown())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_about_an_experiment_is_the_comment_that_its_file_begins_with() {
        let text = introduction(
            "# What it is\n# about.\n#\n#     evenkeel lab run a.toml\n#\n# More.\nquestion = \"?\"\n# not this\n",
        );
        assert_eq!(text, "What it is\nabout.\n\n    evenkeel lab run a.toml\n\nMore.\n");
        assert_eq!(introduction("question = \"?\"\n"), "");
    }
}
