//! Tests of running out of file descriptors, alone in their process, because the limit is the process's.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use net::{Address, Handler, Listen, Network, Next, Opened, Options, Progress, Turn};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use stdx::gather::Gather;

/// Longer than a busy machine delays a test: only a failure reaches it.
const TIMEOUT: Duration = Duration::from_secs(60);

struct Echo;

impl Handler for Echo {
    type Connection = ();
    type Held = Vec<u8>;

    fn on_open(&mut self, _opened: &Opened, _turn: &mut Turn<Vec<u8>>) {}

    fn on_bytes(
        &mut self,
        _: &mut (),
        input: &[u8],
        output: &mut Gather<Vec<u8>>,
        _turn: &mut Turn<Vec<u8>>,
    ) -> Progress {
        output.copy(input);
        Progress { consumed: input.len(), next: Next::Read }
    }
}

fn echo(mut client: &TcpStream) {
    client.set_read_timeout(Some(TIMEOUT)).unwrap();
    client.write_all(b"hello").unwrap();
    let mut heard = [0; 5];
    client.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"hello");
}

#[test]
fn without_descriptors_clients_wait_until_there_are_some() {
    let place = Listen::Tcp(SocketAddr::from(([127, 0, 0, 1], 0)));
    let network = Network::bind(&[place], Options { workers: 1, ..Options::default() }).unwrap();
    let Address::Tcp(address) = network.addresses()[0] else { panic!("tcp") };
    let (view, stop) = (network.view(), network.stop());
    let running = network.start(vec![Echo]).unwrap();
    let first = TcpStream::connect(address).unwrap();
    echo(&first);

    // All descriptors but one, which the client takes, are used up.
    let highest = File::open("/dev/null").unwrap();
    let limit = Rlimit { current: Some(256), ..getrlimit(Resource::Nofile) };
    setrlimit(Resource::Nofile, limit).unwrap();
    let mut fillers: Vec<_> = std::iter::from_fn(|| highest.try_clone().ok()).collect();
    fillers.pop();
    let second = TcpStream::connect(address).unwrap();
    (&second).write_all(b"hello").unwrap();

    // Open connections are served meanwhile.
    while view.counts().accepting {
        echo(&first);
    }
    assert_eq!(view.counts().accepted, 1);
    fillers.clear();
    let mut heard = [0; 5];
    second.set_read_timeout(Some(TIMEOUT)).unwrap();
    (&second).read_exact(&mut heard).unwrap();
    let counts = view.counts();
    assert_eq!((counts.accepted, counts.listen_disabled_num), (2, 1));
    stop.stop();
    running.join().unwrap();
}
