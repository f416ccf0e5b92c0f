//! The protocol of a connection: its first byte decides, or its listener, or `-B`.

use crate::commands::request::LINE_END_LEN;

/// The protocol that a connection speaks to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// The text protocol with its meta commands.
    Text,
    /// The binary protocol.
    Binary,
}

impl Dialect {
    /// Length of what ends a value.
    #[inline]
    pub(crate) fn value_end_len(self) -> usize {
        match self {
            Dialect::Text => LINE_END_LEN,
            Dialect::Binary => 0,
        }
    }
}
