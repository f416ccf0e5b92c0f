//! This host, and interfaces in a network namespace of the test's own, compared with what the kernel says by other
//! means. Needs Linux and iproute2, and for the namespace the right to make one. Changes nothing outside of it.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::process::Command;

use crate::namespace::in_namespace;
use os::CpuSet;
use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, SendFlags, SocketType, bind, ipproto, listen, sendto, socket, sockopt};
use serde_json::Value;
use tuner::apply::apply;
use tuner::apply::host::FileHost;
use tuner::apply::journal::{BootAndNamespace, Journals};
use tuner::apply::rollback::undo;
use tuner::plan::profile::Profile;
use tuner::plan::{PlanRequest, plan};
use tuner::{Facts, Finding, Root, Series, judge, probe, read};

#[track_caller]
fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().expect(program);
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8").trim().to_owned()
}

fn here() -> Facts {
    probe(&Root::new("/"), &[std::process::id()]).expect("probe /")
}

#[test]
fn the_kernel_agrees_about_this_host() {
    let facts = here();
    assert_eq!(facts.kernel.release, output("uname", &["-r"]));
    assert_eq!(facts.online().len(), output("getconf", &["_NPROCESSORS_ONLN"]).parse::<usize>().unwrap());
    for cpu in facts.cpus.iter().filter(|cpu| cpu.online) {
        assert!(cpu.siblings.contains(cpu.id) && cpu.cache.contains(cpu.id), "{cpu:?}");
    }
    let somaxconn = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
    assert_eq!(facts.sysctl("net.core.somaxconn"), somaxconn.trim().parse().ok());
    assert!(facts.memory_bytes > 1 << 20, "{}", facts.memory_bytes);
}

#[test]
fn ip_lists_the_same_interfaces() {
    // On a host that others use, too, interfaces come and go.
    let (expected, facts) = loop {
        let (before, facts) = (links(), here());
        if links() == before {
            break (before, facts);
        }
    };
    let found: BTreeSet<String> = facts.nics.iter().map(|nic| nic.name.clone()).collect();
    assert_eq!(found, expected);
}

/// The names of all interfaces but the loopback, as `ip` has them.
fn links() -> BTreeSet<String> {
    let links: Value = serde_json::from_str(&output("ip", &["-j", "link"])).expect("JSON");
    let names = links.as_array().expect("a list").iter().filter_map(|link| link["ifname"].as_str());
    names.filter(|name| *name != "lo").map(str::to_owned).collect()
}

#[test]
fn this_test_is_a_service_when_it_is_asked_for() {
    let facts = here();
    let service = facts.services.iter().find(|service| service.pid == std::process::id()).expect("itself");
    assert!(service.allocator != "unknown" && service.cgroup.starts_with('/'), "{service:?}");
    let allowed = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let allowed = allowed.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    // Field 41 of proc(5), counted from behind the name: all of this may be run by chrt.
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    let after_name = stat.rsplit_once(')').expect("a name").1;
    let policy: u32 = after_name.split_whitespace().nth(38).expect("41 fields").parse().unwrap();
    let thread = &service.threads[0];
    assert_eq!((thread.policy, &thread.affinity), (policy, &CpuSet::parse_list(allowed).unwrap()));
    assert!(service.resident_bytes > 0);
}

#[test]
fn a_process_that_is_not_there_is_a_gap() {
    let facts = probe(&Root::new("/"), &[u32::MAX]).expect("probe /");
    assert!(facts.gaps.iter().any(|gap| gap == "there is no process 4294967295"), "{:?}", facts.gaps);
}

#[test]
fn an_empty_directory_is_no_host() {
    let error = probe(&Root::new(env!("CARGO_MANIFEST_DIR")), &[]).unwrap_err();
    assert_eq!(error.to_string(), "read /proc");
}

#[test]
fn counters_of_this_host_go_up() {
    let (root, facts) = (Root::new("/"), here());
    let first = read(&root, &facts, 0).expect("read /");
    // Reading hundreds of files takes time.
    let ran = |reading: &tuner::Reading| reading.threads.values().map(|times| times.run_ns).sum::<u64>();
    let mut readings = (1..).map(|at_ms| read(&root, &facts, at_ms).expect("read /"));
    let last = readings.find(|reading| ran(reading) > ran(&first)).expect("some reading");
    assert!(last.threads.contains_key(&std::process::id()), "{:?}", last.threads);
    assert_eq!(first.cpus.keys().copied().collect::<CpuSet>(), facts.online());
    assert_eq!(first.softnet.keys().copied().collect::<CpuSet>(), facts.online());
    assert!(first.softirqs["NET_RX"].len() >= first.cpus.len());
    assert_eq!(first.interrupts.len(), facts.interrupts.len());
    for nic in &facts.nics {
        assert!(first.nics[&nic.name].contains_key("rx_packets"), "{}", nic.name);
    }
    let series = Series::new(vec![first, last]).expect("a series");
    assert!(series.protocol("TcpExt.ListenOverflows").is_some());
}

/// What the probe and `ss` say of the listener on this port of this address, as `waiting backlog`.
#[track_caller]
fn check_listener(address: &str, port: u16, expected: &str) {
    // The same port of another address may belong to another program.
    let address = format!("{address}:{port}");
    let found = || {
        let facts = here();
        let listener =
            facts.listeners.into_iter().find(|listener| listener.address == address).expect("a listener");
        assert_eq!((listener.port, listener.pid), (port, Some(std::process::id())));
        format!("{} {}", listener.waiting, listener.backlog)
    };
    // The last step of a handshake may still be under way.
    let last = (0..1000).map(|_| found()).find(|found| *found == expected);
    assert_eq!(last.unwrap_or_else(found), expected);
    let ss = output("ss", &["-ltnH", &format!("sport = {port}")]);
    let lines = ss.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let line = lines.into_iter().find(|words| words[3] == address).expect("the same listener");
    assert_eq!(line[1..3].join(" "), expected);
}

#[test]
fn a_listener_shows_the_backlog_that_it_has_and_who_waits() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    listen(&listener, 7).expect("listen again");
    let address = listener.local_addr().unwrap();
    let _waiting = [(); 2].map(|()| TcpStream::connect(address).expect("connect"));
    check_listener("127.0.0.1", address.port(), "2 7");
}

#[test]
fn listeners_of_ipv6_are_written_as_ss_writes_them() {
    if TcpListener::bind("[::1]:0").is_err() {
        return eprintln!("this machine has no IPv6");
    }
    for (address, shown) in [("[::1]:0", "[::1]"), ("[::]:0", "*")] {
        let listener = TcpListener::bind(address).expect("bind");
        listen(&listener, 9).expect("listen again");
        check_listener(shown, listener.local_addr().unwrap().port(), "0 9");
    }
}

#[test]
fn queues_of_a_veth_are_read_as_they_are_set() {
    let commands = "
        ip link add left numrxqueues 4 numtxqueues 4 type veth peer name right numrxqueues 12 numtxqueues 1
        ip link set left up; ip link set right up
        until grep -q up /sys/class/net/left/operstate; do :; done # the kernel says so a moment later
        echo 1 > /sys/class/net/left/queues/rx-0/rps_cpus
        echo 2 > /sys/class/net/left/queues/rx-2/rps_cpus
        echo 1000 > /sys/class/net/left/queues/rx-1/rps_flow_cnt
        echo 1 > /sys/class/net/left/queues/tx-3/xps_cpus
        echo 50000 > /sys/class/net/left/gro_flush_timeout
        echo 7 > /sys/class/net/left/napi_defer_hard_irqs
        echo 2 > /sys/class/net/right/queues/rx-10/rps_cpus";
    if !in_namespace("live::queues_of_a_veth_are_read_as_they_are_set", commands) {
        return;
    }
    let facts = here();
    let (left, right) = (facts.nic("left").unwrap(), facts.nic("right").unwrap());
    let rps: Vec<String> = left.rx.iter().map(|queue| queue.rps.to_string()).collect();
    assert_eq!(rps, ["0", "", "1", ""]);
    // The kernel rounds up to a power of two.
    assert_eq!(left.rx.iter().map(|queue| queue.flows).collect::<Vec<_>>(), [0, 1024, 0, 0]);
    assert_eq!(left.tx[3].xps, Some(CpuSet::first(1)));
    assert_eq!((left.gro_flush_timeout_ns, left.defer_hard_irqs), (Some(50_000), Some(7)));
    assert_eq!((left.physical, left.up, left.threaded), (false, true, Some(false)));
    let steered: Vec<usize> = (0..right.rx.len()).filter(|queue| !right.rx[*queue].rps.is_empty()).collect();
    assert_eq!(steered, [10], "queues are in the order of their numbers");
    assert_eq!(right.tx.len(), 1);
    assert_eq!(right.tx[0].xps, None, "one queue has no choice");
    assert!(facts.interrupts.iter().all(|interrupt| interrupt.device.as_deref() != Some("left")));
    assert_eq!((left.driver.as_deref(), left.channels, left.channels_max), (Some("veth"), Some(4), Some(4)));
    let reading = read(&Root::new("/"), &facts, 0).expect("read /");
    let index = output("cat", &["/sys/class/net/right/ifindex"]);
    assert_eq!(reading.nics["left"]["peer_ifindex"].to_string(), index, "a counter of the driver's own");
}

/// A listener of its own at an address that others share.
fn worker(address: &str, backlog: i32) -> OwnedFd {
    let address: SocketAddr = address.parse().expect("an address");
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let worker = socket(family, SocketType::STREAM, None).expect("socket");
    sockopt::set_socket_reuseport(&worker, true).expect("SO_REUSEPORT");
    bind(&worker, &address).expect("bind");
    listen(&worker, backlog).expect("listen");
    worker
}

#[test]
fn workers_that_share_a_port_all_get_the_longer_queue_and_the_old_one_back() {
    let test = "live::workers_that_share_a_port_all_get_the_longer_queue_and_the_old_one_back";
    if !in_namespace(test, "ip link set lo up; echo 512 > /proc/sys/net/core/somaxconn") {
        return;
    }
    let mut workers = vec![worker("127.0.0.1:7", 5), worker("127.0.0.1:7", 6)];
    if std::path::Path::new("/proc/net/if_inet6").exists() {
        workers.push(worker("[::1]:7", 7));
    }
    let backlogs = || here().listeners.iter().map(|listener| listener.backlog).collect::<Vec<_>>();
    let before = backlogs();
    let asked = PlanRequest { profile: Some(Profile::Generic), live: true, ..PlanRequest::default() };
    let changes = plan(&here(), &asked).changes;
    let state = std::env::temp_dir().join(format!("tuner-workers-{}", std::process::id()));
    let place = BootAndNamespace::of(&Root::new("/")).expect("a place");
    let mut journal = Journals::new(&state).begin(&place, 0, None).expect("a journal");
    let mut host = FileHost::new(Root::new("/"));
    apply(&mut host, &changes, &mut journal).expect("apply");
    assert_eq!(backlogs(), vec![4096; workers.len()]);
    undo(&mut host, &mut journal, "asked");
    assert_eq!(backlogs(), before);
    std::fs::remove_dir_all(state).expect("remove the journal");
}

#[test]
fn a_program_that_does_not_accept_is_told_from_one_that_does() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    listen(&listener, 7).expect("listen again");
    let address = listener.local_addr().unwrap();
    let connect = || TcpStream::connect(address).expect("connect");
    let _waiting = [(); 3].map(|()| connect());
    let (root, facts) = (Root::new("/"), here());
    let inode = facts.listeners.iter().find(|found| found.address == address.to_string()).expect("it").inode;
    let look = |at_ms| read(&root, &facts, at_ms).expect("read /");
    // The last step of a handshake may still be under way; and this process may wait in the kernel for a moment (state D), which
    // at both looks would be a finding by itself.
    let three = |reading: &tuner::Reading| {
        let all_wait = reading.queued.get(&inode).is_some_and(|queued| queued.len() == 3);
        all_wait && reading.processes.get(&std::process::id()).is_some_and(|process| process.state != 'D')
    };
    let first = (0..1000).map(|_| look(0)).find(three).expect("three that wait");
    let own = ("accept-stalled".to_owned(), address.to_string());
    let finding = |last: tuner::Reading| {
        let series = Series::new(vec![first.clone(), last]).expect("a series");
        let mut found = judge(&facts, &series).into_iter().map(|finding| (finding.rule, finding.subject));
        // Other programs of this host may be busy, too.
        found.find(|found| *found == own)
    };
    let stalled = Some(own.clone());
    assert_eq!(finding(look(3000)), stalled);
    let _another = connect();
    let _accepted = listener.accept().expect("accept");
    assert_eq!(finding(look(3000)), None, "one of the three was accepted, and three wait");
}

#[test]
fn datagrams_that_find_the_buffer_full_are_told_of_their_socket() {
    let receiver = UdpSocket::bind("127.0.0.1:0").expect("bind");
    sockopt::set_socket_recv_buffer_size(&receiver, 4096).expect("SO_RCVBUF");
    let (root, facts) = (Root::new("/"), here());
    let address = receiver.local_addr().unwrap();
    let socket = facts.datagrams.iter().find(|socket| socket.address == address.to_string()).expect("it");
    assert_eq!(socket.pid, Some(std::process::id()));
    let first = read(&root, &facts, 0).expect("read /");
    let sender = UdpSocket::bind("127.0.0.1:0").expect("bind");
    (0..100).for_each(|_| assert_eq!(sender.send_to(&[7; 1000], address).expect("send"), 1000));
    let series = Series::new(vec![first, read(&root, &facts, 3000).expect("read /")]).expect("a series");
    let found = judge(&facts, &series).into_iter().filter(|finding| finding.rule == "udp-receive-full");
    let me = format!("(PID {})", std::process::id());
    let finding = found.into_iter().find(|finding| finding.subject.ends_with(&me)).expect("a finding");
    let dropped = finding.evidence.iter().find(|evidence| evidence.what.ends_with(&address.to_string()));
    let dropped = dropped.expect("its drops").value.split(' ').next().unwrap().parse::<u32>().unwrap();
    // What fits depends on how the kernel counts a datagram's memory.
    assert!((90..100).contains(&dropped), "{finding:?}");
}

/// The sum over 16-bit words that ends headers of IP and TCP (RFC 1071).
fn checksum(bytes: &[u8]) -> [u8; 2] {
    let words = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let sum = words.sum::<u32>();
    let sum = (sum & 0xffff) + (sum >> 16);
    (!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes()
}

/// The first packet of a handshake from a client that is not there.
fn syn(from: SocketAddrV4, to: SocketAddrV4) -> Vec<u8> {
    let (source, destination) = (from.ip().octets(), to.ip().octets());
    let mut tcp = [from.port().to_be_bytes(), to.port().to_be_bytes()].concat();
    // Number 7, nothing acknowledged, five words, SYN, a window of 64 KiB; a checksum to come, nothing urgent.
    tcp.extend([0, 0, 0, 7, 0, 0, 0, 0, 5 << 4, 2, 0xff, 0xff, 0, 0, 0, 0]);
    let sum = checksum(&[&source[..], &destination, &[0, 6, 0, tcp.len() as u8], &tcp].concat());
    tcp[16..18].copy_from_slice(&sum);
    let ip = [0x45, 0, 0, (20 + tcp.len()) as u8, 0, 0, 0, 0, 64, 6, 0, 0];
    [&ip[..], &source, &destination, &tcp].concat()
}

/// SYNs of this many clients that never answer, to a listener with this backlog; the finding about its handshakes.
fn storm(backlog: i32, clients: u32) -> Finding {
    let address = SocketAddrV4::new(Ipv4Addr::new(10, 8, 0, 1), 7);
    let listener = TcpListener::bind(address).expect("bind");
    listen(&listener, backlog).expect("listen again");
    let raw = socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::RAW)).expect("a raw socket");
    let (root, facts) = (Root::new("/"), here());
    let before = read(&root, &facts, 0).expect("read /");
    for client in 0..clients {
        let from = SocketAddrV4::new(Ipv4Addr::from(0x0a09_0001 + client), 1024);
        sendto(&raw, &syn(from, address), SendFlags::empty(), &address).expect("send");
    }
    let series = Series::new(vec![before, read(&root, &facts, 3000).expect("read /")]).expect("a series");
    // The backlog is short for a service, which this test is: that is the cause.
    let found = judge(&facts, &series);
    let cause =
        found.iter().find(|finding| finding.rule == "backlog-small").expect("a finding about the backlog");
    let found = cause.consequences.iter().find(|finding| finding.rule == "syn-queue-full");
    found.expect("a finding about handshakes").clone()
}

#[test]
fn the_backlog_bounds_handshakes_whatever_the_setting_says_while_cookies_are_on() {
    // The address requested on `left` belongs to no host, and needs no interface there.
    let commands = "ip link set lo up; ip link add left type veth peer name right
        ip link set dev left arp off up; ip link set dev right up
        ip addr add 10.8.0.1/24 dev left; ip route add 10.9.0.0/16 dev left
        echo 1 > /proc/sys/net/ipv4/tcp_syncookies; echo 65536 > /proc/sys/net/ipv4/tcp_max_syn_backlog";
    let test = "live::the_backlog_bounds_handshakes_whatever_the_setting_says_while_cookies_are_on";
    if !in_namespace(test, commands) {
        return;
    }
    let shown = |finding: &Finding| {
        let values = finding.evidence.iter().map(|evidence| evidence.value.clone());
        format!("{}: {}", finding.subject, values.take(2).collect::<Vec<_>>().join(", "))
    };
    let short = storm(16, 1500);
    assert_eq!(shown(&short), "10.8.0.1:7: 1,483 (494 /s), 17 / 16");
    assert!(short.cause.contains("SYN flood"), "{short:?}");
    assert_eq!(shown(&storm(512, 1500)), "10.8.0.1:7: 987 (329 /s), 513 / 512");
}
