//! Memory of hot values: what is charged, and in which order they make room.

use std::collections::VecDeque;
use std::sync::Arc;

use stdx::clock::Now;

use super::{HotCache, HotCacheSettings, HotSlot, SLOTS_MAX, Ticket};

/// What a value takes besides its bytes and its key: a place in a table that is half full, the counts before shared bytes, and
/// what an allocator adds to two pieces of memory.
const OVERHEAD: usize = 2 * size_of::<(u64, HotSlot)>() + 2 * size_of::<(u64, Ticket)>() + 16 + 2 * 16;

/// Bytes that a value is charged with.
pub(super) fn charge(key: &[u8], value_len: usize) -> usize {
    OVERHEAD + key.len() + value_len
}

/// The values of one pool.
pub(super) struct HotPool {
    pub(super) settings: Arc<HotCacheSettings>,
    /// Of all its values.
    pub(super) bytes: usize,
    /// Slots in the order in which they were filled, and with which ticket. Their values may be others by now.
    pub(super) order: VecDeque<(u64, Ticket)>,
}

impl HotPool {
    pub(super) fn new(settings: Arc<HotCacheSettings>) -> HotPool {
        HotPool { settings, bytes: 0, order: VecDeque::new() }
    }

    /// A value is there.
    pub(super) fn add(&mut self, charged: usize, hash: u64, ticket: Ticket) {
        self.bytes += charged;
        self.order.push_back((hash, ticket));
    }
}

impl HotCache {
    /// Drops the oldest values of a pool until there is room for `charged` bytes; and those at the front whose time is over.
    pub(super) fn make_room(&mut self, pool: usize, charged: usize, now: Now) {
        let HotPool { settings, bytes, order } = &mut self.pools[pool];
        let ttl_us = settings.ttl_us();
        while let Some((hash, ticket)) = order.front().copied() {
            let slot = self.slots.get_mut(&hash);
            let kept = slot.map(|slot| &mut slot.kept);
            let Some(kept) = kept.filter(|kept| kept.as_ref().is_some_and(|kept| kept.ticket == ticket))
            else {
                // It was dropped, or replaced.
                order.pop_front();
                continue;
            };
            let is_over = kept.as_ref().is_some_and(|kept| now.us >= kept.sent.us + ttl_us);
            if !is_over && *bytes + charged <= settings.memory {
                break;
            }
            if let Some(kept) = kept.take() {
                *bytes -= kept.charged;
                self.counts.evicted += u64::from(!is_over);
            }
            order.pop_front();
        }
        if order.len() >= 2 * SLOTS_MAX {
            // Of a key that is updated again and again, each value has left its place here.
            let slots = &self.slots;
            order.retain(|(hash, ticket)| {
                let kept = slots.get(hash).and_then(|slot| slot.kept.as_ref());
                kept.is_some_and(|kept| kept.ticket == *ticket)
            });
        }
    }
}
