//! Listeners: sockets whose queues overflow, and those that soon will.

use super::figures::{count, happened};
use super::host::{RuleInput, named};
use super::rule::{Explanation, Remedy, Rule};
use super::stalled::stall;
use crate::observe::facts::{ListeningSocket, Service};
use crate::observe::reading::{Rate, Reading};
use crate::settings::profile::Profile;
use crate::settings::{listen_queue, sysctls};
use crate::{Evidence, Finding, Severity};

pub(super) const RULES: &[Rule] = &[
    Rule {
        explanation: Explanation {
            rule: "accept-overflow",
            title: "connections are turned away because an accept queue is full",
            evidence: "TcpExt.ListenOverflows grows; more than 5 a minute is critical. Which listener it is says the \
                       socket itself: it counts what it turns away.",
            meaning: "A client has finished its handshake, but the queue of connections that the program has not yet \
                      accepted is full. Unless tcp_abort_on_overflow is set, the client finds out by waiting a second \
                      or more. Repeated attempts count again: the number is not that of clients.",
            remedy: "A longer queue for that listener: its own backlog argument, and net.core.somaxconn, which cuts it \
                     when listen() is called; `tune apply --live` does that for a running program. If the program \
                     does not accept at all (accept-stalled), a longer queue only hides it.",
        },
        remedy: Remedy::of_profile(
            Profile::Generic,
            &[sysctls::accept_queues, listen_queue::not_for_slow_programs, listen_queue::longer],
        ),
        find: overflow,
    },
    Rule {
        explanation: Explanation {
            rule: "backlog-small",
            title: "a listener's accept queue is short, or half full",
            evidence: "A service listens with a backlog below 1,024, or any listener's queue is half full.",
            meaning: "After a deploy or a network hiccup all clients come back at once; what does not fit is turned \
                      away. What counts is the limit at the time of listen(): raising net.core.somaxconn later changes \
                      nothing for running programs.",
            remedy: "Give the program a larger backlog (memcached: -b, MySQL: back_log, Redis: tcp-backlog) and raise \
                     net.core.somaxconn before it starts, or have `tune apply --live` do it while it runs.",
        },
        remedy: Remedy::of_profile(Profile::Generic, &[sysctls::accept_queues, listen_queue::longer]),
        find: small,
    },
    Rule {
        explanation: Explanation {
            rule: "somaxconn-low",
            title: "net.core.somaxconn cuts every backlog",
            evidence: "net.core.somaxconn is below 4,096, the kernel's default since 5.4.",
            meaning: "No program can have a longer accept queue than this, whatever it asks for.",
            remedy: "net.core.somaxconn = 4096, then restart the programs or have them listen again.",
        },
        remedy: Remedy::of_profile(Profile::Generic, &[sysctls::accept_queues, listen_queue::longer]),
        find: somaxconn,
    },
    Rule {
        explanation: Explanation {
            rule: "syn-queue-full",
            title: "handshakes are dropped or done with cookies (a short backlog, or a SYN flood)",
            evidence: "TcpExt.TCPReqQFullDrop grows; or TCPReqQFullDoCookies, unless net.ipv4.tcp_syncookies is 2, \
                       which does every handshake with a cookie; or, with tcp_syncookies = 0, ListenDrops while \
                       three quarters of net.ipv4.tcp_max_syn_backlog are under way.",
            meaning: "More handshakes are under way at a listener than its backlog, which bounds this queue as well as \
                      the accept queue. net.ipv4.tcp_max_syn_backlog bounds it only while tcp_syncookies is 0, and \
                      then to three quarters for clients that are not known yet. It is a storm of clients or a SYN \
                      flood: of the cookies that were sent, real clients bring nearly all back. Dropped SYNs are \
                      repeated after a second; cookies lose TCP options.",
            remedy: "A longer backlog for that listener (and net.core.somaxconn, which cuts it); keep \
                     net.ipv4.tcp_syncookies = 1, or raise net.ipv4.tcp_max_syn_backlog where it is 0. Against a SYN \
                     flood no queue is long enough: filter it before the host, and let cookies serve the others.",
        },
        remedy: Remedy::of_profile(
            Profile::Generic,
            &[sysctls::accept_queues, listen_queue::not_for_crowds, listen_queue::longer],
        ),
        find: syn_queue,
    },
    Rule {
        explanation: Explanation {
            rule: "fast-open-off",
            title: "many short connections without TCP Fast Open",
            evidence: "100 or more incoming connections per second while the server's bit of net.ipv4.tcp_fastopen \
                       is off, or a service whose clients speak first listens without TCP_FASTOPEN.",
            meaning: "With Fast Open, a returning client sends its request together with the SYN, which saves a round \
                      trip for every connection (Pinterest: about 10 % of the time to connect). Lasting connections \
                      are better still, some networks drop such packets, and a request may arrive twice, which \
                      increments and appends do not forgive.",
            remedy: "net.ipv4.tcp_fastopen = 3 and TCP_FASTOPEN in the server, if its clients can use it; `tune apply \
                     --live` sets it for a running one, net.ipv4.tcp_fastopen = 1027 for all that start later.",
        },
        remedy: Remedy::of_profile(Profile::Memcached, &[sysctls::fast_open, listen_queue::fast_open]),
        find: fast_open,
    },
];

/// netdata's alarms for accept-queue overflows: more than 1 a minute warns, more than 5 is critical.
const OVERFLOWS_CRITICAL_PER_S: f64 = 5.0 / 60.0;
/// memcached's default of `-b`; a service with a shorter backlog was given less, or was cut by an old default of
/// somaxconn.
const BACKLOG_MIN: u32 = 1024;
/// The kernel's default since 5.4.
const SOMAXCONN_MIN: u64 = 4096;
/// From this many connections a second on it is worthwhile to save a round trip each (proposal).
const CONNECTIONS_PER_S: f64 = 100.0;
/// The bit of net.ipv4.tcp_fastopen for servers (ip-sysctl).
const FASTOPEN_SERVER: u64 = 2;

fn grown(host: &RuleInput, counter: &str) -> Option<Rate> {
    host.series.protocol(counter).filter(|rate| rate.count > 0)
}

fn overflow(host: &RuleInput) -> Vec<Finding> {
    let Some(overflows) = grown(host, "TcpExt.ListenOverflows") else { return Vec::new() };
    let mut full = turned_away(host);
    if full.is_empty() {
        return vec![overflow_finding(host, overflows, suspect(host), None)];
    }
    full.sort_by_key(|(_, rate)| std::cmp::Reverse(rate.count));
    full.into_iter()
        .map(|(listener, rate)| overflow_finding(host, overflows, Some(listener), Some(rate)))
        .collect()
}

fn overflow_finding(
    host: &RuleInput,
    all: Rate,
    listener: Option<&ListeningSocket>,
    own: Option<Rate>,
) -> Finding {
    let severity =
        if all.per_s() > OVERFLOWS_CRITICAL_PER_S { Severity::Critical } else { Severity::Warning };
    let subject = listener.map_or("accept queues".to_owned(), |listener| listener.address.clone());
    let cause = match (listener, own) {
        (Some(listener), Some(_)) => {
            format!("the accept queue of {} was full when handshakes ended", owner(host, listener))
        }
        (Some(listener), None) => format!(
            "an accept queue was full when handshakes ended, most likely that of {}",
            owner(host, listener)
        ),
        (None, _) => "an accept queue was full when handshakes ended".to_owned(),
    };
    let mut finding = Finding::about(severity, subject)
        .cause(cause)
        .effect("clients connect at once instead of after a second or more")
        .saw(host.measured("TcpExt.ListenOverflows", happened(all)).threshold("0"));
    if let Some(own) = own {
        finding = finding.saw(host.measured("turned away by this listener", happened(own)));
    } else if let Some(drops) = grown(host, "TcpExt.ListenDrops") {
        finding = finding.saw(host.measured("TcpExt.ListenDrops", happened(drops)));
    }
    if let Some(listener) = listener {
        finding = finding.saw(queue(host, listener));
    }
    if let Some(somaxconn) = host.facts.sysctl("net.core.somaxconn") {
        finding = finding.saw(Evidence::setting("net.core.somaxconn", count(somaxconn)));
    }
    if let Some(stall) = listener.and_then(|listener| stall(host, listener)) {
        return finding.not_here(format!("its program {}: {}", stall.words, stall.reason));
    }
    let nobody_accepts = host.series.protocol("Tcp.PassiveOpens").is_some_and(|rate| rate.count == 0);
    match nobody_accepts {
        true => finding.not_here(
            "no connection was accepted in the whole window: the program is stuck, and a longer queue would only \
             hide it",
        ),
        false => finding,
    }
}

/// Listeners that dropped connections in the window, an address each; of workers that share one, the fullest.
fn turned_away<'a>(host: &RuleInput<'a>) -> Vec<(&'a ListeningSocket, Rate)> {
    let mut found: Vec<(&ListeningSocket, Rate)> = Vec::new();
    for listener in &host.facts.listeners {
        let count =
            |reading: &Reading| reading.accepting.get(&listener.inode).map(|queue| queue.dropped.into());
        let Some(rate) = host.series.rate(count).filter(|rate| rate.count > 0) else { continue };
        match found.iter_mut().find(|(other, _)| other.address == listener.address) {
            None => found.push((listener, rate)),
            Some((other, sum)) => {
                sum.count += rate.count;
                if waiting(host, listener) > waiting(host, other) {
                    *other = listener;
                }
            }
        }
    }
    found
}

/// The most connections that waited, when facts were gathered or at any reading since.
fn waiting(host: &RuleInput, listener: &ListeningSocket) -> u32 {
    let readings = host.series.readings().iter();
    let seen = readings.filter_map(|reading| reading.accepting.get(&listener.inode));
    seen.map(|queue| queue.waiting).fold(listener.waiting, u32::max)
}

/// The listener that most likely overflows: the fullest, else the one with the shortest queue of a service.
fn suspect<'a>(host: &RuleInput<'a>) -> Option<&'a ListeningSocket> {
    let fullest =
        host.facts.listeners.iter().filter(|listener| half_full(host, listener)).max_by_key(|listener| {
            u64::from(waiting(host, listener)) * 1000 / u64::from(listener.backlog.max(1))
        });
    let of_service = host.facts.listeners.iter().filter(|listener| host.facts.service_of(listener).is_some());
    fullest.or_else(|| of_service.min_by_key(|listener| listener.backlog))
}

fn half_full(host: &RuleInput, listener: &ListeningSocket) -> bool {
    let waiting = waiting(host, listener);
    waiting > 0 && waiting * 2 >= listener.backlog
}

fn owner(host: &RuleInput, listener: &ListeningSocket) -> String {
    host.facts.service_of(listener).map_or(listener.address.clone(), named)
}

fn queue(host: &RuleInput, listener: &ListeningSocket) -> Evidence {
    Evidence::setting(
        format!("waiting / backlog of {}", listener.address),
        format!("{} / {}", count(waiting(host, listener).into()), count(listener.backlog.into())),
    )
}

fn small(host: &RuleInput) -> Vec<Finding> {
    let short = |listener: &&ListeningSocket| {
        host.facts.service_of(listener).is_some() && listener.backlog < BACKLOG_MIN
    };
    let wanting = |listener: &&ListeningSocket| short(listener) || half_full(host, listener);
    // For a program that does not accept, the queue's length means nothing.
    let wanting =
        host.facts.listeners.iter().filter(wanting).filter(|listener| stall(host, listener).is_none());
    wanting.map(|listener| small_finding(host, listener)).collect()
}

fn small_finding(host: &RuleInput, listener: &ListeningSocket) -> Finding {
    let somaxconn = host.facts.sysctl("net.core.somaxconn");
    let cut = somaxconn == Some(listener.backlog.into());
    let cause = match (half_full(host, listener), cut) {
        (true, _) => {
            format!("{} does not accept its connections as fast as they come", owner(host, listener))
        }
        (false, true) => format!("net.core.somaxconn cuts the queue of {}", owner(host, listener)),
        (false, false) => {
            format!("{} asked for a short queue, or started when somaxconn was lower", owner(host, listener))
        }
    };
    let finding = Finding::about(Severity::Warning, &listener.address)
        .cause(cause)
        .effect("room for all clients that come back at once")
        .saw(queue(host, listener).threshold(count(BACKLOG_MIN.into())));
    match somaxconn {
        Some(somaxconn) => finding.saw(Evidence::setting("net.core.somaxconn", count(somaxconn))),
        None => finding,
    }
}

fn somaxconn(host: &RuleInput) -> Vec<Finding> {
    let low = host.facts.sysctl("net.core.somaxconn").filter(|somaxconn| *somaxconn < SOMAXCONN_MIN);
    let finding = |somaxconn| {
        Finding::about(Severity::Note, "net.core.somaxconn")
            .cause("accept queues cannot be longer than this, whatever a program asks for")
            .effect("programs get the queue they ask for, once they listen again")
            .saw(Evidence::setting("net.core.somaxconn", count(somaxconn)).threshold(count(SOMAXCONN_MIN)))
    };
    low.map(finding).into_iter().collect()
}

/// How a queue for handshakes was too short, by the counter that shows it.
struct ShortOf {
    counter: &'static str,
    rate: Rate,
    severity: Severity,
    what: &'static str,
    /// The setting is the limit, not the backlog.
    by_setting: bool,
}

fn syn_queue(host: &RuleInput) -> Vec<Finding> {
    short_of(host).into_iter().map(|short| syn_finding(host, &short)).collect()
}

fn short_of(host: &RuleInput) -> Vec<ShortOf> {
    let cookies = host.facts.sysctl("net.ipv4.tcp_syncookies");
    let of_backlog = [
        ("TcpExt.TCPReqQFullDrop", Severity::Critical, "dropped", true),
        ("TcpExt.TCPReqQFullDoCookies", Severity::Warning, "answered with cookies", cookies != Some(2)),
    ];
    let of_backlog = of_backlog.into_iter().filter_map(|(counter, severity, what, counts)| {
        let rate = grown(host, counter).filter(|_| counts)?;
        Some(ShortOf { counter, rate, severity, what, by_setting: false })
    });
    // These are counted with other drops alone: the queue has to have been as full as the setting allows.
    let limit = host.facts.sysctl("net.ipv4.tcp_max_syn_backlog").filter(|_| cookies == Some(0));
    let is_full = |limit: u64| most_half_open(host).is_some_and(|(_, most)| u64::from(most) * 4 >= limit * 3);
    let by_setting = limit.filter(|limit| is_full(*limit)).and_then(|_| {
        let all = grown(host, "TcpExt.ListenDrops")?;
        let others = ["TcpExt.ListenOverflows", "TcpExt.TCPReqQFullDrop"];
        let others: u64 =
            others.iter().filter_map(|counter| grown(host, counter)).map(|rate| rate.count).sum();
        let rate = Rate { count: all.count.checked_sub(others).filter(|count| *count > 0)?, ..all };
        let counter = "TcpExt.ListenDrops, others left out";
        Some(ShortOf { counter, rate, severity: Severity::Critical, what: "dropped", by_setting: true })
    });
    of_backlog.chain(by_setting).collect()
}

fn syn_finding(host: &RuleInput, short: &ShortOf) -> Finding {
    let most = most_half_open(host);
    let full = most.filter(|(listener, half_open)| *half_open >= room(host, listener) || short.by_setting);
    let whose = full.map_or(String::new(), |(listener, _)| format!(" for {}", owner(host, listener)));
    let limit = match short.by_setting {
        true => "net.ipv4.tcp_max_syn_backlog allows",
        false => "its listener's backlog holds",
    };
    let subject = full.map_or("handshakes".to_owned(), |(listener, _)| listener.address.clone());
    let flood = cookies_unanswered(host);
    let who = match flood {
        Some(true) => "most cookies do not come back, which is the sign of a SYN flood",
        Some(false) => "the cookies come back, so these are clients",
        None => "a storm of clients, or a SYN flood",
    };
    let mut finding = Finding::about(short.severity, subject)
        .cause(format!(
            "handshakes{whose} were {} because more were under way than {limit}: {who}",
            short.what
        ))
        .effect("connections are made at the first attempt")
        .saw(host.measured(short.counter, happened(short.rate)).threshold("0"));
    if let Some((listener, half_open)) = full {
        finding = finding.saw(Evidence::setting(
            format!("half open / backlog of {}", listener.address),
            format!("{} / {}", count(half_open.into()), count(room(host, listener).into())),
        ));
    }
    for counter in COOKIES {
        if let Some(rate) = grown(host, counter) {
            finding = finding.saw(host.measured(counter, happened(rate)));
        }
    }
    let settings: &[&str] = match short.by_setting {
        true => &["net.ipv4.tcp_syncookies", "net.ipv4.tcp_max_syn_backlog"],
        false => &["net.ipv4.tcp_syncookies", "net.core.somaxconn"],
    };
    for name in settings {
        if let Some(value) = host.facts.sysctl(name) {
            finding = finding.saw(Evidence::setting(*name, count(value)));
        }
    }
    match flood {
        Some(true) => finding.not_here(
            "no queue is long enough for a SYN flood: filter it before the host; with cookies the others are served",
        ),
        _ => finding,
    }
}

/// Cookies that were sent, and those that came back.
const COOKIES: [&str; 2] = ["TcpExt.SyncookiesSent", "TcpExt.SyncookiesRecv"];
/// Fewer cookies than this are too few to judge their senders (proposal).
const COOKIES_MIN: u64 = 100;

/// Whether fewer than one cookie in ten came back; `None`: too few were sent.
fn cookies_unanswered(host: &RuleInput) -> Option<bool> {
    let [sent, received] = COOKIES.map(|counter| host.series.protocol(counter).map(|rate| rate.count));
    let sent = sent.filter(|sent| *sent >= COOKIES_MIN)?;
    Some(received? * 10 < sent)
}

/// The listener with most handshakes under way for its backlog, and how many there were at most.
fn most_half_open<'a>(host: &RuleInput<'a>) -> Option<(&'a ListeningSocket, u32)> {
    let half_open = |listener: &ListeningSocket| {
        let readings = host.series.readings().iter();
        readings.filter_map(|reading| Some(reading.accepting.get(&listener.inode)?.half_open)).max()
    };
    let found = host.facts.listeners.iter().filter_map(|listener| Some((listener, half_open(listener)?)));
    found.filter(|(_, half_open)| *half_open > 0).max_by_key(|(listener, half_open)| {
        u64::from(*half_open) * 1000 / u64::from(room(host, listener).max(1))
    })
}

/// The backlogs of all that listen at the same address.
fn room(host: &RuleInput, listener: &ListeningSocket) -> u32 {
    let same = host.facts.listeners.iter().filter(|other| other.address == listener.address);
    same.map(|listener| listener.backlog).fold(0, u32::saturating_add)
}

fn fast_open(host: &RuleInput) -> Vec<Finding> {
    let Some(setting) = host.facts.sysctl("net.ipv4.tcp_fastopen") else { return Vec::new() };
    let Some(opens) = host.series.protocol("Tcp.PassiveOpens") else { return Vec::new() };
    if opens.per_s() < CONNECTIONS_PER_S {
        return Vec::new();
    }
    let finding = |subject: &str, cause: String| {
        Finding::about(Severity::Note, subject)
            .cause(cause)
            .effect("one round trip less per connection for clients that use Fast Open")
            .saw(
                host.measured("Tcp.PassiveOpens", happened(opens))
                    .threshold(super::figures::per_second(CONNECTIONS_PER_S)),
            )
            .saw(Evidence::setting("net.ipv4.tcp_fastopen", setting.to_string()))
    };
    if setting & FASTOPEN_SERVER == 0 {
        let cause = "every new connection waits a round trip before its first request".to_owned();
        return vec![finding("net.ipv4.tcp_fastopen", cause)];
    }
    let mut without: Vec<&ListeningSocket> = host.facts.listeners.iter().collect();
    without.retain(|listener| {
        listener.fast_open == Some(0)
            && host.facts.service_of(listener).is_some_and(Service::clients_speak_first)
    });
    without.dedup_by_key(|listener| &listener.address);
    let each = without.into_iter().map(|listener| {
        let cause = format!("{} has not asked for Fast Open, which the host allows", owner(host, listener));
        finding(&listener.address, cause)
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use crate::diagnose::rules::situation::check;

    #[test]
    fn an_accept_queue_that_overflows() {
        check(
            "service memcached pid=812
             listener 0.0.0.0:11211 backlog=128 waiting=100 pid=812
             sysctl net.core.somaxconn=128
             count TcpExt.ListenOverflows=21 TcpExt.ListenDrops=21",
            "accept-overflow critical 0.0.0.0:11211: 21 (0.7 /s), 100 / 128, 128
             backlog-small 0.0.0.0:11211: 100 / 128",
        );
        check("count TcpExt.ListenOverflows=2", "accept-overflow warning accept queues: 2 (0.1 /s)");
        check("count TcpExt.ListenOverflows=0", "no accept-overflow");
    }

    #[test]
    fn the_socket_itself_says_that_it_turned_connections_away() {
        // The shorter queue, and the one that was full before, are not to blame.
        let host = "service memcached pid=812
             listener 0.0.0.0:22 backlog=8 waiting=8 pid=9
             listener 0.0.0.0:11210 backlog=64 pid=812
             listener 0.0.0.0:11211 backlog=128 later=129 dropped=21 pid=812
             count TcpExt.ListenOverflows=21 TcpExt.ListenDrops=21";
        check(host, "accept-overflow critical 0.0.0.0:11211: 21 (0.7 /s), 21 (0.7 /s), 129 / 128");
        check(
            "listener :1 backlog=8 dropped=30\n listener :2 backlog=8 dropped=60\n listener :2 backlog=8 dropped=9
             count TcpExt.ListenOverflows=99",
            "accept-overflow :1: 99, 30 (1.0 /s)
             accept-overflow :2: 99, 69 (2.3 /s)",
        );
    }

    #[test]
    fn a_queue_that_fills_after_the_first_look_is_seen() {
        check("listener :22 backlog=128 later=64 pid=9", "backlog-small :22: 64 / 128");
        check("listener :22 backlog=128 later=63 pid=9", "no backlog-small");
    }

    #[test]
    fn a_program_that_does_not_accept_is_not_helped_by_a_longer_queue() {
        check(
            "count TcpExt.ListenOverflows=30 Tcp.PassiveOpens=0",
            "accept-overflow not-here accept queues: 30",
        );
        check(
            "count TcpExt.ListenOverflows=30 Tcp.PassiveOpens=900",
            "accept-overflow fixable accept queues: 30",
        );
    }

    #[test]
    fn a_service_with_a_short_queue() {
        let host = "service memcached pid=812\n sysctl net.core.somaxconn=4096\n";
        check(&format!("{host} listener :11211 backlog=128 pid=812"), "backlog-small :11211: 0 / 128, 4,096");
        check(&format!("{host} listener :11211 backlog=1024 pid=812"), "no backlog-small");
        check(&format!("{host} listener :22 backlog=128 pid=9"), "no backlog-small");
        check(&format!("{host} listener :22 backlog=128 waiting=64 pid=9"), "backlog-small :22: 64 / 128");
    }

    #[test]
    fn an_old_default_of_somaxconn() {
        check("sysctl net.core.somaxconn=128", "somaxconn-low net.core.somaxconn: 128");
        check("sysctl net.core.somaxconn=4096", "no somaxconn-low");
    }

    #[test]
    fn with_cookies_on_the_backlog_limits_the_handshakes_under_way() {
        let host = "sysctl net.ipv4.tcp_syncookies=1 net.ipv4.tcp_max_syn_backlog=65536
             service memcached pid=812
             listener :11211 backlog=16 half_open=17 pid=812
             listener :22 backlog=128 half_open=20 pid=9\n";
        check(
            &format!("{host} count TcpExt.TCPReqQFullDoCookies=1483"),
            "syn-queue-full warning fixable :11211: 1,483 (49 /s), 17 / 16, 1",
        );
        // Workers that share an address have their backlogs together.
        check(
            &format!("{host} listener :11211 backlog=16 pid=812\n count TcpExt.TCPReqQFullDoCookies=9"),
            "syn-queue-full handshakes: 9",
        );
        check("count TcpExt.TCPReqQFullDrop=300", "syn-queue-full critical handshakes: 300 (10 /s)");
        check("count TcpExt.TCPReqQFullDrop=0 TcpExt.TCPReqQFullDoCookies=0", "no syn-queue-full");
    }

    #[test]
    fn cookies_for_everybody_are_no_sign_of_a_full_queue() {
        check(
            "sysctl net.ipv4.tcp_syncookies=2\n count TcpExt.TCPReqQFullDoCookies=1500",
            "no syn-queue-full",
        );
    }

    #[test]
    fn without_cookies_the_setting_limits_handshakes_too_and_no_counter_says_so() {
        let host = "sysctl net.ipv4.tcp_syncookies=0 net.ipv4.tcp_max_syn_backlog=128
             listener :1 backlog=1024 half_open=97\n count TcpExt.ListenDrops=1403 TcpExt.ListenOverflows=OVERFLOWS";
        let with = |overflows: &str| host.replace("OVERFLOWS", overflows);
        check(&with("0"), "syn-queue-full critical :1: 1,403 (47 /s), 97 / 1,024, 0, 128");
        check(&with("1403"), "no syn-queue-full");
        check(&with("0").replace("half_open=97", "half_open=95"), "no syn-queue-full");
    }

    #[test]
    fn cookies_that_do_not_come_back_are_an_attack() {
        let host = "listener :1 backlog=16 half_open=17
             count TcpExt.TCPReqQFullDoCookies=1483 TcpExt.SyncookiesSent=1483 TcpExt.SyncookiesRecv=RECEIVED";
        let received = |count: &str| host.replace("RECEIVED", count);
        check(&received("148"), "syn-queue-full not-here :1: 1,483, 17 / 16, 1,483, 148");
        check(&received("149"), "syn-queue-full fixable :1: 1,483");
    }

    #[test]
    fn many_short_connections_without_fast_open() {
        let many = "count Tcp.PassiveOpens=9000\n";
        check(
            &format!("{many} sysctl net.ipv4.tcp_fastopen=1"),
            "fast-open-off net.ipv4.tcp_fastopen: 9,000 (300 /s), 1",
        );
        check(&format!("{many} sysctl net.ipv4.tcp_fastopen=3"), "no fast-open-off");
        check("count Tcp.PassiveOpens=900\n sysctl net.ipv4.tcp_fastopen=1", "no fast-open-off");
        let allowed = format!("{many} sysctl net.ipv4.tcp_fastopen=3\n service memcached pid=8\n");
        check(&format!("{allowed} listener :1 fast_open=0 pid=8"), "fast-open-off :1: 9,000 (300 /s), 3");
        check(&format!("{allowed} listener :1 fast_open=16 pid=8"), "no fast-open-off");
        check(&format!("{allowed} listener :1 fast_open=0 pid=9"), "no fast-open-off");
    }
}
