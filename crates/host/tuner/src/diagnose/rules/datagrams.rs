//! UDP datagrams that were dropped for lack of room, and their sockets.

use super::figures::{bytes, count, happened};
use super::host::{RuleInput, named};
use super::rule::{Explanation, Remedy, Rule};
use super::stalled::stopped;
use crate::observe::facts::DatagramSocket;
use crate::observe::reading::{Rate, Reading};
use crate::{Evidence, Finding, Severity};

pub(super) const RULES: &[Rule] = &[
    Rule {
        explanation: Explanation {
            rule: "udp-receive-full",
            title: "datagrams are dropped because their program does not read them in time (UDP)",
            evidence: "Udp.RcvbufErrors or Udp6.RcvbufErrors grows, or a socket counts drops (/proc/net/udp). Critical \
                       from one in 10,000 received on.",
            meaning: "A datagram came when the receive buffer of its socket was full. UDP has no memory of it: the \
                      client waits for an answer until it gives up. A socket that drops counts datagrams with a wrong \
                      checksum, too; those are rare.",
            remedy: "If the program has no time (cpus-full, scheduling-delay) or does not run, that is the cause. \
                     Otherwise more threads or sockets that read (SO_REUSEPORT), fewer answers asked for at once by \
                     each client, or a larger buffer: SO_RCVBUF in the program, net.core.rmem_default before it \
                     starts. TCP loses nothing.",
        },
        remedy: Remedy::ByHand,
        find: receive_full,
    },
    Rule {
        explanation: Explanation {
            rule: "udp-send-full",
            title: "datagrams cannot be sent for lack of room (UDP)",
            evidence: "Udp.SndbufErrors or Udp6.SndbufErrors grows.",
            meaning: "The queue of the network device, or the send buffer of a socket, was full when a program sent. \
                      The kernel does not say whose.",
            remedy: "Answers in smaller bursts, a longer queue of the device (txqueuelen, or the qdisc's limit), or \
                     net.core.wmem_default. TCP waits instead.",
        },
        remedy: Remedy::ByHand,
        find: send_full,
    },
];

/// As for packets that a device drops (proposal).
const LOSS_CRITICAL: f64 = 1e-4;

/// The counters of both families, those that have grown.
fn grown(host: &RuleInput, name: &str) -> Vec<(String, Rate)> {
    let counters = ["Udp", "Udp6"].map(|family| format!("{family}.{name}"));
    let rate = |counter: String| {
        let rate = host.series.protocol(&counter).filter(|rate| rate.count > 0)?;
        Some((counter, rate))
    };
    counters.into_iter().filter_map(rate).collect()
}

fn receive_full(host: &RuleInput) -> Vec<Finding> {
    let errors = grown(host, "RcvbufErrors");
    let dropping = dropping(host);
    if dropping.is_empty() && errors.is_empty() {
        return Vec::new();
    }
    let received: u64 = grown(host, "InDatagrams").iter().map(|(_, rate)| rate.count).sum();
    let finding = |lost: u64, subject: String| {
        let critical = lost as f64 >= LOSS_CRITICAL * (received + lost) as f64;
        let severity = if critical { Severity::Critical } else { Severity::Warning };
        let finding = Finding::about(severity, subject).effect("clients get an answer to every datagram");
        errors.iter().fold(finding, |finding, (counter, rate)| {
            finding.saw(host.measured(counter, happened(*rate)).threshold("0"))
        })
    };
    if dropping.is_empty() {
        let lost = errors.iter().map(|(_, rate)| rate.count).sum();
        let cause = "datagrams found the receive buffer of a socket full that is closed by now";
        return vec![finding(lost, "UDP".to_owned()).cause(cause)];
    }
    let each = dropping.into_iter().map(|(socket, rate)| {
        let (who, has) = holder(host, socket);
        let finding = finding(rate.count, who.clone())
            .saw(host.measured(format!("dropped at {}", socket.address), happened(rate)).threshold("0"));
        let queued = host.series.last().datagrams.get(&socket.inode);
        let queued = queued.map_or_else(|| "unknown".to_owned(), |counts| bytes(counts.queued_bytes));
        let finding = finding.saw(Evidence::setting("waiting to be read, at the end", queued));
        let finding = match host.facts.sysctl("net.core.rmem_default") {
            Some(room) => finding.saw(Evidence::setting("net.core.rmem_default", count(room))),
            None => finding,
        };
        match stopped(host, socket.pid) {
            Some(stall) => finding
                .cause(format!("{who} {}, and its datagrams are dropped", stall.words))
                .not_here(stall.reason),
            None => finding.cause(format!(
                "{who} does not read datagrams at {} as fast as they come{has}",
                socket.address
            )),
        }
    });
    each.collect()
}

/// Sockets that dropped datagrams in the window, the worst first.
fn dropping<'a>(host: &RuleInput<'a>) -> Vec<(&'a DatagramSocket, Rate)> {
    let drops = |socket: &'a DatagramSocket| {
        let dropped = |reading: &Reading| Some(reading.datagrams.get(&socket.inode)?.dropped);
        Some((socket, host.series.rate(dropped).filter(|rate| rate.count > 0)?))
    };
    let mut found: Vec<_> = host.facts.datagrams.iter().filter_map(drops).collect();
    found.sort_by_key(|(_, rate)| std::cmp::Reverse(rate.count));
    found
}

/// The process that holds a socket, and its CPU time.
fn holder(host: &RuleInput, socket: &DatagramSocket) -> (String, String) {
    let Some(pid) = socket.pid else { return (format!("the program at {}", socket.address), String::new()) };
    let service = host.facts.services.iter().find(|service| service.pid == pid);
    let process = host.series.last().processes.get(&pid);
    let name = match (service, process) {
        (Some(service), _) => named(service),
        (None, Some(process)) => format!("{} (PID {pid})", process.name),
        (None, None) => format!("process {pid}"),
    };
    let used = super::contention::share(host, pid);
    (name, used.map_or(String::new(), |used| format!(", with {} of a CPU", super::figures::percent(used))))
}

fn send_full(host: &RuleInput) -> Vec<Finding> {
    let errors = grown(host, "SndbufErrors");
    if errors.is_empty() {
        return Vec::new();
    }
    let finding = Finding::about(Severity::Warning, "UDP")
        .cause("datagrams could not be sent: a device's queue or a socket's buffer was full")
        .effect("clients get an answer to every datagram");
    vec![errors.iter().fold(finding, |finding, (counter, rate)| {
        finding.saw(host.measured(counter, happened(*rate)).threshold("0"))
    })]
}

#[cfg(test)]
mod tests {
    use crate::diagnose::rules::situation::check;

    #[test]
    fn datagrams_that_nobody_reads_in_time_have_a_service() {
        let host = "service memcached pid=812\n process memcached pid=812 run=97
             datagrams 0.0.0.0:11211 pid=812 dropped=300 queued=212992\n datagrams 0.0.0.0:53 pid=9\n
             sysctl net.core.rmem_default=212992\n";
        check(
            &format!("{host} count Udp.RcvbufErrors=300 Udp.InDatagrams=90000"),
            "udp-receive-full critical fixable memcached (PID 812): 300 (10 /s), 300 (10 /s), 208 KiB, 212,992
             one udp-receive-full
             says memcached (PID 812) does not read datagrams at 0.0.0.0:11211 as fast as they come, with 97 % of a CPU",
        );
        check(
            &format!("{host} count Udp6.RcvbufErrors=300 Udp6.InDatagrams=9000000"),
            "udp-receive-full warning memcached (PID 812): 300",
        );
    }

    #[test]
    fn a_stopped_program_needs_no_larger_buffer() {
        check(
            "datagrams :9 pid=8 dropped=3\n process named pid=8 state=T",
            "udp-receive-full not-here named (PID 8): 3\n says named (PID 8) is stopped",
        );
    }

    #[test]
    fn drops_of_a_closed_socket_are_told_without_a_name() {
        check("datagrams :9 pid=8\n count Udp.RcvbufErrors=3", "udp-receive-full UDP: 3");
        check("datagrams :9 pid=8\n count Udp.RcvbufErrors=0", "no udp-receive-full");
        check("count Udp.SndbufErrors=3", "udp-send-full warning UDP: 3\n no udp-receive-full");
        check("count Udp.SndbufErrors=0", "no udp-send-full");
    }
}
