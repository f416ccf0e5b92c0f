//! Reports requested by many clients at once: a worker makes one step of them per turn, and serves all other
//! requests.

use net::{Address, ConnectionId, Handler, Link, Next, Opened, Transport, Turn};
use server::Worker;
use server::options::Options;
use stdx::clock::Now;
use stdx::gather::Gather;

const CLIENTS: u64 = 20;

/// The length of each client's output in one turn of the worker in which all of them send `request`, and how
/// each connection continues.
fn one_turn(request: &str) -> Vec<(usize, Next)> {
    let options = Options { track_sizes: true, ..Options::default() };
    let mut worker = server::sim::worker(&options, 1_800_000_000_000, 1);
    let mut turn = Turn::default();
    let opened = |number| Opened {
        id: ConnectionId(number),
        link: Link::default(),
        fd: 9,
        security: None,
        origin: net::Origin::Accepted { listener: 0 },
        transport: Transport::Unix,
        peer: Address::Unix(None),
        local: Address::Unix(None),
    };
    let mut connections: Vec<_> =
        (1..=CLIENTS).map(|number| worker.on_open(&opened(number), &mut turn)).collect();
    let mut say = |worker: &mut Worker, input: &str| -> Vec<(usize, Next)> {
        worker.begin_turn(Now::default());
        let mut hear = |connection: &mut _| {
            let mut output = Gather::default();
            let progress = worker.on_bytes(connection, input.as_bytes(), &mut output, &mut turn);
            (output.len(), progress.next)
        };
        let heard = connections.iter_mut().map(&mut hear).collect();
        worker.end_turn(&mut turn);
        heard
    };
    let stored = say(&mut worker, "set prefix:key 0 0 1\r\nx\r\n");
    assert!(stored.iter().all(|(len, _)| *len > 0), "{stored:?}");
    say(&mut worker, request)
}

#[track_caller]
fn check(request: &str) {
    let heard = one_turn(&format!("{request}\r\n").repeat(3));
    let waiting = heard.iter().filter(|(len, next)| (*len, *next) == (0, Next::Wait)).count();
    assert_eq!(waiting as u64, CLIENTS - 1, "{request}: {heard:?}");
    assert_eq!(heard[0].1, Next::Again, "{request}: its second report comes in a later turn");
}

#[test]
fn a_worker_makes_one_step_of_all_reports_in_a_turn() {
    check("stats");
    check("stats items");
    check("stats slabs");
    check("stats settings");
    check("stats reset");
    check("stats cachedump 1 0");
    check("stats detail dump");
}

#[test]
fn other_requests_are_served_beside_reports() {
    for request in ["get prefix:key\r\nstats\r\n", "stats\r\nget prefix:key\r\n"] {
        let heard = one_turn(request);
        let served = heard.iter().filter(|(len, _)| *len > 0).count();
        assert_eq!(served as u64, if request.starts_with("get") { CLIENTS } else { 1 }, "{heard:?}");
    }
}
