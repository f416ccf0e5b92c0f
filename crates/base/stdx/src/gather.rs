//! Gathered output: copied bytes, and memory that is held in place.
//!
//! Small pieces are cheaper to copy into one buffer; large ones are cheaper to leave in place and pass to the kernel by
//! address, with a guard that keeps them there until they have been sent.

use std::io::IoSlice;

/// Bytes to be sent, in order. `H` keeps a held piece's memory alive.
#[derive(Debug)]
pub struct Gather<H> {
    /// All copied bytes, in order, without the held pieces.
    copied: Vec<u8>,
    held: Vec<Held<H>>,
    /// Sum of the held pieces' lengths.
    held_len: usize,
    /// How much of the whole (copied and held) has been sent.
    sent: usize,
}

#[derive(Debug)]
struct Held<H> {
    /// The piece goes out after this many copied bytes.
    after: usize,
    guard: H,
}

impl<H> Default for Gather<H> {
    fn default() -> Gather<H> {
        Gather { copied: Vec::new(), held: Vec::new(), held_len: 0, sent: 0 }
    }
}

impl<H: AsRef<[u8]>> Gather<H> {
    /// Appends a copy of `bytes`.
    #[inline]
    pub fn copy(&mut self, bytes: &[u8]) {
        self.copied.extend_from_slice(bytes);
    }

    /// The copied bytes, for appending (and for truncating what the caller has just appended). The bytes before the
    /// last held piece must stay.
    #[inline]
    pub fn copied(&mut self) -> &mut Vec<u8> {
        &mut self.copied
    }

    /// Appends the memory that `guard` gives access to, without copying it.
    pub fn hold(&mut self, guard: H) {
        self.held_len += guard.as_ref().len();
        self.held.push(Held { after: self.copied.len(), guard });
    }

    /// The guards of all held pieces, in order.
    pub fn held(&self) -> impl Iterator<Item = &H> {
        self.held.iter().map(|held| &held.guard)
    }

    /// Bytes of memory, sent or not: the copied ones, and of each held piece as many as `share` says.
    pub fn memory(&self, share: impl Fn(&H) -> usize) -> usize {
        self.copied.len() + self.held().map(share).sum::<usize>()
    }

    /// Bytes that are still to be sent.
    #[inline]
    pub fn len(&self) -> usize {
        self.copied.len() + self.held_len - self.sent
    }

    /// Whether everything has been sent.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rest, if nothing is held: the common case, and one plain `send`.
    #[inline]
    pub fn single(&self) -> Option<&[u8]> {
        self.held.is_empty().then(|| &self.copied[self.sent..])
    }

    /// The first piece that is still to be sent; empty if there is none.
    pub fn front(&self) -> &[u8] {
        if let Some(bytes) = self.single() {
            return bytes;
        }
        let mut skip = self.sent;
        for piece in self.pieces() {
            if skip < piece.len() {
                return &piece[skip..];
            }
            skip -= piece.len();
        }
        &[]
    }

    /// Fills `slices` with the unsent pieces, in order, and returns how many it filled. Pieces that do not fit are
    /// returned by a later call, after [`Gather::advance`].
    pub fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let mut skip = self.sent;
        let mut filled = 0;
        for piece in self.pieces() {
            if filled == slices.len() {
                break;
            }
            if skip >= piece.len() {
                skip -= piece.len();
                continue;
            }
            slices[filled] = IoSlice::new(&piece[skip..]);
            skip = 0;
            filled += 1;
        }
        filled
    }

    /// All pieces from the beginning, sent or not, in order.
    fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.held.iter().map(|held| held.after));
        let copied_runs = starts.enumerate().map(|(index, start)| {
            let end = self.held.get(index).map_or(self.copied.len(), |held| held.after);
            &self.copied[start..end]
        });
        let held_runs = self.held.iter().map(|held| held.guard.as_ref()).chain(std::iter::once::<&[u8]>(&[]));
        copied_runs.zip(held_runs).flat_map(|(copied, held)| [copied, held])
    }

    /// Marks `count` bytes as sent. Once all is sent, guards are dropped and the memory can be used again.
    ///
    /// Panics if fewer than `count` bytes were left.
    pub fn advance(&mut self, count: usize) {
        assert!(count <= self.len(), "sent {count} bytes of {}", self.len());
        self.sent += count;
        if self.is_empty() {
            self.clear();
        }
    }

    /// Appends all of `other`, of which nothing has been sent.
    pub fn append(&mut self, other: Gather<H>) {
        assert_eq!(other.sent, 0, "sent bytes cannot be moved after other bytes");
        if self.is_empty() && self.capacity() < other.capacity() {
            *self = other;
            return;
        }
        let before = self.copied.len();
        self.copied.extend_from_slice(&other.copied);
        self.held_len += other.held_len;
        self.held.extend(other.held.into_iter().map(|held| Held { after: before + held.after, ..held }));
    }

    /// Moves all of `other`, of which nothing has been sent, behind what is here. Memory that is not needed any more stays
    /// with `other`, for its next use.
    pub fn take_from(&mut self, other: &mut Gather<H>) {
        assert_eq!(other.sent, 0, "sent bytes cannot be moved after other bytes");
        if self.is_empty() {
            self.clear();
            std::mem::swap(self, other);
            return;
        }
        let before = self.copied.len();
        self.copied.extend_from_slice(&other.copied);
        self.held_len += other.held_len;
        self.held.extend(other.held.drain(..).map(|held| Held { after: before + held.after, ..held }));
        other.clear();
    }

    /// Drops everything, keeping the copy buffer's memory.
    pub fn clear(&mut self) {
        self.copied.clear();
        self.held.clear();
        self.held_len = 0;
        self.sent = 0;
    }

    /// Memory that the copy buffer occupies, in bytes.
    pub fn capacity(&self) -> usize {
        self.copied.capacity()
    }

    /// Everything that is still to be sent, as one vector.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut all = Vec::with_capacity(self.len());
        let mut skip = self.sent;
        for piece in self.pieces() {
            let skipped = skip.min(piece.len());
            skip -= skipped;
            all.extend_from_slice(&piece[skipped..]);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Gather<Vec<u8>> {
        let mut gather = Gather::default();
        gather.copy(b"ab");
        gather.hold(b"CDE".to_vec());
        gather.hold(b"FG".to_vec());
        gather.copy(b"hi");
        gather
    }

    #[test]
    fn pieces_keep_their_order() {
        assert_eq!(sample().to_vec(), b"abCDEFGhi");
    }

    #[test]
    fn any_partial_send_leaves_exactly_the_rest() {
        let whole = sample().to_vec();
        for first in 0..=whole.len() {
            let mut gather = sample();
            gather.advance(first);
            for room in 1..5 {
                let mut slices = [IoSlice::new(&[]); 5];
                let filled = gather.slices(&mut slices[..room]);
                assert_eq!(gather.front(), slices[..filled].first().map_or(&[][..], |slice| &slice[..]));
                let seen: Vec<u8> = slices[..filled].iter().flat_map(|slice| slice.to_vec()).collect();
                assert!(whole[first..].starts_with(&seen), "{first} {room}");
                assert!(filled == room || seen.len() == whole.len() - first, "{first} {room}");
            }
            assert_eq!(gather.len(), whole.len() - first);
        }
    }

    #[test]
    fn appended_pieces_follow_in_their_order() {
        for sent in [0, 1, 4, 9] {
            let mut gather = sample();
            gather.advance(sent);
            gather.append(sample());
            gather.copy(b"j");
            assert_eq!(gather.to_vec(), [&b"abCDEFGhi"[sent..], b"abCDEFGhij"].concat());
        }
        let mut empty = Gather::default();
        empty.append(sample());
        assert_eq!((empty.to_vec(), empty.len()), (sample().to_vec(), 9));
    }

    #[test]
    fn moved_pieces_follow_in_their_order_and_leave_memory_behind() {
        for sent in [0, 1, 4, 9] {
            let (mut gather, mut other) = (sample(), sample());
            gather.advance(sent);
            let capacity = if sent == 9 { gather.capacity() } else { other.capacity() };
            gather.take_from(&mut other);
            assert_eq!(gather.to_vec(), [&b"abCDEFGhi"[sent..], b"abCDEFGhi"].concat());
            assert_eq!((other.len(), other.capacity()), (0, capacity));
        }
    }

    #[test]
    fn guards_are_dropped_when_all_is_sent() {
        let guard = std::sync::Arc::<[u8]>::from(&b"xyz"[..]);
        let mut gather = Gather::default();
        gather.hold(guard.clone());
        gather.advance(2);
        assert_eq!(std::sync::Arc::strong_count(&guard), 2);
        gather.advance(1);
        assert_eq!(std::sync::Arc::strong_count(&guard), 1);
    }

    #[test]
    fn a_gather_that_holds_nothing_is_a_single_piece() {
        let mut gather: Gather<Vec<u8>> = Gather::default();
        gather.copy(b"hello");
        gather.advance(1);
        assert_eq!(gather.single(), Some(&b"ello"[..]));
        assert_eq!(sample().single(), None);
    }
}
