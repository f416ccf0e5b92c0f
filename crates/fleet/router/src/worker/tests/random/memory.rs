//! Bounds of what a worker keeps for all its clients and servers.

use crate::client::{PARKED_MAX, WINDOW_MAX};
use crate::flight::COPIED_MAX;
use crate::servers::destination::{EXCHANGES_MAX, UNSENT_MAX};
use crate::worker::RouteWorker;

/// Bytes that a worker of a random history keeps at most, for three clients whose values have at most 2 MiB: what they may
/// have parked, three times such a value on its way to each and from each, and copies that nobody waits for.
const KEPT_MAX: usize = 3 * (PARKED_MAX + (12 << 20)) + COPIED_MAX;

/// Bytes that a worker keeps: parked answers, requests that were not sent, halves of values, and what routes keep.
fn kept(worker: &mut RouteWorker) -> usize {
    let clients: usize = worker.clients.windows().values().map(|client| client.parked()).sum();
    let of_server =
        |server: &crate::servers::destination::Destination| server.connection.waiting() + server.queue.held();
    let servers: usize = worker.servers.destinations().iter().map(of_server).sum();
    clients + servers + worker.flights.len()
}

/// Windows, queues and what is kept in all are bounded.
pub(super) fn check_memory(worker: &mut RouteWorker, seed: u64) {
    for client in worker.clients.windows().values() {
        assert!(client.len() <= WINDOW_MAX, "seed {seed}: {} requests", client.len());
    }
    for server in worker.servers.destinations() {
        assert!(server.queue.len() <= EXCHANGES_MAX, "seed {seed}: {}", server.queue.len());
        assert!(
            server.connection.unsent() <= UNSENT_MAX,
            "seed {seed}: {} bytes",
            server.connection.unsent()
        );
    }
    let kept = kept(worker);
    assert!(kept <= KEPT_MAX, "seed {seed}: {kept} bytes");
}
