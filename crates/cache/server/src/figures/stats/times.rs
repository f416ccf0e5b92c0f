//! `stats evenkeel times`: how long input waited for a worker, and how long workers took to serve it.

use super::list::{StatList, stat};
use crate::figures::histogram::TimeHistogram;
use crate::figures::service_times::{CommandClass, ServiceTimes};
use crate::shared::Shared;

/// Since the start; classes that were never served are left out.
pub(super) fn times(shared: &Shared, out: &mut StatList<'_>) {
    histogram("wait", &shared.waits(), out);
    for class in CommandClass::ALL {
        let served = ServiceTimes::histogram(&shared.service_times, class);
        if served.count() > 0 {
            histogram(&format!("service:{}", class.name()), &served, out);
        }
    }
}

/// Quantiles are the ends of buckets that are 12.5 % wide: the time was less.
fn histogram(name: &str, times: &TimeHistogram, out: &mut StatList<'_>) {
    let mut line = |what: &str, value: u64| stat(out, format_args!("{name}:{what}"), value);
    line("count", times.count());
    line("sum_us", times.sum_us);
    for (what, of_1000) in
        [("p50_us", 500), ("p90_us", 900), ("p99_us", 990), ("p999_us", 999), ("max_us", 1000)]
    {
        line(what, times.quantile_us(of_1000));
    }
}
