//! Density: items that fit, and the resident memory that each takes.

use anyhow::{Context, Result, ensure};
use protocol::client::command::{self, AppendKey};

use super::client::StoreClient;
use super::content::{Values, number_in, push_key};
use super::report::{Goal, MIB, Row, progress};
use super::server::{BenchServer, ServerKind, Subjects};

/// One size of values.
struct Size {
    value_len: usize,
    /// So many surely fit: from half as many to so many, bytes per item are looked at before the cache is
    /// full. Hash tables grow in leaps, so over that range they are once nearly empty and once nearly full.
    fits: u64,
    /// Far more than fit.
    stored: u64,
    /// Items held, ours ÷ memcached's: must and stretch.
    held: (f64, f64),
    /// Bytes per item: must and stretch.
    bytes: (f64, f64),
}

const MEGABYTES: u64 = 256;
pub(crate) const KEY_LEN: usize = 21;

/// The key of item `number`, for a line.
pub(crate) fn key(number: u64) -> impl AppendKey {
    move |out: &mut Vec<u8>| push_key(out, number, KEY_LEN)
}
const SIZES: [Size; 3] = [
    Size { value_len: 20, fits: 1_500_000, stored: 6_000_000, held: (1.45, 1.65), bytes: (90.0, 79.0) },
    Size { value_len: 100, fits: 1_000_000, stored: 4_000_000, held: (1.2, 1.3), bytes: (168.0, 159.0) },
    Size { value_len: 300, fits: 500_000, stored: 2_000_000, held: (1.08, 1.12), bytes: (368.0, 355.0) },
];
/// Numbers of items at which the cache that is not full is looked at.
const LOOKS: u64 = 6;
/// Keys of one `get`.
const MULTIGET: u64 = 50;
/// Keys asked for before the replies are read: what both kernels buffer.
const ASKED: u64 = 500;

/// The results of one server with one size.
struct Held {
    items: u64,
    claimed: u64,
    bytes_full: f64,
    /// Bytes per item in a cache that is not full: the mean over numbers of items, and the most.
    bytes_fitting: f64,
    bytes_fitting_most: f64,
    resident: u64,
}

pub(crate) fn measure(subjects: &Subjects) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for size in &SIZES {
        let ours = hold(&subjects.ours, size)?;
        let peer = hold(&subjects.peer, size)?;
        let name = |what: &str| format!("{what}, V = {}", size.value_len);
        let resident = |held: &Held| format!("{:.1} MiB", held.resident as f64 / MIB);
        rows.extend([
            Row::new("density", name("items held in -m 256"), "", ours.items as f64, peer.items as f64)
                .goal(Goal::ratio_at_least(size.held.0, size.held.1))
                .note(format!(
                    "curr_items {} and {}; RSS {} and {}",
                    ours.claimed,
                    peer.claimed,
                    resident(&ours),
                    resident(&peer)
                )),
            Row::new("density", name("RSS per item, full"), "B", ours.bytes_full, peer.bytes_full)
                .goal(Goal::at_most(size.bytes.0, size.bytes.1)),
            Row::new(
                "density",
                name(&format!(
                    "RSS per item, {} to {} M items",
                    size.fits as f64 / 2e6,
                    size.fits as f64 / 1e6
                )),
                "B",
                ours.bytes_fitting,
                peer.bytes_fitting,
            )
            .goal(Goal::at_most(size.bytes.0, size.bytes.1))
            .note(format!("mean; at most {:.0} and {:.0}", ours.bytes_fitting_most, peer.bytes_fitting_most)),
        ]);
    }
    Ok(rows)
}

fn hold(kind: &ServerKind, size: &Size) -> Result<Held> {
    let values = Values::new();
    let server = BenchServer::start(kind, MEGABYTES)?;
    let mut client = server.connect()?;
    let mut fitting = Vec::new();
    let mut stored = 0;
    for look in 0..LOOKS {
        let items = size.fits * (LOOKS + look + 1) / (2 * LOOKS);
        store(&mut client, &values, stored..items, size.value_len)?;
        stored = items;
        fitting.push((server.settled_bytes()? - server.empty_bytes) as f64 / items as f64);
    }
    let bytes_fitting = fitting.iter().sum::<f64>() / fitting.len() as f64;
    let bytes_fitting_most = fitting.iter().copied().fold(0.0, f64::max);
    store(&mut client, &values, size.fits..size.stored, size.value_len)?;
    let resident = server.settled_bytes()?;
    let claimed = client.statistic("curr_items")?;
    let items = count(&mut client, &values, size)?;
    let bytes_full = (resident - server.empty_bytes) as f64 / items as f64;
    progress(format!(
        "density V={:<4} {:<10} {items:>8} items (curr_items {claimed}), {bytes_full:.1} B each when full, \
         {bytes_fitting:.1} B (at most {bytes_fitting_most:.1} B) up to {} items",
        size.value_len, server.name, size.fits
    ));
    Ok(Held { items, claimed, bytes_full, bytes_fitting, bytes_fitting_most, resident })
}

/// Stores the items of these numbers.
pub(crate) fn store(
    client: &mut StoreClient,
    values: &Values,
    numbers: std::ops::Range<u64>,
    value_len: usize,
) -> Result<()> {
    for number in numbers {
        client.push_set(key(number), 0, values.get(number, value_len));
        client.send_much()?;
    }
    client.barrier()
}

/// Reads all back, oldest first, and counts. While nothing is stored, nothing is evicted: the order of
/// reading does not change what is there.
fn count(client: &mut StoreClient, values: &Values, size: &Size) -> Result<u64> {
    let mut found = 0;
    for first in (0..size.stored).step_by(ASKED as usize) {
        let mut gets = 0;
        for first in (first..(first + ASKED).min(size.stored)).step_by(MULTIGET as usize) {
            let keys = (first..(first + MULTIGET).min(size.stored)).map(key);
            command::get(&mut client.out, keys);
            gets += 1;
        }
        client.send()?;
        for _ in 0..gets {
            client.items(|key, value| {
                let number = number_in(key).context("a key that nobody asked for")?;
                ensure!(value == values.get(number, size.value_len), "item {number} has a wrong value");
                found += 1;
                Ok(())
            })?;
        }
    }
    Ok(found)
}
