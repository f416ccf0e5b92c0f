//! Connections: limits of the program that holds them, and retransmissions.

use super::figures::{count, happened, percent};
use super::host::{RuleInput, named};
use super::queues::lost_for_want_of_descriptors;
use super::rule::{Explanation, Remedy, Rule};
use crate::observe::facts::Service;
use crate::observe::reading::Rate;
use crate::{Evidence, Finding, Severity};

pub(super) const RULES: &[Rule] = &[
    Rule {
        explanation: Explanation {
            rule: "descriptors-short",
            title: "a service has nearly as many descriptors open as it may",
            evidence: "Entries of /proc/PID/fd, of the soft limit of open files: a warning from 80 % on, critical from \
                       97 %.",
            meaning: "When none is left, accept(2) fails (EMFILE): new clients wait in the accept queue, and files \
                      cannot be opened.",
            remedy: "LimitNOFILE= in the unit (or ulimit -n before the start), and close what leaks; `prlimit --pid PID \
                     --nofile` raises it for a running program that does not remember the old one.",
        },
        remedy: Remedy::ByHand,
        find: descriptors,
    },
    Rule {
        explanation: Explanation {
            rule: "connections-limit",
            title: "a cache has nearly as many clients as it takes",
            evidence: "Sockets of memcached or Evenkeel without those that listen, of -c (1,024 if it is not given): a \
                       warning from 80 % on, critical from 97 %.",
            meaning: "At the limit memcached stops accepting, or, with maxconns_fast, refuses: clients wait or see \
                      errors, and the accept queue overflows for want of nothing that the host has.",
            remedy: "A larger -c at the next start, or fewer connections for each client: a pool, a proxy, an idle \
                     timeout (-o idle_timeout).",
        },
        remedy: Remedy::ByHand,
        find: limit,
    },
    Rule {
        explanation: Explanation {
            rule: "connections-refused",
            title: "a cache turns clients away, or does not answer",
            evidence: "With --memcached: listen_disabled_num or rejected_connections grows, or `stats` is not answered \
                       each time.",
            meaning: "listen_disabled_num counts how often the limit of connections stopped the cache from accepting, \
                      rejected_connections whom it turned away at once.",
            remedy: "A larger -c at the next start, or fewer connections for each client.",
        },
        remedy: Remedy::ByHand,
        find: refused,
    },
    Rule {
        explanation: Explanation {
            rule: "retransmits",
            title: "much has to be sent twice (TCP)",
            evidence: "Tcp.RetransSegs of Tcp.OutSegs, from 100 of them on: a warning from 1 %, critical from 5 %.",
            meaning: "Segments were lost, or their acknowledgements came too late. Each costs its connection 200 ms or \
                      more unless later segments give it away. Clients that have gone without a word add some.",
            remedy: "If this host drops packets, the findings say where. Otherwise the loss is on the way or at the \
                     other end: the switch, a full link, the clients' own queues.",
        },
        remedy: Remedy::ByHand,
        find: retransmits,
    },
];

/// Room for a burst of clients that come back (proposal).
const NEAR_PERCENT: f64 = 80.0;
const FULL_PERCENT: f64 = 97.0;
/// On a healthy local network fewer than one segment in a thousand is retransmitted (proposal).
const RETRANSMITS_WARNING_PERCENT: f64 = 1.0;
const RETRANSMITS_CRITICAL_PERCENT: f64 = 5.0;
/// Fewer are too few to judge.
const RETRANSMITS_MIN: u64 = 100;

/// Fill level; `None`: not nearly full.
fn fullness(now: u64, max: u64) -> Option<Severity> {
    match 100.0 * now as f64 / max.max(1) as f64 {
        full if full >= FULL_PERCENT => Some(Severity::Critical),
        full if full >= NEAR_PERCENT => Some(Severity::Warning),
        _ => None,
    }
}

fn full(what: &str, now: u64, max: u64) -> Evidence {
    Evidence::setting(what, format!("{} of {}", count(now), count(max))).threshold(percent(NEAR_PERCENT))
}

fn descriptors(host: &RuleInput) -> Vec<Finding> {
    let finding = |service: &Service| {
        let (now, max) = (service.descriptors?, service.descriptors_max?);
        Some(
            Finding::about(fullness(now, max)?, named(service))
                .cause(format!("{} has nearly all descriptors open that it may", named(service)))
                .effect("it can accept and open as much as it needs")
                .saw(full("open descriptors", now, max)),
        )
    };
    host.facts.services.iter().filter_map(finding).collect()
}

fn limit(host: &RuleInput) -> Vec<Finding> {
    let finding = |service: &Service| {
        let listens =
            host.facts.listeners.iter().filter(|listener| listener.pid == Some(service.pid)).count();
        let datagrams = host.facts.datagrams.iter().filter(|socket| socket.pid == Some(service.pid)).count();
        let now = service.sockets?.saturating_sub((listens + datagrams) as u64);
        let max = service.connections_max?;
        Some(
            Finding::about(fullness(now, max)?, named(service))
                .cause(format!("{} has nearly as many clients as it takes (-c)", named(service)))
                .effect("new clients are accepted at once")
                .saw(full("connections", now, max)),
        )
    };
    host.facts.services.iter().filter_map(finding).collect()
}

fn refused(host: &RuleInput) -> Vec<Finding> {
    host.series.last().caches.keys().filter_map(|server| refused_by(host, server)).collect()
}

fn refused_by(host: &RuleInput, server: &str) -> Option<Finding> {
    let asked: Vec<_> =
        host.series.readings().iter().filter_map(|reading| reading.caches.get(server)).collect();
    // A program that is full does not answer this program either.
    let answers: Vec<_> = asked.iter().filter(|answer| !answer.is_empty()).collect();
    let grown = |name: &'static str| {
        let counts: Vec<u64> =
            answers.iter().map(|answer| answer.get(name).copied()).collect::<Option<_>>()?;
        let count = counts.last()?.checked_sub(*counts.first()?).filter(|count| *count > 0)?;
        counts.is_sorted().then(|| (name, Rate { count, window_s: host.series.window_s() }))
    };
    let refused: Vec<(&str, Rate)> =
        ["listen_disabled_num", "rejected_connections"].into_iter().filter_map(grown).collect();
    let cause = match (answers.len(), refused.is_empty()) {
        (0, _) => format!("{server} does not answer `stats`: it is stuck, full, or no cache"),
        (_, false) => format!("{server} has as many clients as it takes, and turned others away"),
        (some, true) if some < asked.len() => {
            format!("{server} did not answer `stats` each time: it was stuck, full, or started again")
        }
        _ => return None,
    };
    let mut finding =
        Finding::about(Severity::Critical, server).cause(cause).effect("clients are accepted and answered");
    if answers.len() < asked.len() {
        finding = finding.saw(host.measured("answers", format!("{} of {}", answers.len(), asked.len())));
    }
    let finding = refused.iter().fold(finding, |finding, (name, rate)| {
        finding.saw(host.measured(*name, happened(*rate)).threshold("0"))
    });
    let gauges = ["curr_connections", "max_connections"];
    let known = gauges.iter().filter_map(|name| Some((*name, answers.last()?.get(*name)?)));
    Some(known.fold(finding, |finding, (name, value)| finding.saw(Evidence::setting(name, count(*value)))))
}

fn retransmits(host: &RuleInput) -> Vec<Finding> {
    let rate = |name: &str| host.series.protocol(name);
    let (Some(again), Some(sent)) = (rate("Tcp.RetransSegs"), rate("Tcp.OutSegs")) else { return Vec::new() };
    let share = 100.0 * again.count as f64 / sent.count.max(1) as f64;
    if again.count < RETRANSMITS_MIN || share < RETRANSMITS_WARNING_PERCENT {
        return Vec::new();
    }
    let critical = share >= RETRANSMITS_CRITICAL_PERCENT;
    let mut finding = Finding::about(if critical { Severity::Critical } else { Severity::Warning }, "TCP")
        .cause(format!("{} of what was sent had to be sent again", percent(share)))
        .effect("no request waits for a timeout of TCP")
        .saw(host.measured("Tcp.RetransSegs", happened(again)))
        .saw(host.measured("of Tcp.OutSegs", percent(share)).threshold(percent(RETRANSMITS_WARNING_PERCENT)));
    for name in ["TcpExt.TCPSynRetrans", "TcpExt.TCPTimeouts", "TcpExt.TCPLostRetransmit"] {
        if let Some(rate) = rate(name).filter(|rate| rate.count > 0) {
            finding = finding.saw(host.measured(name, happened(rate)));
        }
    }
    vec![match drops_here(host) {
        true => finding,
        false => finding.not_here(
            "this host counted no packet that it dropped: the loss is on the way or at the other end",
        ),
    }]
}

/// Whether this host lost packets itself: in a device's ring, a CPU's backlog, on output, or by an allowance.
fn drops_here(host: &RuleInput) -> bool {
    let backlog = host.softnet(|row| row.dropped);
    let is_lost = |counter: &str| ["tx_dropped", "tx_errors", "rx_dropped"].contains(&counter);
    backlog.values().any(|dropped| *dropped > 0)
        || host.wires().any(|nic| {
            lost_for_want_of_descriptors(host, nic)
                || host.at_allowance(nic)
                || !host.grown(nic, is_lost).is_empty()
        })
}

#[cfg(test)]
mod tests {
    use crate::diagnose::rules::situation::check;

    #[test]
    fn descriptors_that_run_out() {
        let host = "service memcached pid=812 descriptors=OPEN/1024";
        let open = |number: &str| host.replace("OPEN", number);
        check(&open("994"), "descriptors-short critical memcached (PID 812): 994 of 1,024");
        check(&open("820"), "descriptors-short warning memcached (PID 812): 820 of 1,024");
        check(&open("819"), "no descriptors-short");
    }

    #[test]
    fn a_cache_that_takes_no_more_clients() {
        let host = "service memcached pid=812 connections=OPEN/1024\n listener :1 backlog=1024 pid=812\n datagrams :1 pid=812";
        let open = |number: &str| host.replace("OPEN", number);
        check(&open("1026"), "connections-limit critical memcached (PID 812): 1,024 of 1,024");
        check(&open("822"), "connections-limit warning memcached (PID 812): 820 of 1,024");
        check(&open("821"), "no connections-limit");
    }

    #[test]
    fn what_the_cache_itself_says_of_clients_that_it_turned_away() {
        check(
            "cache a:1 listen_disabled_num=30 rejected_connections=0 curr_connections=1024 max_connections=1024",
            "connections-refused critical a:1: 30 (1.0 /s), 1,024, 1,024",
        );
        check("cache a:1 listen_disabled_num=0 rejected_connections=0", "no connections-refused");
        check("cache a:1", "connections-refused critical a:1: 0 of 4\n says a:1 does not answer");
    }

    #[test]
    fn a_cache_that_is_full_when_it_is_asked_turns_clients_away() {
        for reading in 0..4 {
            let silent = |more: &str| format!("cache a:1 {more} silent={reading}");
            check(
                &silent("listen_disabled_num=0"),
                "connections-refused critical a:1: 3 of 4\n says a:1 did not answer `stats` each time",
            );
            check(
                &silent("listen_disabled_num=30"),
                "connections-refused critical a:1: 3 of 4\n says a:1 has as many clients as it takes",
            );
        }
    }

    #[test]
    fn what_has_to_be_sent_twice() {
        let host = "nic eth0\n count Tcp.OutSegs=10000 Tcp.RetransSegs=AGAIN TcpExt.TCPTimeouts=7\n";
        let again = |number: &str| host.replace("AGAIN", number);
        check(&again("500"), "retransmits critical not-here TCP: 500 (17 /s), 5.0 %, 7");
        check(&again("100"), "retransmits warning not-here TCP: 100");
        check(&again("99"), "no retransmits");
        check(&format!("{} count eth0 tx_dropped=1", again("500")), "retransmits critical fixable TCP");
        check("count Tcp.OutSegs=50000 Tcp.RetransSegs=499", "no retransmits");
    }
}
