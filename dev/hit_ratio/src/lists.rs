//! Queues of items by number: each item is in one of some lists, from the newest to the oldest.

/// Lists of numbered items, and the bytes in each.
pub(crate) struct Lists {
    /// By item: the list, or [`NONE`].
    list: Vec<u8>,
    newer: Vec<u32>,
    older: Vec<u32>,
    bytes: Vec<u32>,
    ends: Vec<Ends>,
}

#[derive(Clone, Copy)]
struct Ends {
    newest: u32,
    oldest: u32,
    bytes: u64,
    items: u64,
}

/// In no list.
const NONE: u8 = u8::MAX;
/// No item.
const NO_ITEM: u32 = u32::MAX;

impl Lists {
    /// For items below `items`, in `lists` lists.
    pub(crate) fn new(items: usize, lists: usize) -> Lists {
        let empty = Ends { newest: NO_ITEM, oldest: NO_ITEM, bytes: 0, items: 0 };
        Lists {
            list: vec![NONE; items],
            newer: vec![NO_ITEM; items],
            older: vec![NO_ITEM; items],
            bytes: vec![0; items],
            ends: vec![empty; lists],
        }
    }

    /// The list that an item is in.
    pub(crate) fn list_of(&self, item: u32) -> Option<usize> {
        let list = self.list[item as usize];
        (list != NONE).then_some(list.into())
    }

    /// Whether an item is in this list.
    pub(crate) fn is_in(&self, item: u32, list: usize) -> bool {
        self.list_of(item) == Some(list)
    }

    /// Bytes of a list's items.
    pub(crate) fn bytes(&self, list: usize) -> u64 {
        self.ends[list].bytes
    }

    /// The number of a list's items.
    pub(crate) fn items(&self, list: usize) -> u64 {
        self.ends[list].items
    }

    /// Bytes of an item that is in a list.
    pub(crate) fn bytes_of(&self, item: u32) -> u64 {
        self.bytes[item as usize].into()
    }

    /// The oldest item of a list.
    pub(crate) fn oldest(&self, list: usize) -> Option<u32> {
        let oldest = self.ends[list].oldest;
        (oldest != NO_ITEM).then_some(oldest)
    }

    /// The next newer item of the same list.
    pub(crate) fn newer(&self, item: u32) -> Option<u32> {
        let newer = self.newer[item as usize];
        (newer != NO_ITEM).then_some(newer)
    }

    /// Moves an item to the newest end of a list.
    pub(crate) fn push(&mut self, item: u32, list: usize, bytes: u64) {
        self.remove(item);
        let (at, ends) = (item as usize, &mut self.ends[list]);
        self.list[at] = list as u8;
        self.bytes[at] = bytes as u32;
        self.newer[at] = NO_ITEM;
        self.older[at] = ends.newest;
        match ends.newest {
            NO_ITEM => ends.oldest = item,
            newest => self.newer[newest as usize] = item,
        }
        ends.newest = item;
        ends.bytes += bytes;
        ends.items += 1;
    }

    /// Takes an item out of its list, if it is in one.
    pub(crate) fn remove(&mut self, item: u32) {
        let at = item as usize;
        let Some(list) = self.list_of(item) else { return };
        let (newer, older) = (self.newer[at], self.older[at]);
        match newer {
            NO_ITEM => self.ends[list].newest = older,
            newer => self.older[newer as usize] = older,
        }
        match older {
            NO_ITEM => self.ends[list].oldest = newer,
            older => self.newer[older as usize] = newer,
        }
        self.list[at] = NONE;
        self.ends[list].bytes -= u64::from(self.bytes[at]);
        self.ends[list].items -= 1;
    }

    /// Takes the oldest item out of a list.
    pub(crate) fn pop(&mut self, list: usize) -> Option<u32> {
        let item = self.oldest(list)?;
        self.remove(item);
        Some(item)
    }
}
