//! Clocks: the time of day, time since boot, elapsed time; and pauses.

use std::time::{Duration, Instant, SystemTime};

use rustix::time::{ClockId, clock_gettime};

/// Time since 1970; 0 if the clock is set to an earlier time.
#[expect(clippy::disallowed_methods, reason = "here the time of day enters a process")]
pub fn unix_time() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// Seconds since 1970.
pub fn unix_s() -> u64 {
    unix_time().as_secs()
}

/// Milliseconds of the clock that runs while the host sleeps, and that cannot be set. It is the host's clock also in a
/// time namespace (some containers), so that a deadline is the same time there.
pub fn since_boot_ms() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let seconds = now.tv_sec - seconds_ahead_of_host();
    u64::try_from(seconds).unwrap_or(0) * 1000 + now.tv_nsec as u64 / 1_000_000
}

/// How far this time namespace's clock is ahead of the host's (time_namespaces(7)), in whole seconds.
fn seconds_ahead_of_host() -> i64 {
    let read = |path| std::fs::read_link(path).ok();
    // The offsets are those of processes that this one would start.
    let is_own = read("/proc/self/ns/time") == read("/proc/self/ns/time_for_children");
    let offsets = std::fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
    let of_boottime = offsets.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some("boottime")).then(|| words.next()?.parse().ok()).flatten()
    });
    of_boottime.filter(|_| is_own).unwrap_or(0)
}

/// Sleeps.
#[expect(clippy::disallowed_methods, reason = "for conditions without an event; the caller gives the reason")]
pub fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Time since it was started.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts now.
    #[expect(clippy::disallowed_methods, reason = "some jobs report how long they took")]
    pub fn start() -> Stopwatch {
        Stopwatch(Instant::now())
    }

    /// The elapsed time.
    pub fn passed(&self) -> Duration {
        self.0.elapsed()
    }

    /// The same in milliseconds.
    pub fn ms(&self) -> u64 {
        self.passed().as_millis() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_go_forward() {
        let (watch, boot_ms) = (Stopwatch::start(), since_boot_ms());
        pause(Duration::from_millis(2));
        assert!(watch.ms() >= 2 && watch.passed() >= Duration::from_millis(2));
        assert!(since_boot_ms() > boot_ms);
        // 2020 or later.
        assert!(unix_s() > 1_577_836_800);
    }

    #[test]
    fn time_since_boot_is_that_of_the_host() {
        let uptime = std::fs::read_to_string("/proc/uptime").expect("everybody may read it");
        let uptime_s: f64 = uptime.split(' ').next().expect("two numbers").parse().expect("a number");
        let ahead_s = since_boot_ms() as f64 / 1000.0 + seconds_ahead_of_host() as f64 - uptime_s;
        assert!(ahead_s.abs() < 60.0, "{ahead_s}");
    }
}
