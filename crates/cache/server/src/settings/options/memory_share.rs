//! `-m auto` and `-m 80%`: a limit for items from the memory that the process may use.

use ::flags::{SizeShare, show_size};
use stdx::units::MIB;

/// What a server needs whatever its limit is: code, threads, buffers (docs/serve/guide.md, "The memory limit").
const BASE_BYTES: u64 = 48 * MIB;

/// What it needs beside a hundred bytes of the limit.
const BESIDE_PERCENT: u64 = 5;

/// `auto` on a host without a limit: the rest is for the kernel, its buffers of sockets, and other programs.
const HOST_PERCENT: u64 = 75;

/// The memory that a process may use, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryFound {
    /// The limit of its control group: beyond it the kernel ends the process.
    Limit(u64),
    /// All of the host's, which other programs use, too.
    Host(u64),
}

/// The limit for items in bytes, and what it is a share of, in words.
pub(super) fn limit(share: SizeShare, found: Option<MemoryFound>) -> Result<(u64, String), String> {
    let found = found.ok_or_else(|| {
        format!("-m {share}: this host does not say how much memory it has (/proc/meminfo): give a size, such as -m 1024")
    })?;
    let of = |bytes: u64, percent: u64| bytes.saturating_mul(percent) / 100;
    let (bytes, words) = match found {
        MemoryFound::Limit(limit) => {
            let room = limit.saturating_sub(BASE_BYTES).saturating_mul(100) / (100 + BESIDE_PERCENT);
            let bytes = match share {
                SizeShare::Auto => room,
                SizeShare::Percent(percent) => of(limit, percent.into()).min(room),
            };
            (bytes, format!("the control group's limit of {}", megabytes(limit)))
        }
        MemoryFound::Host(all) => {
            let percent = match share {
                SizeShare::Auto => HOST_PERCENT,
                SizeShare::Percent(percent) => percent.into(),
            };
            (of(all, percent), format!("the host's {}", megabytes(all)))
        }
    };
    let least = store::MEMORY_LIMIT_MIN;
    if bytes < least {
        return Err(format!("-m {share}: expected room for {} at least, found {words}", show_size(least)));
    }
    let whole = bytes.min(store::MEMORY_LIMIT_MAX) / MIB * MIB;
    Ok((whole.max(least), format!("-m {share} of {words}")))
}

fn megabytes(bytes: u64) -> String {
    format!("{} MB", bytes / MIB)
}

#[cfg(test)]
mod tests {
    use stdx::units::GIB;

    use super::*;

    #[track_caller]
    fn check(share: SizeShare, found: MemoryFound, megabytes: u64, words: &str) {
        assert_eq!(limit(share, Some(found)), Ok((megabytes * MIB, words.to_owned())));
    }

    #[test]
    fn what_is_beside_items_fits_below_the_limit_of_a_control_group() {
        let limit = MemoryFound::Limit(GIB);
        check(SizeShare::Auto, limit, 929, "-m auto of the control group's limit of 1024 MB");
        check(SizeShare::Percent(50), limit, 512, "-m 50% of the control group's limit of 1024 MB");
        check(SizeShare::Percent(100), limit, 929, "-m 100% of the control group's limit of 1024 MB");
    }

    #[test]
    fn a_host_without_a_limit_keeps_memory_for_others() {
        let host = MemoryFound::Host(4 * GIB);
        check(SizeShare::Auto, host, 3072, "-m auto of the host's 4096 MB");
        check(SizeShare::Percent(80), host, 3276, "-m 80% of the host's 4096 MB");
    }

    #[test]
    fn a_share_without_room_is_refused() {
        let refused = limit(SizeShare::Auto, Some(MemoryFound::Limit(49 * MIB))).expect_err("too small");
        assert!(refused.ends_with("found the control group's limit of 49 MB"), "{refused}");
        assert!(limit(SizeShare::Percent(80), None).expect_err("unknown").contains("give a size"));
    }
}
