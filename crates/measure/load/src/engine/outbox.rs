//! The requests of one turn: one buffer for all connections, so that it stays in the cache.

use std::ops::Range;

/// Bytes to send, by connection.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    pub(crate) bytes: Vec<u8>,
    parcels: Vec<(usize, Range<usize>)>,
}

impl Outbox {
    /// What was appended to `bytes` since `start` goes to `connection`.
    #[inline]
    pub(crate) fn address(&mut self, connection: usize, start: usize) {
        self.parcels.push((connection, start..self.bytes.len()));
    }

    /// Connections and what each of them sends; at most one parcel for each connection.
    pub(crate) fn parcels(&self) -> impl Iterator<Item = (usize, &[u8])> {
        self.parcels.iter().map(|(connection, range)| (*connection, &self.bytes[range.clone()]))
    }

    /// The connections that send something.
    pub(crate) fn connections(&self) -> impl Iterator<Item = usize> {
        self.parcels.iter().map(|(connection, _)| *connection)
    }

    /// The parcel with this number.
    pub(crate) fn parcel(&self, number: usize) -> (usize, &[u8]) {
        let (connection, range) = &self.parcels[number];
        (*connection, &self.bytes[range.clone()])
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.parcels.clear();
    }
}
