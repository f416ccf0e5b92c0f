//! Settings of pools that concern all of their servers: the guard, TCP Fast Open, the transport.

use crate::config::error::ConfigError;
use crate::config::json::Object;
use crate::routes::steps::pool::Pool;
use crate::servers::health::GuardLimits;

/// `tko_tracker`: the limits of a pool of `count` servers.
pub(super) fn guard_limits(pool: &Pool<'_>, count: usize) -> Result<Option<GuardLimits>, ConfigError> {
    let Some(json) = pool.get("tko_tracker") else { return Ok(None) };
    let object = json.object("a `tko_tracker`")?;
    let upper = threshold(&object, "num_tko_threshold_upper", "percent_tko_threshold_upper", count)?;
    let lower = threshold(&object, "num_tko_threshold_lower", "percent_tko_threshold_lower", count)?;
    if upper == 0 || lower == 0 {
        let message =
            format!("expected thresholds of at least one server, found {upper} and {lower} of {count}");
        return Err(json.error(message));
    }
    if lower > upper {
        return Err(json.error(format!("expected a lower threshold of at most {upper}, found {lower}")));
    }
    Ok(Some(GuardLimits { upper, lower }))
}

/// A number of servers, or a percentage of them, rounded down; 0 without either.
fn threshold(object: &Object<'_>, number: &str, percentage: &str, count: usize) -> Result<u32, ConfigError> {
    if let Some(number) = object.integer(number, 0..=i64::from(i32::MAX))? {
        return Ok(number as u32);
    }
    let percentage = object.integer(percentage, 0..=100)?.unwrap_or(0);
    Ok((percentage as usize * count / 100) as u32)
}

/// `tcp_fast_open`: whether connections begin with TCP Fast Open.
pub(super) fn fast_open(pool: &Pool<'_>) -> Result<bool, ConfigError> {
    pool.get("tcp_fast_open").map_or(Ok(false), |json| json.bool("`tcp_fast_open` of a pool"))
}

/// `transport`: whether gets go over UDP.
pub(super) fn is_udp(pool: &Pool<'_>) -> Result<bool, ConfigError> {
    let Some(json) = pool.get("transport") else { return Ok(false) };
    match json.string("`transport` of a pool")? {
        "tcp" => Ok(false),
        "udp" => Ok(true),
        _ => Err(json.wrong("tcp or udp (`transport` of a pool)")),
    }
}
