//! Dates in names of files.

use time::OffsetDateTime;
use time::format_description::well_known::Iso8601;
use time::format_description::well_known::iso8601::{
    Config, EncodedConfig, FormattedComponents, TimePrecision,
};

/// `YYYYMMDDTHHMMSS`.
const STAMP: EncodedConfig = Config::DEFAULT
    .set_formatted_components(FormattedComponents::DateTime)
    .set_use_separators(false)
    .set_time_precision(TimePrecision::Second { decimal_digits: None })
    .encode();

/// `YYYYMMDDTHHMMSS` of a time in seconds since 1970, in UTC. mcrouter's is the local time.
pub(super) fn stamp(unix_s: u64) -> String {
    let time = i64::try_from(unix_s).ok().and_then(|unix_s| OffsetDateTime::from_unix_timestamp(unix_s).ok());
    time.and_then(|time| time.format(&Iso8601::<STAMP>).ok()).unwrap_or_else(|| unix_s.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(stamp(0), "19700101T000000");
        assert_eq!(stamp(951_782_399), "20000228T235959");
        assert_eq!(stamp(951_782_400), "20000229T000000");
        assert_eq!(stamp(1_735_689_599), "20241231T235959");
        assert_eq!(stamp(4_107_542_400), "21000301T000000");
    }
}
