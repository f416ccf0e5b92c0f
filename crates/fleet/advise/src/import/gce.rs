//! Prices of Google Compute Engine as Kubernetes' autoscaler ships them, and the memory that follows from them.

use super::go::map_of;
use super::source::{ByName, FoundShapes, SourceError, text};
use crate::catalogue::FigureSource;
use crate::catalogue::check::is_date;
use crate::catalogue::entry::{DisksEntry, PriceEntry, ShapeEntry};

/// The key of the source.
const KEY: &str = "autoscaler-gce";
/// How far the memory may be from a quarter of a GiB for each CPU: prices are rounded to four digits.
const ROUNDING: f64 = 0.01;

/// Series that are read: their names, and hardware threads of a core. All run on x86, have each CPU for themselves (unlike e2), and
/// local disks cost extra (unlike z3, from whose price the memory does not follow).
const SERIES: [(&str, u32); 8] =
    [("n1", 2), ("n2", 2), ("n2d", 2), ("c2", 2), ("c2d", 2), ("c3", 2), ("c3d", 2), ("t2d", 1)];

/// Shapes of a file, with their prices.
pub(crate) fn read(
    bytes: &[u8],
    version: &str,
    region: &str,
    date: &str,
) -> Result<FoundShapes, SourceError> {
    if !is_date(date) {
        return Err(SourceError::Other(format!(
            "expected the day of the prices, which the file does not say, as --gce-date 2026-06-23, found {:?}",
            date.chars().take(40).collect::<String>()
        )));
    }
    let text = text(bytes)?;
    let map = |name: &str| -> Result<ByName<f64>, SourceError> {
        let entries = map_of(text, name)?;
        entries.entries()?.iter().map(|(key, value)| Ok((key.clone(), value.number()?))).collect()
    };
    let cpu_prices = map("predefinedCpuPricePerHour")?;
    let memory_prices = map("predefinedMemoryPricePerHourPerGb")?;
    let mut found = FoundShapes { source: Some((KEY.into(), source(version))), ..FoundShapes::default() };
    for (name, usd_per_hour) in map("instancePrices")? {
        let Some((series, kind, vcpus)) = parts(&name) else { continue };
        let Some((_, threads_per_core)) = SERIES.iter().find(|(known, _)| *known == series) else { continue };
        let unit = |prices: &ByName<f64>| prices.get(series).copied().filter(|price| *price > 0.0);
        let gib = unit(&cpu_prices)
            .zip(unit(&memory_prices))
            .and_then(|(cpu, memory)| memory_gib(vcpus, (usd_per_hour - f64::from(vcpus) * cpu) / memory));
        let Some(memory_gib) = gib else {
            found.notes.push(format!("{name}: left out, its memory does not follow from its price"));
            continue;
        };
        found.shapes.push(ShapeEntry {
            family: Some(format!("{series}-{kind}")),
            cloud: Some("gcp".into()),
            source: Some(KEY.into()),
            architecture: Some("x86_64".into()),
            vcpus: Some(vcpus),
            threads_per_core: Some((*threads_per_core).min(vcpus)),
            memory_gib: Some(memory_gib),
            disks: Some(DisksEntry::default()),
            prices: vec![PriceEntry { region: region.into(), date: date.into(), usd_per_hour, source: None }],
            name,
            ..ShapeEntry::default()
        });
    }
    Ok(found)
}

fn source(version: &str) -> FigureSource {
    FigureSource {
        what: "k8s.io/autoscaler/cluster-autoscaler".into(),
        version: Some(version.into()),
        file: Some("cloudprovider/gce/gce_price_info.go".into()),
        licence: Some("Apache-2.0".into()),
        url: Some("https://cloud.google.com/compute/docs/cpu-platforms".into()),
        note: Some(
            "memory is (price − vCPUs × price of a vCPU) ÷ price of a GiB, to a quarter of a GiB for each vCPU; vCPUs are in the \
             name; the file says neither region nor day; local disks are attached and paid apart; threads of a core are on the page"
                .into(),
        ),
    }
}

/// `n2`, `highmem` and 8 of `n2-highmem-8`. A name with more parts has more than CPUs and memory.
fn parts(name: &str) -> Option<(&str, &str, u32)> {
    let mut parts = name.split('-');
    let (series, kind, vcpus) = (parts.next()?, parts.next()?, parts.next()?);
    let vcpus = vcpus.parse().ok().filter(|vcpus| (1..=10_000).contains(vcpus));
    vcpus.filter(|_| parts.next().is_none()).map(|vcpus| (series, kind, vcpus))
}

/// Memory that is near to a quarter of a GiB for each CPU; none if it is near to no such size.
fn memory_gib(vcpus: u32, gib: f64) -> Option<f64> {
    let of_cpu = gib / f64::from(vcpus);
    let quarters = (of_cpu * 4.0).round() / 4.0;
    ((of_cpu - quarters).abs() <= ROUNDING * quarters)
        .then_some(quarters * f64::from(vcpus))
        .filter(|gib| *gib > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "package gce\nconst hours = float64(24 * 30)\nvar (\n\
        predefinedCpuPricePerHour = map[string]float64{\"n2\": 0.03, \"z3\": 0.05, \"t2d\": 0.02,}\n\
        predefinedMemoryPricePerHourPerGb = map[string]float64{\"n2\": 0.004, \"z3\": 0.006, \"t2d\": 0.005}\n\
        instancePrices = map[string]float64{\n\
        \"n2-highmem-8\": 0.4961,\n\"n2-highcpu-2\": 0.0672,\n\"n2-odd-2\": 0.0691,\n\"z3-highmem-8\": 2,\n\
        \"z3-highmem-8-highlssd\": 2,\n\"e2-micro\": 0.03, // Should be 0.00838\n\"t2d-standard-1\": 0.04,\n\"c3-standard-4\": 0.2,\n}\n)\n";

    #[track_caller]
    fn refused(text: &str, date: &str, expected: &str) {
        let error = read(text.as_bytes(), "1", "r-1", date).map(drop).expect_err("it is refused").to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn memory_follows_from_the_price_or_the_shape_is_left_out() {
        let found = read(TEXT.as_bytes(), "1", "r-1", "2026-06-23").expect("prices");
        let shapes: Vec<_> = found
            .shapes
            .iter()
            .map(|shape| {
                (shape.name.as_str(), shape.memory_gib, shape.threads_per_core, shape.prices[0].usd_per_hour)
            })
            .collect();
        // 8 × 0.03 + 64 × 0.004 is 0.496; a rounded price is near enough.
        assert_eq!(
            shapes,
            [("n2-highmem-8", Some(64.0), Some(2), 0.4961), ("t2d-standard-1", Some(4.0), Some(1), 0.04),]
        );
        assert_eq!(
            found.notes,
            [
                "c3-standard-4: left out, its memory does not follow from its price",
                "n2-highcpu-2: left out, its memory does not follow from its price",
                "n2-odd-2: left out, its memory does not follow from its price",
            ]
        );
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        refused(TEXT, "", "as --gce-date 2026-06-23, found \"\"");
        refused(&TEXT.replace("instancePrices", "other"), "2026-06-23", "no map named `instancePrices`");
        refused(
            &TEXT.replace("\"z3-highmem-8\": 2", "\"z3-highmem-8\": 1 / 2"),
            "2026-06-23",
            "line 10: expected",
        );
    }
}
