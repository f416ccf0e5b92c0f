//! A slab: entries by small numbers, used again with another generation.

/// Names an entry as long as it exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Id {
    pub(crate) index: u32,
    generation: u32,
}

/// Entries and the free places between them.
#[derive(Debug)]
pub(crate) struct IdSlab<T> {
    entries: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
}

impl<T> Default for IdSlab<T> {
    fn default() -> IdSlab<T> {
        IdSlab { entries: Vec::new(), free: Vec::new() }
    }
}

impl<T> IdSlab<T> {
    pub(crate) fn insert(&mut self, value: T) -> Id {
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push((0, None));
            u32::try_from(self.entries.len() - 1).expect("entries are bounded by connections and windows")
        });
        let entry = &mut self.entries[index as usize];
        entry.1 = Some(value);
        Id { index, generation: entry.0 }
    }

    pub(crate) fn get(&self, id: Id) -> Option<&T> {
        let (generation, value) = self.entries.get(id.index as usize)?;
        if *generation == id.generation { value.as_ref() } else { None }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: Id) -> Option<&mut T> {
        let (generation, value) = self.entries.get_mut(id.index as usize)?;
        if *generation == id.generation { value.as_mut() } else { None }
    }

    pub(crate) fn remove(&mut self, id: Id) -> Option<T> {
        let (generation, value) = self.entries.get_mut(id.index as usize)?;
        if *generation != id.generation {
            return None;
        }
        let value = value.take()?;
        *generation = generation.wrapping_add(1);
        self.free.push(id.index);
        Some(value)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Id, &T)> {
        self.entries.iter().enumerate().filter_map(|(index, (generation, value))| {
            Some((Id { index: index as u32, generation: *generation }, value.as_ref()?))
        })
    }

    #[cfg(test)]
    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().filter_map(|(_, value)| value.as_ref())
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_name_finds_nothing_in_a_place_that_is_used_again() {
        let mut slab = IdSlab::default();
        let first = slab.insert('a');
        assert_eq!(slab.remove(first), Some('a'));
        let second = slab.insert('b');
        assert_eq!((second.index, slab.len()), (first.index, 1));
        assert_eq!(slab.get_mut(first), None);
        assert_eq!(slab.remove(first), None);
        assert_eq!(slab.get_mut(second), Some(&mut 'b'));
    }
}
