//! Lengths of accept queues: what is asked for, what the kernel allows, and the lines about a difference.
//!
//! The kernel cuts each length to `somaxconn` of the socket's network namespace when it is set, without an error.

use std::fs;

use rustix::io::Errno;

/// What memcached asks for. Without a given length no less is asked for, and nothing more where the limit is unknown.
pub(crate) const BACKLOG_DEFAULT: u32 = 1024;

/// The bit of `tcp_fastopen` that lets listeners take data with a SYN (ip-sysctl.rst of the kernel).
const FAST_OPEN_SERVER: u32 = 2;

/// The kernel's settings in this process's network namespace; `None` where one cannot be read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QueueSettings {
    /// `net.core.somaxconn`
    pub(crate) somaxconn: Option<u32>,
    /// `net.ipv4.tcp_fastopen`, which holds for IPv6, too.
    pub(crate) tcp_fastopen: Option<u32>,
}

impl QueueSettings {
    pub(crate) fn read() -> QueueSettings {
        // These files show the settings of the network namespace of the process that opens them.
        let number = |path| fs::read_to_string(path).ok()?.trim().parse().ok();
        QueueSettings {
            somaxconn: number("/proc/sys/net/core/somaxconn"),
            tcp_fastopen: number("/proc/sys/net/ipv4/tcp_fastopen"),
        }
    }

    /// The longest queue of connections that wait to be accepted: as long as the kernel allows, unless a length is
    /// given.
    pub(crate) fn backlog(self, given: Option<u32>) -> QueueLength {
        let asked = given.unwrap_or_else(|| self.somaxconn.unwrap_or(0).max(BACKLOG_DEFAULT));
        self.cut(asked)
    }

    /// The longest queue of connections that brought data with their SYN.
    pub(crate) fn fast_open(self, asked: u32) -> QueueLength {
        self.cut(asked)
    }

    fn cut(self, asked: u32) -> QueueLength {
        QueueLength { asked, granted: self.somaxconn.map_or(asked, |most| asked.min(most)) }
    }

    /// A line if a given backlog is cut.
    pub(crate) fn backlog_line(self, given: Option<u32>) -> Option<String> {
        let length = self.backlog(given);
        (given.is_some() && length.granted < length.asked)
            .then(|| length.cut_line("connections that wait to be accepted"))
    }

    /// Lines about Fast Open that is not in force as asked for. `set` is the outcome of setting it on the TCP
    /// listeners, or `None` without such a listener.
    pub(crate) fn fast_open_lines(self, asked: u32, set: Option<Result<(), Errno>>) -> Vec<String> {
        if asked == 0 {
            return Vec::new();
        }
        match set {
            None => return vec!["TCP Fast Open has no effect: no listener is TCP".to_owned()],
            Some(Err(error)) => return vec![format!("the kernel refuses TCP Fast Open: {error}")],
            Some(Ok(())) => {}
        }
        let length = self.fast_open(asked);
        let cut = (length.granted < length.asked).then(|| length.cut_line("pending TCP Fast Open requests"));
        let off = self.tcp_fastopen.filter(|bits| bits & FAST_OPEN_SERVER == 0).map(|bits| {
            format!(
                "TCP Fast Open is off for servers: net.ipv4.tcp_fastopen is {bits} \
                 (`sysctl -w net.ipv4.tcp_fastopen={}` turns it on at once)",
                bits | FAST_OPEN_SERVER
            )
        });
        cut.into_iter().chain(off).collect()
    }
}

/// The length of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueLength {
    pub(crate) asked: u32,
    pub(crate) granted: u32,
}

impl QueueLength {
    /// The length as system calls take it.
    pub(crate) fn for_kernel(self) -> i32 {
        i32::try_from(self.asked).unwrap_or(i32::MAX)
    }

    fn cut_line(self, what: &str) -> String {
        let QueueLength { asked, granted } = self;
        format!(
            "the kernel allows {granted} {what}, not {asked} \
             (`sysctl -w net.core.somaxconn={asked}`, then start again)"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_backlog(given: Option<u32>, somaxconn: Option<u32>, asked: u32, granted: u32, is_told: bool) {
        let settings = QueueSettings { somaxconn, tcp_fastopen: None };
        assert_eq!(settings.backlog(given), QueueLength { asked, granted });
        assert_eq!(settings.backlog_line(given).is_some(), is_told);
    }

    #[test]
    fn without_a_given_length_the_backlog_is_as_long_as_the_kernel_allows() {
        check_backlog(None, Some(4096), 4096, 4096, false);
        check_backlog(None, Some(128), 1024, 128, false);
        check_backlog(None, Some(0), 1024, 0, false);
        check_backlog(None, Some(i32::MAX as u32), i32::MAX as u32, i32::MAX as u32, false);
        check_backlog(None, None, 1024, 1024, false);
    }

    #[test]
    fn a_given_length_that_is_cut_is_told() {
        check_backlog(Some(50), Some(4096), 50, 50, false);
        check_backlog(Some(0), Some(4096), 0, 0, false);
        check_backlog(Some(4096), Some(4096), 4096, 4096, false);
        check_backlog(Some(4097), Some(4096), 4097, 4096, true);
        check_backlog(Some(1), Some(0), 1, 0, true);
        // Nothing is claimed of a limit that is not known.
        check_backlog(Some(70_000), None, 70_000, 70_000, false);
        let settings = QueueSettings { somaxconn: Some(4096), tcp_fastopen: None };
        assert_eq!(
            settings.backlog_line(Some(5000)).as_deref(),
            Some(
                "the kernel allows 4096 connections that wait to be accepted, not 5000 \
                 (`sysctl -w net.core.somaxconn=5000`, then start again)"
            )
        );
    }

    #[test]
    fn a_length_beyond_the_range_of_the_kernel_is_the_longest() {
        assert_eq!(QueueSettings::default().backlog(Some(u32::MAX)).for_kernel(), i32::MAX);
        assert_eq!(QueueSettings::default().backlog(Some(7)).for_kernel(), 7);
    }

    #[track_caller]
    fn check_fast_open(tcp_fastopen: Option<u32>, set: Option<Result<(), Errno>>, expected: &str) {
        let settings = QueueSettings { somaxconn: Some(100), tcp_fastopen };
        assert_eq!(settings.fast_open_lines(64, set).join("; "), expected);
        assert_eq!(settings.fast_open_lines(0, set), [""; 0], "nothing is asked for");
    }

    #[test]
    fn fast_open_that_is_not_in_force_is_told_with_a_remedy() {
        for on in [Some(2), Some(3), Some(0x402), None] {
            check_fast_open(on, Some(Ok(())), "");
        }
        let off = "TCP Fast Open is off for servers: net.ipv4.tcp_fastopen is 1 \
                   (`sysctl -w net.ipv4.tcp_fastopen=3` turns it on at once)";
        check_fast_open(Some(1), Some(Ok(())), off);
        check_fast_open(Some(1), None, "TCP Fast Open has no effect: no listener is TCP");
        check_fast_open(
            Some(1),
            Some(Err(Errno::NOPROTOOPT)),
            "the kernel refuses TCP Fast Open: Protocol not available (os error 92)",
        );
        let settings = QueueSettings { somaxconn: Some(100), tcp_fastopen: Some(3) };
        assert_eq!(
            settings.fast_open_lines(101, Some(Ok(()))),
            ["the kernel allows 100 pending TCP Fast Open requests, not 101 \
              (`sysctl -w net.core.somaxconn=101`, then start again)"]
        );
    }

    #[test]
    fn the_settings_of_this_network_namespace_can_be_read() {
        let found = QueueSettings::read();
        let read = fs::read_to_string("/proc/sys/net/core/somaxconn").expect("somaxconn");
        assert_eq!(found.somaxconn.map(|length| length.to_string()).as_deref(), Some(read.trim()));
        assert!(found.tcp_fastopen.is_some());
    }
}
