//! A server's state on its way to its successor, as bytes.

use std::os::fd::OwnedFd;

use serde::{Deserialize, Serialize};
use server::{HandedConnection, HandedTickets, LAYOUT_VERSION, Manifest};

use super::flash::FlashOffer;

/// To be raised by every change of the messages. Memory and connections have versions of their own.
pub(super) const FORMAT: u32 = 4;

/// The first message of the successor.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SuccessorHello {
    pub(super) format: u32,
    /// How it keeps items in memory.
    #[serde(default)]
    pub(super) layout: u64,
    pub(super) version: String,
}

/// Why one of two versions that keep items in different ways does not take over from the other, which would leave none.
pub(super) fn other_layout(version: &str, layout: u64) -> String {
    format!(
        "version {version} keeps items otherwise (layout {layout}, and here it is {LAYOUT_VERSION}), so none would be left: \
         end the old server and start the new one where that may be"
    )
}

/// What a server has. Its descriptors: listeners, then those of metrics, then the memory, then those of flash.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ServerOffer {
    pub(super) format: u32,
    /// How it keeps items in memory.
    #[serde(default)]
    pub(super) layout: u64,
    pub(super) version: String,
    /// The time of day when the server's clock showed 0, in milliseconds since 1970.
    pub(super) zero_unix_ms: u64,
    /// The server's clock less the monotonic one, in microseconds: a number that wraps around.
    pub(super) clock_us: u64,
    /// Addresses of the network, by the number that connections have.
    pub(super) addresses: Vec<String>,
    /// How many descriptors are those of listeners, and how many of metrics.
    pub(super) listeners: usize,
    pub(super) metrics: usize,
    /// Its flash tier, if there is one.
    pub(super) flash: Option<FlashOffer>,
    /// The secrets of TLS tickets that it has made up.
    pub(super) tickets: Option<TicketOffer>,
}

/// Secrets of TLS tickets. Only whoever may be the next server receives them: the same user, or root.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TicketOffer {
    since_s: u64,
    secrets: Vec<String>,
}

impl TicketOffer {
    pub(super) fn of(tickets: &HandedTickets) -> TicketOffer {
        let (since_s, secrets) = tickets.to_parts();
        TicketOffer { since_s, secrets }
    }

    pub(super) fn tickets(&self) -> Option<HandedTickets> {
        HandedTickets::of_parts(self.since_s, &self.secrets)
    }
}

impl std::fmt::Debug for TicketOffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TicketOffer").field("since_s", &self.since_s).finish_non_exhaustive()
    }
}

/// A connection but for its socket: `listener u16 | length u32 | state | length u32 | rest`.
pub(crate) fn write_connection(out: &mut Vec<u8>, connection: &HandedConnection) {
    out.extend(connection.listener.to_le_bytes());
    for part in [&connection.state, &connection.rest] {
        out.extend((part.len() as u32).to_le_bytes());
        out.extend(part);
    }
}

/// Reads as many connections as there are sockets.
pub(crate) fn read_connections(
    mut bytes: &[u8],
    sockets: Vec<OwnedFd>,
) -> Result<Vec<HandedConnection>, String> {
    let damaged = || "its connections cannot be read".to_owned();
    let mut take = |len: usize| -> Result<&[u8], String> {
        let (taken, rest) = bytes.split_at_checked(len).ok_or_else(damaged)?;
        bytes = rest;
        Ok(taken)
    };
    let mut connections = Vec::with_capacity(sockets.len());
    for socket in sockets {
        let listener = u16::from_le_bytes(take(2)?.try_into().map_err(|_| damaged())?);
        let mut part = || -> Result<Vec<u8>, String> {
            let len = u32::from_le_bytes(take(4)?.try_into().map_err(|_| damaged())?);
            take(len as usize).map(<[u8]>::to_vec)
        };
        connections.push(HandedConnection { socket, listener, state: part()?, rest: part()? });
    }
    if bytes.is_empty() { Ok(connections) } else { Err(damaged()) }
}

pub(super) fn write_manifest(manifest: &Manifest) -> Vec<u8> {
    manifest.0.iter().flat_map(|number| number.to_le_bytes()).collect()
}

pub(super) fn read_manifest(bytes: &[u8]) -> Result<Manifest, String> {
    let (numbers, rest) = bytes.as_chunks::<8>();
    match rest {
        [] => Ok(Manifest(numbers.iter().map(|number| u64::from_le_bytes(*number)).collect())),
        _ => Err("its manifest cannot be read".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_come_back_and_what_was_cut_does_not() {
        let connection = |rest: &[u8]| HandedConnection {
            socket: std::fs::File::open("/dev/null").expect("a file").into(),
            listener: 3,
            state: b"state".to_vec(),
            rest: rest.to_vec(),
        };
        let mut bytes = Vec::new();
        let sockets = || [(); 2].map(|()| connection(b"").socket).into();
        [connection(b""), connection(b"get a")].iter().for_each(|one| write_connection(&mut bytes, one));
        let found = read_connections(&bytes, sockets()).expect("as they were");
        let parts: Vec<_> = found.iter().map(|one| (one.listener, &one.state[..], &one.rest[..])).collect();
        assert_eq!(parts, [(3, &b"state"[..], &b""[..]), (3, b"state", b"get a")]);
        for len in 0..bytes.len() {
            assert!(read_connections(&bytes[..len], sockets()).is_err(), "{len}");
        }
        assert!(read_connections(&[&bytes[..], b"x"].concat(), sockets()).is_err());
    }

    #[test]
    fn a_manifest_is_whole_numbers() {
        let manifest = Manifest(vec![1, u64::MAX, 0]);
        let bytes = write_manifest(&manifest);
        assert_eq!(read_manifest(&bytes), Ok(manifest));
        assert!(read_manifest(&bytes[..23]).is_err());
    }
}
