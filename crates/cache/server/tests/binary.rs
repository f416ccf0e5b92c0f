//! The binary protocol, on a simulated network.

mod hostile;
mod protocols;
mod replies;
mod statistics;

use crate::packets::show;
use crate::simulated::Server;
use net::CloseReason;
use net::sim::{PeerId, at_every_cut};
use server::options::Options;

fn worker() -> server::Worker {
    worker_with(Options::default())
}

fn worker_with(options: Options) -> server::Worker {
    server::sim::worker(&options, 1_800_000_000_000, 1)
}

/// Replies to `requests`, which must not depend on cuts.
#[track_caller]
fn check(requests: &[Vec<u8>], expected: &str) {
    check_with(Options::default, requests, expected, None);
}

#[track_caller]
fn check_with(
    options: impl Fn() -> Options,
    requests: &[Vec<u8>],
    expected: &str,
    closed: Option<CloseReason>,
) {
    let heard = at_every_cut(|| worker_with(options()), &requests.concat());
    let expected: Vec<&str> = expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert_eq!(show(&heard.output), expected.join("\n"));
    assert_eq!(heard.closed, closed);
}

/// All pending output for `peer`.
fn take(server: &mut Server, peer: PeerId) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let output = server.host.take_output(peer);
        if output.is_empty() {
            return all;
        }
        all.extend_from_slice(&output);
    }
}
