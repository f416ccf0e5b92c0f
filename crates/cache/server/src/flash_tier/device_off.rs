//! The line about a device of the flash tier that is turned off.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use net::Notice;
use store::DeviceOff;

/// A device that keeps failing is turned off every ten seconds: after the first line, so many without it must pass before the next.
const QUIET_S: u32 = 3600;

/// Writes the line, once for each time that a device begins to fail.
pub(crate) fn line(paths: Vec<PathBuf>, notice: Notice) -> DeviceOff {
    let last: Vec<AtomicU32> = paths.iter().map(|_| AtomicU32::new(0)).collect();
    Box::new(move |device, second| {
        // Not 0, which is never.
        let before = last[device].swap(second.max(1), Relaxed);
        if before == 0 || second.saturating_sub(before) >= QUIET_S {
            notice(&format!(
                "{} (-o ext_path) is left alone for 10 s, and again whenever it goes on failing: 16 reads and writes have failed, or have \
                 taken too long, within 10 s. Its items are misses meanwhile; the kernel's log (`dmesg`) may say more",
                paths[device].display()
            ));
        }
    })
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    thread_local! {
        static LINES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    }

    #[test]
    fn a_device_that_keeps_failing_is_said_once() {
        let tell = line(vec!["/a".into(), "/b".into()], |line| {
            LINES.with_borrow_mut(|lines| lines.push(line.to_owned()))
        });
        for second in (0..7200).step_by(10) {
            tell(0, second);
        }
        tell(1, 7200);
        tell(0, 7200 + QUIET_S);
        let said = LINES.take();
        let named: Vec<&str> = said.iter().map(|line| line.split(' ').next().expect("a word")).collect();
        assert_eq!(named, ["/a", "/b", "/a"]);
    }
}
