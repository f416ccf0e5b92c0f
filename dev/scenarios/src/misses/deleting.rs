//! An application that stores, deletes and looks: by another router each time, one request after the other.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use end_to_end::clock;

use crate::clients::reply::read_reply;

/// Keys that are stored once, before anything happens, and deleted one after the other.
const ONCE: usize = 40_000;
/// A deleted key is looked for again that many times, a while later: its slot has come back meanwhile.
const LOOKED_FOR_AGAIN: usize = 4;
/// A router that does not answer for longer is a failure of the scenario.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
const EVERY: Duration = Duration::from_millis(10);

/// What it has seen.
pub(super) struct DeleteCounts {
    pub(super) deletes: usize,
    pub(super) stale: usize,
}

pub(super) struct DeletingApplication {
    routers: Vec<TcpStream>,
}

impl DeletingApplication {
    /// Stores its keys.
    pub(super) fn begin(places: &[SocketAddr]) -> Result<DeletingApplication> {
        let mut routers = places.iter().map(|place| connect(*place)).collect::<std::io::Result<Vec<_>>>()?;
        for key in 0..ONCE {
            let stored = ask(&mut routers[0], &format!("set once{key} 0 0 3\r\nold\r\n"))?;
            ensure!(stored == b"STORED\r\n", "a set is answered by {}", String::from_utf8_lossy(&stored));
        }
        Ok(DeletingApplication { routers })
    }

    /// Deletes until the end, and looks for what was deleted; in the end for all of it.
    pub(super) fn run(&mut self, ends: &AtomicBool) -> Result<DeleteCounts> {
        let mut counts = DeleteCounts { deletes: 0, stale: 0 };
        while !ends.load(Ordering::Relaxed) && counts.deletes < ONCE {
            let (key, count) = (counts.deletes, self.routers.len());
            let deleted = ask(&mut self.routers[key % count], &format!("delete once{key}\r\n"))?;
            ensure!(
                deleted == b"DELETED\r\n" || deleted == b"NOT_FOUND\r\n",
                "a delete is answered by {}",
                String::from_utf8_lossy(&deleted)
            );
            counts.deletes += 1;
            for step in 0..LOOKED_FOR_AGAIN {
                // The one of now, and earlier ones.
                let Some(before) = key.checked_sub(step * step * 700) else { continue };
                counts.stale += usize::from(self.finds(key + 1, before)?);
            }
            clock::pass(EVERY);
        }
        for key in 0..counts.deletes {
            counts.stale += usize::from(self.finds(key, key)?);
        }
        Ok(counts)
    }

    fn finds(&mut self, router: usize, key: usize) -> Result<bool> {
        let count = self.routers.len();
        Ok(ask(&mut self.routers[router % count], &format!("get once{key}\r\n"))?.starts_with(b"VALUE"))
    }
}

fn connect(place: SocketAddr) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect(place)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(ANSWER_WITHIN))?;
    Ok(stream)
}

fn ask(stream: &mut TcpStream, request: &str) -> std::io::Result<Vec<u8>> {
    stream.write_all(request.as_bytes())?;
    read_reply(stream)
}
