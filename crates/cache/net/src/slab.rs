//! A slab: entries by small numbers, which are used again with another generation.

/// Names an entry for as long as it exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Token {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl Token {
    pub(crate) fn to_u64(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    pub(crate) fn from_u64(bits: u64) -> Token {
        Token { index: bits as u32, generation: (bits >> 32) as u32 }
    }
}

/// Entries and the free places between them.
pub(crate) struct Slab<T> {
    entries: Vec<Entry<T>>,
    free: Vec<u32>,
}

struct Entry<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Default for Slab<T> {
    fn default() -> Slab<T> {
        Slab { entries: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Slab<T> {
        Slab::default()
    }

    /// The name that the next entry will have.
    pub(crate) fn next_token(&self) -> Token {
        match self.free.last() {
            Some(&index) => self.token(index),
            None => Token { index: self.entries.len() as u32, generation: 0 },
        }
    }

    pub(crate) fn insert(&mut self, value: T) -> Token {
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry { generation: 0, value: None });
            u32::try_from(self.entries.len() - 1).expect("fewer connections than file descriptors")
        });
        let entry = &mut self.entries[index as usize];
        entry.value = Some(value);
        Token { index, generation: entry.generation }
    }

    /// The entry, unless it has been removed since.
    #[inline]
    pub(crate) fn get_mut(&mut self, token: Token) -> Option<&mut T> {
        let entry = self.entries.get_mut(token.index as usize)?;
        if entry.generation == token.generation { entry.value.as_mut() } else { None }
    }

    /// The entry at `index`, which must be in use.
    #[inline]
    pub(crate) fn at(&self, index: u32) -> &T {
        self.entries[index as usize].value.as_ref().expect("an entry in use")
    }

    /// The entry at `index`, which must be in use.
    #[inline]
    pub(crate) fn at_mut(&mut self, index: u32) -> &mut T {
        self.entries[index as usize].value.as_mut().expect("an entry in use")
    }

    /// The name of the entry at `index`.
    pub(crate) fn token(&self, index: u32) -> Token {
        Token { index, generation: self.entries[index as usize].generation }
    }

    /// Takes the entry at `index` out, which must be in use.
    pub(crate) fn remove(&mut self, index: u32) -> T {
        let entry = &mut self.entries[index as usize];
        let value = entry.value.take().expect("an entry in use");
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(index);
        value
    }

    /// The places in use, by index.
    pub(crate) fn indices(&self) -> impl Iterator<Item = u32> {
        self.entries.iter().zip(0..).filter(|(entry, _)| entry.value.is_some()).map(|(_, index)| index)
    }

    /// The places in use among `count` from `first` on, by index.
    pub(crate) fn indices_from(&self, first: u32, count: u32) -> impl Iterator<Item = u32> {
        let end = first.saturating_add(count).min(self.entries.len() as u32);
        (first..end).filter(|index| self.entries[*index as usize].value.is_some())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Places in use.
    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Places in use and free.
    pub(crate) fn places(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_used_again_has_another_token() {
        let mut slab = Slab::new();
        let named = slab.next_token();
        let first = slab.insert('a');
        assert_eq!(named, first);
        assert_eq!(slab.get_mut(first), Some(&mut 'a'));
        assert_eq!(slab.remove(first.index), 'a');
        let named = slab.next_token();
        let second = slab.insert('b');
        assert_eq!(named, second);
        assert_eq!((first.index, slab.places()), (second.index, 1));
        assert_eq!(slab.get_mut(first), None);
        assert_eq!(slab.get_mut(Token::from_u64(second.to_u64())), Some(&mut 'b'));
    }
}
