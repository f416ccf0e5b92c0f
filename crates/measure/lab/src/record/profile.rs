//! CPU profiles of cells by function: `perf` samples one more trial of each cell, after all others.
//!
//! A trial of its own, because sampling takes time from the measured processes. The difference of two profiles of one
//! series shows which functions grew between their commits.

use crate::record::TrialRecord;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitStatus;

/// Samples in a second of CPU time: enough for 1 % of it in 20 s on one CPU (100 of 10,000), and 0.1 % of the CPU.
pub(crate) const SAMPLES_PER_S: u32 = 499;

/// More functions than this are counted as one: those left have less than a thousandth each.
const FUNCTIONS_MAX: usize = 300;

/// Longer names, such as those of templates, are cut to this length.
const NAME_MAX: usize = 200;

/// The name of the rest.
const OTHERS: &str = "(others)";

/// The samples of a cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CpuProfile {
    /// The cell's name, as a record has it.
    pub cell: String,
    /// CPU time for each request in microseconds, over the trials that count; none if no requests are counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_us: Option<f64>,
    /// Samples by function, each with the file that it is from.
    pub functions: BTreeMap<String, u64>,
    /// The reason if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
}

impl CpuProfile {
    /// All samples.
    pub fn samples(&self) -> u64 {
        self.functions.values().sum()
    }

    /// The same without its smallest functions.
    fn bounded(mut functions: Vec<(String, u64)>) -> BTreeMap<String, u64> {
        functions.sort_by_key(|(name, samples)| (std::cmp::Reverse(*samples), name.clone()));
        let others: u64 = functions.iter().skip(FUNCTIONS_MAX).map(|(_, samples)| samples).sum();
        functions.truncate(FUNCTIONS_MAX);
        functions.extend((others > 0).then(|| (OTHERS.to_owned(), others)));
        functions.into_iter().collect()
    }
}

/// The output of perf for a trial: `report` is its text, or the reason why it has none.
pub(crate) fn of_trial(
    cell: String,
    records: &BTreeMap<u32, TrialRecord>,
    report: Result<String, String>,
) -> CpuProfile {
    let request_us = request_us(&cell, records);
    match report.map(|text| CpuProfile::bounded(functions(&text))) {
        Ok(functions) if !functions.is_empty() => CpuProfile { cell, request_us, functions, why_not: None },
        Ok(_) => CpuProfile {
            cell,
            request_us,
            why_not: Some("perf has seen none of its processes run".to_owned()),
            ..CpuProfile::default()
        },
        Err(why) => CpuProfile { cell, request_us, why_not: Some(why), ..CpuProfile::default() },
    }
}

/// Of the trials that count.
fn request_us(cell: &str, records: &BTreeMap<u32, TrialRecord>) -> Option<f64> {
    let own = records.values().filter(|record| record.is_valid() && record.cell() == cell);
    let rates: Vec<f64> = own.filter_map(|record| record.figure("requests_per_cpu_second")).collect();
    (!rates.is_empty()).then(|| 1e6 / stdx::statistics::median(&rates)).filter(|us| us.is_finite())
}

/// `COUNT<tab>FILE<tab>[.] SYMBOL<tab>…`, as `perf report -F sample,dso,symbol` prints it.
fn functions(text: &str) -> Vec<(String, u64)> {
    let line = |line: &str| {
        let mut fields = line.split('\t').map(str::trim);
        let (samples, file, symbol) = (fields.next()?.parse::<u64>().ok()?, fields.next()?, fields.next()?);
        let symbol = symbol.split_once("] ").map_or(symbol, |(_, symbol)| symbol);
        let symbol: String = plain(symbol).chars().filter(|c| !c.is_control()).take(NAME_MAX).collect();
        Some((format!("{symbol} ({file})"), samples))
    };
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for (name, samples) in text.lines().filter_map(line) {
        *sums.entry(name).or_default() += samples;
    }
    sums.into_iter().collect()
}

/// Suffixes that compilers add to the name of a function that they have split or copied.
const COPIES: [&str; 5] = [".isra.", ".constprop.", ".part.", ".cold", ".llvm."];

/// Without the parts that differ from build to build: an address that has no name, and a compiler's suffix.
fn plain(symbol: &str) -> &str {
    if symbol.starts_with("0x") {
        return "?";
    }
    let symbol = COPIES.iter().fold(symbol, |symbol, copy| symbol.split(copy).next().unwrap_or(symbol));
    match symbol.rsplit_once("::h") {
        Some((name, hash)) if hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => name,
        _ => symbol,
    }
}

/// A function that takes more CPU time.
#[derive(Clone, Debug, PartialEq)]
pub struct Grown {
    /// Its name, with the file that it is from.
    pub name: String,
    /// Before: microseconds for each request, or where that is not known, the share of all CPU time.
    pub before: f64,
    /// Now.
    pub after: f64,
}

/// Growth counts from this many standard errors of the counts on: of 300 functions that are as before, one in three
/// comparisons shows one at 3, and one in fifty at 4.
const ERRORS_MIN: f64 = 4.0;

/// Functions that take more than before, those that grew most first; whether it is in microseconds.
pub fn grown(before: &CpuProfile, after: &CpuProfile) -> (Vec<Grown>, bool) {
    let costs = before.request_us.zip(after.request_us);
    let (cost_before, cost_after) = costs.unwrap_or((1.0, 1.0));
    let of = |profile: &CpuProfile, name: &String, cost: f64| {
        let (samples, all) =
            (profile.functions.get(name).copied().unwrap_or(0) as f64, profile.samples() as f64);
        let share = samples / all.max(1.0);
        // A function without samples before has an uncertainty of one sample.
        (share * cost, (samples.max(1.0)).sqrt() / all.max(1.0) * cost)
    };
    let one = |name: &String| {
        let ((before, error), (after, other)) = (of(before, name, cost_before), of(after, name, cost_after));
        // Not `hypot`: the library's is of glibc 2.35, without which the program runs on RHEL 9 and Amazon Linux 2023.
        let error_of_both = (error * error + other * other).sqrt();
        let is_grown = after - before > ERRORS_MIN * error_of_both;
        is_grown.then(|| Grown { name: name.clone(), before, after })
    };
    let mut found: Vec<Grown> =
        after.functions.keys().filter(|name| *name != OTHERS).filter_map(one).collect();
    found.sort_by(|a, b| (b.after - b.before).total_cmp(&(a.after - a.before)));
    (found, costs.is_some())
}

/// The end of the shell's message where there is no such program.
const NOT_FOUND: i32 = 127;

/// The reason why perf has ended without a result, in one line.
pub(crate) fn complaint(log: &Path, status: Option<ExitStatus>) -> String {
    if status.and_then(|status| status.code()) == Some(NOT_FOUND) {
        return "perf is not installed (Debian: linux-perf)".to_owned();
    }
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let first = text.lines().map(str::trim).find(|line| !line.is_empty() && *line != "Error:");
    let status = || status.map_or("it prints nothing".to_owned(), |status| format!("it ended with {status}"));
    format!("perf: {}", first.map_or_else(status, str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of `evenkeel serve` and of a `dd` without symbols, by perf 6.1; a symbol of an older compiler behind it.
    const PRINTED: &str = concat!(
        " 21         \t[kernel.kallsyms]\t[k] finish_task_switch.isra.0\n",
        " 13         \tevenkeel         \t[.] store::index::Index::page\n",
        " 7          \tevenkeel         \t[.] std::sync::poison::mutex::Mutex<T>::lock\n",
        " 3          \tdd               \t[.] 0x0000000000005729\n",
        " 2          \tdd               \t[.] 0x0000000000003301\n",
        " 1          \tdd               \t[.] read@plt\n\n\n",
        " 2          \tevenkeel         \t[.] store::index::Index::page::h0123456789abcdef\n",
    );

    #[test]
    fn functions_are_known_over_builds() {
        let expected = [
            ("? (dd)", 5),
            ("finish_task_switch ([kernel.kallsyms])", 21),
            ("read@plt (dd)", 1),
            ("std::sync::poison::mutex::Mutex<T>::lock (evenkeel)", 7),
            ("store::index::Index::page (evenkeel)", 15),
        ];
        assert_eq!(functions(PRINTED), expected.map(|(name, samples)| (name.to_owned(), samples)));
        assert_eq!(functions("Error:\nThe perf.data data has no samples!\n\n"), []);
    }

    #[test]
    fn no_more_functions_are_kept_than_stated() {
        let many = (0..400).map(|number| (format!("f{number}"), 400 - number)).collect();
        let kept = CpuProfile::bounded(many);
        assert_eq!((kept.len(), kept[OTHERS]), (301, (1..=100).sum::<u64>()));
        assert_eq!(kept.values().sum::<u64>(), (1..=400).sum::<u64>());
    }

    fn profile(request_us: Option<f64>, functions: &[(&str, u64)]) -> CpuProfile {
        let functions = functions.iter().map(|(name, samples)| ((*name).to_owned(), *samples)).collect();
        CpuProfile { request_us, functions, ..CpuProfile::default() }
    }

    #[test]
    fn what_grew_is_told_from_what_is_sampled_more_often_by_chance() {
        let before = profile(Some(4.0), &[("a", 5000), ("b", 4000), ("c", 1000)]);
        // A tenth slower, all of it in c; a and b are as dear as before, with smaller shares.
        let after = profile(Some(4.4), &[("a", 4545), ("b", 3640), ("c", 1815)]);
        let (found, is_time) = grown(&before, &after);
        assert_eq!((found.len(), is_time, &*found[0].name), (1, true, "c"));
        assert!((found[0].before - 0.4).abs() < 0.01 && (found[0].after - 0.8).abs() < 0.01, "{found:?}");
        let noisy = profile(Some(4.0), &[("a", 5080), ("b", 3950), ("c", 970)]);
        assert_eq!(grown(&before, &noisy).0, []);
        // A function that was not there before has grown, too; without requests shares are compared.
        let new = profile(None, &[("a", 5000), ("b", 3000), ("d", 2000)]);
        let (found, is_time) = grown(&before, &new);
        assert_eq!((found.len(), is_time, &*found[0].name), (1, false, "d"));
        assert_eq!(grown(&CpuProfile::default(), &CpuProfile::default()).0, []);
    }
}
