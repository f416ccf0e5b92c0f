//! Dates and times of day in UTC, of seconds since 1970.

/// Seconds of a day.
pub const DAY_S: u64 = 86_400;

/// `2026-11-21T16:38:38Z`
pub fn utc(unix_s: u64) -> String {
    let (year, month, day) = date(unix_s / DAY_S);
    let s = unix_s % DAY_S;
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", s / 3600, s / 60 % 60, s % 60)
}

/// `Sat 21 Nov`
pub fn day(unix_s: u64) -> String {
    const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let days = unix_s / DAY_S;
    let (_, month, day) = date(days);
    format!("{} {day} {}", WEEKDAYS[(days % 7) as usize], MONTHS[month as usize - 1])
}

/// Seconds since 1970 of a date, or of a date with a time of day: `2026-11-21`, `2026-11-21T10:00Z`, `2026-11-21T10:00:30Z`.
pub fn parse_utc(text: &str) -> Option<u64> {
    let (date, time) = text.split_once(['T', ' ']).unwrap_or((text, "00:00Z"));
    let number = |digits: &str, length: usize| -> Option<u64> {
        let is_number = digits.len() == length && digits.bytes().all(|digit| digit.is_ascii_digit());
        is_number.then(|| digits.parse().ok()).flatten()
    };
    let mut parts = date.splitn(3, '-');
    let (year, month, day) =
        (number(parts.next()?, 4)?, number(parts.next()?, 2)?, number(parts.next()?, 2)?);
    let mut parts = time.strip_suffix('Z')?.splitn(3, ':');
    let (hour, minute) = (number(parts.next()?, 2)?, number(parts.next()?, 2)?);
    let second = parts.next().map_or(Some(0), |digits| number(digits, 2))?;
    let is_time = (1..=12).contains(&month) && hour < 24 && minute < 60 && second < 60;
    let days = (is_time && year >= 1970).then(|| days(year, month, day))?;
    // The 30th of February is another day.
    (self::date(days) == (year, month, day)).then(|| days * DAY_S + hour * 3600 + minute * 60 + second)
}

/// Days of 400 years, after which the calendar begins anew.
const DAYS_OF_ERA: u64 = 146_097;

/// Year, month and day. Years begin in March here, so that the leap day is their last.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / DAYS_OF_ERA, days % DAYS_OF_ERA);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year + u64::from(month <= 2), month, of_year - (153 * from_march + 2) / 5 + 1)
}

fn days(year: u64, month: u64, day: u64) -> u64 {
    let year = year - u64::from(month <= 2);
    let (era, of_era) = (year / 400, year % 400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day.max(1) - 1;
    era * DAYS_OF_ERA + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (unix_s, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (1_795_279_118, "2026-11-21T16:38:38Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(utc(unix_s), expected);
            assert_eq!(parse_utc(expected), Some(unix_s), "{expected}");
        }
        for days in 0..150_000 {
            let (year, month, day) = date(days);
            assert_eq!(self::days(year, month, day), days);
        }
    }

    #[test]
    fn a_time_of_day_may_be_left_out() {
        assert_eq!(parse_utc("2026-11-21"), Some(1_795_219_200));
        assert_eq!(parse_utc("2026-11-21T10:00Z"), Some(1_795_219_200 + 36_000));
        assert_eq!(parse_utc("2026-11-21 10:00Z"), parse_utc("2026-11-21T10:00:00Z"));
        for other in ["", "2026", "2026-11-21T10:00", "2026-02-30", "2026-13-01", "2026-00-10", "2026-01-00"]
        {
            assert_eq!(parse_utc(other), None, "{other}");
        }
        for other in [
            "2026-11-21T24:00Z",
            "2026-11-21T1:00Z",
            "2026-11-21T10:00:99Z",
            "1969-12-31",
            "+026-11-21",
            "2026-11-21T10Z",
        ] {
            assert_eq!(parse_utc(other), None, "{other}");
        }
    }

    #[test]
    fn days_have_names() {
        assert_eq!((day(0), day(1_795_279_118)), ("Thu 1 Jan".into(), "Sat 21 Nov".into()));
    }
}
