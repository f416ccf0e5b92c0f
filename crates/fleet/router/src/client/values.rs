//! The answer to a `get` of several keys, while it is collected.

use std::ops::Range;

use super::{HeldOutput, ReplyBytes};

const END: &[u8] = b"END\r\n";

/// Answers for the keys, in any order.
#[derive(Default)]
pub(crate) struct CollectedValues {
    parts: Vec<Part>,
    /// Parts without an answer.
    waiting: usize,
    copied: Vec<u8>,
    /// The first error line: the whole answer.
    error: Option<Vec<u8>>,
    /// A part that fails is a miss (`--partial-multiget`).
    partial: bool,
    /// More keys may follow.
    open: bool,
}

/// The answer for one key.
enum Part {
    None,
    Copied(Range<usize>),
    Held(Box<HeldOutput>),
}

/// Bytes that a key counts before it has an answer.
pub(super) const PART_SIZE: usize = size_of::<Part>();

impl CollectedValues {
    /// For another line of keys.
    pub(super) fn begin(&mut self, partial: bool) {
        (self.partial, self.open) = (partial, true);
    }

    /// Bytes of its memory.
    pub(super) fn capacity(&self) -> usize {
        self.copied.capacity() + self.parts.capacity() * PART_SIZE
    }

    /// The answers in held memory.
    pub(super) fn held(&self) -> impl Iterator<Item = &HeldOutput> {
        self.parts.iter().filter_map(|part| match part {
            Part::Held(held) => Some(&**held),
            Part::None | Part::Copied(_) => None,
        })
    }

    /// A place for the answer of one more key.
    pub(super) fn add_part(&mut self) -> u32 {
        self.parts.push(Part::None);
        self.waiting += 1;
        self.parts.len() as u32 - 1
    }

    /// This line is the whole answer.
    pub(super) fn refuse(&mut self, line: &[u8]) {
        self.error = Some(line.to_vec());
    }

    /// No more keys follow.
    pub(super) fn close(&mut self) {
        self.open = false;
    }

    /// Whether all is there.
    pub(super) fn is_whole(&self) -> bool {
        !self.open && self.waiting == 0
    }

    /// Takes the values of one key, without `END`. Returns their length.
    pub(super) fn answer(&mut self, part: u32, answer: ReplyBytes<'_>) -> usize {
        self.waiting -= 1;
        let len = answer.len();
        match answer {
            ReplyBytes::Copied(b"") => {}
            ReplyBytes::Copied(bytes) => {
                let start = self.copied.len();
                self.copied.extend_from_slice(bytes);
                self.parts[part as usize] = Part::Copied(start..self.copied.len());
            }
            ReplyBytes::Gathered(gathered) => self.parts[part as usize] = Part::Held(Box::new(gathered)),
        }
        len
    }

    /// One key has failed.
    pub(super) fn fail(&mut self, line: &[u8]) {
        self.waiting -= 1;
        if !self.partial && self.error.is_none() {
            self.error = Some(line.to_vec());
        }
    }

    /// Writes the whole answer, after which nothing is left. Returns the bytes that were parked for it.
    pub(super) fn write(&mut self, output: &mut HeldOutput) -> usize {
        let mut parked = self.parts.len() * PART_SIZE + self.copied.len();
        let error = self.error.take();
        for part in self.parts.drain(..) {
            match part {
                Part::Copied(range) if error.is_none() => output.copy(&self.copied[range]),
                Part::Held(gathered) => {
                    parked += gathered.len();
                    if error.is_none() {
                        output.append(*gathered);
                    }
                }
                Part::None | Part::Copied(_) => {}
            }
        }
        self.copied.clear();
        output.copy(error.as_deref().unwrap_or(END));
        parked
    }
}
