//! Messages of a stream: JSON with a line end after each, in whatever pieces they arrive.

/// Bytes that have arrived and are not used yet.
#[derive(Debug, Default)]
pub(super) struct Lines {
    buffer: Vec<u8>,
    /// Without a line end up to here.
    searched: usize,
}

impl Lines {
    /// Adds a piece; whether the unfinished message is still within the limit.
    #[must_use]
    pub(super) fn push(&mut self, piece: &[u8], len_max: usize) -> bool {
        self.buffer.extend_from_slice(piece);
        self.buffer.len() <= len_max
    }

    /// What has arrived of the next message.
    pub(super) fn rest(&self) -> &[u8] {
        &self.buffer
    }

    /// The next whole message.
    pub(super) fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            let end = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n');
            let Some(end) = end.map(|end| self.searched + end) else {
                self.searched = self.buffer.len();
                return None;
            };
            let rest = self.buffer.split_off(end + 1);
            let mut line = std::mem::replace(&mut self.buffer, rest);
            self.searched = 0;
            line.pop();
            if !line.trim_ascii().is_empty() {
                return Some(line);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_whole_however_they_are_cut() {
        let stream = b"{\"a\":1}\n\n{\"b\":2}\r\n{\"c\"";
        for size in 1..stream.len() {
            let (mut lines, mut messages) = (Lines::default(), Vec::new());
            for piece in stream.chunks(size) {
                assert!(lines.push(piece, 100));
                messages.extend(std::iter::from_fn(|| lines.next()));
            }
            assert_eq!(messages, [&b"{\"a\":1}"[..], b"{\"b\":2}\r"], "pieces of {size}");
        }
    }

    #[test]
    fn a_message_above_the_limit_is_told() {
        let mut lines = Lines::default();
        assert!(lines.push(&[b'x'; 10], 10));
        assert!(!lines.push(b"x", 10));
    }
}
