//! Prices and bandwidths of AWS as the Go module karpenter-provider-aws ships them.

use super::go::map_of;
use super::source::{ByName, SourceError, text};
use crate::catalogue::FigureSource;
use crate::catalogue::check::is_date;
use crate::catalogue::entry::{PriceEntry, ShapeEntry};

/// The keys of the sources.
pub(crate) const PRICES: &str = "karpenter-prices";
pub(crate) const BANDWIDTH: &str = "karpenter-bandwidth";
/// Two sources that round differently agree: 0.781 and 0.78 Gbit/s.
const SAME: f64 = 0.01;

/// Prices of one region on one day.
pub(crate) struct Prices {
    region: String,
    date: String,
    usd_per_hour: ByName<f64>,
}

/// The prices of a region, with the day that the file says it was made.
pub(crate) fn prices(bytes: &[u8], region: &str) -> Result<Prices, SourceError> {
    let text = text(bytes)?;
    let regions = map_of(text, "InitialOnDemandPricesAWS")?;
    let regions = regions.entries()?;
    let Some((_, prices)) = regions.iter().find(|(name, _)| name == region) else {
        let there: Vec<&str> = regions.iter().take(40).map(|(name, _)| name.as_str()).collect();
        return Err(SourceError::Other(format!(
            "expected prices of the region {region}, found those of {}\n  hint: --region",
            if there.is_empty() { "none".into() } else { there.join(", ") }
        )));
    };
    let mut usd_per_hour = ByName::new();
    for (name, price) in prices.entries()? {
        if usd_per_hour.insert(name.clone(), price.number()?).is_some() {
            return Err(price.unexpected(&format!("one price of {name}")));
        }
    }
    Ok(Prices { region: region.to_owned(), date: date(text)?, usd_per_hour })
}

/// The day in the line `// generated at 2026-07-20T13:44:30Z for us-east-1`.
fn date(text: &str) -> Result<String, SourceError> {
    let line = text.lines().find_map(|line| line.strip_prefix("// generated at "));
    let day = line.and_then(|line| line.get(..10)).filter(|day| is_date(day));
    day.map(str::to_owned).ok_or_else(|| {
        SourceError::Other(
            "expected the day of the prices in a line `// generated at 2026-07-20T…`, found no such line"
                .into(),
        )
    })
}

/// Bandwidths in Gbit/s.
pub(crate) fn bandwidths(bytes: &[u8], _version: &str) -> Result<ByName<f64>, SourceError> {
    let mut bandwidths = ByName::new();
    for (name, megabits) in map_of(text(bytes)?, "InstanceTypeBandwidthMegabits")?.entries()? {
        if bandwidths.insert(name.clone(), megabits.number()? / 1000.0).is_some() {
            return Err(megabits.unexpected(&format!("one bandwidth of {name}")));
        }
    }
    Ok(bandwidths)
}

/// The source of a key.
pub(crate) fn source(key: &str, version: &str) -> FigureSource {
    let (file, note) = match key {
        PRICES => ("pkg/providers/pricing/zz_generated.pricing_aws.go", "on demand, Linux"),
        _ => (
            "pkg/providers/instancetype/zz_generated.bandwidth.go",
            "baselines, as the user guide of EC2 has them",
        ),
    };
    FigureSource {
        what: "github.com/aws/karpenter-provider-aws (Go module)".into(),
        version: Some(version.into()),
        file: Some(file.into()),
        licence: Some("Apache-2.0".into()),
        url: None,
        note: Some(note.into()),
    }
}

/// Gives a shape its price, or says that there is none.
pub(crate) fn put_price(shape: &mut ShapeEntry, prices: &Prices) -> Option<String> {
    if shape.cloud.as_deref() != Some("aws") {
        return None;
    }
    let Some(&usd_per_hour) = prices.usd_per_hour.get(&shape.name) else {
        return Some(format!("{}: no price in {}", shape.name, prices.region));
    };
    shape.prices.push(PriceEntry {
        region: prices.region.clone(),
        date: prices.date.clone(),
        usd_per_hour,
        source: Some(PRICES.into()),
    });
    None
}

/// Gives a shape its baseline. Where another source has one already, the smaller of the two stays: too little bandwidth is
/// noticed in production, too much of it on the bill.
pub(crate) fn put_bandwidth(shape: &mut ShapeEntry, bandwidths: &ByName<f64>) -> Option<String> {
    let gbit = *bandwidths.get(&shape.name).filter(|_| shape.cloud.as_deref() == Some("aws"))?;
    let there = shape.baseline_gbit;
    if there.is_none_or(|there| gbit < there * (1.0 - SAME)) {
        shape.baseline_gbit = Some(gbit);
        shape.origins.insert("baseline_gbit".into(), BANDWIDTH.into());
    }
    there.filter(|there| (gbit - there).abs() > there * SAME).map(|there| {
        format!(
            "{}: baseline_gbit is {there} for moto and {gbit} for karpenter, the smaller is kept",
            shape.name
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRICES_TEXT: &str = "package pricing\n// generated at 2026-07-20T13:44:30Z for r-1\n\
        var InitialOnDemandPricesAWS = map[string]map[ec2types.InstanceType]float64{\n\
        \"r-1\": {\n// x9 family\n\"x9.large\": 0.500000, \"x9.xlarge\": 1,\n},\n\"r-2\": {\"x9.large\": 0.6},\n}\n";

    fn shape(name: &str, baseline_gbit: Option<f64>) -> ShapeEntry {
        ShapeEntry { name: name.into(), cloud: Some("aws".into()), baseline_gbit, ..ShapeEntry::default() }
    }

    #[track_caller]
    fn refused(text: &str, expected: &str) {
        let error = prices(text.as_bytes(), "r-1").map(drop).expect_err("it is refused").to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn a_shape_gets_the_price_of_the_region_and_its_day() {
        let prices = prices(PRICES_TEXT.as_bytes(), "r-2").expect("prices");
        let mut large = shape("x9.large", None);
        assert_eq!(put_price(&mut large, &prices), None);
        let expected = PriceEntry {
            region: "r-2".into(),
            date: "2026-07-20".into(),
            usd_per_hour: 0.6,
            source: Some(PRICES.into()),
        };
        assert_eq!(large.prices, [expected]);
        let mut other = shape("x9.xlarge", None);
        assert_eq!(put_price(&mut other, &prices).as_deref(), Some("x9.xlarge: no price in r-2"));
        assert!(other.prices.is_empty(), "an unknown price is not zero");
    }

    #[test]
    fn files_that_say_something_else_are_refused() {
        refused(
            &PRICES_TEXT.replace("\"r-1\"", "\"r-3\""),
            "expected prices of the region r-1, found those of r-3, r-2",
        );
        refused(&PRICES_TEXT.replace("generated at", "made at"), "expected the day of the prices");
        refused(&PRICES_TEXT.replace("2026-07-20T", "2026-02-30T"), "expected the day of the prices");
        refused(&PRICES_TEXT.replace("InitialOn", "Other"), "no map named `InitialOnDemandPricesAWS`");
        refused(
            &PRICES_TEXT.replace("\"x9.xlarge\": 1", "\"x9.large\": 1"),
            "expected one price of x9.large",
        );
        refused(&PRICES_TEXT.replace(": 1,", ": \"1\","), "line 6: expected a number, found \"1\"");
        refused(&PRICES_TEXT.replace("0.500000", "0.5 / 2"), "line 6: expected `,` or `}`");
    }

    #[test]
    fn of_two_baselines_the_smaller_stays_and_both_are_told() {
        let text = "var (\n\tInstanceTypeBandwidthMegabits = map[string]int64{\n// x9.tiny is vague\n\"x9.large\": 750,\n}\n)";
        let bandwidths = bandwidths(text.as_bytes(), "1").expect("bandwidths");
        let put = |baseline| {
            let mut shape = shape("x9.large", baseline);
            let note = put_bandwidth(&mut shape, &bandwidths);
            (shape.baseline_gbit, shape.origins.contains_key("baseline_gbit"), note.is_some())
        };
        assert_eq!(put(None), (Some(0.75), true, false));
        assert_eq!(put(Some(0.751)), (Some(0.751), false, false));
        assert_eq!(put(Some(1.0)), (Some(0.75), true, true));
        assert_eq!(put(Some(0.5)), (Some(0.5), false, true));
        let mut tiny = shape("x9.tiny", None);
        assert_eq!((put_bandwidth(&mut tiny, &bandwidths), tiny.baseline_gbit), (None, None));
    }
}
