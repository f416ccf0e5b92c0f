//! `stats servers` and `stats suspect_servers`: a line for each server, in mcrouter's form.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use crate::message::outcome::Outcome;
use crate::servers::health::Health;
use crate::stats::{DestinationCells, DestinationPhase, RouteCells};

/// Outcomes in the order of mcrouter's numbers for them.
const ORDER: [Outcome; Outcome::COUNT] = [
    Outcome::Deleted,
    Outcome::Touched,
    Outcome::Found,
    Outcome::NotFound,
    Outcome::NotStored,
    Outcome::Done,
    Outcome::Stored,
    Outcome::Exists,
    Outcome::Timeout,
    Outcome::ConnectTimeout,
    Outcome::ConnectError,
    Outcome::Busy,
    Outcome::TryAgain,
    Outcome::Shutdown,
    Outcome::Unavailable,
    Outcome::BadKey,
    Outcome::BadValue,
    Outcome::Aborted,
    Outcome::ClientError,
    Outcome::LocalError,
    Outcome::RemoteError,
    Outcome::DeadlineExceeded,
];

/// A server, over all workers.
struct ServerLine {
    health: Arc<Health>,
    /// Sum of the averages of those workers that have one.
    average_us: f64,
    averages: u32,
    pending: u64,
    inflight: u64,
    phases: [u64; 4],
    results: [u64; Outcome::COUNT],
}

/// mcrouter's name of a destination: requests with another time limit have another connection.
pub(crate) fn destination_name(cells: &DestinationCells) -> String {
    let security = if cells.spec.tls.is_some() { "ssl" } else { "plain" };
    format!("{}:ascii:{security}:notcompressed-{}", cells.spec.name, cells.spec.timeout_ms)
}

/// A line for each server.
pub(super) fn servers(all: &[Arc<RouteCells>], out: &mut String) {
    let mut lines: BTreeMap<String, ServerLine> = BTreeMap::new();
    for cells in all.iter().flat_map(|cells| cells.destinations()).filter(|cells| !cells.is_gone()) {
        lines.entry(destination_name(&cells)).or_insert_with(|| ServerLine::new(&cells)).add(&cells);
    }
    for (name, line) in lines {
        let _ = write!(out, "STAT {name} ");
        line.write(out);
        out.push_str("\r\n");
    }
}

/// A line for each server that has failed since its last reply.
pub(super) fn suspects(suspects: &[(String, Arc<Health>)], out: &mut String) {
    for (name, health) in suspects {
        let status = if health.unavailable().is_some() { "tko" } else { "down" };
        let _ = write!(out, "STAT {name} status:{status} num_failures:{}\r\n", health.failures());
    }
}

impl ServerLine {
    fn new(cells: &DestinationCells) -> ServerLine {
        ServerLine {
            health: Arc::clone(&cells.health),
            average_us: 0.0,
            averages: 0,
            pending: 0,
            inflight: 0,
            phases: [0; 4],
            results: [0; Outcome::COUNT],
        }
    }

    fn add(&mut self, cells: &DestinationCells) {
        if let Some(average) = cells.average_us() {
            self.average_us += average;
            self.averages += 1;
        }
        let phase = cells.phase();
        self.phases[phase as usize] += 1;
        match phase {
            DestinationPhase::Up => self.inflight += cells.outstanding(),
            _ => self.pending += cells.outstanding(),
        }
        for (sum, counter) in self.results.iter_mut().zip(&cells.results) {
            *sum += counter.value();
        }
    }

    fn write(&self, out: &mut String) {
        let average = if self.averages == 0 { 0.0 } else { self.average_us / f64::from(self.averages) };
        let (pending, inflight) = (self.pending, self.inflight);
        let _ = write!(out, "avg_latency_us:{average:.3} pending_reqs:{pending} inflight_reqs:{inflight}");
        match self.health.unavailable() {
            None => {}
            Some(Outcome::Timeout) => out.push_str(" soft_tko; "),
            Some(_) => out.push_str(" hard_tko; "),
        }
        for phase in DestinationPhase::ALL {
            let count = self.phases[phase as usize];
            if count > 0 {
                let _ = write!(out, " {}:{count}", phase.name());
            }
        }
        let counts = ORDER.iter().map(|outcome| (outcome.name(), self.results[*outcome as usize]));
        for (place, (name, count)) in counts.filter(|(_, count)| *count > 0).enumerate() {
            let _ = write!(out, "{} {name}:{count}", if place == 0 { ";" } else { "" });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_has_its_place() {
        for (outcome, name) in Outcome::all() {
            assert_eq!(ORDER.iter().filter(|other| **other == outcome).count(), 1, "{name}");
        }
    }
}
