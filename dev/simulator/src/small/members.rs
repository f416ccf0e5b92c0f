//! Servers and their processes.

use control::ControllerChoice;
use fleet::MemberId;
use net::Options;
use net::sim::{HostId, World};

use super::judge::MemberLives;
use super::shape::{CONTROLLERS, PORT, member};

/// Memory of a server: a few keys.
const MEMORY_BYTES: u64 = 4 << 20;

/// A server on a host of its own.
#[derive(Debug)]
pub(super) struct SmallServer {
    pub(super) id: MemberId,
    pub(super) host: HostId,
    pub(super) is_up: bool,
    /// When its process was started last.
    since_us: u64,
    /// It is started again then.
    pub(super) starts_ms: Option<u64>,
    /// The host reaches nobody, and nobody reaches it.
    pub(super) is_cut_off: bool,
    /// Orders to be emptied that its agent has carried out, and the one that is on its way.
    pub(super) flushes: u64,
    pub(super) flushing: Option<u64>,
    /// Orders to be swept that its agent has carried out, and the one that is on its way.
    pub(super) swept: u64,
    pub(super) sweeping: Option<u64>,
    /// Its last order was to be kept empty, and the one that is on its way is.
    pub(super) is_kept_empty: bool,
    pub(super) keeps_empty: bool,
    pub(super) choice: ControllerChoice,
    pub(super) turns: u64,
    pub(super) seen: u64,
}

/// All of them.
#[derive(Debug)]
pub(super) struct SmallServers(pub(super) Vec<SmallServer>);

impl SmallServers {
    pub(super) fn new(net: &mut World, count: usize) -> SmallServers {
        let server = |number: usize| SmallServer {
            id: member(number).parse().expect("a name"),
            host: net.add(process(), &[PORT], &options()),
            is_up: true,
            since_us: 0,
            starts_ms: None,
            is_cut_off: false,
            flushes: 0,
            flushing: None,
            swept: 0,
            sweeping: None,
            is_kept_empty: false,
            keeps_empty: false,
            choice: ControllerChoice::new(CONTROLLERS),
            turns: 0,
            seen: 0,
        };
        SmallServers((0..count).map(server).collect())
    }

    /// Ends a process; it is started again at that time.
    pub(super) fn stop(&mut self, net: &mut World, number: usize, starts_ms: u64) {
        let server = &mut self.0[number];
        server.starts_ms = Some(starts_ms);
        if std::mem::take(&mut server.is_up) {
            let _worker: server::Worker = net.stop(server.host);
        }
    }

    /// Starts processes whose time has come, without values.
    pub(super) fn start_due(&mut self, net: &mut World, now_ms: u64) {
        for server in self.0.iter_mut().filter(|server| server.starts_ms.is_some_and(|at| at <= now_ms)) {
            net.start_again(server.host, process(), &[PORT], &options());
            (server.is_up, server.starts_ms, server.since_us) = (true, None, net.now().us);
        }
    }
}

impl MemberLives for SmallServers {
    fn has_run_since(&self, member: &MemberId, since_us: u64) -> bool {
        self.0.iter().any(|server| server.id == *member && server.is_up && server.since_us < since_us)
    }
}

fn options() -> Options {
    Options { workers: 1, ..Options::default() }
}

fn process() -> server::Worker {
    let options = server::options::Options {
        threads: 1,
        memory_limit_bytes: MEMORY_BYTES,
        item_size_max_bytes: 64 << 10,
        ..server::options::Options::default()
    };
    server::sim::worker(&options, 1_800_000_000_000, 1)
}
