//! Stalled programs, which do not read their input: stopped, blocked in the kernel, or without progress of accept(2).

use super::figures::count;
use super::host::{RuleInput, named};
use super::rule::{Explanation, Remedy, Rule};
use crate::observe::facts::ListeningSocket;
use crate::{Evidence, Finding, Severity};

pub(super) const RULES: &[Rule] = &[Rule {
    explanation: Explanation {
        rule: "accept-stalled",
        title: "a program does not accept the connections that wait for it",
        evidence: "Connections wait at a listener, and its program is stopped (state T) or waits in the kernel (state \
                   D, at every look), or none of those that waited at the first look has been accepted at the last, a \
                   second or more later.",
        meaning: "The queue is long because its program does not empty it. Clients are connected as far as they know, and wait for \
                  their first answer.",
        remedy: "Look at the program: `kill -CONT` if it is stopped, /proc/PID/stack if it waits in the kernel, its \
                 limit of connections or descriptors, a deadlock. A longer queue lets more clients wait.",
    },
    remedy: Remedy::ReportOnly,
    find: stalled,
}];

/// A program that waits for less time is only busy (proposal).
const STALLED_MIN_S: f64 = 1.0;

/// Reasons why connections are not accepted.
pub(super) struct Stall {
    /// `is stopped`
    pub(super) words: String,
    /// The reason why a setting does not help, and the remedy.
    pub(super) reason: String,
    /// `T (stopped)`, where it is known.
    pub(super) state: Option<String>,
}

fn stalled(host: &RuleInput) -> Vec<Finding> {
    let mut found: Vec<Finding> = Vec::new();
    for listener in &host.facts.listeners {
        // Workers that share an address wait for the same connections.
        let is_known = found.iter().any(|finding| finding.subject == listener.address);
        if let Some(stall) = stall(host, listener).filter(|_| !is_known) {
            found.push(finding(host, listener, &stall));
        }
    }
    found
}

fn finding(host: &RuleInput, listener: &ListeningSocket, stall: &Stall) -> Finding {
    let who = host.facts.service_of(listener).map(named);
    let who = who.or_else(|| listener.pid.map(|pid| program(host, pid)));
    let who = who.unwrap_or_else(|| format!("the program at {}", listener.address));
    let finding = Finding::about(Severity::Critical, &listener.address)
        .cause(format!(
            "{who} {}, while {} connections wait for it",
            stall.words,
            count(waiting(host, listener))
        ))
        .effect("clients that are connected are served")
        .saw(Evidence::setting(
            format!("waiting / backlog of {}", listener.address),
            format!("{} / {}", count(waiting(host, listener)), count(listener.backlog.into())),
        ))
        .not_here(&stall.reason);
    match &stall.state {
        Some(state) => finding.saw(Evidence::setting("state of its process", state)),
        None => finding,
    }
}

fn program(host: &RuleInput, pid: u32) -> String {
    let name = host.series.last().processes.get(&pid).map_or("process", |process| &process.name);
    format!("{name} (PID {pid})")
}

fn waiting(host: &RuleInput, listener: &ListeningSocket) -> u64 {
    // Where the last reading does not have it, it is as it was when the facts were gathered.
    host.series.last().accepting.get(&listener.inode).map_or(listener.waiting, |queue| queue.waiting).into()
}

/// Why the program of a listener with waiting connections does not accept them; `None`: it does, or the reason is
/// unknown.
pub(super) fn stall(host: &RuleInput, listener: &ListeningSocket) -> Option<Stall> {
    let accepts = accepts(host, listener);
    if waiting(host, listener) == 0 || accepts == Some(true) {
        return None;
    }
    stopped(host, listener.pid).or_else(|| {
        let window_s = host.series.window_s();
        (accepts == Some(false)).then(|| Stall {
            words: format!("has accepted none of them for {window_s:.0} s"),
            reason: "the program does not accept: a longer queue would only let more clients wait; look at its limit of \
                     connections and descriptors, and at what its threads do"
                .to_owned(),
            state: state(host, listener.pid).map(|state| state.to_string()),
        })
    })
}

/// Whether a process is stopped at the last two looks, or waits in the kernel at all of them.
pub(super) fn stopped(host: &RuleInput, pid: Option<u32>) -> Option<Stall> {
    let pid = pid?;
    let readings = host.series.readings();
    let states: Option<Vec<char>> =
        readings.iter().map(|reading| Some(reading.processes.get(&pid)?.state)).collect();
    let states = states?;
    if states.iter().rev().take(2).all(|state| ['T', 't'].contains(state)) {
        return Some(Stall {
            words: "is stopped".to_owned(),
            reason: format!(
                "the program is stopped (SIGSTOP, or a debugger): `kill -CONT {pid}` lets it go on"
            ),
            state: Some("T (stopped)".to_owned()),
        });
    }
    states.iter().all(|state| *state == 'D').then(|| Stall {
        words: "waits in the kernel all the time".to_owned(),
        reason: format!("it waits in the kernel, most likely for a disk: /proc/{pid}/stack shows where"),
        state: Some("D (waits in the kernel)".to_owned()),
    })
}

fn state(host: &RuleInput, pid: Option<u32>) -> Option<char> {
    Some(host.series.last().processes.get(&pid?)?.state)
}

/// Whether a connection was accepted meanwhile; `None`: it is unknown which ones wait. The kernel returns them in the
/// order of arrival: as long as all that waited still do, none was accepted.
fn accepts(host: &RuleInput, listener: &ListeningSocket) -> Option<bool> {
    let (first, last) = (host.series.first(), host.series.last());
    let before = first.queued.get(&listener.inode).filter(|queued| !queued.is_empty())?;
    let after = last.queued.get(&listener.inode)?;
    match before.is_subset(after) {
        true => (host.series.window_s() >= STALLED_MIN_S).then_some(false),
        false => Some(true),
    }
}

#[cfg(test)]
mod tests {
    use crate::diagnose::rules::situation::check;

    const HOST: &str = "service memcached pid=812\n process memcached pid=812 state=STATE
        listener :11211 backlog=128 waiting=129 pid=812 dropped=90 queued=QUEUED\n
        count TcpExt.ListenOverflows=90 Tcp.PassiveOpens=5\n";

    #[track_caller]
    fn check_states(state: &str, queued: &str, wanted: &str) {
        check(&HOST.replace("STATE", state).replace("QUEUED", queued), wanted);
    }

    #[test]
    fn a_stopped_program_is_no_short_queue() {
        let stopped = "accept-stalled critical not-here :11211: 129 / 128, T
             says memcached (PID 812) is stopped, while 129 connections wait for it
             accept-overflow critical not-here :11211: 90
             no backlog-small";
        check_states("TTTT", "unknown", stopped);
        check_states("RSTT", "same", stopped);
        check_states("TTSS", "unknown", "no accept-stalled\n accept-overflow fixable :11211");
        check_states("DDDD", "unknown", "says memcached (PID 812) waits in the kernel all the time");
        check_states("DDSD", "unknown", "no accept-stalled");
        // The process that holds the socket is stopped, and its workers accept.
        check_states("TTTT", "new", "no accept-stalled\n accept-overflow fixable :11211");
    }

    #[test]
    fn who_still_waits_was_not_accepted() {
        check_states(
            "SSSS",
            "same",
            "accept-stalled critical not-here :11211: 129 / 128, S
             says memcached (PID 812) has accepted none of them for 30 s
             accept-overflow not-here :11211",
        );
        check_states(
            "SSSS",
            "new",
            "no accept-stalled\n accept-overflow fixable :11211\n backlog-small fixable :11211",
        );
        check_states("SSSS", "unknown", "no accept-stalled");
        check(
            "listener :1 backlog=128 waiting=0 later=9 pid=7\n process a pid=7 state=T",
            "says a (PID 7) is stopped",
        );
        check("listener :1 backlog=128 waiting=0 pid=7\n process a pid=7 state=T", "no accept-stalled");
    }
}
