//! Limits of figures: what no host has is a slip of the pen, and is refused.

use fleet::advise::{HostShape, ShapePrice};
use stdx::calendar;

use super::error::{CatalogueError, PRICES_MAX, Wrong, cut, too_many_prices};

/// A name as vendors and people write them: `r5.2xlarge`, `Standard_E8s_v5`, `us-east-1`.
pub(crate) fn name(what: &'static str, found: &str) -> Result<(), CatalogueError> {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    match (1..=64).contains(&found.len()) && found.bytes().all(is_letter) {
        true => Ok(()),
        false => Err(CatalogueError::Name { what, found: cut(found) }),
    }
}

/// Checks all figures of a shape. The limits leave room for a factor of ten above the largest host that one can rent today.
pub(crate) fn shape(shape: &HostShape) -> Result<(), Wrong> {
    between("vcpus", f64::from(shape.vcpus), 1.0, 10_000.0)?;
    between("threads_per_core", f64::from(shape.threads_per_core), 1.0, 8.0)?;
    if !shape.vcpus.is_multiple_of(shape.threads_per_core) {
        return Err(format!(
            "expected vcpus as a multiple of threads_per_core, found {} and {}",
            shape.vcpus, shape.threads_per_core
        ));
    }
    between("memory_gib", shape.memory_gib, 0.25, 500_000.0)?;
    let optional = [
        ("clock_ghz", shape.clock_ghz, 0.1, 20.0),
        ("baseline_gbit", shape.baseline_gbit, 0.001, 100_000.0),
        ("burst_gbit", shape.burst_gbit, 0.001, 100_000.0),
        ("packets_per_s", shape.packets_per_s, 1.0, 1e12),
        ("disk_read_iops", shape.disk_read_iops, 1.0, 1e10),
        ("disk_write_iops", shape.disk_write_iops, 1.0, 1e10),
        ("disk_bytes_per_s", shape.disk_bytes_per_s, 1000.0, 1e14),
        ("disk_read_p99_us", shape.disk_read_p99_us, 0.1, 1e8),
        ("connections", shape.connections.map(|count| count as f64), 1.0, 1e12),
    ];
    for (key, figure, least, most) in optional {
        figure.map_or(Ok(()), |figure| between(key, figure, least, most))?;
    }
    if let (Some(baseline), Some(burst)) = (shape.baseline_gbit, shape.burst_gbit)
        && burst < baseline
    {
        return Err(format!("expected burst_gbit of at least baseline_gbit, found {burst} and {baseline}"));
    }
    check_disks(shape)?;
    prices(&shape.prices)
}

fn check_disks(shape: &HostShape) -> Result<(), Wrong> {
    let Some(disks) = &shape.disks else { return Ok(()) };
    between("disks.count", f64::from(disks.count), 0.0, 1000.0)?;
    if disks.count > 0 {
        return between("disks.gb", disks.gb, 1.0, 1e6);
    }
    let of_disks = [
        ("disk_read_iops", shape.disk_read_iops),
        ("disk_write_iops", shape.disk_write_iops),
        ("disk_bytes_per_s", shape.disk_bytes_per_s),
        ("disk_read_p99_us", shape.disk_read_p99_us),
    ];
    match of_disks.into_iter().find(|(_, figure)| figure.is_some()) {
        Some((key, _)) => Err(format!("has {key} and no local disks (disks = {{ count = 0 }})")),
        None => Ok(()),
    }
}

fn prices(prices: &[ShapePrice]) -> Result<(), Wrong> {
    if prices.len() > PRICES_MAX {
        return Err(too_many_prices(prices.len()));
    }
    for (at, price) in prices.iter().enumerate() {
        name("a region", &price.region).map_err(|error| error.to_string())?;
        if prices[..at].iter().any(|other| other.region == price.region) {
            return Err(format!("has two prices in {}", price.region));
        }
        if !is_date(&price.date) {
            return Err(format!("expected the date of a price as 2026-11-30, found {:?}", cut(&price.date)));
        }
        between("usd_per_hour", price.usd_per_hour, 0.0001, 100_000.0)?;
    }
    Ok(())
}

/// A figure between two limits, which no NaN is.
fn between(key: &str, found: f64, least: f64, most: f64) -> Result<(), Wrong> {
    match (least..=most).contains(&found) {
        true => Ok(()),
        false => Err(format!("expected {key} from {least} to {most}, found {found}")),
    }
}

/// A day as `2026-11-30`.
pub(crate) fn is_date(text: &str) -> bool {
    text.len() == "2026-11-30".len() && calendar::parse_utc(text).is_some()
}
