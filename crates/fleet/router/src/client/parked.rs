//! Answers that wait for an earlier one, copied into memory that the windows of a worker share.

use super::HeldOutput;
use super::values::CollectedValues;

/// Pieces of free memory that a worker keeps: as many as clients are served in a round of the network's.
const KEPT_MAX: usize = 64;

/// Memory that has become larger is given back: 64 pieces of 64 KiB are 4 MiB.
const KEPT_BYTES_MAX: usize = 64 << 10;

/// Bytes of answers that have left, in front of and between those that have not, from which on the memory is tidied.
const LEFT_MAX: usize = 64 << 10;

/// Memory of windows that have nothing to keep at present, so that neither a deep pipeline nor a `get` of several keys
/// allocates, and an idle client has none.
#[derive(Default)]
pub(crate) struct WindowMemory {
    answers: Vec<Vec<u8>>,
    #[expect(clippy::vec_box, reason = "slots hold boxes, and the boxes are used again")]
    values: Vec<Box<CollectedValues>>,
}

impl WindowMemory {
    pub(super) fn take_values(&mut self, partial: bool) -> Box<CollectedValues> {
        let mut values = self.values.pop().unwrap_or_default();
        values.begin(partial);
        values
    }

    /// Takes back what has no content any more.
    pub(super) fn keep_values(&mut self, values: Box<CollectedValues>) {
        if self.values.len() < KEPT_MAX && values.capacity() <= KEPT_BYTES_MAX {
            self.values.push(values);
        }
    }

    fn keep_answers(&mut self, bytes: &mut Vec<u8>) {
        let mut bytes = std::mem::take(bytes);
        bytes.clear();
        if self.answers.len() < KEPT_MAX && bytes.capacity() <= KEPT_BYTES_MAX {
            self.answers.push(bytes);
        }
    }
}

/// Copied answers of one client.
#[derive(Default)]
pub(super) struct ParkedAnswers {
    bytes: Vec<u8>,
    /// Bytes of answers that have not left.
    waiting: usize,
}

/// Where one of them is.
#[derive(Clone, Copy, Debug)]
pub(super) struct ParkedAnswer {
    start: u32,
    len: u32,
}

impl ParkedAnswers {
    /// Keeps an answer. What all wait for is bounded by the window, so that places fit.
    pub(super) fn add(&mut self, answer: &[u8], memory: &mut WindowMemory) -> ParkedAnswer {
        if answer.is_empty() {
            return ParkedAnswer { start: 0, len: 0 };
        }
        if self.bytes.capacity() == 0 {
            self.bytes = memory.answers.pop().unwrap_or_default();
        }
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(answer);
        self.waiting += answer.len();
        ParkedAnswer { start, len: answer.len() as u32 }
    }

    /// Writes an answer that leaves. Returns its length.
    pub(super) fn write(
        &mut self,
        answer: ParkedAnswer,
        output: &mut HeldOutput,
        memory: &mut WindowMemory,
    ) -> usize {
        if answer.len == 0 {
            // One that is not sent has no place: the memory may have been given back, and used again, since.
            return 0;
        }
        output.copy(&self.bytes[answer.start as usize..][..answer.len as usize]);
        self.waiting -= answer.len as usize;
        if self.waiting == 0 {
            memory.keep_answers(&mut self.bytes);
        }
        answer.len as usize
    }

    /// Whether most of the memory belongs to answers that have left: a pipeline that is never empty.
    pub(super) fn is_untidy(&self) -> bool {
        self.bytes.len() - self.waiting > LEFT_MAX && self.bytes.len() > 2 * self.waiting
    }

    /// Moves the answers that have not left, which are these, together.
    #[cold]
    pub(super) fn tidy<'a>(&mut self, answers: impl Iterator<Item = &'a mut ParkedAnswer>) {
        let mut moved = Vec::with_capacity(self.waiting);
        for answer in answers.filter(|answer| answer.len > 0) {
            let start = moved.len() as u32;
            moved.extend_from_slice(&self.bytes[answer.start as usize..][..answer.len as usize]);
            answer.start = start;
        }
        self.bytes = moved;
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }
}
