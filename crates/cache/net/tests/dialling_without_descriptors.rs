//! Tests of dialling without file descriptors, alone in their process, because the limit is the process's.

use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use net::{Dial, Handler, Network, Next, Opened, Options, Origin, Place, Progress, Turn, Unreachable};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use stdx::gather::Gather;

/// Longer than a busy machine delays a test: only a failure reaches it.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Dials the places that come through a channel, and reports the outcomes.
struct Dialler {
    orders: Receiver<(Place, u64)>,
    outcomes: Sender<(u64, Result<(), Unreachable>)>,
}

impl Handler for Dialler {
    type Connection = ();
    type Held = Vec<u8>;

    fn on_open(&mut self, opened: &Opened, _turn: &mut Turn<Vec<u8>>) {
        let Origin::Dialled { tag } = opened.origin else { panic!("no listener in this test") };
        self.outcomes.send((tag, Ok(()))).unwrap();
    }

    fn on_unreachable(&mut self, tag: u64, why: Unreachable, _turn: &mut Turn<Vec<u8>>) {
        self.outcomes.send((tag, Err(why))).unwrap();
    }

    fn on_bytes(
        &mut self,
        _: &mut (),
        input: &[u8],
        _output: &mut Gather<Vec<u8>>,
        _turn: &mut Turn<Vec<u8>>,
    ) -> Progress {
        Progress { consumed: input.len(), next: Next::Read }
    }

    fn end_turn(&mut self, turn: &mut Turn<Vec<u8>>) {
        while let Ok((place, tag)) = self.orders.try_recv() {
            turn.dial(Dial { place, timeout_ms: 60_000, tls: None }, tag).unwrap();
        }
    }
}

#[test]
fn a_dial_without_descriptors_is_exhausted() {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let place = Place::Tcp(listener.local_addr().unwrap());
    let network = Network::bind(&[], Options { workers: 1, ..Options::default() }).unwrap();
    let (view, stop, nudge) = (network.view(), network.stop(), network.nudge());
    let ((order, orders), (tell, outcomes)) = (channel(), channel());
    let running = network.start(vec![Dialler { orders, outcomes: tell }]).unwrap();
    let outcome = |tag: u64| {
        order.send((place.clone(), tag)).unwrap();
        nudge.nudge(0);
        outcomes.recv_timeout(TIMEOUT).unwrap()
    };
    assert_eq!(outcome(1), (1, Ok(())));

    let highest = File::open("/dev/null").unwrap();
    let limit = Rlimit { current: Some(256), ..getrlimit(Resource::Nofile) };
    setrlimit(Resource::Nofile, limit).unwrap();
    let fillers: Vec<_> = std::iter::from_fn(|| highest.try_clone().ok()).collect();
    for tag in 2..100 {
        assert_eq!(outcome(tag), (tag, Err(Unreachable::Exhausted)));
    }
    drop(fillers);
    assert_eq!(outcome(100), (100, Ok(())));
    let counts = view.counts();
    assert_eq!((counts.dialled, counts.unreachable, counts.connections, counts.accepted), (2, 98, 0, 0));
    stop.stop();
    running.join().unwrap();
    assert_eq!(view.counts().dialled, 0);
}
