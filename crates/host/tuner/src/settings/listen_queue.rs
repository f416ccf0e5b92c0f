//! Accept queues of listeners: longer ones, and Fast Open.
//!
//! A program sets both when it begins to listen, so each proposal is advice for its next start. With `--live` the
//! running program is changed, too. That change ends with the program, so the advice stays.

use crate::observe::facts::{Facts, ListeningSocket, Service, ServiceKind};
use crate::observe::listening::{ListenerHandle, QueueLimit};
use crate::settings::change::{Holds, Risk, Setting, Stage};
use crate::settings::proposal::{ProposedChanges, Reason};
use crate::settings::scope::Scope;
use crate::settings::signal::{ExpectedSignals, Figure, Moves};

/// Connections that may wait: what perftune and tuned's profiles set, and more than any burst that was reported.
pub(crate) const BACKLOG: u32 = 4096;

/// Memory of a connection that waits (slabinfo of Linux 6.1 and 6.18).
pub(crate) const CONNECTION_BYTES: u64 = 2560;

/// Requests that may have come with a SYN. They wait in the accept queue from then on, so forged SYNs fill at most a
/// quarter of it (RFC 7413, section 5.1).
const FAST_OPEN: u32 = BACKLOG / 4;

/// pidfd_getfd(2).
const KERNEL_MIN: (u32, u32) = (5, 6);
/// `kernel.yama.ptrace_scope`: until the next boot no process may trace another one.
const PTRACE_NEVER: u64 = 3;

const LONGER: Reason = Reason {
    why: "clients that find the queue full wait a second or more; listen(2) again changes its length and nothing else",
    risk: Risk::Low,
    signal: &[
        ExpectedSignals::figure(Figure::ListenOverflows, Moves::StandsStill),
        ExpectedSignals::words("`ss -ltn` shows the new length as Send-Q"),
    ],
};
const EARLIER: Reason = Reason {
    why: "clients that support it send their first request with the SYN, a round trip sooner; such a request may \
          arrive twice (RFC 7413, section 2.1)",
    risk: Risk::Moderate,
    signal: &[ExpectedSignals::figure(Figure::FastOpens, Moves::Grows)],
};

/// Accept queues of [`BACKLOG`] where they are shorter.
pub(crate) fn longer(proposed: &mut ProposedChanges, scope: &Scope) {
    let (facts, live) = (scope.facts(), scope.live);
    let listeners = scope.listeners(|_| true).into_iter();
    for listener in listeners.filter(|listener| listener.backlog < BACKLOG) {
        let (who, option) = (holder(facts, listener), backlog_option(facts.service_of(listener)));
        if live && change(proposed, facts, listener, QueueLimit::Backlog) {
            proposed.advice.push(format!(
                "the longer queue of {who} is lost when it is started again: give it {option} before that, and have \
                 net.core.somaxconn raised at boot"
            ));
        } else {
            proposed.advice.push(format!(
                "{who} listens with a backlog of {}: start it again with {option}, after net.core.somaxconn is \
                 raised{}",
                listener.backlog,
                without_restart(live)
            ));
        }
    }
}

/// Fast Open where it is off, of services that gain by it.
pub(crate) fn fast_open(proposed: &mut ProposedChanges, scope: &Scope) {
    let (facts, live) = (scope.facts(), scope.live);
    let listeners = scope.listeners(Service::clients_speak_first).into_iter();
    for listener in listeners.filter(|listener| listener.fast_open == Some(0)) {
        let who = holder(facts, listener);
        // 0x400 stands for TCP_FASTOPEN in every program that begins to listen (ip-sysctl.rst).
        const AT_START: &str = "set TCP_FASTOPEN in it, or net.ipv4.tcp_fastopen = 1027";
        if live && change(proposed, facts, listener, QueueLimit::FastOpen) {
            proposed.advice.push(format!(
                "Fast Open of {who} is lost when it is started again: {AT_START} at boot, before it starts"
            ));
        } else {
            proposed.advice.push(format!(
                "{who} takes no requests with the SYN: {AT_START} and start it again{}",
                without_restart(live)
            ));
        }
    }
}

/// A queue that overflows although it is long enough: the program is too slow.
pub(crate) fn not_for_slow_programs(proposed: &mut ProposedChanges, scope: &Scope) {
    refuse_long(proposed, scope, "the program accepts too slowly, which a longer one only hides");
}

/// A queue that overflows although it is long enough: the clients are too many.
pub(crate) fn not_for_crowds(proposed: &mut ProposedChanges, scope: &Scope) {
    let why = "this many clients at once should come spread over time, or are an attack";
    refuse_long(proposed, scope, why);
}

fn refuse_long(proposed: &mut ProposedChanges, scope: &Scope, why: &str) {
    let named = scope.named_listeners();
    if let Some(first) = named.first().filter(|_| named.iter().all(|listener| listener.backlog >= BACKLOG)) {
        proposed.refuse(&first.address, format!("a queue of {} overflows, too: {why}", first.backlog));
    }
}

/// Proposes the change, or gives the reason why it is not possible.
fn change(
    proposed: &mut ProposedChanges,
    facts: &Facts,
    listener: &ListeningSocket,
    limit: QueueLimit,
) -> bool {
    let ListeningSocket { address, inode, pid, started, .. } = listener;
    let refusal = match (pid, started) {
        _ if facts.kernel.version < KERNEL_MIN => "changing a running program takes Linux 5.6",
        _ if facts.sysctl("kernel.yama.ptrace_scope") == Some(PTRACE_NEVER) => {
            "kernel.yama.ptrace_scope is 3, so until the next boot no running program can be changed"
        }
        (Some(_), Some(_)) if limit_stays(facts, limit).is_some() => {
            let why = limit_stays(facts, limit).expect("it is there");
            proposed.refuse(address, why);
            return false;
        }
        (Some(pid), Some(started)) => {
            let socket =
                ListenerHandle { pid: *pid, started: *started, inode: *inode, address: address.clone() };
            let (now, wanted, reason) = match limit {
                QueueLimit::Backlog => (listener.backlog, BACKLOG, LONGER),
                QueueLimit::FastOpen => (0, FAST_OPEN, EARLIER),
            };
            let setting = Setting::Listener { socket, limit };
            proposed.propose(Stage::Listener, setting, now.to_string(), wanted.to_string(), reason);
            if limit == QueueLimit::Backlog {
                proposed.at_cost(u64::from(wanted) * CONNECTION_BYTES);
            }
            return true;
        }
        _ => "which program listens there is unknown: it takes root",
    };
    proposed.refuse(address, refusal);
    false
}

/// The sysctl that keeps a queue as short as it is and cannot be changed here, in words: a longer queue would be accepted,
/// and have no effect.
fn limit_stays(facts: &Facts, limit: QueueLimit) -> Option<String> {
    /// `net.ipv4.tcp_fastopen`: servers may take requests with the SYN (ip-sysctl.rst).
    const SERVERS: u64 = 2;
    let fast_open = limit == QueueLimit::FastOpen;
    let wanted = u64::from(if fast_open { FAST_OPEN } else { BACKLOG });
    let too_low = |name: &'static str, suffices: fn(u64, u64) -> bool| {
        let now = facts.sysctl(name).filter(|now| !suffices(*now, wanted))?;
        let place = facts.read_only_place(&Setting::sysctl(name, Holds::Number).to_string())?;
        Some(format!(
            "{name} is {now}, which limits it, and {place} is mounted read-only: change it on the host"
        ))
    };
    let longest = too_low("net.core.somaxconn", |now, wanted| now >= wanted);
    let servers = || too_low("net.ipv4.tcp_fastopen", |now, _| now & SERVERS != 0);
    longest.or_else(|| servers().filter(|_| fast_open))
}

fn holder(facts: &Facts, listener: &ListeningSocket) -> String {
    let ListeningSocket { address, pid, .. } = listener;
    match (facts.service_of(listener), pid) {
        (Some(Service { name, pid, .. }), _) => format!("{name} (PID {pid}) at {address}"),
        (None, Some(pid)) => format!("process {pid} at {address}"),
        (None, None) => format!("the program at {address}"),
    }
}

fn backlog_option(service: Option<&Service>) -> &'static str {
    match service.map(|service| service.kind).unwrap_or_default() {
        ServiceKind::Memcached | ServiceKind::Evenkeel => "-b 4096",
        ServiceKind::Mysql => "back_log=4096",
        ServiceKind::Redis => "tcp-backlog 4096",
        ServiceKind::Generic => "a backlog of 4096",
    }
}

fn without_restart(asked: bool) -> &'static str {
    if asked { "" } else { "; --live changes it as it runs" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::cpu_model::CpuModel;
    use crate::settings::proposal::Propose;
    use crate::settings::scope::FindingSubject;

    /// memcached with two workers of its own sockets at one port, and MySQL, all with short queues.
    fn host() -> Facts {
        let listener = |port: u16, inode, pid, backlog| ListeningSocket {
            address: format!("0.0.0.0:{port}"),
            port,
            inode,
            backlog,
            pid: Some(pid),
            started: Some(70),
            fast_open: Some(0),
            ..ListeningSocket::default()
        };
        let service = |pid, name: &str, kind| Service { pid, name: name.into(), kind, ..Service::default() };
        let mut facts = Facts {
            services: vec![
                service(8, "memcached", ServiceKind::Memcached),
                service(9, "mysqld", ServiceKind::Mysql),
            ],
            listeners: vec![
                listener(11211, 1, 8, 128),
                listener(11211, 2, 8, 128),
                listener(3306, 3, 9, 151),
                listener(22, 4, 7, 128),
                listener(11212, 5, 8, 4096),
            ],
            ..Facts::default()
        };
        facts.kernel.version = (6, 1);
        facts
    }

    /// What is proposed for a finding about an address.
    fn about(facts: &Facts, address: &str, live: bool, propose: Propose) -> ProposedChanges {
        let model = CpuModel::of(facts);
        let finding = Some(FindingSubject { name: address, is_note: false });
        let scope = Scope { finding, live, ..Scope::all(&model, &[]) };
        ProposedChanges::of("", &[propose], &scope)
    }

    fn proposed(facts: &Facts, port: u16, live: bool) -> ProposedChanges {
        about(facts, &format!("0.0.0.0:{port}"), live, longer)
    }

    #[test]
    fn each_socket_of_a_port_is_changed_and_the_restart_is_spoken_of_once_a_program() {
        let proposed = proposed(&host(), 11211, true);
        let settings: Vec<_> = proposed.changes.iter().map(|change| change.setting.to_string()).collect();
        let backlog = |socket| format!("backlog of 0.0.0.0:11211 (PID 8, socket {socket})");
        assert_eq!(settings, [backlog(1), backlog(2)]);
        assert!(proposed.changes.iter().all(|change| (&*change.now, &*change.wanted) == ("128", "4096")));
        assert_eq!(proposed.advice[0], proposed.advice[1]);
        assert!(
            proposed.advice[0].starts_with(
                "the longer queue of memcached (PID 8) at 0.0.0.0:11211 is lost when it is started again: give it \
                 -b 4096"
            ),
            "{:?}",
            proposed.advice
        );
    }

    #[test]
    fn without_live_changes_there_is_advice_alone() {
        let facts = host();
        for (port, option) in [(11211, "-b 4096"), (3306, "back_log=4096"), (22, "a backlog of 4096")] {
            let proposed = proposed(&facts, port, false);
            assert!(proposed.changes.is_empty());
            assert!(
                proposed.advice[0].contains(&format!("start it again with {option}")),
                "{:?}",
                proposed.advice
            );
            assert!(proposed.advice[0].ends_with("--live changes it as it runs"), "{:?}", proposed.advice);
        }
        assert_eq!(proposed(&facts, 11212, true), ProposedChanges::default(), "long enough");
    }

    #[test]
    fn what_cannot_be_changed_live_is_refused_with_the_reason_and_advised() {
        let check = |change: fn(&mut Facts), reason: &str| {
            let mut facts = host();
            change(&mut facts);
            let proposed = proposed(&facts, 3306, true);
            assert_eq!((proposed.changes.len(), proposed.advice.len()), (0, 1));
            assert!(proposed.refusals[0].reason.contains(reason), "{:?}", proposed.refusals);
        };
        check(|facts| facts.kernel.version = (5, 4), "takes Linux 5.6");
        check(|facts| facts.listeners[2].pid = None, "is unknown: it takes root");
        check(
            |facts| drop(facts.sysctls.insert("kernel.yama.ptrace_scope".into(), "3".into())),
            "ptrace_scope is 3",
        );
    }

    #[test]
    fn fast_open_is_switched_on_where_it_is_known_to_be_off() {
        let mut facts = host();
        facts.listeners[1].fast_open = Some(16);
        facts.listeners[2].fast_open = None;
        let proposed = about(&facts, "0.0.0.0:11211", true, fast_open);
        let [change] = &proposed.changes[..] else { panic!("{proposed:?}") };
        assert_eq!(
            (change.setting.to_string().as_str(), &*change.now, &*change.wanted, change.risk),
            ("Fast Open queue of 0.0.0.0:11211 (PID 8, socket 1)", "0", "1024", Risk::Moderate)
        );
        assert!(proposed.advice[0].contains("net.ipv4.tcp_fastopen = 1027 at boot"), "{:?}", proposed.advice);
    }
}
