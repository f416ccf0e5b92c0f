//! LatencyInjectionRoute: requests and replies that come later, for tests and experiments.

use stdx::clock::Now;

use crate::config::error::ConfigError;
use crate::config::json::Json;
use crate::flight::reply::FlightReply;
use crate::message::outcome::Outcome;
use crate::plan::NodeId;
use crate::plan::choices::Choices;
use crate::routes::form::{AddRoute, Fields, RouteDefinition, RouteForm};
use crate::routes::route::{Decision, Delayed, FirstStep, KeptReply, Opening, Route, Scene};

/// The only child, with delays.
#[derive(Clone, Debug)]
pub(crate) struct LatencyInjection(pub(crate) Box<AddedLatency>);

/// What a LatencyInjectionRoute knows of a request.
pub(crate) struct Late {
    /// When its reply may be given.
    not_before: Now,
    /// The reply, while it waits.
    reply: KeptReply,
}

impl Route for LatencyInjection {
    type Progress = Late;

    fn name(&self) -> Option<&'static str> {
        Some("latency-injection")
    }

    fn begin(&self, opening: &mut Opening<'_>) -> FirstStep<Late> {
        let now = opening.choices.now;
        let not_before = after(now, self.0.total_ms(opening.choices));
        let late = Late { not_before, reply: KeptReply::default() };
        if self.0.before_ms == 0 {
            return FirstStep::Ask(late, 0, None);
        }
        if !opening.delays.has_room(opening.bytes) {
            return FirstStep::Answer(FlightReply::error(Outcome::Busy, "too many delayed requests"));
        }
        FirstStep::Later(late, Delayed::Until(after(now, self.0.before_ms)))
    }

    fn replied<'a>(&self, late: &mut Late, scene: &mut Scene<'_>, reply: FlightReply<'a>) -> Decision<'a> {
        let now = scene.choices.now;
        let (until, bytes) = (after(now, self.0.after_ms).max(late.not_before), reply.answer.len());
        // Beyond the limit, a reply comes early rather than not at all.
        if until <= now || !scene.delays.has_room(bytes) {
            return Decision::Done(reply);
        }
        late.reply.keep(reply);
        Decision::WaitUntil(until, bytes)
    }

    fn take_kept(late: &mut Late) -> Option<FlightReply<'static>> {
        late.reply.take()
    }
}

fn after(now: Now, ms: u64) -> Now {
    Now { us: now.us + ms * 1000 }
}

/// Times that a LatencyInjectionRoute adds, in milliseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct AddedLatency {
    /// Before a request is sent.
    pub(crate) before_ms: u64,
    /// After its reply.
    pub(crate) after_ms: u64,
    /// A request takes at least as long, all in all.
    pub(crate) total: TotalLatency,
}

impl AddedLatency {
    /// The least time of a request.
    fn total_ms(&self, choices: &mut Choices) -> u64 {
        self.total.sample(|| choices.unit() * 100.0)
    }
}

/// The least time of a request, in milliseconds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TotalLatency {
    /// Always this one.
    Fixed(u64),
    /// By percentiles, in growing order: up to the first one, the first time, and so on; beyond the last, the last time.
    Percentiles(Box<[(f64, u64)]>),
}

impl Default for TotalLatency {
    fn default() -> TotalLatency {
        TotalLatency::Fixed(0)
    }
}

impl TotalLatency {
    /// The time for one request. `percentile` is random, from 0 to 100.
    fn sample(&self, percentile: impl FnOnce() -> f64) -> u64 {
        let points = match self {
            TotalLatency::Fixed(ms) => return *ms,
            TotalLatency::Percentiles(points) => points,
        };
        let percentile = percentile();
        let found = points.iter().find(|(point, _)| percentile < *point).or(points.last());
        found.map_or(0, |(_, ms)| *ms)
    }
}

/// The longest delay, in milliseconds: an hour.
const DELAY_MS_MAX: i64 = 3_600_000;

/// Percentiles of one route.
const PERCENTILES_MAX: usize = 1000;

impl<C: AddRoute<LatencyInjection>> RouteForm<C> for LatencyInjection {
    const FORM: Fields = (
        "LatencyInjectionRoute",
        &[
            "after_latency_ms",
            "before_latency_ms",
            "child",
            "max_request_latency_us",
            "request_payload_latency",
            "total_latency_ms",
            "total_latency_percentile_ms",
        ],
    );

    fn compile(compiler: &mut C, definition: RouteDefinition<'_>) -> Result<Vec<NodeId>, ConfigError> {
        let json = definition.json();
        let object = json.object("a LatencyInjectionRoute")?;
        let child = compiler.single(object.require("child")?)?;
        let percentiles = object.get("total_latency_percentile_ms").map(percentiles).transpose()?;
        let of_requests = object.bool("request_payload_latency")?;
        object.integer("max_request_latency_us", 0..=i64::MAX)?;
        let ms = |name: &str| -> Result<Option<u64>, ConfigError> {
            Ok(object.integer(name, 0..=DELAY_MS_MAX)?.map(|ms| ms as u64))
        };
        let (before_ms, after_ms) = (ms("before_latency_ms")?, ms("after_latency_ms")?);
        let total_ms = ms("total_latency_ms")?;
        if before_ms.or(after_ms).or(total_ms).is_none() && percentiles.is_none() && of_requests.is_none() {
            return Err(json.error(
                "expected before_latency_ms, after_latency_ms, total_latency_ms, total_latency_percentile_ms or \
                 request_payload_latency, found none",
            ));
        }
        if of_requests == Some(true) {
            compiler.note(
                "`request_payload_latency` has no effect: requests of memcached's protocol have no latency"
                    .into(),
            );
        }
        let total = match (total_ms.unwrap_or(0), percentiles) {
            (0, Some(points)) => TotalLatency::Percentiles(points),
            (ms, _) => TotalLatency::Fixed(ms),
        };
        let latency =
            AddedLatency { before_ms: before_ms.unwrap_or(0), after_ms: after_ms.unwrap_or(0), total };
        if latency == AddedLatency::default() {
            return Ok(vec![child]);
        }
        Ok(vec![compiler.add_route(LatencyInjection(Box::new(latency)), vec![child], json)?])
    }
}

/// `[[percentile, milliseconds], …]`
fn percentiles(json: &Json) -> Result<Box<[(f64, u64)]>, ConfigError> {
    let items = json.array("`total_latency_percentile_ms`")?;
    if items.len() > PERCENTILES_MAX {
        return Err(
            json.error(format!("expected at most {PERCENTILES_MAX} percentiles, found {}", items.len()))
        );
    }
    let mut last = 0.0;
    let point = |item: &Json| {
        let [percentile, ms] = item.array("a percentile and milliseconds")? else {
            return Err(item.wrong("an array of a percentile and milliseconds"));
        };
        let found = percentile.number("a percentile", 0.0..=100.0)?;
        if found <= last {
            return Err(percentile.wrong(format_args!("a percentile above {last}")));
        }
        last = found;
        Ok((found, ms.integer("milliseconds", 0..=DELAY_MS_MAX)? as u64))
    };
    items.iter().map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_that_of_the_first_percentile_above() {
        let points = TotalLatency::Percentiles(Box::new([(50.0, 10), (99.0, 20), (99.9, 300)]));
        let times =
            [0.0, 49.9, 50.0, 98.9, 99.0, 99.89, 99.95].map(|percentile| points.sample(|| percentile));
        assert_eq!(times, [10, 10, 20, 20, 300, 300, 300]);
        assert_eq!(TotalLatency::Percentiles(Box::default()).sample(|| 5.0), 0);
    }
}
