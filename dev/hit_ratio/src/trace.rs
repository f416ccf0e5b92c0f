//! Requests of a trace: which item, how many bytes, and when it is used next.
//!
//! Files are in libCacheSim's `oracleGeneral` format (`*.bin`): for each request 24 bytes in little endian, which are the
//! second (32 bits), the object (64), its bytes (32), and what is not used here (64). Or they are lines `object,bytes` (`*.csv`).

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

pub(crate) mod made;

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReplayedRequest {
    /// The number of the item, in the order of their first requests.
    pub(crate) item: u32,
    /// Bytes of its key and its value: those of its first request.
    pub(crate) bytes: u64,
    /// The number of the request that uses it next; `u64::MAX`: none does.
    pub(crate) next: u64,
}

/// All requests of a trace.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ItemTrace {
    pub(crate) requests: Vec<ReplayedRequest>,
    /// How many different items there are.
    pub(crate) items: usize,
}

/// Bytes of one request in a file.
const ENTRY: usize = 24;

impl ItemTrace {
    /// A trace of objects and their bytes.
    pub(crate) fn new(uses: impl Iterator<Item = (u64, u32)>) -> ItemTrace {
        let mut known = HashMap::<u64, (u32, u64)>::new();
        let mut requests: Vec<ReplayedRequest> = uses
            .map(|(object, bytes)| {
                let item = known.len() as u32;
                let (item, bytes) = *known.entry(object).or_insert((item, u64::from(bytes).max(BYTES_MIN)));
                ReplayedRequest { item, bytes, next: u64::MAX }
            })
            .collect();
        let mut next = vec![u64::MAX; known.len()];
        for (number, request) in requests.iter_mut().enumerate().rev() {
            request.next = std::mem::replace(&mut next[request.item as usize], number as u64);
        }
        ItemTrace { requests, items: known.len() }
    }

    /// Reads a file, at most `requests_max` of its requests.
    pub(crate) fn read(path: &Path, requests_max: usize) -> Result<ItemTrace> {
        let bytes = std::fs::read(path).with_context(|| format!("read {}", path.display()))?;
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("bin") => {
                ensure!(bytes.len() % ENTRY == 0, "{}: expected entries of {ENTRY} bytes", path.display());
                let entries = bytes.chunks_exact(ENTRY).take(requests_max);
                Ok(ItemTrace::new(entries.map(|entry| {
                    let object = entry[4..12].try_into().expect("8 bytes");
                    let bytes = entry[12..16].try_into().expect("4 bytes");
                    (u64::from_le_bytes(object), u32::from_le_bytes(bytes))
                })))
            }
            Some("csv") => {
                let text = String::from_utf8(bytes).with_context(|| format!("read {}", path.display()))?;
                let use_of = |(number, line): (usize, &str)| {
                    let parts =
                        line.split_once(',').map(|(object, bytes)| (object.parse(), bytes.trim().parse()));
                    match parts {
                        Some((Ok(object), Ok(bytes))) => Ok((object, bytes)),
                        _ => bail!("{}:{}: expected `object,bytes`, two numbers", path.display(), number + 1),
                    }
                };
                let uses: Vec<(u64, u32)> =
                    text.lines().take(requests_max).enumerate().map(use_of).collect::<Result<_>>()?;
                Ok(ItemTrace::new(uses.into_iter()))
            }
            _ => bail!("{}: expected a file *.bin or *.csv", path.display()),
        }
    }
}

/// Bytes of the shortest item that a server is sent: its key alone.
pub(crate) const BYTES_MIN: u64 = 17;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_know_their_next_use_and_keep_their_first_size() {
        let trace = ItemTrace::new([(70, 100), (80, 200), (70, 300)].into_iter());
        let request = |item, bytes, next| ReplayedRequest { item, bytes, next };
        assert_eq!(
            trace.requests,
            [request(0, 100, 2), request(1, 200, u64::MAX), request(0, 100, u64::MAX)]
        );
        assert_eq!(trace.items, 2);
    }
}
