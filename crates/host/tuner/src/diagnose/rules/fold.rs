//! Merging of findings: the consequence of a finding is listed under it, and findings with the same cause for several
//! subjects become one.
//!
//! A table holds which rule explains which; each row has the condition that both must share. Nothing is left out: a
//! consequence keeps its evidence and its verdict below its cause.

use super::host::RuleInput;
use crate::observe::facts::{Facts, Service};
use crate::{Finding, RemedyStatus, Severity};
use os::CpuSet;

/// The condition that a cause and its consequence share.
#[derive(Clone, Copy)]
enum Share {
    /// The host only.
    Host,
    /// The subject.
    Subject,
    /// The CPU of the one, or a CPU that takes the interrupts of its interface.
    Cpu,
    /// All CPUs that the service may run on are those of the cause.
    Confined,
    /// The service is in the cause's cgroup.
    Cgroup,
    /// The listener belongs to the cause's service.
    Listener,
    /// net.core.somaxconn limits the listener's backlog.
    Cut,
}

/// A rule, and the condition that its finding shares with its cause.
type Consequence = (&'static str, Share);
/// A rule, the least severity from which on its finding explains another, and its consequences.
type Cause = (&'static str, Severity, &'static [Consequence]);

/// Of several causes, the first counts.
const CAUSES: &[Cause] = &[
    ("cpu-throttled", Severity::Note, &[("scheduling-delay", Share::Cgroup)]),
    ("cpu-stolen", Severity::Warning, &[("scheduling-delay", Share::Host)]),
    ("irqs-misplaced", Severity::Note, &[("irqs-piled-up", Share::Subject), ("queues-few", Share::Subject)]),
    ("irqs-misplaced", Severity::Warning, PACKETS_OF_QUEUES),
    ("irqs-misplaced", Severity::Warning, PACKETS),
    ("irqs-misplaced", Severity::Note, &[("xps-crossed", Share::Subject)]),
    ("irqs-piled-up", Severity::Note, &[("queues-few", Share::Subject)]),
    ("irqs-piled-up", Severity::Warning, PACKETS_OF_QUEUES),
    ("irqs-piled-up", Severity::Warning, PACKETS),
    ("irqs-piled-up", Severity::Note, &[("xps-crossed", Share::Subject)]),
    ("queues-few", Severity::Warning, PACKETS_OF_QUEUES),
    ("queues-few", Severity::Warning, PACKETS),
    ("rps-missing", Severity::Warning, &[("softirq-one-core", Share::Cpu)]),
    ("rps-missing", Severity::Warning, PACKETS),
    ("softirq-one-core", Severity::Warning, PACKETS),
    (
        "cpus-full",
        Severity::Warning,
        &[("scheduling-delay", Share::Confined), ("budget-squeezed", Share::Cpu)],
    ),
    ("descriptors-short", Severity::Critical, ACCEPTING),
    ("connections-limit", Severity::Critical, ACCEPTING),
    (
        "accept-stalled",
        Severity::Note,
        &[
            ("accept-overflow", Share::Subject),
            ("backlog-small", Share::Subject),
            ("syn-queue-full", Share::Subject),
        ],
    ),
    ("somaxconn-low", Severity::Note, &[("backlog-small", Share::Cut)]),
    (
        "backlog-small",
        Severity::Note,
        &[("accept-overflow", Share::Subject), ("syn-queue-full", Share::Subject)],
    ),
    ("swapping", Severity::Warning, &[("memory-pressure", Share::Subject)]),
    ("allowance-exceeded", Severity::Warning, LOST),
    ("device-dropped", Severity::Warning, LOST),
    ("ring-overrun", Severity::Warning, LOST),
    ("backlog-dropped", Severity::Warning, LOST),
];

/// Consequences of queues that reach too few CPUs, or the wrong ones.
const PACKETS_OF_QUEUES: &[Consequence] =
    &[("rps-missing", Share::Subject), ("softirq-one-core", Share::Cpu)];
/// Consequences of a CPU without time for packets. Its programs wait, too.
const PACKETS: &[Consequence] = &[
    ("ring-overrun", Share::Cpu),
    ("device-dropped", Share::Cpu),
    ("backlog-dropped", Share::Cpu),
    ("budget-squeezed", Share::Cpu),
    ("cpus-full", Share::Cpu),
    ("scheduling-delay", Share::Confined),
];
const ACCEPTING: &[Consequence] = &[
    ("accept-stalled", Share::Listener),
    ("accept-overflow", Share::Listener),
    ("backlog-small", Share::Listener),
];
const LOST: &[Consequence] = &[("retransmits", Share::Host)];

/// Findings with their consequences, similar ones merged.
pub(super) fn fold(host: &RuleInput, findings: Vec<Finding>) -> Vec<Finding> {
    let causes: Vec<Option<usize>> = (0..findings.len()).map(|place| cause(host, &findings, place)).collect();
    let mut places: Vec<Option<Finding>> = findings.into_iter().map(Some).collect();
    let roots: Vec<usize> = (0..places.len()).filter(|place| causes[*place].is_none()).collect();
    alike(roots.into_iter().filter_map(|root| with_consequences(root, &causes, &mut places)).collect())
}

/// The index of a finding's cause. Causes stand above their consequences in the table, so there is no circle.
fn cause(host: &RuleInput, findings: &[Finding], place: usize) -> Option<usize> {
    let explains = |(cause, least, leads_to): &Cause| {
        let (_, share) = leads_to.iter().find(|(rule, _)| *rule == findings[place].rule)?;
        findings.iter().enumerate().position(|(other, finding)| {
            let is_cause = finding.rule == *cause && finding.severity >= *least && other != place;
            is_cause && shares(host, finding, &findings[place], *share)
        })
    };
    CAUSES.iter().find_map(explains)
}

fn with_consequences(
    place: usize,
    causes: &[Option<usize>],
    places: &mut [Option<Finding>],
) -> Option<Finding> {
    let mut finding = places[place].take()?;
    let follow: Vec<usize> = (0..causes.len()).filter(|other| causes[*other] == Some(place)).collect();
    let follow = follow.into_iter().filter_map(|other| with_consequences(other, causes, places)).collect();
    finding.consequences = alike(follow);
    // A cause is as severe as its consequences.
    let worst = finding.consequences.iter().map(|consequence| consequence.severity).max();
    finding.severity = finding.severity.max(worst.unwrap_or(Severity::Note));
    Some(finding)
}

/// Merges findings with the same text but for names and numbers, at the place of the most severe.
fn alike(mut findings: Vec<Finding>) -> Vec<Finding> {
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    let mut folded: Vec<Finding> = Vec::new();
    for finding in findings {
        match folded.iter_mut().find(|other| is_alike(other, &finding)) {
            Some(other) => other.alike.push(finding),
            None => folded.push(finding),
        }
    }
    folded
}

fn is_alike(one: &Finding, other: &Finding) -> bool {
    let is_fixable = |finding: &Finding| finding.verdict == RemedyStatus::Fixable;
    one.rule == other.rule && is_fixable(one) == is_fixable(other) && sentence(one) == sentence(other)
}

/// The cause without its subject and its numbers.
fn sentence(finding: &Finding) -> String {
    crate::text::folded::without_numbers(&finding.cause.replace(&finding.subject, "it"))
        .replace("CPUs #", "CPU #")
}

fn shares(host: &RuleInput, cause: &Finding, consequence: &Finding, share: Share) -> bool {
    let facts = host.facts;
    match share {
        Share::Host => true,
        Share::Subject => cause.subject == consequence.subject,
        Share::Cpu => {
            let (one, other) = (cpus(host, &cause.subject), cpus(host, &consequence.subject));
            cause.subject == consequence.subject || !one.and(&other).is_empty()
        }
        Share::Confined => service_of(facts, &consequence.subject).is_some_and(|service| {
            let all = |cpus: CpuSet| if cpus.is_empty() { host.online.clone() } else { cpus };
            let reach =
                service.threads.iter().fold(CpuSet::new(), |reach, thread| reach.or(&thread.affinity));
            all(reach.and(&host.online)).without(&cpus(host, &cause.subject)).is_empty()
        }),
        Share::Cgroup => service_of(facts, &consequence.subject).is_some_and(|service| {
            let (above, cgroup) = (cause.subject.trim_end_matches('/'), service.cgroup.as_str());
            cgroup.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        }),
        Share::Listener => {
            let at = facts.listeners.iter().filter(|listener| listener.address == consequence.subject);
            let mut services = at.filter_map(|listener| facts.service_of(listener));
            services.any(|service| service.to_string() == cause.subject)
        }
        Share::Cut => {
            let mut at = facts.listeners.iter().filter(|listener| listener.address == consequence.subject);
            let somaxconn = facts.sysctl("net.core.somaxconn");
            at.any(|listener| somaxconn == Some(listener.backlog.into()))
        }
    }
}

fn service_of<'f>(facts: &'f Facts, subject: &str) -> Option<&'f Service> {
    facts.services.iter().find(|service| service.to_string() == subject)
}

/// The CPUs of a subject, or those that take its interrupts.
fn cpus(host: &RuleInput, subject: &str) -> CpuSet {
    if let Some(nic) = host.facts.nic(subject) {
        return host.receiving_cpus(nic);
    }
    if subject == "all CPUs" {
        return host.online.clone();
    }
    let list = subject.strip_prefix("CPUs ").or_else(|| subject.strip_prefix("CPU "));
    list.and_then(|list| CpuSet::parse_list(list).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use crate::diagnose::rules::situation::check_folded;

    #[test]
    fn causes_stand_above_their_consequences() {
        let place = |rule: &str| super::CAUSES.iter().position(|(cause, ..)| *cause == rule);
        for (at, (cause, _, leads_to)) in super::CAUSES.iter().enumerate() {
            assert!(crate::explain(cause).is_some(), "{cause}");
            for (rule, _) in *leads_to {
                assert!(crate::explain(rule).is_some(), "{rule}");
                assert!(
                    place(rule).is_none_or(|below| below > at),
                    "{rule} may lead to {cause}, which leads to it"
                );
            }
        }
    }

    #[test]
    fn eight_interrupts_on_one_cpu_are_one_finding() {
        check_folded(
            "cpus 8
             nic eth0 driver=ixgbe rx=8 tx=8 xps=0/1/2/3/4/5/6/7
             irqs 40-47 eth0-TxRx- on 0
             service memcached pid=812 cpus=0
             thread 812 wait=30 run=20 turns=900
             cpu 0 user=10 softirq=85
             NET_RX 0=900000 1-7=10
             softnet 0 squeezed=60 dropped=9
             count eth0 rx_packets=3000000 rx_missed_errors=9000",
            "critical irqs-piled-up eth0 > softirq-one-core ring-overrun scheduling-delay backlog-dropped budget-squeezed
             note packets-per-core all interfaces",
        );
    }

    #[test]
    fn four_equal_servers_are_one_finding() {
        let server = |pid: u32| {
            format!("service memcached pid={pid} cgroup=/a\n thread {pid} wait={} run=9 turns=9\n", pid / 10)
        };
        let servers: String = [81, 82, 83, 120].map(server).concat();
        let host = format!("cpus 2\n cpu 0-1 user=90\n {servers}");
        check_folded(&host, "critical scheduling-delay memcached (PID 120) = 81 82 83");
        check_folded(
            &format!("{host} cgroup /a periods=300 throttled=60 ms=900"),
            "critical cpu-throttled /a > scheduling-delay",
        );
        // Another cause is another finding.
        check_folded(
            &format!(
                "{host} service redis pid=9 cgroup=/b\n thread 9 wait=7 run=9 turns=9\n cgroup /b periods=300 throttled=60 ms=900"
            ),
            "critical cpu-throttled /b > scheduling-delay
             critical scheduling-delay memcached (PID 120) = 81 82 83",
        );
    }

    #[test]
    fn a_short_queue_is_told_once_with_what_cuts_it() {
        let host = "service memcached pid=812\n sysctl net.core.somaxconn=128\n listener :1 backlog=128 waiting=100 pid=812
             count TcpExt.ListenOverflows=90\n";
        check_folded(host, "critical somaxconn-low net.core.somaxconn > backlog-small");
        check_folded(
            &format!("{host} process memcached pid=812 state=T"),
            "critical accept-stalled :1 > accept-overflow\n note somaxconn-low net.core.somaxconn",
        );
        check_folded(
            &host.replace("pid=812\n sysctl", "pid=812 connections=1023/1024\n sysctl"),
            "critical connections-limit memcached (PID 812) > accept-overflow backlog-small
             note somaxconn-low net.core.somaxconn",
        );
    }
}
