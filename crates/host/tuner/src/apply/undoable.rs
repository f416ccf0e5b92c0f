//! Settings that rollback may write: those that a plan or an experiment of this program may have set.
//!
//! A journal is root's alone, and its lines have checksums. Still, whoever has made one of its lines does not make
//! root write to any other file.

use crate::plan::change::{Holds, Setting};

/// The requester of the changes for an experiment of `evenkeel lab`.
pub const EXPERIMENT: &str = "lab";

/// Whether an experiment may name this file.
pub fn is_of_an_experiment(path: &str) -> bool {
    let is_below = ["/proc/sys/", "/sys/", "/proc/irq/"].iter().any(|root| path.starts_with(root));
    is_below && !path.split('/').any(|part| part == "..")
}

/// Whether a step of this requester may be undone; none: a setting that was reset by another step.
pub(super) fn may_be_undone(setting: &Setting, asked_by: Option<&str>) -> bool {
    match (setting, asked_by) {
        (Setting::File { path, .. }, Some(EXPERIMENT)) => is_of_an_experiment(path),
        (Setting::File { path, .. }, None) => is_ours(setting) || is_reset(path),
        _ => is_ours(setting),
    }
}

/// Whether a change of queues, or of the same limit in its other unit, resets this file.
fn is_reset(path: &str) -> bool {
    matches("/sys/class/net/*/queues/tx-#/xps_rxqs", path) || other_unit(path).is_some()
}

/// One limit in two units: writing one file sets the other one to 0. Most of them do not accept 0 themselves; to get
/// 0, write the other one.
const UNITS: [[&str; 2]; 3] = [
    ["/proc/sys/vm/dirty_bytes", "/proc/sys/vm/dirty_ratio"],
    ["/proc/sys/vm/dirty_background_bytes", "/proc/sys/vm/dirty_background_ratio"],
    ["/proc/sys/vm/overcommit_kbytes", "/proc/sys/vm/overcommit_ratio"],
];

/// The file with the same limit in its other unit.
pub(super) fn other_unit(path: &str) -> Option<&'static str> {
    UNITS.into_iter().find_map(|[one, other]| match path {
        _ if path == one => Some(other),
        _ if path == other => Some(one),
        _ => None,
    })
}

/// Files that strategies, profiles and remedies set. `#` stands for a number, `*` for any name, `**` for directories.
/// Tests check all their plans against it.
const OURS: [(&str, Holds); 27] = [
    ("/proc/irq/#/smp_affinity", Holds::Mask),
    ("/sys/class/net/*/queues/rx-#/rps_cpus", Holds::Mask),
    ("/sys/class/net/*/queues/rx-#/rps_flow_cnt", Holds::Number),
    ("/sys/class/net/*/queues/tx-#/xps_cpus", Holds::Mask),
    ("/sys/class/net/*/gro_flush_timeout", Holds::Number),
    ("/sys/class/net/*/napi_defer_hard_irqs", Holds::Number),
    ("/proc/sys/net/core/rps_sock_flow_entries", Holds::Number),
    ("/proc/sys/net/core/netdev_max_backlog", Holds::Number),
    ("/proc/sys/net/core/somaxconn", Holds::Number),
    ("/proc/sys/net/core/busy_read", Holds::Number),
    ("/proc/sys/net/core/busy_poll", Holds::Number),
    ("/proc/sys/net/ipv4/tcp_max_syn_backlog", Holds::Number),
    ("/proc/sys/net/ipv4/tcp_fastopen", Holds::Number),
    ("/proc/sys/vm/swappiness", Holds::Number),
    ("/proc/sys/vm/overcommit_memory", Holds::Number),
    ("/proc/sys/vm/dirty_ratio", Holds::Number),
    ("/proc/sys/vm/dirty_bytes", Holds::Number),
    ("/proc/sys/vm/dirty_background_ratio", Holds::Number),
    ("/proc/sys/vm/dirty_background_bytes", Holds::Number),
    ("/sys/kernel/mm/transparent_hugepage/enabled", Holds::Choice),
    ("/sys/kernel/mm/transparent_hugepage/defrag", Holds::Choice),
    ("/sys/block/*/queue/scheduler", Holds::Choice),
    ("/sys/block/*/queue/nomerges", Holds::Number),
    ("/sys/block/*/queue/read_ahead_kb", Holds::Number),
    ("/sys/devices/system/clocksource/clocksource0/current_clocksource", Holds::Choice),
    ("/sys/fs/cgroup/**/cpu.weight", Holds::Number),
    ("/sys/fs/cgroup/**/cpu.shares", Holds::Number),
];

/// Whether a plan of this program could set it. Settings without a file have types of their own, with their own
/// limits.
pub(crate) fn is_ours(setting: &Setting) -> bool {
    let Setting::File { path, holds } = setting else { return true };
    OURS.iter().any(|(pattern, held)| held == holds && matches(pattern, path))
}

fn matches(pattern: &str, path: &str) -> bool {
    let (mut wanted, mut found) = (pattern.split('/').peekable(), path.split('/').peekable());
    while let Some(pattern) = wanted.next() {
        if pattern == "**" {
            while found.peek().is_some_and(|name| Some(name) != wanted.peek()) {
                if !found.next().is_some_and(is_name) {
                    return false;
                }
            }
            continue;
        }
        let Some(name) = found.next() else { return false };
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let is_it = match pattern.strip_suffix('#') {
            Some(before) => name.strip_prefix(before).is_some_and(is_number),
            None => name == pattern || (pattern == "*" && is_name(name)),
        };
        if !is_it {
            return false;
        }
    }
    found.next().is_none()
}

/// The name of a file or directory without a way out of its parent.
fn is_name(name: &str) -> bool {
    !["", ".", ".."].contains(&name) && !name.contains('\0')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, holds: Holds, ours: bool) {
        assert_eq!(is_ours(&Setting::File { path: path.into(), holds }), ours, "{path}");
    }

    #[test]
    fn only_files_that_a_plan_of_ours_sets_are_ours() {
        check("/proc/irq/40/smp_affinity", Holds::Mask, true);
        check("/sys/class/net/eth0.7/queues/tx-12/xps_cpus", Holds::Mask, true);
        check("/sys/fs/cgroup/system.slice/memcached.service/cpu.weight", Holds::Number, true);
        check("/proc/irq/40/smp_affinity", Holds::Words, false);
        check("/proc/irq/x/smp_affinity", Holds::Mask, false);
        check("/proc/irq//smp_affinity", Holds::Mask, false);
        check("/proc/irq/default_smp_affinity", Holds::Mask, false);
        check("/proc/sys/kernel/core_pattern", Holds::Words, false);
        check("/proc/sys/net/core/somaxconn/", Holds::Number, false);
        check("/sys/class/net/../queues/rx-0/rps_cpus", Holds::Mask, false);
        check("/sys/class/net/eth0/../../../etc/rx-0/rps_cpus", Holds::Mask, false);
        check("/sys/fs/cgroup/../../../etc/cpu.weight", Holds::Number, false);
        check("/sys/fs/cgroup//cpu.weight/x", Holds::Number, false);
        check("/etc/passwd", Holds::Words, false);
        check("proc/irq/40/smp_affinity", Holds::Mask, false);
    }

    #[test]
    fn what_an_experiment_has_set_and_what_a_step_has_reset_is_undone() {
        let file = |path: &str, holds| Setting::File { path: path.to_owned(), holds };
        let check = |path: &str, holds, asked_by: Option<&str>, expected| {
            assert_eq!(may_be_undone(&file(path, holds), asked_by), expected, "{path} {asked_by:?}");
        };
        let (pattern, rxqs) = ("/proc/sys/kernel/core_pattern", "/sys/class/net/eth0/queues/tx-0/xps_rxqs");
        check(pattern, Holds::Words, Some(EXPERIMENT), true);
        check(pattern, Holds::Words, Some("xps"), false);
        check(pattern, Holds::Words, None, false);
        check("/etc/passwd", Holds::Words, Some(EXPERIMENT), false);
        check("/sys/../etc/passwd", Holds::Words, Some(EXPERIMENT), false);
        check(rxqs, Holds::Mask, None, true);
        check(rxqs, Holds::Mask, Some("xps"), false);
        check("/proc/sys/vm/overcommit_kbytes", Holds::Words, None, true);
        check("/proc/sys/net/core/somaxconn", Holds::Number, Some("x"), true);
        assert!(may_be_undone(&Setting::Thread { tid: 7 }, Some("x")));
    }
}
