//! `evenkeel lab report`: results of a run's trials.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lab::analyze::compare::compare;
use lab::analyze::comparison::Comparison;
use lab::experiment::Experiment;
use lab::report::json::RunReport;
use lab::report::pictures::Picture;
use lab::report::publish::{INDEX_BEGINS, INDEX_ENDS, PublishedPage, empty_index};
use lab::report::{self, page, pictures};
use lab::run::results::Results;

use super::ending::{SYSTEM, USAGE, read};
use crate::failure::{Failure, say};
use crate::terminal::output::print;

/// Exit statuses of `report`.
pub(crate) const STATUSES: [(&str, &str); 5] = [
    ("0", "It was reported, with any result."),
    ("20", "There is nothing to report: no trial has ended yet."),
    USAGE,
    SYSTEM,
    ("1", "Anything else: a file of the run is not what was written."),
];

/// Report what a run's trials have shown
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Arguments {
    /// The directory of the run
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// Print JSON, with the value of every trial, and write no page unless --html is given
    #[arg(long)]
    json: bool,
    /// Where to write the page [default: RUN/report.html; each picture goes to `pictures` next to it]
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Publish it: DIR/NAME.md with the pictures in DIR/NAME, and its row in DIR/README.md. NAME is that of the experiment's
    /// file
    #[arg(long, value_name = "DIR")]
    publish: Option<PathBuf>,
    /// The experiment's file as readers find it, for --publish [default: RUN, but with .toml]
    #[arg(long, value_name = "FILE", requires = "publish")]
    experiment: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let results = read(&arguments.run)?;
    let comparison = compare(&results);
    if let Some(directory) = &arguments.publish {
        return publish(arguments, directory, &results, &comparison);
    }
    if arguments.json {
        print(RunReport::of(&results, &comparison).text().as_bytes())?;
    } else {
        print(report::text(&comparison).as_bytes())?;
    }
    if !arguments.json || arguments.html.is_some() {
        let file = arguments.html.clone().unwrap_or_else(|| arguments.run.join("report.html"));
        let pictures = pictures::pictures(&results, &comparison);
        write_page(&file, &page::page(&results, &comparison, &pictures), &pictures)?;
        say(format_args!("with pictures: {}", file.display()));
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes the page of an experiment, its pictures and values, and its row in the index.
fn publish(
    arguments: &Arguments,
    directory: &Path,
    results: &Results,
    comparison: &Comparison,
) -> Result<ExitCode, Failure> {
    let file = arguments.experiment.clone().unwrap_or_else(|| arguments.run.with_extension("toml"));
    let hint = "`--experiment FILE` names the experiment's file, which readers run";
    let unread = |error| Failure::system(format!("read {}", file.display()), error).hint(hint);
    let notation = fs::read_to_string(&file).map_err(unread)?;
    let experiment = Experiment::parse(&notation).map_err(|error| {
        Failure::other(anyhow::Error::new(error).context(format!("read {}", file.display())))
    })?;
    let (Some(name), Some(shown)) = (file.file_stem().and_then(|name| name.to_str()), file.to_str()) else {
        return Err(Failure::usage(format_args!("{} is no name for a page", file.display()), None));
    };
    let publication = PublishedPage {
        name,
        file: shown,
        notation: &notation,
        experiment: &experiment,
        results,
        comparison,
    };
    let pictures = pictures::pictures(results, comparison);
    let (page, chosen) = publication.page(&pictures);
    let index = directory.join("README.md");
    let text = match fs::read_to_string(&index) {
        Err(error) if error.kind() == ErrorKind::NotFound => empty_index(),
        text => text.map_err(|error| Failure::system(format!("read {}", index.display()), error))?,
    };
    let text = publication.index(&text).ok_or_else(|| {
        let failure = anyhow::anyhow!("{} has no place for a table of experiments", index.display());
        Failure::other(failure).hint(format!("add the lines `{INDEX_BEGINS}` and `{INDEX_ENDS}`"))
    })?;
    let own = directory.join(name);
    make_directory(&own)?;
    remove_pictures(&own)?;
    for picture in chosen {
        write(&own.join(format!("{}.svg", picture.name)), &picture.svg)?;
    }
    write(&own.join("report.json"), &RunReport::of(results, comparison).line())?;
    write(&index, &text)?;
    let path = directory.join(format!("{name}.md"));
    write(&path, &page)?;
    say(format_args!("published: {}", path.display()));
    Ok(ExitCode::SUCCESS)
}

/// Writes a page, and each picture to a file of its own.
pub(super) fn write_page(file: &Path, page: &str, pictures: &[Picture]) -> Result<(), Failure> {
    let directory = file.with_file_name("pictures");
    make_directory(&directory)?;
    for picture in pictures {
        write(&directory.join(format!("{}.svg", picture.name)), &picture.svg)?;
    }
    write(file, page)
}

#[allow(
    clippy::disallowed_methods,
    reason = "the user has named the file, which may be a pipe or a terminal"
)]
fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(|error| Failure::system(format!("write {}", path.display()), error))
}

fn make_directory(path: &Path) -> Result<(), Failure> {
    fs::create_dir_all(path).map_err(|error| Failure::system(format!("make {}", path.display()), error))
}

/// Removes pictures of an earlier run, which may have had others.
#[allow(clippy::disallowed_methods, reason = "the user has named the directory of published pages")]
fn remove_pictures(directory: &Path) -> Result<(), Failure> {
    let failed = |error| Failure::system(format!("remove pictures in {}", directory.display()), error);
    for entry in fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "svg") {
            fs::remove_file(path).map_err(failed)?;
        }
    }
    Ok(())
}
