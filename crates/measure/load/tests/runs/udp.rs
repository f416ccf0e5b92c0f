//! Datagrams: against a scripted server that mistreats them, and against memcached.

use crate::memcached::Listening;
use crate::support::{Items, answer, run};
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::thread;

/// What a network does to the datagrams of a reply: what to send in its place.
type Network = fn(number: u64, datagrams: Vec<Vec<u8>>) -> Vec<Vec<u8>>;

/// Starts a server that cuts replies into datagrams of 400 bytes; returns `--server` and its address.
fn server(network: Network) -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let address = socket.local_addr().expect("an address");
    // It ends with the process: nothing says that no more datagrams will come.
    thread::spawn(move || serve(&socket, network));
    format!("--udp --server {address}")
}

fn serve(socket: &UdpSocket, network: Network) -> std::io::Result<()> {
    let items = Items::default();
    let mut buffer = vec![0; 1 << 16];
    let mut held: Vec<(SocketAddr, Vec<u8>)> = Vec::new();
    for number in 0.. {
        let (len, peer) = socket.recv_from(&mut buffer)?;
        let (head, mut request) = buffer[..len].split_at(8);
        assert_eq!(head[2..], [0, 0, 0, 1, 0, 0]);
        let mut line = String::new();
        BufReader::with_capacity(1, &mut request).read_line(&mut line)?;
        let words: Vec<&str> = line.trim_end().split(' ').collect();
        let reply = answer(&words, &items, &mut request)?;
        let total = reply.len().div_ceil(400) as u16;
        let datagrams = reply.chunks(400).zip(0_u16..).map(|(part, sequence)| {
            [&head[..2], &sequence.to_be_bytes(), &total.to_be_bytes(), &[0, 0], part].concat()
        });
        let datagrams = network(number, datagrams.collect());
        // An empty one stands for "later": it is sent behind the reply to the next request.
        let later = datagrams.first().is_some_and(Vec::is_empty);
        let now = if later { Vec::new() } else { datagrams.clone() };
        for (peer, datagram) in now.into_iter().map(|datagram| (peer, datagram)).chain(held.drain(..)) {
            socket.send_to(&datagram, peer)?;
        }
        held.extend(datagrams.into_iter().skip(1).filter(|_| later).map(|datagram| (peer, datagram)));
    }
    Ok(())
}

/// Sixteen requests on their way, replies of one to three datagrams.
const LINE: &str = "--connections 2 --depth 8 --keys 100 --key-size 14 --value-size 0-1000 --gets 0.8 --warm-up 0 \
                    --requests 1000 --duration 5m --prefill --verify";

#[track_caller]
fn check(network: Network, more: &str) -> load::Summary {
    let line = format!("{} {LINE} {more}", server(network));
    let summary = run(&line).expect(&line);
    assert!(summary.is_clean() && summary.requests >= 1000, "{summary}");
    assert_eq!((summary.misses, summary.transport.as_str(), summary.engine.as_str()), (0, "udp", "mmsg"));
    summary
}

#[test]
fn a_good_network_loses_nothing() {
    for more in ["", "--protocol meta", "--threads 2 --connections 3 --depth 1", "--udp-timeout 60s"] {
        let summary = check(|_, datagrams| datagrams, more);
        assert_eq!((summary.lost, summary.stray_datagrams), (0, 0), "{summary}");
    }
}

#[test]
fn datagrams_that_come_in_another_order_are_put_together() {
    let summary = check(
        |number, mut datagrams| {
            datagrams.reverse();
            // Not the last one of the prefill: nothing would come behind it.
            if number % 3 == 1 {
                datagrams.insert(0, Vec::new());
            }
            datagrams
        },
        "--udp-timeout 60s --connections 1 --depth 16",
    );
    assert_eq!((summary.lost, summary.stray_datagrams), (0, 0), "{summary}");
}

#[test]
fn duplicates_are_counted_and_nothing_else() {
    let summary = check(|_, datagrams| [datagrams.clone(), datagrams].concat(), "--udp-timeout 60s");
    assert_eq!(summary.lost, 0, "{summary}");
    assert!(summary.stray_datagrams >= summary.requests - 16, "{summary}");
}

#[test]
fn what_the_network_drops_is_lost_and_shown() {
    // One reply in twenty loses its last datagram.
    let network: Network = |number, mut datagrams| {
        if number % 20 == 7 {
            datagrams.pop();
        }
        datagrams
    };
    let summary = check(network, "--udp-timeout 20ms");
    // Of fifty; those of the last 20 ms are not known to be lost when the run ends.
    assert!(summary.lost >= 20, "{summary}");
    assert!(summary.verdict.reasons.iter().any(|reason| reason.what == "lost"), "{summary}");
    let shown = format!("  lost      {} requests (", summary.lost);
    assert!(summary.to_string().contains(&shown), "{summary}");
}

#[test]
fn an_open_loop_accounts_for_every_request() {
    let network: Network = |number, datagrams| if number % 10 == 3 { Vec::new() } else { datagrams };
    let line = format!(
        "{} --rate 4000 --requests 800 --warm-up 20ms --connections 4 --depth 16 --keys 100 --udp-timeout 30ms",
        server(network)
    );
    let summary = run(&line).expect(&line);
    let waits = summary.waits.expect("an open loop");
    assert_eq!(summary.requests + summary.lost + waits.unanswered + waits.unsent, 800, "{summary}");
    assert!(summary.lost >= 70, "{summary}");
    assert!(summary.verdict.reasons.iter().any(|reason| reason.what == "rate-missed"), "{summary}");
}

#[test]
fn a_prefill_that_nobody_answers_fails() {
    let line = format!("{} --keys 10 --prefill --requests 1 --udp-timeout 1ms", server(|_, _| Vec::new()));
    let error = run(&line).expect_err(&line);
    assert_eq!(error, r#"store all keys first: 10 of 10 refused, for example "no reply""#);
}

#[test]
fn a_port_where_nobody_listens_ends_the_run() {
    let error =
        run("--udp --server 127.0.0.1:1 --connections 1 --warm-up 0").expect_err("nobody listens there");
    assert_eq!(error, "keep connection 0");
}

#[test]
fn what_cannot_be_asked_by_datagrams_is_refused() {
    for (line, expected) in [
        ("--multiget 2", "--multiget is not for --udp: "),
        ("--depth 1025", "--depth of --udp must be at most 1024"),
        ("--engine uring", "--udp is without io_uring"),
        ("--udp-timeout 0", "--udp-timeout must be at least 1ms"),
        (
            "--gets 0 --value-size 1-66k",
            "a set must fit a datagram: keys and values of --udp must be at most 65467 ",
        ),
    ] {
        let error = run(&format!("--udp {line}")).expect_err(line);
        assert!(error.starts_with(&format!("use these arguments: {expected}")), "{error}");
    }
}

#[test]
fn memcached_answers_datagrams() {
    let Some(memcached) = Listening::start("udp", &[]) else { return };
    for more in [
        "",
        "--depth 16 --gets 0.9 --popularity zipf",
        "--protocol meta --gets 0.8 --depth 4",
        "--protocol binary --gets 0.8 --depth 4",
        // Replies of up to eight datagrams.
        "--value-size 0-10000 --gets 0.8 --threads 2",
        "--rate 3000 --depth 8",
    ] {
        let line = format!(
            "--udp --server {} --connections 8 --warm-up 20ms --keys 500 --prefill --verify --requests 3000 {more}",
            memcached.addresses[1]
        );
        let summary = run(&line).expect(&line);
        assert!(summary.is_clean() && summary.misses == 0, "{line}\n{summary}");
        assert!(summary.requests + summary.lost >= 3000, "{line}\n{summary}");
        // The kernel drops what finds no room in a socket; a machine that is busy with other things loses some.
        assert!(summary.lost * 10 <= summary.requests, "{line}\n{summary}");
    }
}
