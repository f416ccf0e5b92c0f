//! Records: the layout of an item in a segment, a packed header, then key and value.
//!
//! ```text
//! 0 expiry u32 | 4 last access u32 | 8 key length u8, value length u24 | 12 CAS u48 | 18 bits u8
//! | client flags u32, if any | wide CAS u64, if any | key | value | padding to 4
//! ```
//!
//! 19 bytes of header: a key of 20 and a value of 20 bytes make a record of 60.
//!
//! **Access rules.** The header is only accessed as atomics. Key bytes, sizes and the layout bits do not
//! change from publication until the segment is reused. Value, flags and wide CAS are read and written only
//! under the lock of the key's shard; before publication only by the thread that holds the open segment. A
//! segment is reused only after each of its records was found dead, or removed, under the lock of its shard;
//! so the next write there happens after all reads.
#![expect(unsafe_code, reason = "the bytes of items")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, Ordering::Relaxed};

use crate::memory::large::LargeValue;
use crate::memory::system::Arena;
use crate::shard::Locked;

/// The record that starts at byte `at` of the arena.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'a> {
    arena: &'a Arena,
    at: usize,
}

/// Header fields of a record.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Header {
    pub(crate) expiry: u32,
    pub(crate) last_access: u32,
    pub(crate) cas: CasOffset,
    pub(crate) flags: u32,
    /// Any of the bits below; those of the layout are added as needed.
    pub(crate) bits: u8,
}

/// A CAS unique as stored in records: its distance from the store's first one. 48 bits suffice unless a
/// client gives a unique of its own (decision 17).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CasOffset(u64);

impl CasOffset {
    #[inline]
    pub(crate) fn new(unique: u64, first: u64) -> CasOffset {
        CasOffset(unique.wrapping_sub(first))
    }

    #[inline]
    pub(crate) fn unique(self, first: u64) -> u64 {
        self.0.wrapping_add(first)
    }
}

/// Client flags are present.
const HAS_FLAGS: u8 = 1;
/// The offset of the CAS unique has 64 bits.
const WIDE_CAS: u8 = 2;
/// The value is the number of a large value in the shard's table.
pub(crate) const LARGE: u8 = 4;
/// The client sent the key in base64.
pub(crate) const BINARY_KEY: u8 = 8;
/// The item has been read since it was stored.
pub(crate) const FETCHED: u8 = 16;
/// A client has been told to recache the value.
pub(crate) const TOKEN_SENT: u8 = 32;
/// The item has been invalidated.
pub(crate) const STALE: u8 = 64;
/// The bits that determine the layout: unchanged for the lifetime of the record.
const LAYOUT: u8 = HAS_FLAGS | WIDE_CAS | LARGE;

const HEADER_LEN: usize = 19;
/// Records start at multiples of this.
pub(crate) const ALIGN: usize = 4;
const CAS_NARROW_MAX: u64 = (1 << 48) - 1;

impl Header {
    /// The layout bits for this header.
    pub(crate) fn layout(&self) -> u8 {
        let flags = if self.flags != 0 { HAS_FLAGS } else { 0 };
        let wide = if self.cas.0 > CAS_NARROW_MAX { WIDE_CAS } else { 0 };
        flags | wide | (self.bits & LARGE)
    }

    /// Size of a record.
    pub(crate) fn record_size(&self, key_len: usize, value_len: usize) -> usize {
        size(self.layout(), key_len, value_len)
    }
}

fn size(layout: u8, key_len: usize, value_len: usize) -> usize {
    (key_at(layout) + key_len + value_len).next_multiple_of(ALIGN)
}

#[inline]
fn key_at(layout: u8) -> usize {
    let flags = if layout & HAS_FLAGS != 0 { 4 } else { 0 };
    let wide = if layout & WIDE_CAS != 0 { 8 } else { 0 };
    HEADER_LEN + flags + wide
}

/// Reading.
impl<'a> Record<'a> {
    /// A record at `at`, where one has been or is being written.
    #[inline]
    pub(crate) fn new(arena: &'a Arena, at: usize) -> Record<'a> {
        Record { arena, at }
    }

    #[inline]
    pub(crate) fn expiry(self) -> u32 {
        self.word(0).load(Relaxed)
    }

    #[inline]
    pub(crate) fn last_access(self) -> u32 {
        self.word(4).load(Relaxed)
    }

    #[inline]
    pub(crate) fn key_len(self) -> usize {
        (self.word(8).load(Relaxed) & 0xff) as usize
    }

    #[inline]
    pub(crate) fn value_len(self) -> usize {
        (self.word(8).load(Relaxed) >> 8) as usize
    }

    #[inline]
    pub(crate) fn bits(self) -> u8 {
        self.bits_cell().load(Relaxed)
    }

    /// Size in bytes, up to the start of the next record.
    #[inline]
    pub(crate) fn size(self) -> usize {
        let lens = self.word(8).load(Relaxed);
        size(self.bits() & LAYOUT, (lens & 0xff) as usize, (lens >> 8) as usize)
    }

    #[inline]
    pub(crate) fn key(self) -> &'a [u8] {
        let start = self.at + key_at(self.bits());
        // SAFETY: the key of a published record is not written until its segment is reused.
        unsafe { self.arena.bytes(start, self.key_len()) }
    }

    #[inline]
    pub(crate) fn value<'g>(self, _lock: &'g Locked<'_>) -> &'g [u8]
    where
        'a: 'g,
    {
        let start = self.at + key_at(self.bits()) + self.key_len();
        // SAFETY: written only under the shard's lock, which is held (and borrowed) for as long.
        unsafe { self.arena.bytes(start, self.value_len()) }
    }

    /// The number of its large value in the shard's table. It must have one.
    pub(crate) fn large_number(self, lock: &Locked<'_>) -> u32 {
        debug_assert!(self.bits() & LARGE != 0);
        u32::from_le_bytes(self.value(lock).try_into().expect("four bytes"))
    }

    /// Its large value, if it has one.
    #[inline]
    pub(crate) fn large<'l>(self, lock: &'l Locked<'_>) -> Option<&'l Arc<LargeValue>> {
        (self.bits() & LARGE != 0).then(|| lock.large(self.large_number(lock)))
    }

    /// Length of the value, wherever it lies.
    #[inline]
    pub(crate) fn len(self, lock: &Locked<'_>) -> usize {
        self.large(lock).map_or(self.value_len(), |large| large.len())
    }

    pub(crate) fn flags(self, _lock: &Locked<'_>) -> u32 {
        if self.bits() & HAS_FLAGS == 0 {
            return 0;
        }
        // SAFETY: as for the value.
        let bytes = unsafe { self.arena.bytes(self.at + HEADER_LEN, 4) };
        u32::from_le_bytes(bytes.try_into().expect("four bytes"))
    }

    pub(crate) fn cas(self, _lock: &Locked<'_>) -> CasOffset {
        if self.bits() & WIDE_CAS == 0 {
            let high = u64::from(self.cas_high().load(Relaxed));
            return CasOffset(u64::from(self.word(12).load(Relaxed)) | high << 32);
        }
        // SAFETY: as for the value.
        let bytes = unsafe { self.arena.bytes(self.wide_cas_at(), 8) };
        CasOffset(u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
    }

    /// All header fields, for a copy of the record.
    pub(crate) fn header(self, lock: &Locked<'_>) -> Header {
        Header {
            expiry: self.expiry(),
            last_access: self.last_access(),
            cas: self.cas(lock),
            flags: self.flags(lock),
            bits: self.bits() & !(HAS_FLAGS | WIDE_CAS),
        }
    }
}

/// Writing.
impl Record<'_> {
    #[inline]
    pub(crate) fn set_expiry(self, _lock: &mut Locked<'_>, second: u32) {
        self.word(0).store(second, Relaxed);
    }

    #[inline]
    pub(crate) fn set_last_access(self, _lock: &mut Locked<'_>, second: u32) {
        self.word(4).store(second, Relaxed);
    }

    /// Sets and clears bits other than those of the layout.
    #[inline]
    pub(crate) fn change_bits(self, _lock: &mut Locked<'_>, set: u8, clear: u8) {
        debug_assert!((set | clear) & LAYOUT == 0);
        self.bits_cell().store(self.bits() & !clear | set, Relaxed);
    }

    /// Whether a record with this header and a value of that length has the same size and layout.
    pub(crate) fn fits(self, header: &Header, value_len: usize) -> bool {
        let layout = header.layout();
        self.bits() & LAYOUT == layout && self.size() == size(layout, self.key_len(), value_len)
    }

    /// Writes header and value over those of a published record.
    ///
    /// Panics if they do not [fit](Record::fits).
    pub(crate) fn overwrite(self, _lock: &mut Locked<'_>, header: &Header, value: &[u8]) {
        assert!(self.fits(header, value.len()), "another size");
        // SAFETY: under the shard's lock; key and layout stay as they are.
        unsafe { self.write_all(header, None, self.key_len(), value) };
    }

    /// Writes another header over that of a published record.
    ///
    /// Panics if the layout differs.
    pub(crate) fn set_header(self, lock: &mut Locked<'_>, header: &Header) {
        let value = self.value(lock).to_vec();
        self.overwrite(lock, header, &value);
    }

    /// # Safety
    /// Key (if given), value, flags and wide CAS of this place are not accessed by any other code.
    unsafe fn write_all(self, header: &Header, key: Option<&[u8]>, key_len: usize, value: &[u8]) {
        let layout = header.layout();
        debug_assert!(key_len <= 255 && value.len() < 1 << 24);
        self.word(0).store(header.expiry, Relaxed);
        self.word(4).store(header.last_access, Relaxed);
        self.word(8).store(key_len as u32 | (value.len() as u32) << 8, Relaxed);
        self.word(12).store(header.cas.0 as u32, Relaxed);
        self.cas_high().store((header.cas.0 >> 32) as u16, Relaxed);
        self.bits_cell().store(header.bits & !LAYOUT | layout, Relaxed);
        let mut at = self.at + HEADER_LEN;
        let mut put = |bytes: &[u8]| {
            // SAFETY: not accessed by other code, by the caller's contract.
            unsafe { self.arena.bytes_mut(at, bytes.len()) }.copy_from_slice(bytes);
            at += bytes.len();
        };
        if layout & HAS_FLAGS != 0 {
            put(&header.flags.to_le_bytes());
        }
        if layout & WIDE_CAS != 0 {
            put(&header.cas.0.to_le_bytes());
        }
        if let Some(key) = key {
            put(key);
        } else {
            at += key_len;
        }
        // SAFETY: as in `put`.
        unsafe { self.arena.bytes_mut(at, value.len()) }.copy_from_slice(value);
    }
}

/// Room for a new record at the end of an open segment, where nothing is published yet.
///
/// Made only by [`OpenSet::append`](crate::segment::open::OpenSet::append), under the set's lock.
pub(crate) struct Place<'a> {
    record: Record<'a>,
    size: usize,
}

impl<'a> Place<'a> {
    pub(crate) fn new(arena: &'a Arena, at: usize, size: usize) -> Place<'a> {
        Place { record: Record::new(arena, at), size }
    }

    /// Writes a record, which must be of the requested size, and returns its location.
    pub(crate) fn write(self, header: &Header, key: &[u8], value: &[u8]) -> usize {
        assert_eq!(header.record_size(key.len(), value.len()), self.size, "another size was asked for");
        // SAFETY: the place is in the unused part of an open segment whose lock the caller holds.
        unsafe { self.record.write_all(header, Some(key), key.len(), value) };
        self.record.at
    }

    /// Copies a published record.
    pub(crate) fn copy(self, other: Record<'_>, lock: &Locked<'_>) -> usize {
        self.write(&other.header(lock), other.key(), other.value(lock))
    }
}

/// Cells of the header.
impl<'a> Record<'a> {
    #[inline]
    fn word(self, offset: usize) -> &'a AtomicU32 {
        // SAFETY: the header is only ever accessed as atomics; records are aligned to 4.
        unsafe { self.arena.atomic_u32(self.at + offset) }
    }

    #[inline]
    fn cas_high(self) -> &'a AtomicU16 {
        // SAFETY: as above.
        unsafe { self.arena.atomic_u16(self.at + 16) }
    }

    #[inline]
    fn bits_cell(self) -> &'a AtomicU8 {
        // SAFETY: as above.
        unsafe { self.arena.atomic_u8(self.at + 18) }
    }

    fn wide_cas_at(self) -> usize {
        self.at + key_at(self.bits()) - 8
    }
}
