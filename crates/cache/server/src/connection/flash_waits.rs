//! Requests whose items are on flash, or push others there: whether they wait, and reads begun ahead of their turn.

use protocol::binary::{BinaryCommand, BinaryRequest};
use protocol::{Parsed, Request, parse};
use store::Key;

use super::packets::kept;
use super::{Connection, State};
use crate::commands::binary::PlannedPacket;
use crate::commands::request::KEY_BUFFER;
use crate::connection::dialect::Dialect;
use crate::connection::plan::Planned;
use crate::flash_tier::item_use;
use crate::settings::rights::{needed, needed_for_packet};
use crate::worker::Worker;

// Not inlined: the code that serves items in memory stays as small as without flash.
impl Connection {
    /// Whether a request waits for its item, or for room on the way to the disks. `key` is its key, if it was hashed before.
    #[inline(never)]
    pub(super) fn waits(&self, worker: &mut Worker, request: &Request<'_>, key: Option<Key<'_>>) -> bool {
        let stores = matches!(request, Request::Store(_) | Request::MetaSet { .. });
        if stores && needed(request) <= self.role && worker.must_wait_for_writes(self.link) {
            return true;
        }
        let Some(usage) = item_use::of_text(request).filter(|_| needed(request) <= self.role) else {
            return false;
        };
        let mut buffer = KEY_BUFFER;
        let key = match key {
            Some(key) => key,
            None => match item_use::key_of(request, &mut buffer) {
                Some(key) => worker.store.key(key),
                None => return false,
            },
        };
        worker.must_wait(self.link, &key, usage)
    }

    /// The same for a packet.
    #[inline(never)]
    pub(super) fn packet_waits(
        &self,
        worker: &mut Worker,
        request: &BinaryRequest<'_>,
        key: Option<Key<'_>>,
    ) -> bool {
        let is_permitted = needed_for_packet(request) <= self.role;
        let stores = matches!(request.command, BinaryCommand::Store(_));
        if stores && is_permitted && worker.must_wait_for_writes(self.link) {
            return true;
        }
        let usage = item_use::of_packet(request).filter(|_| is_permitted);
        let Some(usage) = usage else { return false };
        let Some(key) = key.or_else(|| request.key().map(|key| worker.store.key(key))) else { return false };
        worker.must_wait(self.link, &key, usage)
    }

    /// Whether the request whose body has arrived waits for its item.
    #[inline]
    pub(super) fn body_waits(&self, worker: &mut Worker) -> bool {
        worker.has_flash() && self.body_waits_for_flash(worker)
    }

    #[inline(never)]
    fn body_waits_for_flash(&self, worker: &mut Worker) -> bool {
        let State::Body(upload) = &self.state else { return false };
        match (self.dialect, parse(upload.head())) {
            (Dialect::Binary, _) => self.packet_waits(worker, &kept(upload.head()), None),
            (Dialect::Text, Parsed::Head { request, .. }) => self.waits(worker, &request, None),
            (Dialect::Text, Parsed::Incomplete) => unreachable!("the head was parsed before"),
        }
    }

    /// Begins the reads of planned requests.
    #[inline(never)]
    pub(super) fn read_ahead(&self, worker: &mut Worker, planned: &[Option<Planned<'_>>]) {
        for Planned { request, key, .. } in planned.iter().flatten() {
            let reads = item_use::of_text(request).is_some() && needed(request) <= self.role;
            if let Some(key) = key.filter(|_| reads) {
                worker.read_ahead(self.link, &key);
            }
        }
    }

    /// The same for packets.
    #[inline(never)]
    pub(super) fn read_packets_ahead(&self, worker: &mut Worker, planned: &[Option<PlannedPacket<'_>>]) {
        for PlannedPacket { request, key, .. } in planned.iter().flatten() {
            let reads = item_use::of_packet(request).is_some() && needed_for_packet(request) <= self.role;
            if let Some(key) = key.filter(|_| reads) {
                worker.read_ahead(self.link, &key);
            }
        }
    }
}
