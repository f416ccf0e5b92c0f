//! Dates in names of files.

/// `YYYYMMDDTHHMMSS` of a time in seconds since 1970, in UTC. mcrouter's is the local time.
pub(super) fn stamp(unix_s: u64) -> String {
    let (days, seconds) = (unix_s / 86_400, unix_s % 86_400);
    let (year, month, day) = date(days);
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    format!("{year:04}{month:02}{day:02}T{hours:02}{minutes:02}{:02}", seconds % 60)
}

/// Year, month and day, this many days after the beginning of 1970, in the calendar in use since 1582.
fn date(days: u64) -> (u64, u64, u64) {
    let (mut year, mut left) = (1970, days);
    while left >= days_of_year(year) {
        left -= days_of_year(year);
        year += 1;
    }
    let february = days_of_year(year) - 337;
    let mut month = 1;
    for days in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if left < days {
            break;
        }
        left -= days;
        month += 1;
    }
    (year, month, left + 1)
}

fn days_of_year(year: u64) -> u64 {
    let is_leap = year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    365 + u64::from(is_leap)
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
