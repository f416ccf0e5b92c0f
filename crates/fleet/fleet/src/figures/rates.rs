//! Rates between two tallies of one server or router: what has grown, over the time that has passed.
//!
//! Two tallies are compared only if they are known to be of the same process; otherwise rates are unknown until the next one.

use stdx::clock::Now;

use super::point::{RouterRates, ServerRates};
use super::tally::{MemberTally, RouterTally};

/// An agent that speaks, and when it is heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeardTurn {
    /// The random number of the agent's process: only the same one has the same clock.
    pub boot: u64,
    /// By the controller's clock.
    pub now: Now,
}

/// More than any process answers in a second. A larger rate is no measurement.
const REQUESTS_PER_S_MAX: f64 = 1e8;
/// More than any process has.
const CPUS_MAX: f64 = 4096.0;
/// A time that no reply takes: an hour.
const TIME_MAX_US: u64 = 3_600_000_000;
/// By how much two clocks may differ in the same interval: memcached counts whole seconds, and a busy host is late.
const SLACK_MS: u64 = 3_000;
/// The same where one of them is the controller's: a turn may be late by its time limit.
const HEARD_SLACK_MS: u64 = 25_000;
/// And this part of the interval.
const SLACK_PART: u64 = 50;

/// The process of a reading, and its time by all clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub(super) heard: HeardTurn,
    pub(super) at_ms: u64,
    pub(super) pid: Option<u64>,
    pub(super) uptime_ms: Option<u64>,
}

/// Milliseconds from one reading to the next, if both are of the same process as far as is known.
pub(super) fn passed_ms(before: &Reading, after: &Reading) -> Option<u64> {
    let heard_ms = after.heard.now.ms().checked_sub(before.heard.now.ms())?;
    let is_near =
        |one: u64, slack_ms: u64| move |other: u64| one.abs_diff(other) <= slack_ms + one / SLACK_PART;
    let (passed, slack_ms) = match before.heard.boot == after.heard.boot {
        true => {
            let passed = after.at_ms.checked_sub(before.at_ms)?;
            (Some(passed).filter(|passed| is_near(heard_ms, HEARD_SLACK_MS)(*passed))?, SLACK_MS)
        }
        // The agent was started again, and its clock is another one.
        false => (heard_ms, HEARD_SLACK_MS),
    };
    let is_other = before.pid.zip(after.pid).is_some_and(|(before, after)| before != after);
    let runs_on = match (before.uptime_ms, after.uptime_ms) {
        (Some(before), Some(after)) => after.checked_sub(before).is_some_and(is_near(passed, slack_ms)),
        _ => true,
    };
    (passed > 0 && !is_other && runs_on).then_some(passed)
}

/// What a counter has grown by; unknown if it went back.
pub(super) fn grown(before: Option<u64>, after: Option<u64>) -> Option<u64> {
    after?.checked_sub(before?)
}

/// What a counter of requests has grown by, unless nothing answers so many.
pub(super) fn grown_requests(before: Option<u64>, after: Option<u64>, passed_ms: u64) -> Option<u64> {
    grown(before, after).filter(|count| per_s(*count, passed_ms) <= REQUESTS_PER_S_MAX)
}

fn per_s(count: u64, passed_ms: u64) -> f64 {
    count as f64 * 1000.0 / passed_ms.max(1) as f64
}

fn time_us(us: Option<u64>) -> Option<f64> {
    us.filter(|us| *us <= TIME_MAX_US).map(|us| us as f64)
}

fn number(count: Option<u64>) -> Option<f64> {
    count.map(|count| count as f64)
}

impl MemberTally {
    /// Whose reading it is.
    pub(super) fn reading(&self, heard: HeardTurn) -> Reading {
        let uptime_ms = self.uptime_s.and_then(|s| s.checked_mul(1000));
        Reading { heard, at_ms: self.at_ms, pid: self.pid, uptime_ms }
    }
}

impl RouterTally {
    /// Whose reading it is.
    pub(super) fn reading(&self, heard: HeardTurn) -> Reading {
        Reading { heard, at_ms: self.at_ms, pid: self.pid, uptime_ms: None }
    }

    /// The same of its page.
    pub(super) fn page_reading(&self, heard: HeardTurn) -> Option<Reading> {
        let page = self.page.as_ref()?;
        let uptime_ms = Some(page.uptime_ms);
        Some(Reading { heard, at_ms: page.at_ms, pid: self.pid, uptime_ms })
    }
}

/// The tally before, and when it was heard.
pub(super) struct Before<'b, T> {
    pub(super) heard: HeardTurn,
    pub(super) tally: &'b T,
}

/// What is known of a server now, with rates if there is a tally before.
pub(super) fn server_rates(
    before: Option<&Before<'_, MemberTally>>,
    heard: HeardTurn,
    tally: &MemberTally,
) -> ServerRates {
    let passed = before.and_then(|one| passed_ms(&one.tally.reading(one.heard), &tally.reading(heard)));
    let grown_per_s =
        |of: fn(&MemberTally) -> Option<u64>| Some(per_s(grown(of(before?.tally), of(tally))?, passed?));
    let requests = |of| grown_per_s(of).filter(|rate| *rate <= REQUESTS_PER_S_MAX);
    let mut rates = ServerRates {
        requests_per_s: requests(|tally| tally.requests),
        hits_per_s: requests(|tally| tally.hits),
        misses_per_s: requests(|tally| tally.misses),
        received_bytes_per_s: grown_per_s(|tally| tally.received_bytes),
        sent_bytes_per_s: grown_per_s(|tally| tally.sent_bytes),
        evictions_per_s: grown_per_s(|tally| tally.evictions),
        memory_used_bytes: number(tally.memory_used_bytes),
        memory_limit_bytes: number(tally.memory_limit_bytes),
        connections: number(tally.connections),
        items: number(tally.items),
        cpus: cpus(grown_per_s(|tally| tally.cpu_ms)),
        ..ServerRates::default()
    };
    let Some(page) = &tally.page else { return rates };
    let before = before.and_then(|one| Some((one.heard, one.tally.page.as_ref()?)));
    // A page that has not answered since says nothing about now.
    if before.is_some_and(|(before, old)| before.boot == heard.boot && old.at_ms == page.at_ms) {
        return rates;
    }
    rates.wait_p99_us = time_us(page.wait_p99_us);
    rates.service_p99_us = time_us(page.service_p99_us);
    rates.scheduling_wait_share = before.and_then(|(before, old)| {
        let reading =
            |heard, at_ms, uptime_ms| Reading { heard, at_ms, pid: None, uptime_ms: Some(uptime_ms) };
        passed_ms(&reading(before, old.at_ms, old.uptime_ms), &reading(heard, page.at_ms, page.uptime_ms))?;
        let passed = page.uptime_ms.checked_sub(old.uptime_ms).filter(|ms| *ms > 0)?;
        let workers = page.workers.filter(|workers| *workers > 0 && old.workers == page.workers)?;
        let share = grown(old.ready_ms, page.ready_ms)? as f64 / (passed as f64 * workers as f64);
        // The kernel's clock and the server's are read one after the other.
        (share <= 1.05).then_some(share.min(1.0))
    });
    rates
}

/// The same of a router. `page_passed` is the time since the page was read before, if both readings are of the same process.
pub(super) fn router_rates(
    before: Option<&Before<'_, RouterTally>>,
    heard: HeardTurn,
    tally: &RouterTally,
) -> RouterRates {
    let passed = before.and_then(|one| passed_ms(&one.tally.reading(one.heard), &tally.reading(heard)));
    let requests = |of: fn(&RouterTally) -> Option<u64>| {
        let rate = per_s(grown(of(before?.tally), of(tally))?, passed?);
        (rate <= REQUESTS_PER_S_MAX).then_some(rate)
    };
    let mut rates = RouterRates {
        requests_per_s: requests(|tally| tally.requests),
        errors_per_s: requests(|tally| tally.errors),
        ..RouterRates::default()
    };
    let Some(page) = &tally.page else { return rates };
    let old = before.and_then(|one| one.tally.page.as_ref().map(|page| (one.heard, page)));
    if old.is_some_and(|(before, old)| before.boot == heard.boot && old.at_ms == page.at_ms) {
        return rates;
    }
    let passed = before.and_then(|one| page_passed_ms(one, heard, tally));
    let grown_per_s = |of: &dyn Fn(&super::RouterPageTally) -> Option<u64>| {
        Some(per_s(grown(of(old?.1), of(page))?, passed?))
    };
    let requests = |of: &dyn Fn(&super::RouterPageTally) -> Option<u64>| {
        grown_per_s(of).filter(|rate| *rate <= REQUESTS_PER_S_MAX)
    };
    rates.timeouts_per_s = requests(&|page| page.timeouts);
    rates.hits_per_s = requests(&|page| page.hits);
    rates.misses_per_s = requests(&|page| page.misses);
    rates.received_bytes_per_s = grown_per_s(&|page| page.received_bytes);
    rates.sent_bytes_per_s = grown_per_s(&|page| page.sent_bytes);
    rates.failovers_per_s = requests(&|page| page.failovers);
    rates.unavailable_servers = number(page.unavailable_servers);
    rates.clients = number(page.clients);
    rates.reply_p99_us = time_us(page.reply_p99_us);
    rates.cpus = cpus(grown_per_s(&|page| page.cpu_ms));
    rates.shadow_compared_per_s = requests(&|page| page.shadows.map(|(compared, _)| compared));
    rates.shadow_differed_per_s = requests(&|page| page.shadows.map(|(_, differed)| differed));
    rates
}

/// Time between two readings of a router's page, by its own clock.
pub(super) fn page_passed_ms(
    before: &Before<'_, RouterTally>,
    heard: HeardTurn,
    tally: &RouterTally,
) -> Option<u64> {
    let (old, new) = (before.tally.page_reading(before.heard)?, tally.page_reading(heard)?);
    passed_ms(&old, &new)?;
    new.uptime_ms?.checked_sub(old.uptime_ms?).filter(|ms| *ms > 0)
}

/// Milliseconds of CPU time in a second.
fn cpus(ms_per_s: Option<f64>) -> Option<f64> {
    ms_per_s.map(|ms| ms / 1000.0).filter(|cpus| *cpus <= CPUS_MAX)
}

#[cfg(test)]
mod tests;
