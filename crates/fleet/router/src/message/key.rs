//! Keys and their parts: the routing prefix, and what is hashed.
//!
//! ```text
//! /region/cluster/foo:key|#|etc
//! ^^^^^^^^^^^^^^^^                prefix
//!                 ^^^^^^^         routing: decides where the key goes
//!                 ^^^^^^^^^^^^^   bare: what servers see
//! ```

use memchr::{memchr, memmem};

/// Ends the part of a key that is hashed.
const HASH_STOP: &[u8] = b"|#|";

/// A key as routes see it. Parts of the client's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RoutedKey<'a> {
    /// As the client wrote it.
    pub(crate) full: &'a [u8],
    /// Length of the routing prefix, with both slashes; 0 if it has none.
    pub(crate) prefix_len: usize,
    /// Length of what is hashed, from the end of the prefix on.
    pub(crate) routing_len: usize,
}

impl<'a> RoutedKey<'a> {
    /// Finds the parts.
    #[inline]
    pub(crate) fn new(full: &'a [u8]) -> RoutedKey<'a> {
        let prefix_len = if full.first() == Some(&b'/') { prefix_len(full) } else { 0 };
        let bare = &full[prefix_len..];
        // Most keys have no bar: one pass over at most 250 bytes.
        let routing_len = match memchr(b'|', bare) {
            None => bare.len(),
            Some(at) => memmem::find(&bare[at..], HASH_STOP).map_or(bare.len(), |found| at + found),
        };
        RoutedKey { full, prefix_len, routing_len }
    }

    /// The routing prefix, with its slashes; empty if there is none.
    pub(crate) fn prefix(&self) -> &'a [u8] {
        &self.full[..self.prefix_len]
    }

    /// Without the prefix.
    #[inline]
    pub(crate) fn bare(&self) -> &'a [u8] {
        &self.full[self.prefix_len..]
    }

    /// What is hashed.
    #[inline]
    pub(crate) fn routing(&self) -> &'a [u8] {
        &self.full[self.prefix_len..self.prefix_len + self.routing_len]
    }
}

/// Length of `/region/cluster/`, or 0 where a slash is missing.
#[cold]
fn prefix_len(key: &[u8]) -> usize {
    let after = |start: usize| memchr(b'/', &key[start..]).map(|at| start + at + 1);
    after(1).and_then(after).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(key: &str, expected: [&str; 3]) {
        let parts = RoutedKey::new(key.as_bytes());
        let found = [parts.prefix(), parts.bare(), parts.routing()];
        assert_eq!(found.map(|part| std::str::from_utf8(part).expect("ASCII")), expected);
    }

    #[test]
    fn a_key_has_a_prefix_and_a_routing_part() {
        check("foo", ["", "foo", "foo"]);
        check("/r/c/foo:key|#|etc", ["/r/c/", "foo:key|#|etc", "foo:key"]);
        check("a|b|#c|#|d|#|e", ["", "a|b|#c|#|d|#|e", "a|b|#c"]);
        check("|#|x", ["", "|#|x", ""]);
    }

    #[test]
    fn a_prefix_has_three_slashes() {
        check("/r/c", ["", "/r/c", "/r/c"]);
        check("/r", ["", "/r", "/r"]);
        check("///x", ["///", "x", "x"]);
        check("r/c/x", ["", "r/c/x", "r/c/x"]);
        check("/r/c/", ["/r/c/", "", ""]);
    }
}
