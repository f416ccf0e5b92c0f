//! How much the process has worked.

use std::time::Duration;

use rustix::param::clock_ticks_per_second;

/// CPU time of all threads since the process started, to within a tick of the kernel (10 ms).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// In user space.
    pub user: Duration,
    /// In the kernel.
    pub system: Duration,
}

/// Reads it from `/proc/self/stat`; zero where there is no such file.
pub fn cpu_time() -> CpuTime {
    std::fs::read_to_string("/proc/self/stat").ok().and_then(|stat| parse(&stat)).unwrap_or_default()
}

/// Fields 14 and 15 (proc(5)). The name, field 2, may contain anything, but ends at the last parenthesis.
fn parse(stat: &str) -> Option<CpuTime> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    let seconds = |ticks: u64| Duration::from_millis(ticks * 1000 / clock_ticks_per_second());
    Some(CpuTime { user: seconds(ticks()?), system: seconds(ticks()?) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_stand_behind_a_name_that_may_contain_anything() {
        let stat = "7 (a) b) S 1 7 7 0 -1 0 0 0 0 0 150 25 0 0";
        let ms = |count: u64| Duration::from_millis(count * 1000 / clock_ticks_per_second());
        assert_eq!(parse(stat), Some(CpuTime { user: ms(150), system: ms(25) }));
        assert_eq!(parse("nonsense"), None);
    }
}
