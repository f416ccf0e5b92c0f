//! What a history says, for people.

use super::Table;
use crate::gate::Suspicion;
use crate::history::Series;
use crate::quantity::{chance, change, number, title};

/// All series, a table for each experiment and machine.
pub fn history(series: &[Series]) -> String {
    if series.is_empty() {
        return "No run is kept yet: `evenkeel lab history --add RUN --commit COMMIT` keeps one.\n"
            .to_owned();
    }
    let same = |a: &Series, b: &Series| (&a.experiment, &a.machine) == (&b.experiment, &b.machine);
    let tables = series.chunk_by(same).map(|series| Table {
        title: format!("{} ({})", series[0].experiment, series[0].machine),
        header: vec!["metric", "cell", "runs", "newest", "commit", "against the first", "since the first"],
        rows: series.iter().map(row).collect(),
    });
    tables.map(|table| table.to_string()).collect::<Vec<_>>().join("\n")
}

fn row(series: &Series) -> Vec<String> {
    let (first, newest) = (&series.points[0], &series.points[series.points.len() - 1]);
    vec![
        title(&series.metric),
        series.cell.clone(),
        series.points.len().to_string(),
        number(newest.median.middle),
        newest.commit.clone(),
        if first.median.middle > 0.0 {
            change(newest.median.middle / first.median.middle)
        } else {
            String::new()
        },
        series.sparkline(),
    ]
}

/// What seems to have become worse, and what a rerun says to it.
pub fn suspicion(suspicion: &Suspicion, confirmed: Option<bool>) -> String {
    let (series, point) = (&suspicion.series, &suspicion.change);
    let (good, bad) = (suspicion.last_good(), suspicion.culprit());
    let kernel = if good.kernel == bad.kernel {
        String::new()
    } else {
        format!(" The kernel changed, too: {} before, {} since.", good.kernel, bad.kernel)
    };
    let answer = match confirmed {
        Some(true) => "A rerun confirms it.",
        Some(false) => "A rerun does not confirm it.",
        None => "No rerun was there to confirm it.",
    };
    format!(
        "{}, {}, on {}: {} became worse, {} ({} to {}; p {}).\n  Good at {}, worse since {}.{kernel}\n  {answer}\n  {}\n",
        series.experiment,
        series.cell,
        series.machine,
        title(&series.metric),
        change(point.after / point.before),
        number(point.before),
        number(point.after),
        chance(point.p),
        good.commit,
        bad.commit,
        series.sparkline(),
    )
}
