//! Sysctls that have one value for the whole host: limits of queues, memory, busy polling.
//!
//! A limit is raised and never lowered where it is higher already.

use crate::observe::facts::Facts;
use crate::settings::change::{Holds, Risk, Setting, Stage};
use crate::settings::listen_queue;
use crate::settings::proposal::{ProposedChanges, Reason};
use crate::settings::scope::Scope;
use crate::settings::signal::{ExpectedSignals, Figure, Moves};

/// The operator of a value.
#[derive(Clone, Copy)]
enum Want {
    AtLeast(u64),
    AtMost(u64),
    Exactly(u64),
    /// These bits, besides those that are set.
    Bits(u64),
}

/// A requested sysctl.
struct Sysctl {
    name: &'static str,
    want: Want,
    reason: Reason,
}

/// The length of the longest queue.
const BACKLOG: u64 = listen_queue::BACKLOG as u64;

const ACCEPT_QUEUE: Sysctl = Sysctl {
    name: "net.core.somaxconn",
    want: Want::AtLeast(BACKLOG),
    reason: Reason {
        why: "it cuts every listener's backlog when it begins to listen (listen(2)); clients that find it full wait a second",
        risk: Risk::Low,
        signal: &[
            ExpectedSignals::figure(Figure::ListenOverflows, Moves::StandsStill),
            ExpectedSignals::words("the listener has to be started again or changed with --live first"),
        ],
    },
};
const SYN_QUEUE: Sysctl = Sysctl {
    name: "net.ipv4.tcp_max_syn_backlog",
    want: Want::AtLeast(BACKLOG),
    reason: Reason {
        why: "without SYN cookies handshakes of unknown clients are dropped from three quarters of it on",
        risk: Risk::Low,
        signal: &[ExpectedSignals::figure(Figure::SynQueueFull, Moves::StandsStill)],
    },
};
const FAST_OPEN: Sysctl = Sysctl {
    name: "net.ipv4.tcp_fastopen",
    // 1: clients, 2: servers (ip-sysctl.rst).
    want: Want::Bits(3),
    reason: Reason {
        why: "clients that support it send their first request with the SYN, a round trip sooner",
        risk: Risk::Low,
        signal: &[
            ExpectedSignals::figure(Figure::FastOpens, Moves::Grows),
            ExpectedSignals::words("the server has to set TCP_FASTOPEN"),
        ],
    },
};
const SWAPPINESS: Sysctl = Sysctl {
    name: "vm.swappiness",
    want: Want::AtMost(1),
    reason: Reason {
        why: "a cache whose memory is on the disk is slower than none; 1 swaps only to avoid running out of memory",
        risk: Risk::Low,
        signal: &[ExpectedSignals::figure(Figure::Swapping, Moves::StandsStill)],
    },
};
const OVERCOMMIT: Sysctl = Sysctl {
    name: "vm.overcommit_memory",
    want: Want::Exactly(1),
    reason: Reason {
        why: "saving in the background forks, which otherwise fails when memory is half used (Redis administration guide)",
        risk: Risk::Moderate,
        signal: &[ExpectedSignals::words("no more \"Can't save in background: fork\" in its log")],
    },
};
const DIRTY_BACKGROUND: Sysctl = Sysctl {
    name: "vm.dirty_background_ratio",
    want: Want::AtMost(5),
    reason: Reason {
        why: "writing begins earlier and in smaller portions (vm.rst), so reads wait less behind it",
        risk: Risk::Low,
        signal: &[ExpectedSignals::figure(Figure::DiskWait, Moves::Falls)],
    },
};
const DIRTY: Sysctl = Sysctl {
    name: "vm.dirty_ratio",
    want: Want::AtMost(15),
    reason: Reason {
        why: "write-back begins before so much has gathered that all programs wait for it (vm.rst)",
        risk: Risk::Low,
        signal: &[ExpectedSignals::figure(Figure::DiskWait, Moves::Falls)],
    },
};

const NETDEV_BACKLOG: &str = "net.core.netdev_max_backlog";
/// A longer backlog than this only delays packets that will be dropped: at 100,000 packets per second it holds a
/// third of a second (proposal).
const NETDEV_BACKLOG_MAX: u64 = 32_768;
const LONGER_BACKLOG: Reason = Reason {
    why: "bursts of steered packets wait here for their CPU; what does not fit is dropped",
    risk: Risk::Low,
    signal: &[ExpectedSignals::words("softnet_stat dropped stands still")],
};

/// Microseconds of busy polling; the value recommended by the kernel's documentation of `busy_poll` and `busy_read`.
const BUSY_POLL_US: u32 = 50;
const POLL: Reason = Reason {
    why: "a reader that finds nothing looks at the interface's queue itself before it sleeps",
    risk: Risk::Moderate,
    signal: &[
        ExpectedSignals::words("latency falls"),
        ExpectedSignals::figure(Figure::BusyTime, Moves::Rises),
    ],
};

/// Limits of the host that cut the accept queue of every listener.
pub(crate) fn accept_queues(proposed: &mut ProposedChanges, scope: &Scope) {
    let facts = scope.facts();
    set(proposed, facts, &ACCEPT_QUEUE);
    // With cookies the listener's backlog alone bounds its handshakes (tcp_conn_request in net/ipv4/tcp_input.c).
    if facts.sysctl("net.ipv4.tcp_syncookies").unwrap_or(0) == 0 {
        set(proposed, facts, &SYN_QUEUE);
    }
}

/// Fast Open for programs that ask for it.
pub(crate) fn fast_open(proposed: &mut ProposedChanges, scope: &Scope) {
    set(proposed, scope.facts(), &FAST_OPEN);
}

/// Less swapping.
pub(crate) fn swappiness(proposed: &mut ProposedChanges, scope: &Scope) {
    set(proposed, scope.facts(), &SWAPPINESS);
}

/// Less swapping, unless there is no swap.
pub(crate) fn swappiness_of_swap(proposed: &mut ProposedChanges, scope: &Scope) {
    if scope.facts().swap_bytes != Some(0) {
        swappiness(proposed, scope);
    }
}

/// Memory for a fork of a program that uses more than half of it.
pub(crate) fn overcommit(proposed: &mut ProposedChanges, scope: &Scope) {
    set(proposed, scope.facts(), &OVERCOMMIT);
}

/// Earlier write-back, in smaller portions.
pub(crate) fn dirty_pages(proposed: &mut ProposedChanges, scope: &Scope) {
    set(proposed, scope.facts(), &DIRTY_BACKGROUND);
    set(proposed, scope.facts(), &DIRTY);
}

/// Twice the queue of packets that wait for their CPU: if packets are still dropped then, bursts are not the cause.
pub(crate) fn netdev_backlog(proposed: &mut ProposedChanges, scope: &Scope) {
    match scope.facts().sysctl(NETDEV_BACKLOG) {
        Some(now) if now < NETDEV_BACKLOG_MAX => {
            let want = Want::AtLeast((now * 2).min(NETDEV_BACKLOG_MAX));
            set(proposed, scope.facts(), &Sysctl { name: NETDEV_BACKLOG, want, reason: LONGER_BACKLOG });
        }
        Some(now) => proposed.refuse(
            "kernel",
            format!(
                "{NETDEV_BACKLOG} is {now}: a longer queue would only delay packets, spread them over more CPUs"
            ),
        ),
        None => proposed.refuse("kernel", format!("{NETDEV_BACKLOG} cannot be read")),
    }
}

/// Readers that poll for packets themselves before they sleep.
pub(crate) fn busy_poll(proposed: &mut ProposedChanges, scope: &Scope) {
    for name in ["net.core.busy_read", "net.core.busy_poll"] {
        match scope.facts().sysctl(name) {
            Some(_) => {
                let want = Want::AtLeast(BUSY_POLL_US.into());
                set(proposed, scope.facts(), &Sysctl { name, want, reason: POLL });
            }
            None => proposed.refuse("kernel", format!("it has no {name}")),
        }
    }
}

fn set(proposed: &mut ProposedChanges, facts: &Facts, sysctl: &Sysctl) {
    let Some(now) = facts.sysctl(sysctl.name) else {
        return proposed.refuse("kernel", format!("{} cannot be read", sysctl.name));
    };
    let wanted = match sysctl.want {
        Want::AtLeast(least) => now.max(least),
        Want::AtMost(most) => now.min(most),
        Want::Exactly(value) => value,
        Want::Bits(bits) => now | bits,
    };
    let setting = Setting::sysctl(sysctl.name, Holds::Number);
    proposed.propose(Stage::Sysctl, setting, now.to_string(), wanted.to_string(), sysctl.reason);
    bytes(facts, sysctl.name, wanted).into_iter().for_each(|bytes| proposed.at_cost(bytes));
}

/// Memory of a waiting entry (slabinfo of Linux 6.1 and 6.18): one that is half open, a packet with its buffer.
const HALF_OPEN_BYTES: u64 = 320;
const PACKET_BYTES: u64 = 256 + 2048;

/// Memory of a full queue of this length.
fn bytes(facts: &Facts, name: &str, length: u64) -> Option<u64> {
    match name {
        "net.core.somaxconn" => Some(length * listen_queue::CONNECTION_BYTES),
        "net.ipv4.tcp_max_syn_backlog" => Some(length * HALF_OPEN_BYTES),
        NETDEV_BACKLOG => Some(length * PACKET_BYTES * facts.online().len() as u64),
        _ => None,
    }
}
