//! Judgement of a trial: from samples and the load's output to a record with the figures of the seconds that count, and
//! the doubts about them.

use crate::error::Error;
use crate::experiment::derived::{self, Formula, NoValue};
use crate::experiment::{Experiment, Measure, Parser};
use crate::guest::inside::GuestSample;
use crate::record::{Sample, TrialRecord};
use crate::trial::parse::output::{About, Doubt, LoadFigures, LoadResults};
use crate::trial::sampler::Samples;
use std::collections::BTreeMap;
use stdx::steady;
use tuner::verify::limits;
use tuner::{Capture, Series};

/// The results of load and subject.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) results: Result<LoadResults, Error>,
    /// Statistics and memory of the subject.
    pub(crate) counts: LoadFigures,
    /// Metrics to derive from all others.
    pub(crate) derived: Vec<(String, Formula)>,
    /// What is to be said of commands beside the load, and of counts that are missing.
    pub(crate) complaints: Vec<String>,
    /// The failure of the load, if there are results all the same.
    pub(crate) failed: Option<Error>,
    pub(crate) seen: Samples,
    /// A virtual machine's samples of the same seconds; empty: there are none.
    pub(crate) inside: Vec<GuestSample>,
    /// Seconds from the load's start to its end.
    pub(crate) end_s: f64,
    /// The exit status of the subject and its last messages, if it ended while the load ran.
    pub(crate) subject_ended: Option<String>,
}

/// Whether any of them counts.
const LATENCY: &str = "p99_us";

/// A thread that is busier than this may be what limits the rate.
const BUSY_MAX: f64 = 0.85;

/// If a thread of the load, or the subject's threads together, wait for a CPU for a larger share of the time, they
/// measure the other programs on that CPU.
const WAITED_MAX: f64 = 0.10;
/// Of a CPU: other programs that use less do not keep a subject waiting. Its own threads may.
const OTHERS_MIN: f64 = 0.25;

/// A subject that runs for a smaller share of the time is idle.
const IDLE_SHARE: f64 = 0.01;

/// Completes a record. `moved` are settings that did not stay in force. An error beside it: if the experiment has
/// never worked, it is not noise.
pub(crate) fn judge(
    record: &mut TrialRecord,
    experiment: &Experiment,
    loaded: Loaded,
    moved: Vec<String>,
) -> Option<Error> {
    let Loaded { results, counts: server, derived, complaints, failed, seen, inside, end_s, subject_ended } =
        loaded;
    let mut broken = None;
    let workload = &experiment.workload;
    // The one sample of a short load has all of it.
    let measured_s = if workload.is_short() { workload.seconds } else { workload.measured_s() };
    let counts = match workload.is_short() {
        true => 0..seen.samples.len(),
        false => counted(&seen.samples, end_s, measured_s),
    };
    let mut doubts = Vec::new();
    let ended = subject_ended.as_ref();
    doubts.extend(ended.map(|how| everywhere(format!("the subject ended in mid-trial, with {how}"))));
    let mut results = results.unwrap_or_else(|error| {
        doubts.push(everywhere(error.to_string()));
        broken = Some(error);
        LoadResults::default()
    });
    if let Some(error) = failed {
        doubts.push(everywhere(error.to_string()));
        broken = Some(error);
    }
    doubts.append(&mut results.doubts);
    doubts.extend(complaints.into_iter().map(everywhere));
    let ran_s: f64 = seen.samples[counts.clone()].iter().map(|sample| sample.run_s).sum();
    let used_s = ran_s.max(seen.spent_s[counts.end] - seen.spent_s[counts.start]);
    // A subject that does nothing is not measured: the load does the work, for example on a file system.
    if used_s > IDLE_SHARE * measured_s {
        doubts.extend(starved(&seen, &counts, used_s, &workload.parser));
    }
    doubts.extend(unsettled(&results, &experiment.measure.primary, measured_s, &workload.parser));
    doubts.extend(moved.into_iter().map(everywhere));
    record.metrics = results.metrics.clone();
    record.metrics.extend(server);
    if !workload.is_short() {
        record.metrics.insert("server_cpu_s".to_owned(), used_s);
    }
    host_metrics(record, &seen.samples[counts.clone()], first_s(&seen.samples, &counts), used_s);
    record.metrics.insert("sampler_cpu_share".to_owned(), seen.cost_s / end_s);
    if let Some(guest) = &mut record.guest {
        let sampler_share = inside.last().map(|last| last.cost_s / last.sample.at_s);
        let sampler_share = sampler_share.map(|share| ("guest_sampler_cpu_share".to_owned(), share));
        record.metrics.extend(sampler_share);
        guest.samples = inside.into_iter().map(|said| said.sample).collect();
        let counts = counted(&guest.samples, end_s, measured_s);
        record.metrics.append(&mut guest_metrics(&guest.samples[counts]));
    }
    if !results.metrics.is_empty() {
        let (doubt, error) = derive(&mut record.metrics, derived, &experiment.measure.primary);
        doubts.extend(doubt);
        broken = error.or(broken);
    }
    if !results.metrics.is_empty() && !record.metrics.contains_key(&experiment.measure.primary) {
        let known: Vec<&str> = record.metrics.keys().map(String::as_str).collect();
        let what = format!("there is no {:?}; there are {}", experiment.measure.primary, known.join(", "));
        let error = Error::place("measure.primary", what);
        doubts.push(everywhere(error.to_string()));
        broken = broken.or(Some(error));
    }
    record.samples = seen.samples;
    add_load(&mut record.samples, &results, end_s);
    if let Some(series) = Series::new(seen.readings) {
        let found = limits(&Capture { facts: seen.facts, series }).into_iter();
        doubts.extend(found.map(|finding| everywhere(format!("{}: {}", finding.subject, finding.cause))));
    }
    note(record, doubts, &experiment.measure);
    // A value that is not a number would be written as null, and the record could not be read again.
    record.leave_out_incredible(&experiment.measure.primary);
    broken.filter(|_| subject_ended.is_none())
}

/// Adds the derived metrics, which are not derived from each other. One without a value is a doubt; if it names a metric that there
/// is not, or is the metric that decides, the experiment does not work.
fn derive(
    metrics: &mut LoadFigures,
    derived: Vec<(String, Formula)>,
    primary: &str,
) -> (Vec<Doubt>, Option<Error>) {
    let (mut doubts, mut broken) = (Vec::new(), None);
    let values: Vec<_> = derived.iter().map(|(name, formula)| (name, formula.value(metrics))).collect();
    for (name, value) in values {
        match value {
            Ok(value) => drop(metrics.insert(name.clone(), value)),
            Err(why) => {
                let error = Error::place(derived::place(name), &why);
                doubts.push(everywhere(error.to_string()));
                if matches!(why, NoValue::Unknown { .. }) || name == primary {
                    broken = Some(error);
                }
            }
        }
    }
    (doubts, broken)
}

/// Doubts about the load's threads and the subject's, where these did not get the CPU time that they needed.
fn starved(
    seen: &Samples,
    counts: &std::ops::Range<usize>,
    used_s: f64,
    parser: &Parser,
) -> impl Iterator<Item = Doubt> + use<> {
    let counted = || counts.clone();
    let load_s = seen.load_run_s[counted()].iter().sum();
    let from_s = first_s(&seen.samples, counts);
    let doubts = [
        saturated(&seen.load_busy[counted()], parser),
        starved_load(&seen.load_waited[counted()], parser),
        starved_subject(&seen.samples[counted()], from_s, used_s, load_s),
    ];
    doubts.into_iter().flatten()
}

/// Adds to each sample what the load reported of its second.
fn add_load(samples: &mut [Sample], results: &LoadResults, end_s: f64) {
    for sample in samples {
        // The load counts from when it was ready; its end is that of the trial.
        let at_s = results.end_s - (end_s - sample.at_s);
        let nearest = results.seconds.iter().find(|(other_s, _)| (other_s - at_s).abs() <= 0.5);
        sample.load = nearest.map(|(_, figures)| figures.clone()).unwrap_or_default();
    }
}

/// Doubts about the primary metric keep the trial from counting; others are remarks, and so are those that are expected.
fn note(record: &mut TrialRecord, doubts: Vec<Doubt>, measure: &Measure) {
    for doubt in doubts {
        let is_expected = measure.expected.iter().any(|expected| expected == doubt.kind());
        let Doubt { why, about } = doubt;
        if is_expected {
            record.remarks.push(why);
        } else if about.concerns(&measure.primary) {
            record.doubts.push(why);
        } else {
            record.latencies_are_doubtful |= about.concerns(LATENCY);
            record.remarks.push(why);
        }
    }
}

fn everywhere(why: String) -> Doubt {
    Doubt { why, about: About::All }
}

/// The samples of which at least half lies in the measured time.
fn counted(samples: &[Sample], end_s: f64, measured_s: f64) -> std::ops::Range<usize> {
    let from_s = end_s - measured_s;
    let begins_s = std::iter::once(0.0).chain(samples.iter().map(|sample| sample.at_s));
    let before =
        begins_s.zip(samples).take_while(|(begin_s, sample)| (begin_s + sample.at_s) / 2.0 <= from_s);
    before.count()..samples.len()
}

/// When the first sample that counts began.
fn first_s(samples: &[Sample], counts: &std::ops::Range<usize>) -> f64 {
    counts.start.checked_sub(1).map_or(0.0, |before| samples[before].at_s)
}

/// The host's figures over these samples, the first of which began at `from_s`. The subject used this much CPU time
/// in them, including that of ended threads and processes.
fn host_metrics(record: &mut TrialRecord, samples: &[Sample], from_s: f64, used_s: f64) {
    let Some(last) = samples.last() else { return };
    let seconds = last.at_s - from_s;
    let run_s: f64 = samples.iter().map(|sample| sample.run_s).sum();
    let wait_s: f64 = samples.iter().map(|sample| sample.wait_s).sum();
    let cpus = samples.iter().flat_map(|sample| &sample.cpus);
    let cpus = cpus.filter_map(|cpu| Some((cpu.steal, cpu.busy()?)));
    let count = cpus.clone().count().max(1) as f64;
    let mut set = |name: &str, figure: f64| record.metrics.insert(name.to_owned(), figure);
    if run_s + wait_s > 0.0 {
        set("server_wait_share", wait_s / (run_s + wait_s));
    }
    set("steal_share", cpus.clone().map(|(steal, _)| steal).sum::<f64>() / count);
    set("host_busy_share", cpus.map(|(_, busy)| busy).sum::<f64>() / count);
    // Figures that the load has measured over exactly its own window have precedence.
    record.metrics.entry("server_cpu_s".to_owned()).or_insert(used_s);
    for what in ["requests", "keys"] {
        if let Some(rate) = record.metrics.get(&format!("{what}_per_second")).filter(|_| used_s > 0.0) {
            let per_cpu_second = rate * seconds / used_s;
            record.metrics.entry(format!("{what}_per_cpu_second")).or_insert(per_cpu_second);
        }
    }
}

/// A virtual machine's figures over these samples. For interrupts and packets: the share of the CPU that has most.
fn guest_metrics(samples: &[Sample]) -> BTreeMap<String, f64> {
    let most = |counts: fn(&Sample) -> &[u64]| {
        let mut sums = Vec::new();
        for sample in samples {
            sums.resize(sums.len().max(counts(sample).len()), 0);
            sums.iter_mut().zip(counts(sample)).for_each(|(sum, count)| *sum += count);
        }
        let (most, all) = (sums.iter().copied().max()?, sums.iter().sum::<u64>());
        (all > 0).then(|| most as f64 / all as f64)
    };
    let cpus = samples.iter().flat_map(|sample| &sample.cpus).filter_map(|cpu| cpu.busy());
    let busy: f64 = cpus.clone().sum();
    let figures = [
        ("guest_busy_share", Some(busy / cpus.count() as f64).filter(|share| share.is_finite())),
        ("guest_most_interrupts_share", most(|sample| &sample.interrupts)),
        ("guest_most_net_rx_share", most(|sample| &sample.net_rx)),
    ];
    figures.into_iter().filter_map(|(name, figure)| Some((name.to_owned(), figure?))).collect()
}

/// A thread of the load was busy for two seconds in a row, or for all of a short load. Our own load judges itself: it can tell spinning from
/// work.
fn saturated(busy: &[f64], parser: &Parser) -> Option<Doubt> {
    if *parser == Parser::EvenkeelLoad {
        return None;
    }
    let seconds = busy.len().clamp(1, 2);
    let least = |seconds: &[f64]| seconds.iter().copied().fold(f64::INFINITY, f64::min);
    let busiest = busy.windows(seconds).map(least).fold(0.0, f64::max);
    (busiest > BUSY_MAX).then(|| Doubt {
        why: format!(
            "client-saturated: a thread of the load ran {:.0} % of {}: rate and latency may be the load's own",
            busiest * 100.0,
            if seconds == 2 { "2 s" } else { "its time" }
        ),
        about: About::WallClock,
    })
}

/// A thread of the load was ready to run and did not get a CPU. Our own load judges itself.
fn starved_load(waited: &[f64], parser: &Parser) -> Option<Doubt> {
    let share = waited.iter().sum::<f64>() / waited.len().max(1) as f64;
    (*parser != Parser::EvenkeelLoad && share > WAITED_MAX).then(|| Doubt {
        why: format!(
            "client-waited: a thread of the load waited for a CPU for {:.0} % of the time: rate and latency are those of the \
             CPUs' other users",
            share * 100.0
        ),
        about: About::WallClock,
    })
}

/// The subject's threads were ready to run while other programs ran. With more threads than CPUs they wait for each
/// other: that is a property of the subject.
///
/// The samples begin at `from_s`; in them it used `used_s` of CPU time, and the load `load_s`.
fn starved_subject(samples: &[Sample], from_s: f64, used_s: f64, load_s: f64) -> Option<Doubt> {
    let seconds = samples.last()?.at_s - from_s;
    let (mut wait_s, mut programs_s, mut before_s) = (0.0, 0.0, from_s);
    for sample in samples {
        let programs: f64 = sample.cpus.iter().map(|cpu| cpu.user + cpu.system).sum();
        programs_s += programs * (sample.at_s - before_s);
        (wait_s, before_s) = (wait_s + sample.wait_s, sample.at_s);
    }
    let (share, others_s) = (wait_s / (used_s + wait_s), programs_s - used_s - load_s);
    (share > WAITED_MAX && others_s > OTHERS_MIN * seconds).then(|| Doubt {
        why: format!(
            "subject-waited: its threads ran for {used_s:.1} s and waited for a CPU for {wait_s:.1} s, while other programs \
             used {others_s:.1} CPU-s"
        ),
        about: About::WallClock,
    })
}

/// The primary metric, or the rate if it has no seconds, had not settled when it began to count.
fn unsettled(results: &LoadResults, primary: &str, measured_s: f64, parser: &Parser) -> Option<Doubt> {
    if *parser == Parser::EvenkeelLoad {
        return None;
    }
    let counts = results.seconds.iter().filter(|(at_s, _)| *at_s > results.end_s - measured_s + 0.5);
    let first = &results.seconds.first()?.1;
    let name = [primary, "requests_per_second"].into_iter().find(|name| first.contains_key(*name))?;
    let series: Vec<f64> = counts.filter_map(|(_, figures)| figures.get(name).copied()).collect();
    let cut = steady::unsettled(&series)?;
    let len = series.len();
    Some(everywhere(format!(
        "unsteady: {name} has not settled: the first {cut} of {len} s differ from the rest; use a longer warm_up_s"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::tests::MINIMAL;
    use crate::record::{CpuShares, GuestRecord};
    use tuner::Facts;

    /// Twenty seconds count, after two of warm-up; the load takes a quarter of a second to get ready.
    fn experiment(parser: &str, primary: &str) -> Experiment {
        let text = MINIMAL.replace("seconds = 5", "seconds = 22\nwarm_up_s = 2");
        let text = text.replace("\"evenkeel-load\"", parser).replace("\"requests_per_cpu_second\"", primary);
        Experiment::parse(&text).expect("an experiment")
    }

    fn loaded(rate: impl Fn(usize) -> f64, busy: f64) -> Loaded {
        let cpu = CpuShares { user: 0.5, idle: 0.4, steal: 0.1, ..CpuShares::default() };
        let sample = |second: usize| Sample {
            at_s: second as f64,
            run_s: if second <= 2 { 1.0 } else { 0.5 },
            wait_s: 0.125,
            cpus: vec![cpu; 2],
            ..Sample::default()
        };
        let figures = |value: f64| LoadFigures::from([("requests_per_second".to_owned(), value)]);
        let results = LoadResults {
            metrics: figures(100.0),
            seconds: (1..=22).map(|second| (second as f64, figures(rate(second)))).collect(),
            end_s: 22.0,
            doubts: vec![Doubt { why: "late".to_owned(), about: About::WallClock }],
        };
        let seen = Samples {
            samples: (1..=22).map(sample).collect(),
            load_busy: vec![busy; 22],
            load_waited: vec![0.0; 22],
            load_run_s: vec![0.5; 22],
            facts: Facts::default(),
            readings: Vec::new(),
            spent_s: vec![0.0; 23],
            cost_s: 0.2225,
        };
        Loaded {
            results: Ok(results),
            counts: LoadFigures::from([
                ("curr_items".to_owned(), 50.0),
                ("get_misses_added".to_owned(), 0.0),
            ]),
            derived: Vec::new(),
            complaints: Vec::new(),
            failed: None,
            seen,
            inside: Vec::new(),
            end_s: 22.25,
            subject_ended: None,
        }
    }

    fn judged(experiment: &Experiment, loaded: Loaded) -> (TrialRecord, Option<Error>) {
        let mut record = TrialRecord::default();
        let broken = judge(&mut record, experiment, loaded, Vec::new());
        (record, broken)
    }

    #[test]
    fn only_the_measured_seconds_count_and_each_has_what_the_load_said_of_it() {
        let experiment = experiment("\"sysbench\"", "\"requests_per_cpu_second\"");
        let (record, broken) = judged(&experiment, loaded(|second| 100.0 + (second % 5) as f64, 0.1));
        assert!(broken.is_none() && record.doubts.is_empty(), "{:?}", record.doubts);
        assert_eq!(record.metrics["server_cpu_s"], 20.0 * 0.5);
        assert_eq!(record.metrics["requests_per_cpu_second"], 100.0 * 20.0 / 10.0);
        assert_eq!((record.metrics["server_wait_share"], record.metrics["sampler_cpu_share"]), (0.2, 0.01));
        assert!((record.metrics["host_busy_share"] - 0.5).abs() < 1e-9);
        assert_eq!(record.samples[11].load["requests_per_second"], 102.0);
        assert_eq!(record.samples.len(), 22, "those that are dropped are kept");
        assert_eq!(record.remarks, ["late"], "no doubt where CPU-seconds decide");
        assert_eq!((record.figure("p99_ms"), record.figure("requests_per_second")), (None, Some(100.0)));
    }

    #[test]
    fn threads_that_ended_are_charged_and_an_idle_subject_saturates_nobody() {
        let experiment = experiment("\"sysbench\"", "\"requests_per_second\"");
        let busy = |spent_s: f64| {
            let mut loaded = loaded(|_| 100.0, 0.95);
            loaded.seen.samples.iter_mut().for_each(|sample| sample.run_s = 0.0);
            loaded.seen.spent_s = (0..23).map(|second| f64::from(second) * spent_s).collect();
            judged(&experiment, loaded).0
        };
        let record = busy(1.0);
        assert_eq!(
            (record.metrics["server_cpu_s"], record.metrics["requests_per_cpu_second"]),
            (20.0, 100.0)
        );
        assert_eq!((record.doubts.len(), busy(0.0).doubts), (2, vec!["late".to_owned()]));
    }

    #[test]
    fn who_waits_for_a_cpu_measures_its_other_users() {
        let kinds = |parser: &str, loaded: Loaded| {
            let record = judged(&experiment(parser, "\"requests_per_second\""), loaded).0;
            let kind = |doubt: &String| doubt.split(':').next().unwrap_or("").to_owned();
            record.doubts.iter().map(kind).filter(|kind| kind.ends_with("waited")).collect::<Vec<String>>()
        };
        let quiet = || loaded(|second| 100.0 + (second % 5) as f64, 0.1);
        let with = |wait_s: f64, busy: f64, load_waited: f64| {
            let mut loaded = quiet();
            for sample in &mut loaded.seen.samples {
                sample.wait_s = wait_s;
                sample.cpus.iter_mut().for_each(|cpu| cpu.user = busy);
            }
            loaded.seen.load_waited = vec![load_waited; 22];
            loaded
        };
        // Subject and load run for a second of each, on two CPUs.
        for (loaded, wanted) in [
            (with(0.05, 0.9, 0.05), vec![]),
            (with(0.30, 0.3, 0.05), vec![]),
            (with(0.30, 0.9, 0.05), vec!["subject-waited"]),
            (with(0.05, 0.9, 0.60), vec!["client-waited"]),
        ] {
            assert_eq!(kinds("\"sysbench\"", loaded), wanted);
        }
        // Our own load judges itself.
        assert_eq!(kinds("\"evenkeel-load\"", with(0.05, 0.9, 0.60)), [""; 0]);
    }

    #[test]
    fn what_an_experiment_is_about_is_no_doubt() {
        let with = |expected: &str| {
            let mut experiment = experiment("\"sysbench\"", "\"p99_us\"");
            experiment.measure.expected = vec![expected.to_owned()];
            let mut loaded = loaded(|second| 100.0 + (second % 5) as f64, 0.95);
            let results = loaded.results.as_mut().expect("they are there");
            results.metrics.insert("p99_us".to_owned(), 5.0);
            results.doubts.clear();
            judged(&experiment, loaded).0
        };
        assert!(!with("client-waited").is_valid());
        let record = with("client-saturated");
        assert_eq!((record.is_valid(), record.remarks.len(), record.figure("p99_us")), (true, 1, Some(5.0)));
    }

    #[test]
    fn derived_metrics_are_of_the_load_and_the_server_together() {
        let experiment = experiment("\"sysbench\"", "\"per_item\"");
        let judged_with = |text: &str, complaints: Vec<String>| {
            let derived = vec![("per_item".to_owned(), Formula::parse(text).expect(text))];
            judged(
                &experiment,
                Loaded { derived, complaints, ..loaded(|second| 100.0 + (second % 5) as f64, 0.1) },
            )
        };
        let (record, broken) = judged_with("requests_per_second / curr_items", Vec::new());
        assert_eq!(
            (record.metrics["per_item"], record.metrics["curr_items"], broken.is_none()),
            (2.0, 50.0, true)
        );
        let (record, broken) = judged_with("curr_items / get_misses_added", vec!["beside".to_owned()]);
        assert!(
            record.doubts[1..3]
                .join("; ")
                .starts_with("beside; carry out measure.derived.per_item: get_misses_added is 0")
        );
        assert!(broken.is_some_and(|error| error.to_string().contains("get_misses_added is 0")));
        let (record, broken) = judged_with("curr_itemz / 2 + 1", Vec::new());
        assert!(
            broken.is_some() && record.doubts[1].contains("there is no \"curr_itemz\"; there are curr_items"),
            "{:?}",
            record.doubts
        );
    }

    #[test]
    fn a_virtual_machine_says_how_evenly_its_work_is_spread() {
        let experiment = experiment("\"sysbench\"", "\"requests_per_cpu_second\"");
        let cpu = |idle| CpuShares { idle, user: 1.0 - idle, ..CpuShares::default() };
        let sample = |at_s: f64| Sample {
            at_s,
            cpus: vec![cpu(0.0), cpu(0.5)],
            // What is dropped with the warm-up would change it.
            interrupts: if at_s < 2.0 { vec![0, 900] } else { vec![30, 0] },
            net_rx: vec![10, 30],
            ..Sample::default()
        };
        let inside: Vec<Sample> = (0..22).map(|second| sample(f64::from(second) + 0.9)).collect();
        let mut record = TrialRecord { guest: Some(GuestRecord::default()), ..TrialRecord::default() };
        let said = |sample: &Sample| GuestSample { sample: sample.clone(), cost_s: sample.at_s / 8.0 };
        let loaded = Loaded { inside: inside.iter().map(said).collect(), ..loaded(|_| 100.0, 0.1) };
        judge(&mut record, &experiment, loaded, Vec::new());
        let names = ["busy", "most_interrupts", "most_net_rx", "sampler_cpu"];
        let figures = names.map(|name| record.metrics[&format!("guest_{name}_share")]);
        assert_eq!(figures, [0.75, 1.0, 0.75, 0.125]);
        assert_eq!(record.guest.map(|guest| guest.samples), Some(inside));
        assert!(guest_metrics(&[]).is_empty(), "none says nothing");
    }

    #[test]
    fn a_record_with_a_ratio_to_nothing_can_be_read_again() {
        let experiment = experiment("\"sysbench\"", "\"requests_per_cpu_second\"");
        // The machine's clock stood still.
        let inside = vec![GuestSample { sample: Sample::default(), cost_s: 0.0 }];
        let mut record = TrialRecord { guest: Some(GuestRecord::default()), ..TrialRecord::default() };
        judge(&mut record, &experiment, Loaded { inside, ..loaded(|_| 100.0, 0.1) }, Vec::new());
        assert!(record.remarks.iter().any(|it| it.starts_with("guest_sampler_cpu_share is NaN: no figure")));
        let text = serde_json::to_string(&record).expect("it is plain data");
        let read = serde_json::from_str::<TrialRecord>(&text).expect("it is a record");
        assert_eq!(read.remarks, record.remarks);
    }

    #[test]
    fn a_busy_load_and_a_rate_that_has_not_settled_are_doubts() {
        let experiment = experiment("\"sysbench\"", "\"requests_per_second\"");
        let rising = |second: usize| if second < 17 { second as f64 } else { 500.0 };
        let (record, _) = judged(&experiment, loaded(rising, 0.95));
        let kinds: Vec<&str> =
            record.doubts.iter().map(|doubt| doubt.split(':').next().unwrap_or("")).collect();
        assert_eq!(kinds, ["late", "client-saturated", "unsteady"], "{:?}", record.doubts);
    }

    #[test]
    fn what_has_no_figures_is_broken_unless_the_subject_is_to_blame() {
        let experiment = experiment("\"sysbench\"", "\"p99_us\"");
        let (record, broken) = judged(&experiment, loaded(|_| 1.0, 0.1));
        assert!(
            broken
                .is_some_and(|error| error.to_string().starts_with("carry out measure.primary: there is no"))
        );
        assert!(!record.is_valid());
        let failed = || Err(Error::place("workload.run", "it ended with exit status: 1"));
        let (record, broken) = judged(&experiment, Loaded { results: failed(), ..loaded(|_| 1.0, 0.1) });
        assert!(broken.is_some() && record.metrics.contains_key("server_cpu_s"));
        // What a load has measured before it failed is kept, and believed no more.
        let (record, broken) = judged(&experiment, Loaded { failed: failed().err(), ..loaded(|_| 1.0, 0.1) });
        assert!(broken.is_some() && record.metrics["requests_per_second"] == 100.0 && !record.is_valid());
        let subject_ended = Some("signal: 9 (SIGKILL): out of memory".to_owned());
        let (record, broken) =
            judged(&experiment, Loaded { results: failed(), subject_ended, ..loaded(|_| 1.0, 0.1) });
        assert!(broken.is_none());
        assert_eq!(
            record.doubts[0],
            "the subject ended in mid-trial, with signal: 9 (SIGKILL): out of memory"
        );
        let mut moved = TrialRecord::default();
        judge(&mut moved, &experiment, loaded(|_| 1.0, 0.1), vec!["x was set to 1, but was 2".into()]);
        assert!(moved.doubts.contains(&"x was set to 1, but was 2".to_owned()));
    }
}
