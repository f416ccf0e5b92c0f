//! Waits of the services' threads for a CPU: a line for each, the longest waits first.

use super::paint::{TextStyle, Tint};
use crate::diagnose::rules;
use crate::observe::facts::Thread;
use crate::{Facts, Series};

/// One thread's times in a window.
struct Row<'a> {
    thread: &'a Thread,
    of: String,
    running: f64,
    waiting: f64,
    delay_us: f64,
}

/// The shares of waiting time from which a row is warm or hot: those of `scheduling-delay`.
const WARM_PERCENT: f64 = 2.0;
const HOT_PERCENT: f64 = 10.0;

/// At most `rows_max` rows; nothing if no threads are read.
pub fn waits(facts: &Facts, series: &Series, look: TextStyle, rows_max: usize) -> String {
    let mut rows = rows(facts, series);
    if rows.is_empty() {
        return String::new();
    }
    rows.sort_by(|a, b| b.waiting.total_cmp(&a.waiting).then(a.thread.tid.cmp(&b.thread.tid)));
    let total = rows.len();
    let heading =
        format!("{:<34} {:>8} {:>8} {:>9}  {:<6} CPUs", "threads", "runs", "waits", "a turn", "policy");
    let mut text = format!("{}\n", look.paint.tinted(Tint::Bold, &heading));
    for row in rows.iter().take(rows_max) {
        let waiting = format!("{:>8}", rules::percent(row.waiting));
        let waiting = match row.waiting {
            hot if hot >= HOT_PERCENT => look.paint.tinted(Tint::Red, &waiting),
            warm if warm >= WARM_PERCENT => look.paint.tinted(Tint::Yellow, &waiting),
            _ => waiting,
        };
        let thread = format!("{} {} of {}", row.thread.tid, row.thread.name, row.of);
        let delay = format!("{:.0} µs", row.delay_us);
        let (running, policy) = (rules::percent(row.running), policy(row.thread));
        text += &format!(
            "{thread:<34.34} {running:>8} {waiting} {delay:>9}  {policy:<6} {}\n",
            row.thread.affinity
        );
    }
    if total > rows_max {
        text += &format!("and {} threads that wait less\n", total - rows_max);
    }
    text
}

fn rows<'a>(facts: &'a Facts, series: &Series) -> Vec<Row<'a>> {
    let percent = |ns: u64| ns as f64 / 1e7 / series.window_s();
    let threads = facts.services.iter().flat_map(|of| of.threads.iter().map(move |thread| (of, thread)));
    let row = |(of, thread): (&crate::observe::facts::Service, &'a Thread)| {
        let times = |part: fn(&os::cpu_time::ThreadTimes) -> u64| {
            series.rate(|reading| reading.threads.get(&thread.tid).map(part)).map(|rate| rate.count)
        };
        let (run, wait, turns) = (times(|t| t.run_ns)?, times(|t| t.wait_ns)?, times(|t| t.slices)?);
        let delay_us = wait as f64 / 1e3 / turns.max(1) as f64;
        Some(Row { thread, of: of.name.clone(), running: percent(run), waiting: percent(wait), delay_us })
    };
    threads.filter_map(row).collect()
}

/// As in sched(7), in short.
fn policy(thread: &Thread) -> String {
    match thread.policy {
        0 => "other".to_owned(),
        1 => format!("fifo {}", thread.priority),
        2 => format!("rr {}", thread.priority),
        3 => "batch".to_owned(),
        5 => "idle".to_owned(),
        6 => "dl".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::observe::facts::Service;
    use crate::observe::reading::Reading;
    use crate::report::paint::Paint;
    use os::cpu_time::ThreadTimes;

    #[test]
    fn who_waits_longest_comes_first() {
        let thread = |tid: u32, policy, affinity: &str| Thread {
            tid,
            name: format!("worker-{tid}"),
            policy,
            priority: 1,
            affinity: affinity.parse().unwrap(),
            ..Thread::default()
        };
        let threads = vec![thread(7, 0, "0-1"), thread(8, 1, "1"), thread(9, 0, "0")];
        let service = Service { pid: 7, name: "memcached".into(), threads, ..Service::default() };
        let facts = Facts { services: vec![service], ..Facts::default() };
        let reading = |at_ms: u64| {
            let times = |run_ns, wait_ns| ThreadTimes {
                run_ns: run_ns * at_ms,
                wait_ns: wait_ns * at_ms,
                slices: at_ms,
            };
            let threads = BTreeMap::from([(7, times(100_000, 0)), (8, times(400_000, 250_000))]);
            Reading { at_ms, threads, ..Reading::default() }
        };
        let series = Series::new(vec![reading(0), reading(1000)]).unwrap();
        let look = TextStyle { columns: 80, paint: Paint::Plain };
        assert_eq!(
            waits(&facts, &series, look, 8),
            "threads                                runs    waits    a turn  policy CPUs
8 worker-8 of memcached                40 %     25 %    250 µs  fifo 1 1
7 worker-7 of memcached                10 %    0.0 %      0 µs  other  0-1
"
        );
        assert!(waits(&facts, &series, look, 1).ends_with("and 1 threads that wait less\n"));
        assert_eq!(waits(&Facts::default(), &series, look, 8), "");
    }
}
