//! `evenkeel lab weeks`: a running service before and after its roll-outs.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lab::report::weeks as report;
use lab::weeks::prometheus::{ServiceFigure, parse_answers, paths, usual_figures};
use lab::weeks::samples::parse_samples;
use lab::weeks::{Annotation, ServiceSeries, compare_weeks};
use stdx::calendar::{DAY_S, parse_utc};

use super::ending::{SYSTEM_OR_SERVER, UNSEEN, USAGE};
use super::report::write_page;
use crate::failure::{Failure, say};
use crate::peers::prometheus::PrometheusServer;
use crate::terminal::output::print;

/// Exit statuses of `weeks`.
pub(crate) const STATUSES: [(&str, &str); 5] = [
    ("0", "It was shown, with any result."),
    ("20", "There is nothing to show: no figure has a point in this time."),
    USAGE,
    SYSTEM_OR_SERVER,
    ("1", "Anything else: Prometheus refuses an expression, a line of the file is not what was expected."),
];

/// Bytes of a file of samples, at most.
const SAMPLES_LEN_MAX: u64 = 64 << 20;

/// Show figures of a running service before and after its roll-outs, week over week
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Arguments {
    /// Ask this Prometheus: http://HOST:PORT or https://HOST:PORT, with a path if its API is below one
    #[arg(long, value_name = "URL", value_parser = PrometheusServer::parse, required_unless_present = "samples")]
    prometheus: Option<PrometheusServer>,
    /// A file with authorities (PEM) for https [default: those that this system trusts]
    #[arg(long, value_name = "FILE", requires = "prometheus")]
    tls_ca: Option<PathBuf>,
    /// A file with a token, sent as `Authorization: Bearer`
    #[arg(long, value_name = "FILE", requires = "prometheus")]
    token_file: Option<PathBuf>,
    /// Read lines of JSON in place of it: {"unix_s": 1795279200, "client_p99_us": 812, "wait_share": 0.02}
    #[arg(long, value_name = "FILE", conflicts_with = "prometheus")]
    samples: Option<PathBuf>,
    /// Matchers of labels for the usual figures, such as job="cache"
    #[arg(
        long,
        value_name = "MATCHERS",
        default_value = "",
        hide_default_value = true,
        requires = "prometheus"
    )]
    select: String,
    /// A figure in place of the usual ones: a name that ends with its unit (_s, _us, _share, _per_second) and an expression
    /// with one series as its result; may be repeated
    #[arg(long = "figure", value_name = "NAME=EXPRESSION", value_parser = ServiceFigure::parse, requires = "prometheus")]
    figures: Vec<ServiceFigure>,
    /// What was rolled out, and when: 2026-11-21T10:00Z=TEXT, or TIME/TIME=TEXT if it took a while; may be repeated
    #[arg(long = "annotate", value_name = "TIME=TEXT", value_parser = Annotation::parse)]
    annotations: Vec<Annotation>,
    /// How many weeks to look at
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=52))]
    weeks: u64,
    /// The end of the last week [default: now]
    #[arg(long, value_name = "TIME", value_parser = time)]
    end: Option<u64>,
    /// Seconds from point to point
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = clap::value_parser!(u64).range(15..=3600), requires = "prometheus")]
    step: u64,
    /// Relative differences below this do not matter
    #[arg(long, value_name = "SHARE", default_value_t = 0.02, value_parser = share)]
    equivalent: f64,
    /// Also write a page with pictures, and each picture to `pictures` next to it
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print JSON, with the median of each day
    #[arg(long)]
    json: bool,
}

fn time(text: &str) -> Result<u64, String> {
    parse_utc(text).ok_or_else(|| "expected a time such as 2026-11-21 or 2026-11-21T10:00Z".to_owned())
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..1.0).contains(share));
    share.ok_or_else(|| "expected a number from 0 to below 1".to_owned())
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let to = arguments.end.unwrap_or_else(os::clock::unix_s);
    let from = to.saturating_sub(arguments.weeks * 7 * DAY_S);
    let mut series = match (&arguments.samples, &arguments.prometheus) {
        (Some(file), _) => of_file(file)?,
        (None, Some(server)) => of_prometheus(arguments, server, (from, to))?,
        (None, None) => unreachable!("the command line asks for one of them"),
    };
    for series in &mut series {
        series.points.retain(|(unix_s, _)| (from..=to).contains(unix_s));
        if series.points.is_empty() {
            say(format_args!("{}: not known in this time", series.name));
        }
    }
    series.retain(|series| !series.points.is_empty());
    if series.is_empty() {
        let failure = Failure::other(anyhow::anyhow!("no figure has a point in this time"));
        let hint = "`--end` and `--weeks` choose the time, `--select` the servers, `--figure` other figures";
        return Err(failure.with_status(UNSEEN).hint(hint));
    }
    let compared = compare_weeks(&series, &arguments.annotations, arguments.equivalent);
    let text = if arguments.json { report::json(&series, &compared) } else { report::text(&compared) };
    print(text.as_bytes())?;
    if let Some(file) = &arguments.html {
        let pictures = report::pictures(&series, &compared);
        write_page(file, &report::page(&compared, &pictures), &pictures)?;
        say(format_args!("with pictures: {}", file.display()));
    }
    Ok(ExitCode::SUCCESS)
}

fn of_file(path: &Path) -> Result<Vec<ServiceSeries>, Failure> {
    let failed = |error| Failure::system(format!("read {}", path.display()), error);
    let mut text = String::new();
    let file = File::open(path).map_err(failed)?;
    file.take(SAMPLES_LEN_MAX + 1).read_to_string(&mut text).map_err(failed)?;
    let wrong = |why: &str| Failure::other(anyhow::anyhow!("read {}: {why}", path.display()));
    if text.len() as u64 > SAMPLES_LEN_MAX {
        return Err(wrong(&format!("expected at most {} MiB", SAMPLES_LEN_MAX >> 20)));
    }
    parse_samples(&text).map_err(|why| wrong(&why))
}

fn of_prometheus(
    arguments: &Arguments,
    server: &PrometheusServer,
    (from, to): (u64, u64),
) -> Result<Vec<ServiceSeries>, Failure> {
    let client = server.client(arguments.tls_ca.as_deref(), arguments.token_file.as_deref())?;
    let figures = match &*arguments.figures {
        [] => usual_figures(&arguments.select, arguments.step),
        figures => figures.to_vec(),
    };
    let series = |figure: &ServiceFigure| {
        let get = |path: String| {
            client
                .get(&path)
                .map_err(|error| Failure::system(format!("ask {server} for {}", figure.name), error))
        };
        let answers = paths(figure, from, to, arguments.step).into_iter().map(get);
        let answers = answers.collect::<Result<Vec<String>, Failure>>()?;
        parse_answers(figure, &answers).map_err(|why| {
            let failure = Failure::other(anyhow::anyhow!("ask {server} for {}: {why}", figure.name));
            failure.hint(format!("the expression is {}", figure.expression))
        })
    };
    figures.iter().map(series).collect()
}
