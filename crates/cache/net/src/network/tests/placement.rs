//! Tests of placement: the CPUs of workers, the worker of a connection, and what the kernel refuses.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity};
use stdx::gather::Gather;

use crate::event_loop::turn::Turn;
use crate::handler::{Next, Opened, Progress};
use crate::network::placement::{Deal, WorkerPlacement, pin};
use crate::network::*;

const TIMEOUT: Duration = Duration::from_secs(60);

/// Answers everything with the CPUs of its thread, `0 1` for two of them.
struct WhereHandler;

impl Handler for WhereHandler {
    type Connection = ();
    type Held = Vec<u8>;

    fn on_open(&mut self, _opened: &Opened, _turn: &mut Turn<Vec<u8>>) {}

    fn on_bytes(
        &mut self,
        _connection: &mut (),
        input: &[u8],
        output: &mut Gather<Vec<u8>>,
        _turn: &mut Turn<Vec<u8>>,
    ) -> Progress {
        let cpus: Vec<String> = allowed().iter().map(ToString::to_string).collect();
        output.copied().extend_from_slice(format!("{}\n", cpus.join(" ")).as_bytes());
        Progress { consumed: input.len(), next: Next::Read }
    }
}

/// The CPUs of the calling thread.
fn allowed() -> Vec<u32> {
    let set = sched_getaffinity(None).expect("affinity can be read");
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).map(|cpu| cpu as u32).collect()
}

/// A network with a worker for each of `cpus`, and with what its operator is told.
struct Placed {
    running: Option<Running<WhereHandler>>,
    view: View,
    stop: Stop,
    address: SocketAddr,
}

impl Placed {
    fn start(placement: WorkerPlacement, notice: Notice) -> Placed {
        let workers = placement.cpus.len().max(1);
        let options = Options { workers, placement, notice, ..Options::default() };
        let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
        let network = Network::bind(&[Listen::Tcp(loopback)], options).expect("a network");
        let Address::Tcp(address) = network.addresses()[0] else { panic!("a TCP listener") };
        let (view, stop) = (network.view(), network.stop());
        let handlers = (0..workers).map(|_| WhereHandler).collect();
        Placed { running: Some(network.start(handlers).expect("a start")), view, stop, address }
    }

    /// The CPUs of the worker that serves a new connection.
    fn cpus(&self) -> String {
        let mut client = TcpStream::connect(self.address).expect("a client");
        client.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        client.write_all(b"?").expect("send");
        let mut line = String::new();
        BufReader::new(client).read_line(&mut line).expect("a line");
        line.trim_end().to_owned()
    }
}

impl Drop for Placed {
    fn drop(&mut self) {
        self.stop.stop();
        let ended = self.running.take().map(Running::join);
        assert!(std::thread::panicking() || ended.is_none_or(|ended| ended.is_ok()), "the network failed");
    }
}

fn quiet(line: &str) {
    panic!("nothing was refused: {line}");
}

#[test]
fn workers_run_on_their_cpus() {
    let cpus = allowed();
    let network = Placed::start(WorkerPlacement { cpus: cpus.clone(), ..WorkerPlacement::default() }, quiet);
    let found: BTreeSet<String> = (0..cpus.len()).map(|_| network.cpus()).collect();
    assert_eq!(found, cpus.iter().map(ToString::to_string).collect());
    assert_eq!(network.view.counts().round_robin_fallback, 0);
}

#[test]
fn a_connection_goes_to_the_worker_on_the_cpu_that_handled_its_packets() {
    let placement = WorkerPlacement { cpus: allowed(), deal: Deal::ByCpu, busy_poll_us: 0 };
    let network = Arc::new(Placed::start(placement, quiet));
    for cpu in allowed() {
        let network = Arc::clone(&network);
        // Packets between sockets of this machine are handled on the sender's CPU.
        let client = std::thread::spawn(move || {
            pin(cpu).expect("one of ours");
            (0..5).map(|_| network.cpus()).collect::<BTreeSet<_>>()
        });
        assert_eq!(client.join().expect("no panic"), BTreeSet::from([cpu.to_string()]));
    }
}

#[test]
fn connections_without_a_receive_queue_are_dealt_in_turn_and_counted() {
    let cpus = allowed();
    let placement = WorkerPlacement { cpus: cpus.clone(), deal: Deal::ByNapiId, busy_poll_us: 0 };
    let network = Placed::start(placement, quiet);
    let found: BTreeSet<String> = (0..cpus.len()).map(|_| network.cpus()).collect();
    assert_eq!(found.len(), cpus.len());
    let counts = network.view.counts();
    assert_eq!((counts.round_robin_fallback, counts.unexpected_napi_ids), (cpus.len() as u64, 0));
}

static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());

#[test]
fn a_refused_placement_is_told_in_a_line_of_its_kind_and_the_network_serves() {
    let everywhere = allowed().iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    // No machine has such a CPU; no kernel polls for so long.
    let cpus = vec![1023, 1023];
    let placement = WorkerPlacement { cpus, deal: Deal::ByCpu, busy_poll_us: u32::MAX };
    let network = Placed::start(placement, |line| TOLD.lock().expect("no panic").push(line.to_owned()));
    assert_eq!(network.cpus(), everywhere);
    let told = TOLD.lock().expect("no panic");
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(
        told[0].starts_with("the kernel does not move 2 of 2 threads to their CPUs: Invalid argument"),
        "{told:?}"
    );
    assert!(told[1].starts_with("the kernel refuses busy polling: "), "{told:?}");
}
