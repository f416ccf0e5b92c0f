//! A worker without a network, for tests and fuzzing, on `net`'s simulated host.

use std::sync::Arc;

use net::sim::{Heard, Pace, SimHost};
use net::{DiskFile, Network, Notice};
use protocol::discovery::DiscoveryState;
use protocol::limits::LINE_LEN_MAX;
use stdx::clock::Now;
use store::Store;

use crate::settings::discovery::DiscoveryBoard;
use crate::settings::options::Options;
use crate::shared::Shared;
use crate::{Error, Worker, open_store};

/// The single worker of a server without listeners. The same `hash_secret` makes the same server: dumps list
/// items in the same order.
///
/// # Panics
/// If the kernel refuses an event descriptor, or the memory that `options` ask for.
pub fn worker(options: &Options, started_unix_ms: u64, hash_secret: u128) -> Worker {
    worker_with(options, started_unix_ms, hash_secret, |_| {})
}

fn worker_with(options: &Options, started_unix_ms: u64, hash_secret: u128, notice: Notice) -> Worker {
    let store = open_store(options, hash_secret, started_unix_ms).expect("set up a store");
    // A network without addresses has no sockets; its counters stay at 0.
    let network = Network::bind(&[], net::Options { workers: 1, notice, ..net::Options::default() });
    let network = network.map_err(Error::from).expect("set up a network");
    Worker::new(
        Arc::new(Shared::new(options.clone(), store, &network, None, started_unix_ms, Now::default())),
        0,
    )
}

/// [`worker`] with a store that exists already, and the devices of its flash tier.
///
/// # Panics
/// As [`worker`].
pub fn worker_over(
    options: &Options,
    started_unix_ms: u64,
    store: Arc<Store>,
    devices: Vec<DiskFile>,
) -> Worker {
    let network = Network::bind(&[], net::Options { workers: 1, ..net::Options::default() });
    let network = network.map_err(Error::from).expect("set up a network");
    let mut shared = Shared::new(options.clone(), store, &network, None, started_unix_ms, Now::default());
    shared.flash_files = devices;
    Worker::new(Arc::new(shared), 0)
}

/// [`worker`] on a host, at time 0.
pub fn host(options: &Options, started_unix_ms: u64, hash_secret: u128) -> SimHost<Worker> {
    SimHost::new(worker(options, started_unix_ms, hash_secret))
}

/// [`worker`] with a list of members, for `--cluster-file` in `options`.
///
/// # Panics
/// As [`worker`].
pub fn worker_telling(
    options: &Options,
    started_unix_ms: u64,
    hash_secret: u128,
    state: DiscoveryState,
) -> Worker {
    let worker = worker(options, started_unix_ms, hash_secret);
    DiscoveryBoard(Arc::clone(&worker.shared)).replace(state);
    worker
}

/// [`host`] with a receiver of lines for the operator.
pub fn host_with(
    options: &Options,
    started_unix_ms: u64,
    hash_secret: u128,
    notice: Notice,
) -> SimHost<Worker> {
    SimHost::new(worker_with(options, started_unix_ms, hash_secret, notice))
}

/// All output to a peer that sends `pieces`, each in one go, to a new server.
pub fn hear<'p>(pieces: impl IntoIterator<Item = &'p [u8]>, pace: Pace) -> Heard {
    let mut host = host(&Options::default(), 1_800_000_000_000, 1);
    host.set_pace(pace);
    let peer = host.connect();
    pieces.into_iter().for_each(|piece| host.send(peer, piece));
    let mut output = host.take_output(peer);
    loop {
        let more = host.take_output(peer);
        if more.is_empty() {
            return Heard { output, closed: host.closed(peer) };
        }
        output.extend_from_slice(&more);
    }
}

/// Checks that replies do not depend on where the input is cut; panics if they do.
///
/// The first byte of `input` says how many cuts there are, and how much a peer lets lie unread; two bytes for each
/// cut follow, and then the conversation.
pub fn check(input: &[u8]) {
    let Some((&first, rest)) = input.split_first() else { return };
    let (count, window) =
        (usize::from(first % 16), [usize::MAX, 10_000, 100, 1][usize::from(first >> 4) % 4]);
    let Some((positions, conversation)) = rest.split_at_checked(2 * count) else { return };
    let at = |pair: &[u8]| usize::from(u16::from_le_bytes([pair[0], pair[1]])) % (conversation.len() + 1);
    let mut cuts: Vec<usize> = positions.chunks(2).map(at).collect();
    cuts.sort_unstable();
    let mut pieces = Vec::new();
    let mut start = 0;
    for cut in cuts.into_iter().chain([conversation.len()]) {
        pieces.push(&conversation[start..cut]);
        start = cut;
    }
    let whole = hear([conversation], Pace::default());
    let heard = hear(pieces, Pace { window, ..Pace::default() });
    if depends_on_cuts(conversation, &whole) || depends_on_cuts(conversation, &heard) {
        return;
    }
    assert_eq!(heard.closed, whole.closed);
    let (heard, whole) = (comparable(&heard.output), comparable(&whole.output));
    assert!(heard == whole, "cut:\n  {}\nwhole:\n  {}", heard.escape_ascii(), whole.escape_ascii());
}

/// Two replies depend on what arrived together, as in memcached: a line beyond the limit is refused only if
/// its end has not arrived with it, and dumps and `watch` must not be pipelined.
fn depends_on_cuts(conversation: &[u8], heard: &Heard) -> bool {
    let has_long_line = || conversation.split(|&byte| byte == b'\n').any(|line| line.len() >= LINE_LEN_MAX);
    let refused = b"ERROR cannot pipeline";
    heard.closed.is_some() && has_long_line()
        || heard.output.windows(refused.len()).any(|window| window == refused)
}

/// Output without values that depend on processor time, or on the progress of the store's housekeeping.
fn comparable(output: &[u8]) -> Vec<u8> {
    let passing = |line: &&[u8]| {
        let name = line.strip_prefix(b"STAT ").unwrap_or_default();
        PASSING.iter().any(|passing| name.starts_with(passing.as_bytes()))
    };
    let lines = output.split_inclusive(|&byte| byte == b'\n');
    lines.filter(|line| !passing(line)).flatten().copied().collect()
}

/// Prefixes of the names of such statistics.
const PASSING: &[&str] = &[
    "rusage_",
    "bytes ",
    "curr_items",
    "reclaimed",
    "expired_unfetched",
    "moves_to_cold",
    "slab",
    "hash_",
    "items:",
    "1:",
    "active_slabs",
    "total_malloced",
    "evenkeel_",
];
