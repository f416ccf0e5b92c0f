//! Tokens by which replies are recognised: keys and opaques of the requests of a destination, in their order.

/// Bytes at the front that are not needed any more, beyond which the rest is moved.
const SLACK_MAX: usize = 4096;

/// Length of the numbers before a token's bytes.
const HEAD_LEN: usize = 6;

/// A queue of tokens in one buffer.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    bytes: Vec<u8>,
    start: usize,
}

/// A key or an opaque.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReplyToken<'a> {
    /// As the server repeats it.
    pub(crate) sent: &'a [u8],
    /// The key as the client wrote it; empty if the server repeats that.
    pub(crate) shown: &'a [u8],
    /// The part of a multiget that it is.
    pub(crate) part: u32,
}

impl<'a> ReplyToken<'a> {
    /// The key as the client wrote it.
    pub(crate) fn client_key(&self) -> &'a [u8] {
        if self.shown.is_empty() { self.sent } else { self.shown }
    }

    /// Its size in the queue.
    pub(crate) fn size(&self) -> usize {
        HEAD_LEN + self.sent.len() + self.shown.len()
    }
}

impl Tokens {
    /// Appends one. Both texts are at most 255 bytes long.
    #[inline]
    pub(crate) fn push(&mut self, token: ReplyToken<'_>) {
        let [a, b, c, d] = token.part.to_le_bytes();
        self.bytes.extend_from_slice(&[token.sent.len() as u8, token.shown.len() as u8, a, b, c, d]);
        self.bytes.extend_from_slice(token.sent);
        self.bytes.extend_from_slice(token.shown);
    }

    /// The token that begins this many bytes after the first.
    #[inline]
    pub(crate) fn at(&self, offset: usize) -> Option<ReplyToken<'_>> {
        let (head, rest) = self.bytes.get(self.start + offset..)?.split_first_chunk::<HEAD_LEN>()?;
        let [sent_len, shown_len, a, b, c, d] = *head;
        let (sent, rest) = rest.split_at(usize::from(sent_len));
        let shown = &rest[..usize::from(shown_len)];
        Some(ReplyToken { sent, shown, part: u32::from_le_bytes([a, b, c, d]) })
    }

    /// Removes the first `size` bytes: those of whole tokens.
    #[inline]
    pub(crate) fn pop(&mut self, size: usize) {
        self.start += size;
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
        } else if self.start > SLACK_MAX && self.start * 2 > self.bytes.len() {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_leave_in_their_order_and_the_buffer_stays_small() {
        let mut tokens = Tokens::default();
        let key = [b'k'; 250];
        for part in 0..1000 {
            tokens.push(ReplyToken { sent: &key[..part % 251], shown: &key[..part % 3], part: part as u32 });
            if part >= 100 {
                let first = tokens.at(0).expect("a token");
                let expected = part - 100;
                assert_eq!(
                    (first.sent.len(), first.shown.len(), first.part),
                    (expected % 251, expected % 3, expected as u32)
                );
                let size = first.size();
                tokens.pop(size);
            }
        }
        assert!(tokens.bytes.len() < 100 * 300 * 3, "{}", tokens.bytes.len());
        let first = tokens.at(0).expect("a token").size();
        assert_eq!(tokens.at(first).expect("the second").part, 901);
    }
}
