//! Requests to a store and their results: plain data.
//!
//! Seconds are those of `stdx::clock`. An expiry of 0 means never; any other is the second at which the item
//! expires. A CAS unique of `None` means "not given".

use crate::memory::large::LargeValue;

/// Whether a read counts as a use of the item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Look {
    /// A use: it counts for eviction, "hit before" and the last access.
    #[default]
    Use,
    /// Leaves no trace.
    Peek,
}

/// Why the last lookup of a handle found nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Miss {
    /// There was no item.
    #[default]
    Absent,
    /// There was an item, but it had expired.
    Expired,
    /// There was an item, but it had been flushed.
    Flushed,
}

/// Options of a meta get.
#[derive(Clone, Copy, Debug, Default)]
pub struct MetaGet {
    /// Whether this read counts as a use.
    pub look: Look,
    /// A new expiry for an item that is there.
    pub touch: Option<u32>,
    /// On a miss create an empty item with this expiry; the client has then won.
    pub vivify: Option<u32>,
    /// The client wins if the item expires before this second.
    pub recache_below: Option<u32>,
    /// Whether `recache_below` is compared with the expiry that `touch` has set (the order of the flags).
    pub recache_after_touch: bool,
    /// CAS unique of a created item.
    pub new_cas: Option<u64>,
    /// Mark of a created item: its key came in base64.
    pub key_is_binary: bool,
    /// The client may not recache: it never wins, and what is stale stays to be won by others.
    pub never_wins: bool,
}

/// Condition and kind of a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// Always; with a CAS to compare, only over exactly that item.
    #[default]
    Set,
    /// Only if there is no item.
    Add,
    /// Only if there is an item.
    Replace,
    /// After the present value.
    Append,
    /// Before the present value.
    Prepend,
}

/// Parameters of a storage operation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Change {
    /// When.
    pub condition: Condition,
    /// Only over an item with this CAS unique. As in memcached, with `Set` and `Replace` 0 never matches;
    /// with `Append` and `Prepend` 0 is no condition, and `Add` ignores it.
    pub compare_cas: Option<u64>,
    /// The CAS unique of the new item.
    pub new_cas: Option<u64>,
    /// Client flags. Append and prepend keep the present ones.
    pub flags: u32,
    /// Expiry. Append and prepend keep the present one.
    pub expiry: u32,
    /// With a `compare_cas` lower than the item's: store the value nevertheless, marked stale.
    pub invalidate: bool,
    /// Append and prepend create an item with this expiry if there is none.
    pub vivify: Option<u32>,
    /// The key came in base64.
    pub key_is_binary: bool,
}

/// The bytes to store.
#[derive(Debug)]
pub enum NewValue<'v> {
    /// To be copied. Any size: large values get their own memory.
    Bytes(&'v [u8]),
    /// Already in its own memory, from [`crate::Handle::large_value`].
    Large(LargeValue),
}

impl NewValue<'_> {
    /// Length in bytes.
    pub fn len(&self) -> usize {
        match self {
            NewValue::Bytes(bytes) => bytes.len(),
            NewValue::Large(large) => large.len(),
        }
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Result of a storage operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// Done.
    Stored {
        /// The item's CAS unique now.
        cas: u64,
        /// The whole value's length now (append and prepend make it longer).
        len: usize,
        /// When it expires (append and prepend do not change that).
        expiry: u32,
    },
    /// The condition did not hold (or the joined value would be too large).
    NotStored,
    /// The item is there with another CAS unique.
    Exists,
    /// There is no item to compare a CAS unique with.
    NotFound,
}

/// Parameters of a deletion.
#[derive(Clone, Copy, Debug, Default)]
pub struct Delete {
    /// Only an item with this CAS unique.
    pub compare_cas: Option<u64>,
    /// The CAS unique of an item that is kept.
    pub new_cas: Option<u64>,
    /// Keep the item and mark it stale; the next reader wins.
    pub mark_stale: bool,
    /// Together with `mark_stale`: a new expiry. Together with `drop_value`: the expiry (else never).
    pub expiry: Option<u32>,
    /// Keep the item, without its value.
    pub drop_value: bool,
    /// Client flags of an item whose value was dropped.
    pub flags: u32,
}

/// Result of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// The item is gone.
    Deleted {
        /// Length of its value.
        len: usize,
    },
    /// The item was kept, stale or without its value.
    Kept,
    /// Nothing there.
    NotFound,
    /// The item has another CAS unique.
    Exists,
}

/// Up or down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// Wraps at 2^64.
    #[default]
    Increment,
    /// Stops at 0.
    Decrement,
}

/// Parameters of an increment or decrement.
#[derive(Clone, Copy, Debug, Default)]
pub struct Arithmetic {
    /// Up or down.
    pub direction: Direction,
    /// The amount.
    pub delta: u64,
    /// Only an item with this CAS unique; 0 is no condition.
    pub compare_cas: Option<u64>,
    /// The CAS unique of the result.
    pub new_cas: Option<u64>,
    /// On a miss create an item.
    pub vivify: Option<Vivify>,
    /// A new expiry for an item that is there.
    pub touch: Option<u32>,
    /// Mark of a created item: its key came in base64.
    pub key_is_binary: bool,
}

/// The item that an increment or decrement creates on a miss.
#[derive(Clone, Copy, Debug, Default)]
pub struct Vivify {
    /// The first value; the delta is not applied to it.
    pub initial: u64,
    /// When it expires.
    pub expiry: u32,
}

/// Result of an increment or decrement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// Done.
    Counted {
        /// The value now.
        value: u64,
        /// The item's CAS unique now.
        cas: u64,
        /// When it expires.
        expiry: u32,
        /// The expiry before this request; 0 if there was no item.
        expiry_before: u32,
        /// Whether it was created by this request.
        created: bool,
    },
    /// Nothing there.
    NotFound,
    /// The item has another CAS unique.
    Exists,
    /// The value is not a number.
    NotNumeric,
}
