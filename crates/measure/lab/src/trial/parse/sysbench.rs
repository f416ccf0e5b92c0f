//! The output of `sysbench … --report-interval=1`: OLTP, file I/O, and tests that only count events.
//!
//! Its summary has the warm-up in it (Debian's 1.0.20 has no `--warmup-time`), so figures come from the lines of the
//! seconds: the rate is their mean, and the percentile (`--percentile`) that of the median second.

use super::output::{About, Doubt, LoadFigures, LoadResults, typical};

/// The share of transactions that may end with an error that sysbench passes over. These are deadlocks and waits for a lock: a database
/// under a mixed load always has a few. What they change of a rate is less than what a report calls a difference.
const PASSED_OVER_MAX: f64 = 0.01;

pub(super) fn parse(text: &str, warm_up_s: f64) -> Result<LoadResults, String> {
    let seconds: Vec<(f64, LoadFigures)> = text.lines().filter_map(second).collect();
    let metrics = typical(&seconds, warm_up_s);
    if metrics.is_empty() {
        return Err(format!(
            "find lines such as `[ 1s ] thds: 1 tps: …` after the first {warm_up_s} s; sysbench prints them with --report-interval=1"
        ));
    }
    // It does not always print the last second.
    let total_s = text.lines().find_map(|line| number(line.trim().strip_prefix("total time:")?));
    let end_s = total_s.unwrap_or_else(|| seconds.last().map_or(0.0, |(at_s, _)| *at_s));
    let rate = |name: &str| metrics.get(name).copied().unwrap_or(0.0);
    let (errors, transactions) = (rate("errors_per_second"), rate("transactions_per_second"));
    let doubt = (errors > PASSED_OVER_MAX * transactions).then(|| Doubt {
        why: format!(
            "errors: sysbench had {errors:.1} errors per second, and {transactions:.0} transactions without one"
        ),
        about: About::All,
    });
    Ok(LoadResults { metrics, seconds, end_s, doubts: doubt.into_iter().collect() })
}

/// `[ 7s ] thds: 2 tps: 13.5 qps: 270.1 (r/w/o: 189.0/54.0/27.0) lat (ms,99%): 2.97 err/s: 0.00 reconn/s: 0.00`
fn second(line: &str) -> Option<(f64, LoadFigures)> {
    let (at, rest) = line.strip_prefix('[')?.split_once(']')?;
    let at_s = number(at)?;
    let mut figures = LoadFigures::new();
    let mut set = |name: &str, figure: f64| figures.insert(name.to_owned(), figure);
    // Names end with a colon; `lat (ms,99%):` is two words.
    let words: Vec<&str> = rest.split_whitespace().collect();
    let (mut reads, mut writes) = (None, None);
    for pair in words.windows(2) {
        let Some(value) = number(pair[1]) else { continue };
        match pair[0] {
            "tps:" => drop(set("transactions_per_second", value)),
            "qps:" => drop(set("requests_per_second", value)),
            "eps:" => drop(set("requests_per_second", value)),
            "err/s:" => drop(set("errors_per_second", value)),
            "reads:" => reads = Some(value),
            "writes:" => writes = Some(value),
            "fsyncs:" => drop(set("fsyncs_per_second", value)),
            unit => {
                if let Some(percentile) = unit.strip_prefix("(ms,").and_then(|unit| unit.strip_suffix("%):"))
                {
                    set(&format!("p{}_us", percentile.replace('.', "")), value * 1000.0);
                }
            }
        }
    }
    if let Some(bytes) = reads {
        set("read_mib_per_second", bytes);
    }
    if let Some(bytes) = writes {
        set("written_mib_per_second", bytes);
    }
    if let (Some(reads), Some(writes)) = (reads, writes) {
        set("mib_per_second", reads + writes);
    }
    (!figures.is_empty()).then_some((at_s, figures))
}

/// The number that a text begins with, after blanks.
fn number(text: &str) -> Option<f64> {
    let text = text.trim();
    let len = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    text[..len].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn results(text: &str, warm_up_s: f64) -> LoadResults {
        parse(text, warm_up_s).expect("figures")
    }

    #[test]
    fn transactions_of_seconds_after_the_warm_up_count() {
        let results = results(include_str!("fixtures/sysbench-1.0.20-oltp_point_select.txt"), 2.0);
        assert_eq!((results.seconds.len(), results.end_s), (5, 6.0242));
        assert_eq!(results.seconds[0].1["p99_us"], 2970.0);
        let mean = (10937.12 + 17846.59 + 15526.68) / 3.0;
        assert_eq!(results.metrics["transactions_per_second"], mean);
        assert_eq!(results.metrics["requests_per_second"], mean);
        assert_eq!((results.metrics["p99_us"], results.doubts.len()), (2860.0, 0));
    }

    #[test]
    fn files_are_read_and_written() {
        let results = results(include_str!("fixtures/sysbench-1.0.20-fileio.txt"), 5.0);
        assert_eq!(results.metrics["read_mib_per_second"], 236.34);
        assert_eq!(results.metrics["mib_per_second"], 236.34 + 157.54);
        assert_eq!((results.metrics["fsyncs_per_second"], results.metrics["p99_us"]), (1019.33, 1667.0));
    }

    #[test]
    fn events_are_requests() {
        let results = results(include_str!("fixtures/sysbench-1.0.20-cpu.txt"), 4.0);
        assert_eq!(results.metrics["requests_per_second"], (16945.09 + 13621.99) / 2.0);
        assert_eq!(results.metrics["p99_us"], 55.0);
    }

    #[test]
    fn errors_are_a_doubt_and_silence_is_an_error() {
        let line = "[ 1s ] thds: 2 tps: 5.0 qps: 10.0 (r/w/o: 10.0/0.0/0.0) lat (ms,95%): 2.0 err/s: 1.50 reconn/s: 0.00";
        let said = "errors: sysbench had 1.5 errors per second, and 5 transactions without one";
        assert_eq!(results(line, 0.0).doubts[0].why, said);
        // Of two hundred transactions one may be a deadlock; of fifty not.
        assert!(results(&line.replace("tps: 5.0", "tps: 300.0"), 0.0).doubts.is_empty());
        assert_eq!(results(&line.replace("tps: 5.0", "tps: 75.0"), 0.0).doubts.len(), 1);
        assert!(parse("", 0.0).expect_err("nothing").contains("--report-interval=1"));
        assert!(parse(line, 1.0).expect_err("all dropped").contains("after the first 1 s"));
    }
}
