//! The reads of each connection.

use net::Link;

/// The connections that have reads.
#[derive(Default)]
pub(super) struct Readers {
    /// By the place of a connection, the number of its entry and 1; 0 for none.
    numbers: Vec<u32>,
    entries: Vec<Reader>,
    unused: Vec<u32>,
}

/// A connection, while it has reads.
#[derive(Default)]
struct Reader {
    link: Link,
    /// The hash of the key of each read, and its tag.
    reads: Vec<(u64, usize)>,
    /// Those that have not ended.
    pending: usize,
    /// It does nothing until they have.
    waits: bool,
}

impl Readers {
    fn number(&self, link: Link) -> Option<usize> {
        let number = self.numbers.get(link.place())?.checked_sub(1)? as usize;
        (self.entries[number].link == link).then_some(number)
    }

    fn of(&self, link: Link) -> Option<&Reader> {
        self.number(link).map(|number| &self.entries[number])
    }

    fn of_mut(&mut self, link: Link) -> Option<&mut Reader> {
        self.number(link).map(|number| &mut self.entries[number])
    }

    /// Reads of a connection.
    pub(super) fn count(&self, link: Link) -> usize {
        self.of(link).map_or(0, |reader| reader.reads.len())
    }

    /// The tags of its reads for a key.
    pub(super) fn tags(&self, link: Link, hash: u64) -> impl Iterator<Item = usize> {
        let reads = self.of(link).map_or(&[][..], |reader| &reader.reads);
        reads.iter().filter(move |(found, _)| *found == hash).map(|(_, tag)| *tag)
    }

    /// The hash of the key that a read is for.
    pub(super) fn hash(&self, link: Link, tag: usize) -> Option<u64> {
        self.of(link)?.reads.iter().find(|(_, found)| *found == tag).map(|(hash, _)| *hash)
    }

    /// The tag of one of its reads.
    pub(super) fn any(&self, link: Link) -> Option<usize> {
        self.of(link)?.reads.last().map(|(_, tag)| *tag)
    }

    /// Adds a read that has not ended.
    pub(super) fn add(&mut self, link: Link, hash: u64, tag: usize) {
        let number = self.number(link).unwrap_or_else(|| self.enter(link));
        let reader = &mut self.entries[number];
        reader.reads.push((hash, tag));
        reader.pending += 1;
    }

    fn enter(&mut self, link: Link) -> usize {
        let number = self.unused.pop().unwrap_or_else(|| {
            self.entries.push(Reader::default());
            self.entries.len() as u32 - 1
        });
        if self.numbers.len() <= link.place() {
            self.numbers.resize(link.place() + 1, 0);
        }
        self.numbers[link.place()] = number + 1;
        self.entries[number as usize].link = link;
        number as usize
    }

    /// Removes a read.
    pub(super) fn remove(&mut self, link: Link, tag: usize, is_pending: bool) {
        let Some(number) = self.number(link) else { return };
        let reader = &mut self.entries[number];
        reader.reads.retain(|(_, found)| *found != tag);
        reader.pending -= usize::from(is_pending);
        if reader.reads.is_empty() {
            (reader.link, reader.waits) = (Link::default(), false);
            self.numbers[link.place()] = 0;
            self.unused.push(number as u32);
        }
    }

    /// The connection waits until all its reads have ended.
    pub(super) fn await_ends(&mut self, link: Link) {
        if let Some(reader) = self.of_mut(link) {
            reader.waits = true;
        }
    }

    /// Whether the connection has waited until its reads have ended, and may do so still.
    pub(super) fn waits(&self, link: Link) -> bool {
        self.of(link).is_some_and(|reader| reader.waits)
    }

    /// A read has ended. Returns whether the connection has waited for it, and for no other one.
    pub(super) fn note_end(&mut self, link: Link) -> bool {
        let Some(reader) = self.of_mut(link) else { return false };
        reader.pending -= 1;
        reader.pending == 0 && std::mem::take(&mut reader.waits)
    }
}
